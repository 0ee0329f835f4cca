// catalogue F14, H8, P2
use hare_seaorm::ChangeCapture;
use hare_seaorm::capture::{CapturedChange, Extension};
use sea_orm::entity::prelude::*;

fn name<E: EntityTrait>(_: &CapturedChange<E>) -> String {
    String::new()
}

async fn one<E: EntityTrait, C: ConnectionTrait>(_: &C, _: CapturedChange<E>) -> Result<Option<Extension>, DbErr> {
    Ok(None)
}

async fn many<E: EntityTrait, C: ConnectionTrait>(
    _: &C,
    _: Vec<CapturedChange<E>>,
) -> Result<Vec<Option<Extension>>, DbErr> {
    Ok(Vec::new())
}

mod extended {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "extended")]
    #[hare(capture(extend = one, extend_many = many))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod topic {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "topic")]
    #[hare(capture(topic = "t", topic_with = name))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod ordering_key {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "ordering_key")]
    #[hare(capture(ordering_key_with = name, ordering_key = "{pk}"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod unordered {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "unordered")]
    #[hare(capture(unordered, ordering_key_with = name))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn main() {}
