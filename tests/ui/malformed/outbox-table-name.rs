mod missing {
    use hare_seaorm::outbox_event;

    #[outbox_event]
    pub struct Model {}
}

mod missing_beside_others {
    use hare_seaorm::outbox_event;

    #[outbox_event(conflict(idempotency_key))]
    pub struct Model {}
}

mod empty {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = " ", schema_name = "")]
    pub struct Model {}
}

mod a_number {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = 5)]
    pub struct Model {}
}

mod no_value {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name)]
    pub struct Model {}
}

fn main() {}
