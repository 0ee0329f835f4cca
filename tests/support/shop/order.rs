use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Enum", enum_name = "order_status")]
pub enum Status {
    #[sea_orm(string_value = "open")]
    Open,
    #[sea_orm(string_value = "paid")]
    Paid,
}

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "order")]
#[hare(capture(app = "shop", payload = "before_and_after"))]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    pub customer_id: i32,
    pub status: Status,
    #[sea_orm(column_type = "Decimal(Some((16, 4)))")]
    pub total: Decimal,
    pub note: Option<String>,
    #[sea_orm(belongs_to, from = "customer_id", to = "id")]
    pub customer: HasOne<super::customer::Entity>,
}
