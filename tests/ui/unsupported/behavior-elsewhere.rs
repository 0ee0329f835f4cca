//! `behavior` belongs on the implementation of SeaORM's trait.

use std::fmt;

use hare_seaorm::ChangeCapture;
use hare_seaorm::behavior;
use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "loan")]
#[hare(capture)]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    pub status: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

#[behavior]
pub struct Hooks;

#[behavior]
/// Not an implementation.
pub fn before_save() {}

#[behavior]
impl ActiveModel {
    pub fn close(self) {}
}

#[behavior]
impl fmt::Display for Relation {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

#[behavior]
impl ActiveModelBehavior for Model {}

#[behavior]
impl ActiveModelBehavior for (ActiveModel,) {}

fn main() {}
