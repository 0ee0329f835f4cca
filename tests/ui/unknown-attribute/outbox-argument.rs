mod near {
    use hare_seaorm::outbox_event;

    #[outbox_event(tabel_name = "billing_outbox", wakup = wakeup)]
    pub struct Model {}
}

mod far {
    use hare_seaorm::outbox_event;

    #[outbox_event(table_name = "billing_outbox", colour = "red")]
    pub struct Model {}
}

fn main() {}
