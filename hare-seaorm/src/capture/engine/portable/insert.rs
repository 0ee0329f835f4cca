//! A captured insert of one row.

use sea_orm::{ActiveModelTrait, DbErr, Insert, IntoActiveModel};

use crate::capture::declaration::CapturedEntity;
use crate::capture::engine::{ModelOf, events_of, write_events};
use crate::capture::envelope::Change;
use crate::connection::Conn;
use crate::transaction::Written;

/// Inserts the row, reads it back as it is stored, and writes its event.
pub(crate) async fn insert<A>(conn: Conn<'_>, active_model: A) -> Result<Written<ModelOf<A>>, DbErr>
where
    A: ActiveModelTrait + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A>,
{
    let row = Insert::one(active_model).exec_with_returning(&conn).await?;
    let events = events_of(&[Change::<A::Entity>::inserted(&row)]);
    Ok(Written {
        signalled: write_events::<A::Entity>(conn, events).await?,
        value: row,
    })
}
