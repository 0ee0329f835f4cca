//! What `outbox_event` writes itself.

mod derives {
    use hare_seaorm::outbox_event;
    use sea_orm::entity::prelude::*;

    #[outbox_event(table_name = "billing_outbox")]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    pub struct Model {
        pub tenant_id: i32,
    }
}

mod model {
    #[hare_seaorm::outbox_event(table_name = "billing_outbox")]
    #[sea_orm::model]
    pub struct Model {
        pub tenant_id: i32,
    }
}

mod model_above {
    #[sea_orm::model]
    #[hare_seaorm::outbox_event(table_name = "billing_outbox")]
    pub struct Model {
        pub tenant_id: i32,
    }
}

mod behavior {
    #[hare_seaorm::outbox_event(table_name = "billing_outbox")]
    pub struct Model {
        pub tenant_id: i32,
    }

    impl sea_orm::ActiveModelBehavior for ActiveModel {}
}

fn main() {}
