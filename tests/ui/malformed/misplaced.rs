use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "loan")]
#[hare(capture(crate = "hare_seaorm", sensitive), topic = "loans", json_with = f, sensitive)]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    #[hare(capture(app = "library"))]
    pub status: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

fn main() {}
