//! An outbox written by hand that captures itself.

mod events {
    use std::sync::Arc;

    use hare_seaorm::json::JsonText;
    use hare_seaorm::outbox::{OutboxEntity, OutboxEvent};
    use hare_seaorm::{ChangeCapture, OutboxWakeup};
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "events")]
    #[hare(capture(app = "billing", outbox = Entity))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub sequence: i64,
        pub id: Uuid,
        pub topic: String,
        pub payload: JsonText,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl OutboxEntity for Entity {
        fn wakeup() -> Option<Arc<dyn OutboxWakeup>> {
            None
        }
    }

    impl OutboxEvent for Model {
        fn sequence(&self) -> i64 {
            self.sequence
        }
        fn id(&self) -> Uuid {
            self.id
        }
        fn topic(&self) -> &str {
            &self.topic
        }
        fn payload(&self) -> &JsonText {
            &self.payload
        }
        fn headers(&self) -> &JsonText {
            &self.payload
        }
        fn ordering_key(&self) -> Option<&str> {
            None
        }
        fn idempotency_key(&self) -> Option<&str> {
            None
        }
        fn created_at(&self) -> DateTimeUtc {
            self.created_at
        }
        fn attempts(&self) -> i32 {
            0
        }
        fn max_attempts(&self) -> Option<i32> {
            None
        }
        fn next_attempt_at(&self) -> Option<DateTimeUtc> {
            None
        }
        fn claims(&self) -> i32 {
            0
        }
        fn last_error(&self) -> Option<&str> {
            None
        }
        fn published_at(&self) -> Option<DateTimeUtc> {
            None
        }
        fn dead_lettered_at(&self) -> Option<DateTimeUtc> {
            None
        }
    }
}

fn main() {}
