//! Outboxes of one's own: with everything, with nothing, in a module that imports nothing, under names that mean something else.
#![deny(warnings, missing_docs, unreachable_pub)]

extern crate hare_seaorm as hare;

use hare_seaorm::outbox::OutboxEntity;
use sea_orm::{EntityName, EntityTrait, IdenStatic, Iterable, PrimaryKeyToColumn, RelationTrait};

/// Whose events they are.
pub mod tenant {
    use sea_orm::entity::prelude::*;

    /// A tenant.
    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "tenant")]
    pub struct Model {
        /// Its number.
        #[sea_orm(primary_key)]
        pub id: i32,
        /// Its events.
        #[sea_orm(has_many)]
        pub events: HasMany<super::billing::Entity>,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// With extra columns, a relation, a key per tenant and a wakeup.
pub mod billing {
    use std::sync::Arc;

    use hare_seaorm::{InProcessWakeup, OutboxWakeup, outbox_event};
    use sea_orm::entity::prelude::*;

    /// How soon.
    #[derive(Copy, Clone, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
    #[sea_orm(rs_type = "i32", db_type = "Integer")]
    pub enum Urgency {
        /// At once.
        #[sea_orm(num_value = 0)]
        High,
        /// At some time.
        #[sea_orm(num_value = 1)]
        Low,
    }

    /// An event of a tenant.
    #[outbox_event(
        table_name = "billing_outbox",
        schema_name = "billing",
        wakeup = wakeup,
        conflict(tenant_id, idempotency_key)
    )]
    #[sea_orm(comment = "events", model_attrs(derive(Eq)))]
    pub struct Model {
        /// Whose it is.
        pub tenant_id: i32,
        /// How soon it is wanted.
        pub urgency: Option<Urgency>,
        /// What the last attempt said.
        #[sea_orm(column_name = "answer", column_type = "JsonBinary", nullable)]
        pub r#type: Option<Json>,
        /// The tenant.
        #[sea_orm(belongs_to, from = "tenant_id", to = "id")]
        pub tenant: HasOne<super::tenant::Entity>,
    }

    fn wakeup() -> Arc<dyn OutboxWakeup> {
        Arc::new(InProcessWakeup::new())
    }
}

mod bare {
    #[hare_seaorm::outbox_event(table_name = "bare")]
    pub(crate) struct Model {}
}

mod keyless {
    #[hare_seaorm::outbox_event(table_name = "keyless", conflict())]
    pub(super) struct Model {}
}

/// `hare_seaorm` under another name, hooks of one's own.
pub mod hooked {
    use sea_orm::entity::prelude::*;

    /// An event.
    #[hare::outbox_event(crate = "hare", table_name = "hooked", hooks)]
    pub struct Model {
        /// The server that wrote it.
        #[sea_orm(default_value = "")]
        pub server: String,
    }

    #[async_trait::async_trait]
    impl ActiveModelBehavior for ActiveModel {
        async fn before_delete<C: ConnectionTrait>(self, _db: &C) -> Result<Self, DbErr> {
            Err(DbErr::Custom("events stay".to_owned()))
        }
    }
}

/// Names of the library and of SeaORM that mean something else here.
pub mod shadowed {
    #![allow(missing_docs)]

    #[hare_seaorm::outbox_event(table_name = "shadowed", wakeup = self::wakeups::make)]
    pub struct Model {
        pub place: Uuid,
    }

    pub type Uuid = i32;
    pub struct DateTimeUtc;
    pub struct JsonText;
    pub struct OutboxEntity;
    pub struct OutboxEvent;
    pub struct OutboxWakeup;
    pub struct Arc;
    pub struct Probe;
    pub mod core {}

    mod wakeups {
        pub(super) fn make() -> ::std::sync::Arc<dyn hare_seaorm::OutboxWakeup> {
            ::std::sync::Arc::new(hare_seaorm::InProcessWakeup::new())
        }
    }
}

/// An entity that is captured into one of them.
pub mod invoice {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    /// An invoice.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "invoice")]
    #[hare(capture(app = "billing", outbox = super::hooked::Entity))]
    pub struct Model {
        /// Its number.
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    /// None.
    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn names<E: OutboxEntity>() -> Vec<&'static str> {
    E::Column::iter().map(|column| column.as_str()).collect()
}

fn conflict<E: OutboxEntity>() -> Vec<&'static str> {
    E::conflict_columns().iter().map(IdenStatic::as_str).collect()
}

fn main() {
    let library = names::<hare_seaorm::outbox::Entity>();
    assert_eq!(names::<bare::Entity>(), library);
    assert_eq!(names::<billing::Entity>(), [&library[..], &["tenant_id", "urgency", "answer"]].concat());
    assert_eq!(names::<shadowed::Entity>().last(), Some(&"place"));

    assert_eq!(billing::Entity.table_name(), "billing_outbox");
    assert_eq!(billing::Entity.schema_name(), Some("billing"));
    assert_eq!(bare::Entity.schema_name(), None);
    let key: Vec<_> = billing::PrimaryKey::iter().map(|key| key.into_column().as_str()).collect();
    assert_eq!(key, ["sequence"]);
    assert_eq!(billing::Relation::Tenant.def().from_tbl, billing::Entity.table_ref());

    assert_eq!(conflict::<billing::Entity>(), ["tenant_id", "idempotency_key"]);
    assert_eq!(conflict::<bare::Entity>(), ["idempotency_key"]);
    assert_eq!(conflict::<keyless::Entity>(), [""; 0]);

    assert!(bare::Entity::wakeup().is_none());
    let (one, other) = (billing::Entity::wakeup().unwrap(), billing::Entity::wakeup().unwrap());
    assert!(std::sync::Arc::ptr_eq(&one, &other));
    assert!(shadowed::Entity::wakeup().is_some());

    let _ = <bare::Entity as EntityTrait>::find_by_id(5_i64);
    let _ = bare::Entity::find_by_id(5_i64);
    let _ = billing::Entity::find_by_idempotency_key((Some("key".to_owned()), 1));
}
