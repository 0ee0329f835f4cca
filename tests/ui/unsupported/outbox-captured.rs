//! An outbox that captures.

mod derive {
    use hare_seaorm::{ChangeCapture, outbox_event};

    #[outbox_event(table_name = "billing_outbox")]
    #[derive(ChangeCapture)]
    pub struct Model {
        pub tenant_id: i32,
    }
}

mod attribute {
    #[hare_seaorm::outbox_event(table_name = "billing_outbox")]
    #[hare(capture(app = "billing"))]
    pub struct Model {
        #[hare(sensitive)]
        pub tenant_id: i32,
    }
}

fn main() {}
