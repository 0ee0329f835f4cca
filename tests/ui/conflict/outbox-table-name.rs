use hare_seaorm::outbox_event;

#[outbox_event(table_name = "billing_outbox")]
#[sea_orm(table_name = "outbox", rename_all = "camelCase", schema_name = "billing")]
pub struct Model {
    pub tenant_id: i32,
}

fn main() {}
