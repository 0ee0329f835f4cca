//! One table, one entity per way of capturing it.

macro_rules! widget {
    ($module:ident, $($capture:tt)*) => {
        pub mod $module {
            use hare_seaorm::ChangeCapture;
            use sea_orm::entity::prelude::*;

            #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
            #[sea_orm(table_name = "widget")]
            #[hare(capture(app = "shop", name = "Widget", $($capture)*))]
            pub struct Model {
                #[sea_orm(primary_key)]
                pub id: i32,
                pub name: String,
                #[sea_orm(default_value = 7)]
                pub size: i32,
                pub note: Option<String>,
            }

            #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
            pub enum Relation {}
        }
    };
}

widget!(keys, payload = "keys");
widget!(after, payload = "after");
widget!(both, payload = "before_and_after");
widget!(deletes, operations(delete));
widget!(none, operations());
widget!(unordered, unordered);
widget!(fields, payload = "before_and_after", fields(note, id, note));
widget!(exclude, exclude(size, note));
widget!(
    templates,
    topic = "{app}/{model}/{table}/{operation}",
    ordering_key = "{app}|{model}|{table}|{label}|{pk}"
);
widget!(
    long_topic,
    topic = "widget.very.long.topic.for.a.write.that.fails.{operation}",
    payload = "before_and_after"
);
widget!(non_atomic, on_pool = "non_atomic", payload = "before_and_after");
widget!(recorded, outbox = crate::shop::outbox::recording::Entity);
widget!(billed, outbox = crate::shop::outbox::billing::Entity);
widget!(accounted, outbox = crate::shop::outbox::accounts::Entity);
widget!(audited, outbox = crate::shop::outbox::audit::Entity);
widget!(
    refused,
    outbox = crate::shop::outbox::refusing::Entity,
    payload = "before_and_after"
);
widget!(notified, outbox = crate::shop::outbox::notifying::Entity);
