//! `hare_seaorm` under another name, in a module where common names mean something else.
#![deny(warnings)]

extern crate hare_seaorm as hare;

/// A crate of one's own that re-exports what the entities use.
pub mod prelude {
    pub use hare::*;
}

pub mod loan {
    use crate::prelude::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(crate = "crate::prelude", capture(app = "library", hooks))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    #[crate::prelude::behavior(crate = "crate::prelude")]
    impl ActiveModelBehavior for ActiveModel {
        async fn before_delete<C: ConnectionTrait>(self, _db: &C) -> Result<Self, DbErr> {
            Ok(self)
        }
    }
}

pub mod shadowed {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, hare::ChangeCapture)]
    #[sea_orm(table_name = "shadowed")]
    #[hare(crate = "hare")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    pub struct DECLARATION;
    pub struct Declaration;
    pub struct Payload;
    pub struct Piece;
    pub struct C;
    pub mod core {}
}

/// Call sites: each picks the method that captures.
pub async fn calls<C: sea_orm::ConnectionTrait>(db: &C) -> Result<(), sea_orm::DbErr> {
    use sea_orm::IntoActiveModel;
    let loan: loan::Model = loan::ActiveModel { id: sea_orm::NotSet }.insert(db).await?;
    let loan: loan::Model = loan.into_active_model().update(db).await?;
    let loan: loan::ActiveModel = loan.into_active_model().save(db).await?;
    let _: sea_orm::UpdateResult = loan.clone().update_without_returning(db).await?;
    let _: sea_orm::DeleteResult = loan.delete(db).await?;
    let _: sea_orm::DeleteResult = loan::Model { id: 1 }.delete(db).await?;
    Ok(())
}

fn main() {
    use hare::capture::CapturedEntity;
    assert_eq!(loan::Entity::declaration().label(), "library.Loan");
}
