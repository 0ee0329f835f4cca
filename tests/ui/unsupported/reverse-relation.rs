//! A reverse relation has no column in this table.

mod book {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "book")]
    #[hare(capture(fields(id, loans)))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        #[sea_orm(has_many)]
        #[hare(sensitive)]
        pub loans: HasMany<super::loan::Entity>,
    }
}

mod loan {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "loan")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub book_id: i32,
        #[sea_orm(belongs_to, from = "book_id", to = "id")]
        pub book: BelongsTo<super::book::Entity>,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

fn main() {}
