use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "loan")]
#[hare(capture(fields(id, cached)))]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    #[sea_orm(ignore)]
    #[hare(sensitive, json_with = str::len)]
    pub cached: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

fn main() {}
