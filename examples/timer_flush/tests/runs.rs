//! The example as a newcomer runs it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

// catalogue R1, R2, R3, R4
#[test]
fn it_runs_by_one_command_and_ends() {
    let output = Command::new(env!("CARGO_BIN_EXE_timer-flush"))
        .env_remove("DATABASE_URL")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in [
        "created false",
        "  mail.welcome   key welcome:ada: {\"to\":\"Ada\"}",
        "2 of 3 sent",
        "1 of 1 sent",
        "pending: 0",
        "published: 3",
        "dead_lettered: 0",
    ] {
        assert!(told.contains(line), "{line} is missing in:\n{told}");
    }
}

// catalogue R3
#[test]
fn a_pass_that_cannot_be_done_fails_the_job() {
    let output = Command::new(env!("CARGO_BIN_EXE_timer-flush"))
        .env("DATABASE_URL", "sqlite://no/such/folder.db")
        .output()
        .unwrap();
    assert!(!output.status.success());
}

#[test]
fn a_missing_table_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("empty.db").display());
    let mut job = Command::new(env!("CARGO_BIN_EXE_timer-flush"))
        .env("DATABASE_URL", url)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = String::new();
    BufReader::new(job.stderr.take().unwrap())
        .read_line(&mut told)
        .unwrap();
    job.kill().unwrap();
    job.wait().unwrap();
    assert!(told.contains("no such table: hare_outbox"), "{told}");
}
