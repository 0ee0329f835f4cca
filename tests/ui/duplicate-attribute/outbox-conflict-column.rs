use hare_seaorm::outbox_event;

#[outbox_event(table_name = "billing_outbox", conflict(tenant_id, idempotency_key, tenant_id))]
pub struct Model {
    pub tenant_id: i32,
}

fn main() {}
