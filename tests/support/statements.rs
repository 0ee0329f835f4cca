//! Which statements a connection ran.

use std::sync::{Arc, Mutex};

use sea_orm::DatabaseConnection;
use tokio::sync::watch;

/// The statements that reached a pool since it was watched. `BEGIN`, `COMMIT` and unprepared ones are not among them.
#[derive(Debug, Clone, Default)]
pub struct Statements {
    seen: Arc<Mutex<Vec<String>>>,
}

impl Statements {
    /// Watches everything that runs on this pool from now on.
    pub fn watch(db: &mut DatabaseConnection) -> Self {
        let statements = Self::default();
        let seen = Arc::clone(&statements.seen);
        db.set_metric_callback(move |info| seen.lock().unwrap().push(info.statement.sql.clone()));
        statements
    }

    /// A counter that can be awaited, of the statements that have ended on this pool from now on.
    pub fn count(db: &mut DatabaseConnection) -> watch::Receiver<usize> {
        let (sender, receiver) = watch::channel(0);
        db.set_metric_callback(move |_| sender.send_modify(|count| *count += 1));
        receiver
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}
