use hare_seaorm::ChangeCapture;
use hare_seaorm::capture::{CapturedChange, CapturedEntity, Extension};
use hare_seaorm::outbox;
use sea_orm::entity::prelude::*;

fn takes_nothing() -> String {
    String::new()
}

fn gives_a_number<E: CapturedEntity>(_: &CapturedChange<E>) -> i32 {
    1
}

async fn takes_a_reference<E: CapturedEntity, C: ConnectionTrait>(
    _: &C,
    _: &CapturedChange<E>,
) -> Result<Option<Extension>, DbErr> {
    Ok(None)
}

async fn fails_with_a_number<E: CapturedEntity, C: ConnectionTrait>(
    _: &C,
    _: CapturedChange<E>,
) -> Result<Option<Extension>, i32> {
    Ok(None)
}

async fn of_another_outbox<E: CapturedEntity, C: ConnectionTrait>(
    _: &C,
    _: CapturedChange<E>,
) -> Result<Option<Extension<outbox::Entity>>, DbErr> {
    Ok(None)
}

pub mod own_outbox {
    #[hare_seaorm::outbox_event(table_name = "own_outbox")]
    pub struct Model {}
}

mod topic {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "topic")]
    #[hare(capture(topic_with = gives_a_number))]
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
    #[hare(capture(ordering_key_with = takes_nothing))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod reference {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "reference")]
    #[hare(capture(extend = takes_a_reference))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod error {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "error")]
    #[hare(capture(extend = fails_with_a_number))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod another {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "another")]
    #[hare(capture(extend = of_another_outbox, outbox = super::own_outbox::Entity))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn main() {}
