// catalogue F7
use hare_seaorm::ChangeCapture;
use hare_seaorm::capture::CaptureProfile;
use hare_seaorm::outbox;
use sea_orm::entity::prelude::*;

pub struct Topic;

impl CaptureProfile for Topic {
    type Outbox = outbox::Entity;
    type Functions = ();
    const TOPIC: &'static str = "{app}.{pk}";
}

pub struct OrderingKey;

impl CaptureProfile for OrderingKey {
    type Outbox = outbox::Entity;
    type Functions = ();
    const ORDERING_KEY: Option<&'static str> = Some("{label");
}

mod topic {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "topic")]
    #[hare(capture(profile = Topic))]
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
    #[hare(capture(profile = OrderingKey))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn main() {}
