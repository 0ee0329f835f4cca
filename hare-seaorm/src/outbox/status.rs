//! What has become of an event, in one word.

use std::fmt;

use sea_orm::sea_query::{Alias, Condition, Expr, ExprTrait};

use super::model::{OutboxEntity, OutboxEvent};

/// What has become of an event.
///
/// | here | the row | other outboxes say |
/// |---|---|---|
/// | `Pending` | neither published nor a dead letter; also while a relay delivers it, or it waits for its next attempt | pending |
/// | `Published` | delivered and recorded | sent, published |
/// | `DeadLettered` | ran out of attempts | failed |
///
/// ```
/// use hare_seaorm::outbox::{Entity, Model, Status};
/// use sea_orm::{DatabaseConnection, DbErr, EntityTrait, QueryFilter};
///
/// async fn failed(db: &DatabaseConnection) -> Result<Vec<Model>, DbErr> {
///     Entity::find().filter(Status::DeadLettered.condition::<Entity>()).all(db).await
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Still to be delivered.
    Pending,
    /// Delivered.
    Published,
    /// Given up, until it is retried or removed.
    DeadLettered,
}

impl Status {
    /// What has become of this event, as it was when it was read.
    pub fn of<M: OutboxEvent>(event: &M) -> Self {
        if event.published_at().is_some() {
            Self::Published
        } else if event.dead_lettered_at().is_some() {
            Self::DeadLettered
        } else {
            Self::Pending
        }
    }

    /// The condition that a row of the outbox `E` has this status, in the words of the table's indexes.
    pub fn condition<E: OutboxEntity>(self) -> Condition {
        let column = |name| Expr::col((Alias::new(E::default().table_name()), Alias::new(name)));
        let (published_at, dead_lettered_at) = (column("published_at"), column("dead_lettered_at"));
        match self {
            Self::Pending => Condition::all()
                .add(published_at.is_null())
                .add(dead_lettered_at.is_null()),
            Self::Published => Condition::all().add(published_at.is_not_null()),
            Self::DeadLettered => Condition::all()
                .add(published_at.is_null())
                .add(dead_lettered_at.is_not_null()),
        }
    }
}

/// `pending`, `published`, `dead_lettered`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Published => "published",
            Self::DeadLettered => "dead_lettered",
        })
    }
}
