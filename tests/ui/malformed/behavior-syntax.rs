use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "loan")]
#[hare(capture(hooks))]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    pub status: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

#[hare_seaorm::behavior(crate = "hare seaorm", 3)]
impl ActiveModelBehavior for ActiveModel {}

fn main() {}
