//! Reading the outbox as a test wants to see it.

use hare_seaorm::outbox;
use sea_orm::{EntityTrait, QueryOrder};
use serde_json::Value as Json;

use crate::TestDb;

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
