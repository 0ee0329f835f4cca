//! The compact format: `DeriveEntityModel` with a `Relation` enum.
#![deny(warnings, missing_docs, unreachable_pub)]

use hare_seaorm::capture::{CapturedEntity, OnPool, Operations, Payload, Piece, Strategy};

/// No attribute: all defaults.
pub mod book {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    /// A book.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "book")]
    pub struct Model {
        /// Its number.
        #[sea_orm(primary_key)]
        pub id: i32,
        /// Its title.
        pub title: String,
    }

    /// None.
    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

/// Every key, over two attributes.
pub mod loan_item {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    /// A loan.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan_item")]
    #[hare(capture(
        app = "Library",
        outbox = hare_seaorm::outbox::Entity,
        payload = "before_and_after",
        operations(insert, delete),
        fields(r#type, state, id, type),
    ))]
    #[hare(capture(
        topic = "{{{app}}}.loans",
        ordering_key = "{table}-{pk}",
        no_shadow(
            insert, update, save, delete, update_without_returning, model_delete, entity_insert, insert_many,
            entity_update, update_many, entity_delete, delete_many, delete_by_id, delete_links,
            delete_links_self,
        ),
        on_pool = "non_atomic",
        strategy = "portable",
    ))]
    pub struct Model {
        /// The first half of its key.
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i32,
        /// The second half of its key.
        #[sea_orm(primary_key, auto_increment = false)]
        pub place: i32,
        /// Of which kind.
        pub r#type: String,
        /// Lent or not.
        #[sea_orm(column_name = "st", enum_name = "Status", indexed)]
        #[hare(sensitive)]
        pub state: String,
        /// Not in the table.
        #[sea_orm(ignore)]
        pub cached: Option<i32>,
    }

    /// None.
    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

pub(crate) mod member {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "member")]
    #[hare(capture(
        name = "Reader",
        operations(),
        exclude(born, self_),
        unordered,
        payload = "keys"
    ))]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub(crate) id: i32,
        pub(crate) born: Option<Date>,
        #[hare(sensitive)]
        pub(crate) name: String,
        pub(crate) self_: i32,
        pub(crate) _private: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
}

mod unseen {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "unseen")]
    #[hare(capture)]
    struct Model {
        #[sea_orm(primary_key)]
        id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    enum Relation {}

    pub(super) fn stored() -> usize {
        use hare_seaorm::capture::CapturedEntity as _;
        Entity::declaration().stored.len()
    }
}

fn names<C: Copy>(columns: &[(&'static str, C)]) -> Vec<&'static str> {
    columns.iter().map(|(name, _)| *name).collect()
}

fn main() {
    let book = book::Entity::declaration();
    assert_eq!(book.name, "Book");
    assert_eq!(book.payload, Payload::After);
    assert_eq!(
        book.operations,
        Operations {
            insert: true,
            update: true,
            delete: true
        }
    );
    assert_eq!(names(book.stored), ["id", "title"]);
    assert_eq!(names(book.held), ["id", "title"]);
    assert_eq!(
        book.topic.as_ref(),
        [
            Piece::App,
            Piece::Text("."),
            Piece::Model,
            Piece::Text("."),
            Piece::Operation
        ]
    );
    assert_eq!(
        book.ordering_key.as_deref(),
        Some(&[Piece::Label, Piece::Text(":"), Piece::PrimaryKey][..])
    );
    assert_eq!((book.on_pool, book.strategy), (OnPool::Refuse, Strategy::Auto));

    let loan = loan_item::Entity::declaration();
    assert_eq!(loan.label(), "Library.LoanItem");
    assert_eq!(loan.payload, Payload::BeforeAndAfter);
    assert_eq!(
        loan.operations,
        Operations {
            insert: true,
            update: false,
            delete: true
        }
    );
    assert_eq!(names(loan.stored), ["id", "place", "type", "state"]);
    assert_eq!(
        names(loan.held),
        ["type", "state", "id"],
        "in their order, each once, sensitive when named"
    );
    assert!(matches!(loan.held[1].1, loan_item::Column::Status));
    assert_eq!(loan.topic.as_ref(), [Piece::Text("{"), Piece::App, Piece::Text("}.loans")]);
    assert_eq!(
        loan.ordering_key.as_deref(),
        Some(&[Piece::Table, Piece::Text("-"), Piece::PrimaryKey][..])
    );
    assert_eq!(
        (loan.on_pool, loan.strategy),
        (OnPool::NonAtomic, Strategy::Portable)
    );

    let member = member::Entity::declaration();
    assert_eq!(member.name, "Reader");
    assert_eq!(member.payload, Payload::Keys);
    assert_eq!(
        member.operations,
        Operations {
            insert: false,
            update: false,
            delete: false
        }
    );
    assert_eq!(names(member.stored), ["id", "born", "name", "self_", "_private"]);
    assert_eq!(
        names(member.held),
        ["id", "_private"],
        "neither excluded nor sensitive ones"
    );
    assert!(member.ordering_key.is_none());

    assert_eq!(unseen::stored(), 1);
}
