use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;

#[derive(Copy, Clone, Default, Debug, DeriveEntity)]
pub struct Entity;

impl EntityName for Entity {
    fn table_name(&self) -> &'static str {
        "order_line"
    }
}

#[derive(Clone, Debug, PartialEq, Eq, DeriveModel, DeriveActiveModel, ChangeCapture)]
#[hare(capture(app = "shop", payload = "before_and_after"))]
pub struct Model {
    pub order_id: i32,
    pub number: i32,
    pub product: String,
    pub quantity: i32,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveColumn)]
pub enum Column {
    OrderId,
    Number,
    Product,
    Quantity,
}

#[derive(Copy, Clone, Debug, EnumIter, DerivePrimaryKey)]
pub enum PrimaryKey {
    OrderId,
    Number,
}

impl PrimaryKeyTrait for PrimaryKey {
    type ValueType = (i32, i32);

    fn auto_increment() -> bool {
        false
    }
}

impl ColumnTrait for Column {
    type EntityName = Entity;

    fn def(&self) -> ColumnDef {
        match self {
            Self::OrderId | Self::Number | Self::Quantity => ColumnType::Integer.def(),
            Self::Product => ColumnType::String(StringLen::None).def(),
        }
    }
}

#[derive(Copy, Clone, Debug, EnumIter)]
pub enum Relation {}

impl RelationTrait for Relation {
    fn def(&self) -> RelationDef {
        unreachable!("an order line declares no relation")
    }
}
