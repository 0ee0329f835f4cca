//! The outbox table as one relay sees it: its connection, its names, its clock.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::time::Duration;

use sea_orm::{DatabaseConnection, DbErr};
use uuid::Uuid;

use crate::connection::uncut;
use crate::error::Error;
use crate::outbox::topics::TopicFilter;
use crate::outbox::{Backlog, DeadLetter, OutboxEntity};
use crate::store::backlog;
use crate::store::claim::{self, Claimed, Request};
use crate::store::cleanup::{self, Batch, Old};
use crate::store::clock::Clock;
use crate::store::dead_letters::{self, Place, Selection};
use crate::store::settle::{self, Failure};
use crate::store::table::TableNames;

/// Each call takes a connection of the pool for as long as its statements run.
#[derive(Debug)]
pub(super) struct Store<E> {
    db: DatabaseConnection,
    names: TableNames,
    clock: Clock,
    outbox: PhantomData<fn() -> E>,
}

impl<E> Clone for Store<E> {
    fn clone(&self) -> Self {
        Self {
            db: self.db.clone(),
            names: self.names.clone(),
            clock: self.clock.clone(),
            outbox: PhantomData,
        }
    }
}

impl<E: OutboxEntity> Store<E> {
    pub(super) fn new(db: DatabaseConnection, clock: Clock) -> Self {
        let names = TableNames::of::<E>(db.get_database_backend());
        Self {
            db,
            names,
            clock,
            outbox: PhantomData,
        }
    }

    pub(super) fn db(&self) -> &DatabaseConnection {
        &self.db
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The name of the outbox table, for people.
    pub(super) fn outbox(&self) -> &'static str {
        E::default().table_name()
    }

    pub(super) async fn claim(&self, request: &Request) -> Result<Claimed<E::Model>, Error> {
        let request = request.clone();
        self.run("claiming events", |store| async move {
            claim::claim(&store.db, &store.names, &store.clock, &request).await
        })
        .await
    }

    pub(super) async fn publish(&self, sequences: &[i64]) -> Result<(), Error> {
        let sequences = sequences.to_vec();
        self.run("recording deliveries", |store| async move {
            settle::publish(&store.db, &store.names, &store.clock, &sequences).await
        })
        .await
    }

    pub(super) async fn fail(&self, token: Uuid, failures: &[Failure]) -> Result<HashSet<i64>, Error> {
        let failures = failures.to_vec();
        self.run("recording failed deliveries", move |store| async move {
            settle::fail(&store.db, &store.names, &store.clock, token, &failures).await
        })
        .await
    }

    pub(super) async fn release(&self, token: Uuid, sequences: &[i64]) -> Result<(), Error> {
        let sequences = sequences.to_vec();
        self.run("giving events back", move |store| async move {
            settle::release(&store.db, &store.names, token, &sequences).await
        })
        .await
    }

    pub(super) async fn renew(
        &self,
        token: Uuid,
        lease: Duration,
        sequences: &[i64],
    ) -> Result<HashSet<i64>, Error> {
        let sequences = sequences.to_vec();
        self.run("renewing leases", move |store| async move {
            settle::renew(&store.db, &store.names, &store.clock, token, lease, &sequences).await
        })
        .await
    }

    pub(super) async fn backlog(&self, topics: TopicFilter) -> Result<Backlog, Error> {
        self.run("counting the backlog", |store| async move {
            backlog::backlog(&store.db, &store.names, &store.clock, &topics).await
        })
        .await
    }

    pub(super) async fn delete_old(&self, old: &Old, limit: u64) -> Result<Batch, Error> {
        let old = old.clone();
        self.run("cleaning up", move |store| async move {
            cleanup::delete(&store.db, &store.names, &store.clock, &old, limit).await
        })
        .await
    }

    pub(super) async fn list_dead_letters(
        &self,
        selection: Selection,
        after: i64,
        limit: u64,
    ) -> Result<Vec<DeadLetter>, Error> {
        self.run("listing dead letters", move |store| async move {
            dead_letters::list(&store.db, &store.names, &selection, after, limit).await
        })
        .await
    }

    pub(super) async fn find_dead_letter(&self, selection: Selection) -> Result<Option<E::Model>, Error> {
        self.run("reading a dead letter", |store| async move {
            dead_letters::find(&store.db, &store.names, &selection).await
        })
        .await
    }

    pub(super) async fn dead_letter_places(
        &self,
        selection: Selection,
        after: i64,
        limit: u64,
    ) -> Result<Vec<Place>, Error> {
        self.run("listing dead letters", move |store| async move {
            dead_letters::places(&store.db, &store.names, &selection, after, limit).await
        })
        .await
    }

    pub(super) async fn retry_dead_letters(&self, sequences: Vec<i64>) -> Result<u64, Error> {
        self.run("retrying dead letters", |store| async move {
            dead_letters::retry(&store.db, &store.names, &sequences).await
        })
        .await
    }

    pub(super) async fn remove_dead_letters(&self, sequences: Vec<i64>) -> Result<u64, Error> {
        self.run("removing dead letters", |store| async move {
            dead_letters::remove(&store.db, &store.names, &sequences).await
        })
        .await
    }

    /// Runs statements to their end, also when the relay is dropped meanwhile: its connection goes back to the pool clean.
    async fn run<T, F>(&self, during: &'static str, work: impl FnOnce(Self) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DbErr>> + Send + 'static,
    {
        uncut(work(self.clone()))
            .await
            .map_err(|error| Error::database(during, error))
    }
}
