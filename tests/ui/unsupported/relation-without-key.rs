//! A relation stands for its key columns, if it says them.

mod book {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "book")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        #[sea_orm(has_many)]
        pub loans: HasMany<super::loan::Entity>,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

mod loan {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(exclude(book)))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub book_id: i32,
        #[sea_orm(belongs_to, from = "book_id", to = "id")]
        #[hare(sensitive)]
        pub lent: BelongsTo<super::book::Entity>,
        pub book: HasOne<super::book::Entity>,
    }
}

fn main() {}
