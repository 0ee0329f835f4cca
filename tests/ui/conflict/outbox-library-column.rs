use hare_seaorm::outbox_event;

#[outbox_event(table_name = "billing_outbox")]
pub struct Model {
    pub topic: String,
    pub tenant_id: i32,
    #[sea_orm(column_name = "Payload")]
    pub body: String,
    #[sea_orm(enum_name = "LeaseUntil")]
    pub until: i32,
}

fn main() {}
