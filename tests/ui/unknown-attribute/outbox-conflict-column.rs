mod near {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", conflict(tennant_id, idempotency_key))]
    pub struct Model {
        pub tenant_id: i32,
    }
}

mod far {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", conflict(colour, idempotency_key))]
    pub struct Model {
        pub tenant_id: i32,
    }
}

fn main() {}
