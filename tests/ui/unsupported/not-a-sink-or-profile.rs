use hare_seaorm::ChangeCapture;
use hare_seaorm::capture::{CaptureProfile, ProfileFunctions};
use hare_seaorm::outbox;
use sea_orm::entity::prelude::*;

pub struct Nothing;

pub struct Profile;

impl CaptureProfile for Profile {
    type Outbox = outbox::Entity;
    type Functions = Self;
}

impl ProfileFunctions<outbox::Entity> for Profile {}

pub mod own_outbox {
    #[hare_seaorm::outbox_event(table_name = "own_outbox")]
    pub struct Model {}
}

mod sink {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "sink")]
    #[hare(capture(sink = Nothing))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod profile {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "profile")]
    #[hare(capture(profile = Nothing))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod outbox_of_its_own {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "outbox_of_its_own")]
    #[hare(capture(profile = Profile, outbox = super::own_outbox::Entity))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn main() {}
