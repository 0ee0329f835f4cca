//! `#[sea_orm::model]`, which puts the derive on `Model` and on `ModelEx`.
#![deny(warnings, missing_docs, unreachable_pub)]

use hare_seaorm::capture::CapturedEntity;

/// A book with its loans.
pub mod book {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    /// A book.
    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "book")]
    #[hare(capture(app = "library"))]
    pub struct Model {
        /// The first half of its key.
        #[sea_orm(primary_key, auto_increment = false)]
        pub shelf: i32,
        /// The second half of its key.
        #[sea_orm(primary_key, auto_increment = false)]
        pub place: i32,
        /// What it cost.
        #[hare(sensitive)]
        pub price: i32,
        /// Its loans.
        #[sea_orm(has_many)]
        pub loans: HasMany<super::loan::Entity>,
    }
}

/// A loan of a book.
pub mod loan {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    /// A loan.
    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(app = "library", fields(book, id, parent, book_place)))]
    pub struct Model {
        /// Its number.
        #[sea_orm(primary_key)]
        pub id: i32,
        /// What it holds.
        pub r#type: String,
        /// Where its book stands.
        pub book_shelf: i32,
        /// Where its book stands.
        pub book_place: i32,
        /// The loan it prolongs.
        pub parent_id: Option<i32>,
        /// Its book.
        #[sea_orm(belongs_to, from = "(book_shelf, Column::BookPlace)", to = "(shelf, place)")]
        pub book: BelongsTo<super::book::Entity>,
        /// The loan it prolongs.
        #[sea_orm(self_ref, relation_enum = "Parent", from = "parent_id", to = "id")]
        pub parent: HasOne<Entity>,
    }
}

/// The same, all columns but those of its book.
pub mod claim {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    /// A claim.
    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "claim")]
    #[hare(capture(app = "library", exclude(loan), hooks))]
    pub(crate) struct Model {
        /// Its number.
        #[sea_orm(primary_key)]
        pub(crate) id: i32,
        /// The loan.
        pub(crate) loan_id: i32,
        /// The loan.
        #[sea_orm(belongs_to, from = "loan_id", to = "id")]
        pub(crate) loan: BelongsTo<super::loan::Entity>,
    }

    #[hare_seaorm::behavior]
    impl ActiveModelBehavior for ActiveModel {}
}

fn names<C: Copy>(columns: &[(&'static str, C)]) -> Vec<&'static str> {
    columns.iter().map(|(name, _)| *name).collect()
}

fn main() {
    assert_eq!(
        names(book::Entity::declaration().stored),
        ["shelf", "place", "price"]
    );
    assert_eq!(names(book::Entity::declaration().held), ["shelf", "place"]);
    let loan = loan::Entity::declaration();
    assert_eq!(loan.label(), "library.Loan");
    assert_eq!(
        names(loan.stored),
        ["id", "type", "book_shelf", "book_place", "parent_id"]
    );
    assert_eq!(names(loan.held), ["book_shelf", "book_place", "id", "parent_id"]);
    assert_eq!(names(claim::Entity::declaration().held), ["id"]);
}
