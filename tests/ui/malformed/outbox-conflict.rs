mod no_list {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", conflict = "idempotency_key")]
    pub struct Model {}
}

mod values {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", conflict("idempotency_key"))]
    pub struct Model {}
}

mod without_the_key {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", conflict(tenant_id))]
    pub struct Model {
        pub tenant_id: i32,
    }
}

fn main() {}
