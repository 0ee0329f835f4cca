//! What idempotency keys cannot be unique by.

mod tenant {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "tenant")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

mod outbox {
    use hare_seaorm::outbox_event;

    #[outbox_event(
        table_name = "billing_outbox",
        conflict(tenant_id, region, topic, tenant, cached, idempotency_key)
    )]
    pub struct Model {
        pub tenant_id: Option<i32>,
        #[sea_orm(nullable)]
        pub region: String,
        #[sea_orm(ignore)]
        pub cached: i32,
        #[sea_orm(belongs_to, from = "tenant_id", to = "id")]
        pub tenant: HasOne<super::tenant::Entity>,
    }
}

fn main() {}
