//! The signals of events that were written, until they are sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use sea_orm::{DbBackend, Statement};

use crate::logs::Chain;
use crate::wakeup::OutboxWakeup;

/// Topics of written events, by the wakeup that tells of them.
#[derive(Default)]
pub(crate) struct Signalled(Vec<(Arc<dyn OutboxWakeup>, BTreeSet<String>)>);

impl std::fmt::Debug for Signalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(_, topics)| topics))
            .finish()
    }
}

impl Signalled {
    pub(crate) fn add(&mut self, wakeup: &Arc<dyn OutboxWakeup>, topics: impl IntoIterator<Item = String>) {
        let same = |known: &Arc<dyn OutboxWakeup>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(wakeup));
        match self.0.iter_mut().find(|(known, _)| same(known)) {
            Some((_, all)) => all.extend(topics),
            None => self.0.push((Arc::clone(wakeup), topics.into_iter().collect())),
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        for (wakeup, topics) in other.0 {
            self.add(&wakeup, topics);
        }
    }

    /// Tells the relays. A wakeup that fails is logged: the events are committed, and polling finds them.
    pub(crate) async fn send(self) {
        for (wakeup, topics) in self.0 {
            let topics: Vec<String> = topics.into_iter().collect();
            if let Err(error) = wakeup.signal(&topics).await {
                tracing::warn!(name: "hare.signal_failed", error = %Chain(&error), ?topics, "a wakeup could not be signalled; relays find the events by polling");
            }
        }
    }

    /// What a plain transaction must execute before its commit, for wakeups that the database itself carries.
    pub(super) fn statements(&self, backend: DbBackend) -> Vec<Statement> {
        self.0
            .iter()
            .filter_map(|(wakeup, topics)| {
                wakeup.in_transaction(backend, &topics.iter().cloned().collect::<Vec<_>>())
            })
            .collect()
    }
}
