//! Reading the outbox as a test wants to see it.

use hare_seaorm::outbox;
use sea_orm::{ConnectionTrait, DbErr, EntityTrait, QueryOrder};
use serde_json::Value as Json;
use uuid::Uuid;

use crate::{Backend, TestDb};

/// An event, its envelope parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub topic: String,
    pub ordering_key: Option<String>,
    pub payload: Json,
    pub text: String,
}

impl Event {
    pub fn operation(&self) -> &str {
        self.payload["operation"].as_str().unwrap_or("(none)")
    }
}

impl TestDb {
    /// Every event, in sequence order.
    pub async fn events(&self) -> Vec<Event> {
        self.outbox().await.into_iter().map(Event::from).collect()
    }

    /// The rows of the outbox, in sequence order.
    pub async fn outbox(&self) -> Vec<outbox::Model> {
        let rows = outbox::Entity::find()
            .order_by_asc(outbox::Column::Sequence)
            .all(&self.db)
            .await;
        rows.expect("the outbox can be read")
    }

    /// Inserts an event as raw SQL into an outbox table: `columns` and their literals.
    pub async fn insert_event(&self, table: &str, columns: &[(&str, String)]) -> Result<(), DbErr> {
        let id = Uuid::now_v7();
        let id = match self.backend {
            Backend::Postgres => format!("'{id}'"),
            Backend::MariaDb | Backend::Sqlite => format!("x'{}'", id.simple()),
        };
        let given = |name: &str| columns.iter().any(|(known, _)| *known == name);
        let defaults = [
            ("id", id.as_str()),
            ("topic", "'t'"),
            ("payload", "'{}'"),
            ("headers", "'{}'"),
        ];
        let (names, values): (Vec<_>, Vec<_>) = defaults
            .into_iter()
            .filter(|(name, _)| !given(name))
            .chain(columns.iter().map(|(name, value)| (*name, value.as_str())))
            .unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        let sql = format!("INSERT INTO {table} ({names}) VALUES ({values})");
        self.db.execute_unprepared(&sql).await.map(drop)
    }

    /// Every event so far, which are then gone.
    pub async fn take_events(&self) -> Vec<Event> {
        let events = self.events().await;
        outbox::Entity::delete_many()
            .exec(&self.db)
            .await
            .expect("the outbox can be emptied");
        events
    }

    /// The only event there is.
    pub async fn event(&self) -> Event {
        let events = self.take_events().await;
        assert_eq!(events.len(), 1, "one event and no more: {events:#?}");
        events.into_iter().next().expect("one")
    }
}

impl From<outbox::Model> for Event {
    fn from(row: outbox::Model) -> Self {
        Self {
            payload: row.payload.parse().expect("the payload is JSON"),
            text: row.payload.as_str().to_owned(),
            topic: row.topic,
            ordering_key: row.ordering_key,
        }
    }
}
