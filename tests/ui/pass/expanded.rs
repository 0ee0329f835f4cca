//! The expanded format: `DeriveModel`, with all else written by hand.
#![deny(warnings, missing_docs, unreachable_pub)]

use hare_seaorm::capture::CapturedEntity;

/// A loan.
pub mod loan {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    /// The table.
    #[derive(Copy, Clone, Default, Debug, DeriveEntity)]
    pub struct Entity;

    impl EntityName for Entity {
        fn table_name(&self) -> &'static str {
            "loan"
        }
    }

    /// A row.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveModel, DeriveActiveModel, ChangeCapture)]
    #[hare(capture(app = "library", exclude(r#type)))]
    pub struct Model {
        /// Its number.
        pub id: i32,
        /// Of which kind.
        pub r#type: String,
        /// Lent or not.
        #[sea_orm(enum_name = "State")]
        pub status: String,
    }

    /// Its columns.
    #[derive(Copy, Clone, Debug, EnumIter, DeriveColumn)]
    pub enum Column {
        /// Its number.
        Id,
        /// Of which kind.
        Type,
        /// Lent or not.
        #[sea_orm(column_name = "status")]
        State,
    }

    /// Its key.
    #[derive(Copy, Clone, Debug, EnumIter, DerivePrimaryKey)]
    pub enum PrimaryKey {
        /// Its number.
        Id,
    }

    impl PrimaryKeyTrait for PrimaryKey {
        type ValueType = i32;

        fn auto_increment() -> bool {
            true
        }
    }

    impl ColumnTrait for Column {
        type EntityName = Entity;

        fn def(&self) -> ColumnDef {
            match self {
                Self::Id => ColumnType::Integer.def(),
                Self::Type | Self::State => ColumnType::string(None).def(),
            }
        }
    }

    /// None.
    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn main() {
    let loan = loan::Entity::declaration();
    assert_eq!(loan.label(), "library.Loan");
    assert_eq!(
        loan.stored.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["id", "type", "status"]
    );
    assert!(matches!(
        loan.held,
        [("id", loan::Column::Id), ("status", loan::Column::State)]
    ));
}
