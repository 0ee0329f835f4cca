//! The events of a write: made from its changes, extended by the declaration's code where it has some, written with one INSERT.
//!
//! Invariant: what the declaration's code does, it does on the write's connection and before the write ends, so that an error of it
//! undoes the row. Upheld by [`write_events`] being called inside the write's scope; tested in `tests/it/capture/extension.rs`.

use sea_orm::prelude::DateTimeUtc;
use sea_orm::{DbBackend, DbErr, EntityTrait};

use crate::capture::change::CapturedChange;
use crate::capture::declaration::{CapturedEntity, Code};
use crate::capture::envelope::{Change, Draft};
use crate::connection::Conn;
use crate::context;
use crate::error::Error;
use crate::outbox::{Headers, OutboxEntity, check_key, refuse_nul_in};
use crate::store;
use crate::store::insert::NewEvent;
use crate::transaction::Signalled;

/// What a write tells, made before any await, so that no row is borrowed over one.
#[derive(Debug)]
pub(crate) enum Prepared<E: EntityTrait> {
    /// Events with nothing to be added.
    Finished(Vec<NewEvent>),
    /// Events, and the changes that the declaration's code extends them by.
    Extended {
        drafts: Vec<Draft>,
        changes: Vec<CapturedChange<E>>,
        /// Those that surround the write.
        headers: Headers,
    },
    /// Changes for the declaration's sink.
    Sunk(Vec<CapturedChange<E>>),
}

/// What is told of these changes, in order, with one moment for all of them. Rows are cloned only where the declaration has code
/// that sees them.
///
/// # Errors
/// [`Error::Validation`] if a value cannot be told.
pub(crate) fn events_of<E: CapturedEntity>(changes: &[Change<'_, E>]) -> Result<Prepared<E>, Error> {
    let declaration = E::declaration();
    let occurred_at: DateTimeUtc = chrono::Utc::now();
    let shown = |change: &Change<'_, E>| CapturedChange::of(change, occurred_at);
    if declaration.code == Code::Sink {
        return Ok(Prepared::Sunk(changes.iter().map(shown).collect()));
    }
    let headers = context::headers();
    let text = headers.to_json();
    if declaration.code == Code::None {
        let event = |change: &Change<'_, E>| {
            let shown = declaration.shows_changes().then(|| shown(change));
            change.draft(occurred_at, &text, shown.as_ref())?.finish()
        };
        return Ok(Prepared::Finished(
            changes.iter().map(event).collect::<Result<_, _>>()?,
        ));
    }
    let mut drafts = Vec::with_capacity(changes.len());
    let mut owned = Vec::with_capacity(changes.len());
    for change in changes {
        let shown = shown(change);
        drafts.push(change.draft(occurred_at, &text, Some(&shown))?);
        owned.push(shown);
    }
    Ok(Prepared::Extended {
        drafts,
        changes: owned,
        headers,
    })
}

/// Writes the events of a write to the outbox of its entity, or hands its changes to the sink. Runs the declaration's code.
pub(crate) async fn write_events<E: CapturedEntity>(
    conn: Conn<'_>,
    prepared: Result<Prepared<E>, Error>,
) -> Result<Signalled, DbErr> {
    let mut signalled = Signalled::default();
    let events = match prepared? {
        Prepared::Finished(events) => events,
        Prepared::Extended {
            drafts,
            changes,
            headers,
        } => extended::<E>(conn, drafts, changes, &headers).await?,
        Prepared::Sunk(changes) => {
            if !changes.is_empty() {
                E::sink_changes(&conn.inside_a_write(), changes).await?;
            }
            return Ok(signalled);
        }
    };
    if conn.backend() == DbBackend::Postgres {
        refuse_nul::<E>(&events)?;
    }
    for alike in events.chunk_by(NewEvent::is_alike) {
        store::insert::insert::<E::Outbox>(conn, alike)
            .await
            .map_err(|source| Error::database("writing the event of a captured write", source))?;
    }
    if let Some(wakeup) = E::Outbox::wakeup() {
        signalled.add(&wakeup, events.into_iter().map(|event| event.topic));
    }
    Ok(signalled)
}

/// The events with what the declaration's code adds to them.
async fn extended<E: CapturedEntity>(
    conn: Conn<'_>,
    drafts: Vec<Draft>,
    changes: Vec<CapturedChange<E>>,
    headers: &Headers,
) -> Result<Vec<NewEvent>, DbErr> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let extensions = E::extend_changes(&conn.inside_a_write(), changes).await?;
    if extensions.len() != drafts.len() {
        let reason = format!(
            "`extend_many` of its declaration gave {} answers for {} changes; it gives one for each, in their order",
            extensions.len(),
            drafts.len()
        );
        let what = format!("a write of `{}`", E::declaration().label());
        return Err(Error::validation(what, reason).into());
    }
    let refuse_nul = conn.backend() == DbBackend::Postgres;
    let finished = drafts.into_iter().zip(extensions).map(|(mut draft, extension)| {
        if let Some(extension) = extension {
            extension.apply(&mut draft.event, headers, refuse_nul)?;
        }
        draft.finish()
    });
    Ok(finished.collect::<Result<_, Error>>()?)
}

/// What functions and headers give may hold what PostgreSQL cannot keep; what comes from its rows cannot.
fn refuse_nul<E: CapturedEntity>(events: &[NewEvent]) -> Result<(), Error> {
    let functions = E::declaration().shows_changes();
    for event in events {
        refuse_nul_in("a header", &event.headers)?;
        if functions {
            check_key("the topic", &event.topic, true)?;
            if let Some(key) = &event.ordering_key {
                check_key("the ordering key", key, true)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sea_orm::{ConnectOptions, Database, DatabaseConnection, EntityTrait, TransactionTrait};
    use sea_orm_migration::{MigrationTrait, MigratorTrait};

    use super::*;
    use crate::capture::Extension;
    use crate::outbox;

    mod loan {
        use sea_orm::entity::prelude::*;

        #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, crate::ChangeCapture)]
        #[sea_orm(table_name = "loan")]
        #[hare(crate = "crate", capture(app = "library", name = "Loan", extend_many = super::extend))]
        pub(super) struct Model {
            #[sea_orm(primary_key)]
            pub(super) id: i32,
        }

        #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
        pub(super) enum Relation {}
    }

    /// Tells how many changes came with each; of a change that is 13, too little, of one that is 14, what may not be told.
    async fn extend<C: sea_orm::ConnectionTrait>(
        _: &C,
        changes: Vec<CapturedChange<loan::Entity>>,
    ) -> Result<Vec<Option<Extension>>, Error> {
        let beside = changes.len();
        let told = changes.iter().filter(|change| change.pk() != 13);
        told.map(|change| match change.pk() {
            14 => Extension::new().envelope("pk", &1).map(Some),
            pk if pk % 2 == 0 => Ok(None),
            pk => Ok(Some(Extension::new().envelope("of", &(pk, beside))?)),
        })
        .collect()
    }

    struct Migrator;

    impl MigratorTrait for Migrator {
        fn migrations() -> Vec<Box<dyn MigrationTrait>> {
            hare_seaorm_migration::migrations()
        }
    }

    async fn database() -> DatabaseConnection {
        let options = ConnectOptions::new("sqlite::memory:")
            .max_connections(1)
            .to_owned();
        let db = Database::connect(options).await.unwrap();
        Migrator::up(&db, None).await.unwrap();
        db
    }

    async fn write(db: &DatabaseConnection, ids: &[i32]) -> Result<Vec<String>, DbErr> {
        let rows: Vec<_> = ids.iter().map(|id| loan::Model { id: *id }).collect();
        let changes: Vec<_> = rows.iter().map(Change::<loan::Entity>::inserted).collect();
        let prepared = events_of(&changes);
        let transaction = db.begin().await?;
        write_events(Conn::own(&transaction), prepared).await?;
        transaction.commit().await?;
        let events = outbox::Entity::find().all(db).await?;
        Ok(events
            .into_iter()
            .map(|event| event.payload.into_string())
            .collect())
    }

    // catalogue H7
    #[tokio::test]
    async fn extend_many_is_called_once_for_all_changes_of_a_statement() {
        let db = database().await;
        let payloads = write(&db, &[1, 2, 3, 5]).await.unwrap();
        let added: Vec<_> = payloads
            .iter()
            .map(|payload| payload.split_once(",\"of\":").map(|(_, added)| added))
            .collect();
        assert_eq!(added, [Some("[1,4]}"), None, Some("[3,4]}"), Some("[5,4]}")]);
        // A statement that changes nothing does not call it.
        assert_eq!(write(&db, &[]).await.unwrap().len(), 4);
    }

    // catalogue H8
    #[tokio::test]
    async fn each_answer_is_checked_and_their_number_too() {
        let db = database().await;
        for ids in [[1, 2, 13], [1, 2, 14]] {
            let error = write(&db, &ids).await.unwrap_err();
            assert!(
                matches!(Error::find(&error), Some(Error::Validation { .. })),
                "{error:?}"
            );
        }
        assert_eq!(outbox::Entity::find().all(&db).await.unwrap(), []);
    }
}
