mod compact {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(unordered))]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        #[hare(sensitive, json_with = super::masked)]
        pub iban: String,
        pub status: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod model {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan_item")]
    #[hare(capture(fields(iban, status)))]
    pub struct Model {
        #[hare(sensitive)]
        #[sea_orm(primary_key, auto_increment = false)]
        pub iban: String,
        pub status: String,
    }
}

fn masked(_: &str) -> &'static str {
    "***"
}

fn main() {}
