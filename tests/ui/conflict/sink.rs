use hare_seaorm::ChangeCapture;
use hare_seaorm::capture::{BoxError, CapturedChange, CapturedEntity, ChangeSink};
use sea_orm::entity::prelude::*;

pub struct Trail;

impl<E: CapturedEntity> ChangeSink<E> for Trail {
    async fn write<C: ConnectionTrait>(_: &C, _: Vec<CapturedChange<E>>) -> Result<(), BoxError> {
        Ok(())
    }
}

mod loan {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(sink = Trail, outbox = hare_seaorm::outbox::Entity, envelope = "plain", unordered))]
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
    #[hare(capture(topic = "t", sink = Trail, ordering_key = "{pk}"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod functions {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "functions")]
    #[hare(capture(topic_with = f, ordering_key_with = f, extend_many = f, sink = Trail))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod extended {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "extended")]
    #[hare(capture(extend = f, sink = Trail))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn main() {}
