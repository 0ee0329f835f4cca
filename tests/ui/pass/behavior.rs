//! Hooks of one's own, with `#[behavior]` in every place it can have beside `#[async_trait]`.
#![deny(warnings)]

macro_rules! entity {
    ($name:ident, $($import:path)?, $($item:tt)*) => {
        pub mod $name {
            $(use $import;)?
            use hare_seaorm::ChangeCapture;
            use sea_orm::entity::prelude::*;

            #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
            #[sea_orm(table_name = "loan")]
            #[hare(capture(app = "library", hooks))]
            pub struct Model {
                #[sea_orm(primary_key)]
                pub id: i32,
                pub status: String,
            }

            #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
            pub enum Relation {}

            $($item)*
        }
    };
}

entity! { alone, ,
    #[hare_seaorm::behavior]
    impl ActiveModelBehavior for ActiveModel {
        fn new() -> Self {
            Self { status: sea_orm::Set("new".to_owned()), ..ActiveModelTrait::default() }
        }

        async fn before_save<C: ConnectionTrait>(self, _db: &C, _insert: bool) -> Result<Self, DbErr> {
            Ok(self)
        }

        async fn after_save<C>(model: Model, _db: &C, _insert: bool) -> Result<Model, DbErr>
        where
            C: ConnectionTrait,
        {
            Ok(model)
        }

        async fn before_delete<C: ConnectionTrait>(self, _db: &C) -> Result<Self, DbErr> {
            Ok(self)
        }

        async fn after_delete<C: ConnectionTrait>(self, _db: &C) -> Result<Self, DbErr> {
            Ok(self)
        }
    }
}

entity! { above, async_trait::async_trait,
    #[hare_seaorm::behavior]
    #[async_trait]
    impl ActiveModelBehavior for ActiveModel {
        async fn before_save<C: ConnectionTrait>(self, _db: &C, _insert: bool) -> Result<Self, DbErr> {
            Ok(self)
        }
    }
}

entity! { below, hare_seaorm::behavior,
    #[async_trait::async_trait]
    #[behavior]
    impl sea_orm::ActiveModelBehavior for ActiveModel {
        async fn before_save<C: ConnectionTrait>(self, _db: &C, _insert: bool) -> Result<Self, DbErr> {
            Ok(self)
        }
    }
}

pub mod imported {
    use hare_seaorm::{ChangeCapture, behavior};
    #[allow(unused_imports, reason = "DeriveEntityModel's output needs it")]
    use sea_orm::entity::prelude::*;
    use sea_orm::{ActiveModelBehavior, ConnectionTrait, DbErr, DeriveEntityModel, DeriveRelation, EnumIter};

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(app = "library", hooks))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    #[behavior(crate = "hare_seaorm")]
    impl ActiveModelBehavior for ActiveModel {
        async fn after_delete<C: ConnectionTrait>(self, _db: &C) -> Result<Self, DbErr> {
            Ok(self)
        }
    }
}

/// Without the attribute macro.
pub mod by_hand {
    use hare_seaorm::{CaptureBehavior, ChangeCapture};
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(app = "library", hooks))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    #[async_trait::async_trait]
    impl CaptureBehavior for ActiveModel {
        async fn before_delete<C: ConnectionTrait>(self, _db: &C) -> Result<Self, DbErr> {
            Ok(self)
        }
    }
}

fn main() {
    // SeaORM's `new` is the hook.
    let new = <alone::ActiveModel as sea_orm::ActiveModelBehavior>::new();
    assert_eq!(new.status, sea_orm::Set("new".to_owned()));
}
