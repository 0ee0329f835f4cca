//! A small shop with relations: the entities that the tests share.
//!
//! `customer` and `order` are in the format of `#[sea_orm::model]`, `line` in the expanded one with a key of two columns, the rest
//! in the compact one. `widget` is one table seen through an entity per way of capturing it.

use sea_orm::{ConnectionTrait, EntityTrait, Schema};

use crate::{Backend, TestDb};

pub mod customer;
pub mod hooked;
pub mod line;
pub mod order;
pub mod outbox;
pub mod plain;
pub mod widget;

/// A database with the outbox and the shop's tables, for the test macros.
#[derive(Debug)]
pub struct Shop;

impl Shop {
    pub async fn make(backend: Backend) -> TestDb {
        let t = TestDb::new(backend).await;
        t.create_table(customer::Entity).await;
        t.create_table(order::Entity).await;
        t.create_table(line::Entity).await;
        t.create_table(widget::after::Entity).await;
        t.create_table(plain::Entity).await;
        t.create_table(hooked::Entity).await;
        t
    }
}

impl TestDb {
    pub async fn create_table<E: EntityTrait>(&self, entity: E) {
        let backend = self.db.get_database_backend();
        let schema = Schema::new(backend);
        for create_type in schema.create_enum_from_entity(entity) {
            self.db
                .execute(&create_type)
                .await
                .expect("the enum type can be created");
        }
        self.db
            .execute(&schema.create_table_from_entity(entity))
            .await
            .expect("the table can be created");
    }
}
