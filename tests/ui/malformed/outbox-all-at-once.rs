//! All mistakes of an outbox show at once, and nothing that follows from them.

use hare_seaorm::outbox_event;

#[outbox_event(table = "billing_outbox", wakeup = "wakeup", conflict(tennant_id))]
#[derive(Clone)]
pub struct Model {
    #[sea_orm(primary_key)]
    pub tenant_id: i32,
    pub topic: String,
}

fn all(entity: Entity, model: Model, _: ActiveModel, _: Column, _: PrimaryKey, _: Relation) {
    let _ = (entity, model.sequence, model.tenant_id, model.topic);
}

fn main() {}
