//! The outbox table as one relay sees it: its connection, its names, its clock.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::time::Duration;

use sea_orm::DatabaseConnection;
use uuid::Uuid;

use crate::error::Error;
use crate::outbox::OutboxEntity;
use crate::store::claim::{self, Claimed, Request};
use crate::store::clock::Clock;
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

    pub(super) async fn claim(&self, request: &Request) -> Result<Claimed<E::Model>, Error> {
        let claimed = claim::claim(&self.db, &self.names, &self.clock, request).await;
        claimed.map_err(|error| Error::database("claiming events", error))
    }

    pub(super) async fn publish(&self, sequences: &[i64]) -> Result<(), Error> {
        let done = settle::publish(&self.db, &self.names, &self.clock, sequences).await;
        done.map_err(|error| Error::database("recording deliveries", error))
    }

    pub(super) async fn fail(&self, token: Uuid, failures: &[Failure]) -> Result<HashSet<i64>, Error> {
        let recorded = settle::fail(&self.db, &self.names, &self.clock, token, failures).await;
        recorded.map_err(|error| Error::database("recording failed deliveries", error))
    }

    pub(super) async fn release(&self, token: Uuid, sequences: &[i64]) -> Result<(), Error> {
        let done = settle::release(&self.db, &self.names, token, sequences).await;
        done.map_err(|error| Error::database("giving events back", error))
    }

    pub(super) async fn renew(
        &self,
        token: Uuid,
        lease: Duration,
        sequences: &[i64],
    ) -> Result<HashSet<i64>, Error> {
        let held = settle::renew(&self.db, &self.names, &self.clock, token, lease, sequences).await;
        held.map_err(|error| Error::database("renewing leases", error))
    }
}
