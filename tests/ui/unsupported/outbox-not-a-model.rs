mod an_enum {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox")]
    pub enum Model {}
}

mod a_union {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox")]
    pub union Model {
        pub tenant_id: i32,
    }
}

mod a_function {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox")]
    pub fn model() {}
}

mod another_name {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox")]
    pub struct BillingOutbox {
        pub tenant_id: i32,
    }
}

mod parameters {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox")]
    pub struct Model<T> {
        pub tenant_id: T,
    }
}

mod a_tuple {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox")]
    pub struct Model(i32);
}

mod a_unit {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox")]
    pub struct Model;
}

fn main() {}
