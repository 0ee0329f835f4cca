use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "book")]
#[hare(capture(app = "library"))]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    pub title: String,
    #[sea_orm(has_many)]
    pub loans: HasMany<super::loan::Entity>,
}
