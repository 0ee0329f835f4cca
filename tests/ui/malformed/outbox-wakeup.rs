mod in_quotes {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", wakeup = "wakeup")]
    pub struct Model {}
}

mod called {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", wakeup = wakeup())]
    pub struct Model {}
}

mod another_type {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", wakeup = wakeup)]
    pub struct Model {}

    fn wakeup() -> hare_seaorm::InProcessWakeup {
        hare_seaorm::InProcessWakeup::new()
    }
}

fn main() {}
