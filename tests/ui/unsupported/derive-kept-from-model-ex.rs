use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "loan", model_attrs(derive(ChangeCapture)))]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
}

impl ActiveModelBehavior for ActiveModel {}

fn main() {}
