//! What does not parse.

mod argument {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = )]
    pub struct Model {}
}

mod field {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox")]
    pub struct Model {
        pub tenant_id i32,
    }
}

fn main() {}
