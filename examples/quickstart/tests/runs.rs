//! The example as a newcomer runs it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn it_runs_by_one_command_and_ends() {
    let output = Command::new(env!("CARGO_BIN_EXE_quickstart")).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(told.contains("5 events delivered, 2 tries failed"), "{told}");
}
