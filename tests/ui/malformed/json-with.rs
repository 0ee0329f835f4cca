mod loan {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(app = "library"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        #[hare(json_with = "super::cents")]
        pub fee: i64,
        #[hare(json_with)]
        pub fine: i64,
        #[hare(json_with = super::letters)]
        pub status: i64,
        #[hare(json_with = super::nothing)]
        pub book: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn letters(text: &String) -> usize {
    text.len()
}

struct Nothing;

fn nothing(_: &i64) -> Nothing {
    Nothing
}

fn main() {}
