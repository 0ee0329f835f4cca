use hare_seaorm::outbox_event;

#[outbox_event(table_name = "billing_outbox")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: i32,
}

fn main() {}
