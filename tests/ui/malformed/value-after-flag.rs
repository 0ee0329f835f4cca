use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "loan")]
#[hare(capture(hooks = true, unordered(yes)))]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    #[hare(sensitive = true)]
    pub status: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

#[hare_seaorm::behavior]
impl ActiveModelBehavior for ActiveModel {}

fn main() {}
