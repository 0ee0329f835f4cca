//! A brace that is neither part of a name nor doubled.

mod open {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(topic = "{"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub status: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod close {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(topic = "loans}"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub status: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod unclosed {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(topic = "{app.{model}"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub status: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn main() {}
