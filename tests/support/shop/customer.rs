use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "customer")]
#[hare(capture(app = "shop"))]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    pub name: String,
    #[sea_orm(unique)]
    pub email: Option<String>,
    #[hare(sensitive)]
    pub password: String,
    #[sea_orm(column_type = "Decimal(Some((16, 4)))", default_value = 0)]
    pub credit: Decimal,
    #[sea_orm(has_many)]
    pub orders: HasMany<super::order::Entity>,
}
