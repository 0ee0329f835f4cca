/// The widget's table seen through an entity of a test's own, whose code is in the test.
macro_rules! widget {
    ($module:ident, $($capture:tt)*) => {
        mod $module {
            use hare_seaorm::ChangeCapture;
            use sea_orm::entity::prelude::*;

            #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
            #[sea_orm(table_name = "widget")]
            #[hare(capture($($capture)*))]
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

/// A new row of it.
macro_rules! new_widget {
    ($module:ident) => {
        $module::ActiveModel {
            name: sea_orm::Set("nut".to_owned()),
            ..Default::default()
        }
    };
}

mod abort;
mod atomicity;
mod bulk;
mod bypass;
mod check;
mod cloud_events;
mod concurrency;
mod context;
mod declaration;
mod extension;
mod generic;
mod hooks;
mod keys;
mod profile;
mod shared;
mod single;
mod sink;
mod types;
