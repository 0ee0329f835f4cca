//! Statements over any number of rows: what `Entity::insert_many`, `Entity::update_many` and their like write and tell.

mod concurrency;
mod delete;
mod insert;
mod many;
mod update;
mod upsert;

use hare_seaorm_tests::Event;
use sea_orm::{ActiveModelBehavior, ActiveModelTrait, Set};
use serde_json::{Value as Json, json};

use hare_seaorm_tests::shop::{line, widget};

/// A row with a unique column beside its key, and one whose key is given.
pub(super) mod part {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "part")]
    #[hare(capture(app = "shop", payload = "before_and_after"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        #[sea_orm(unique)]
        pub code: String,
        #[sea_orm(default_value = 1)]
        pub stock: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn new_part(code: &str, stock: i32) -> part::ActiveModel {
    part::ActiveModel {
        code: Set(code.to_owned()),
        stock: Set(stock),
        ..Default::default()
    }
}

fn new_line(order_id: i32, number: i32, product: &str) -> line::ActiveModel {
    line::ActiveModel {
        order_id: Set(order_id),
        number: Set(number),
        product: Set(product.to_owned()),
        quantity: Set(1),
    }
}

fn new_widget(name: &str, size: i32) -> widget::both::ActiveModel {
    named(name, size)
}

/// A widget of any of the entities on its table.
fn named<A: ActiveModelTrait + ActiveModelBehavior>(name: &str, size: i32) -> A {
    let mut new = <A as ActiveModelBehavior>::new();
    for (column, value) in [("name", name.into()), ("size", size.into())] {
        let column = column.parse().ok().expect("a widget's column");
        new.set(column, value);
    }
    new
}

/// Operation, key, what changed, before and after.
type Told<'a> = (&'a str, Json, Json, Json, Json);

fn told(events: &[Event]) -> Vec<Told<'_>> {
    let part = |event: &Event, name: &str| event.payload[name].clone();
    events
        .iter()
        .map(|event| {
            (
                event.operation(),
                part(event, "pk"),
                part(event, "changed"),
                part(event, "before"),
                part(event, "after"),
            )
        })
        .collect()
}

fn operations(events: &[Event]) -> Vec<&str> {
    events.iter().map(Event::operation).collect()
}

fn keys(events: &[Event]) -> Vec<Json> {
    events.iter().map(|event| event.payload["pk"].clone()).collect()
}

/// A widget as it is told.
fn image(id: i32, name: &str, size: i32) -> Json {
    json!({"id": id, "name": name, "size": size, "note": null})
}
