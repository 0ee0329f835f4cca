//! Code of a declaration that runs per change: what it sees, what it adds, and that its errors undo the write.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use hare_seaorm::capture::{CapturedChange, CapturedEntity, Extension, Operation};
use hare_seaorm::{Error, OutboxMessage, outbox};
use hare_seaorm_tests::shop::outbox::{billing, tenants};
use hare_seaorm_tests::shop::{customer, plain};
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::prelude::{Decimal, Uuid};
use sea_orm::sea_query::{ArrayType, ColumnType, Nullable, ValueType, ValueTypeErr};
use sea_orm::{
    ActiveModelBehavior, ActiveModelTrait, ActiveValue, ColIdx, ConnectionTrait, DbErr, EntityTrait,
    IntoActiveModel, IntoActiveValue, QueryOrder, QueryResult, Set, TransactionTrait, TryGetError,
    TryGetable, Unchanged,
};
use serde_json::json;

widget!(
    seen,
    app = "shop",
    name = "Widget",
    payload = "before_and_after",
    extend = super::see
);

/// What a query sees, and what it is told.
async fn see<C: ConnectionTrait>(
    db: &C,
    change: CapturedChange<seen::Entity>,
) -> Result<Option<Extension>, DbErr> {
    let stored = seen::Entity::find_by_id(change.pk()).one(db).await?;
    assert_eq!(stored.as_ref(), change.after());
    assert_eq!(change.row(), change.after().or(change.before()));
    assert_eq!(change.label(), "shop.Widget");
    let sizes = (change.before(), change.after());
    let sizes = [sizes.0.map(|row| row.size), sizes.1.map(|row| row.size)];
    let extension = Extension::new()
        .envelope("sizes", &sizes)?
        .envelope("named", &change.changed())?
        .envelope("at", &change.occurred_at().timestamp_micros())?;
    Ok(Some(extension))
}

widget!(
    added,
    app = "shop",
    name = "Widget",
    outbox = super::billing::Entity,
    extend = super::add
);

async fn add<C: ConnectionTrait>(
    db: &C,
    change: CapturedChange<added::Entity>,
) -> Result<Option<Extension<billing::Entity>>, DbErr> {
    if change.operation() == Operation::Delete {
        return Ok(None);
    }
    let customer = customer::Entity::find().one(db).await?;
    let extension = Extension::for_outbox::<billing::Entity>()
        .envelope("customer", &customer.as_ref().map(|customer| &customer.name))?
        .envelope("twice", &1)?
        .envelope("twice", &2)?
        .header("actor", &17)?
        .set(
            billing::Column::CustomerId,
            customer.map(|customer| i64::from(customer.id)),
        )
        .set(billing::Column::Origin, "web");
    Ok(Some(extension))
}

widget!(
    of_tenant,
    app = "shop",
    outbox = super::tenants::Entity,
    extend = super::of_its_tenant
);

async fn of_its_tenant<C: ConnectionTrait>(
    _: &C,
    change: CapturedChange<of_tenant::Entity>,
) -> Result<Option<Extension<tenants::Entity>>, DbErr> {
    let tenant = change.row().map(|row| row.name.clone());
    Ok(Some(Extension::for_outbox().set(tenants::Column::Tenant, tenant)))
}

// What the name of the row asks for is refused, each in its own way.
widget!(
    refused,
    app = "shop",
    payload = "keys",
    extend_many = super::refuse
);

async fn refuse<C: ConnectionTrait>(
    db: &C,
    changes: Vec<CapturedChange<refused::Entity>>,
) -> Result<Vec<Option<Extension>>, Box<dyn std::error::Error + Send + Sync>> {
    let mut extensions = Vec::new();
    for change in changes {
        assert_eq!((change.before(), change.after()), (None, None));
        let row = refused::Entity::find_by_id(change.pk()).one(db).await?;
        let wish = row.and_then(|row| row.note).unwrap_or_default();
        let extension = Extension::new();
        let extension = match wish.split_once(' ') {
            Some(("key", name)) => extension.envelope(name, &1)?,
            Some(("column", "topic")) => extension.set(outbox::Column::Topic, "t"),
            Some(("column", "id")) => extension.set(outbox::Column::Id, Uuid::now_v7()),
            Some(("column", "attempts")) => extension.set(outbox::Column::Attempts, 1),
            Some(("id", "4")) => extension.id("e28e3b3b-a4c9-4f52-8a59-c4a4b7a8d0c1".parse()?),
            Some(("id", _)) => extension.id(GIVEN),
            Some(("nan", _)) => extension.envelope("deep", &[[f64::NAN]])?,
            Some(("header", _)) => extension.header("", &1)?,
            Some(("nul", "key")) => extension.envelope("nul", "a\0b")?,
            Some(("nul", "header")) => extension.header("nul", "a\0b")?,
            Some(("own", _)) => return Err("no row of this kind".into()),
            Some(("sql", _)) => {
                let twin = refused::ActiveModel {
                    id: Set(change.pk()),
                    name: Set(String::new()),
                    ..Default::default()
                };
                refused::Entity::insert(twin).exec(db).await?;
                extension
            }
            Some(("count", "fewer")) => continue,
            Some(("count", _)) => {
                extensions.push(None);
                extension
            }
            _ => extension,
        };
        extensions.push(Some(extension));
    }
    Ok(extensions)
}

const GIVEN: Uuid = Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0001);

fn wish(wish: &str) -> refused::ActiveModel {
    refused::ActiveModel {
        note: Set(Some(wish.to_owned())),
        ..new_widget!(refused)
    }
}

widget!(
    functions,
    app = "shop",
    topic_with = super::topic_of,
    ordering_key_with = super::key_of
);

fn topic_of(change: &CapturedChange<functions::Entity>) -> String {
    match change.row().and_then(|row| row.note.as_deref()) {
        Some("empty topic") => String::new(),
        Some("long topic") => "ä".repeat(256),
        Some("nul topic") => "a\0".to_owned(),
        _ => format!("rows.{}", change.operation().as_str()),
    }
}

fn key_of(change: &CapturedChange<functions::Entity>) -> Option<String> {
    let row = change.row()?;
    match row.note.as_deref() {
        Some("empty key") => Some(String::new()),
        Some("long key") => Some("ä".repeat(256)),
        Some("longest key") => Some("ä".repeat(255)),
        Some("no key") => None,
        _ => Some(row.name.clone()),
    }
}

// Its code writes, too.
widget!(writing, app = "shop", extend = super::write_more);

async fn write_more<C: ConnectionTrait>(
    db: &C,
    change: CapturedChange<writing::Entity>,
) -> Result<Option<Extension>, DbErr> {
    plain::ActiveModel {
        name: Set("beside".to_owned()),
        ..Default::default()
    }
    .insert(db)
    .await?;
    let row = captured_too(change.pk() + 1000).insert(db).await?;
    generic_insert(db, captured_too(change.pk() + 2000)).await?;
    // One that fails leaves nothing, and the rest goes on.
    let failing = wish("own x").insert(db).await;
    assert!(failing.is_err());
    let message = |topic: &str| OutboxMessage::new(topic, &change.pk());
    outbox::enqueue(db, message("one")?).await?;
    outbox::enqueue_many(db, [message("many")?, message("many")?]).await?;
    row.delete(db).await?;
    match change.row().and_then(|row| row.note.as_deref()) {
        Some("fail") => Err(DbErr::Custom("after all that".to_owned())),
        _ => Ok(None),
    }
}

fn captured_too(id: i32) -> functions::ActiveModel {
    functions::ActiveModel {
        id: Set(id),
        ..new_widget!(functions)
    }
}

async fn generic_insert<A, C>(db: &C, new: A) -> Result<<A::Entity as EntityTrait>::Model, DbErr>
where
    A: ActiveModelTrait + ActiveModelBehavior + Send,
    <A::Entity as EntityTrait>::Model: IntoActiveModel<A>,
    C: ConnectionTrait,
{
    new.insert(db).await
}

/// A column type that is not `Sync`, and neither is a model with it.
#[derive(Clone, Debug, PartialEq)]
struct Unshared(Cell<i32>);

impl Unshared {
    fn new(value: i32) -> Self {
        Self(Cell::new(value))
    }
}

impl From<Unshared> for sea_orm::Value {
    fn from(value: Unshared) -> Self {
        value.0.get().into()
    }
}

impl TryGetable for Unshared {
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Self, TryGetError> {
        i32::try_get_by(row, index).map(Self::new)
    }
}

impl ValueType for Unshared {
    fn try_from(value: sea_orm::Value) -> Result<Self, ValueTypeErr> {
        <i32 as ValueType>::try_from(value).map(Self::new)
    }
    fn type_name() -> String {
        "Unshared".to_owned()
    }
    fn array_type() -> ArrayType {
        ArrayType::Int
    }
    fn column_type() -> ColumnType {
        ColumnType::Integer
    }
}

impl Nullable for Unshared {
    fn null() -> sea_orm::Value {
        i32::null()
    }
}

impl IntoActiveValue<Unshared> for Unshared {
    fn into_active_value(self) -> ActiveValue<Unshared> {
        Set(self)
    }
}

mod unshared {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    use super::{Unshared, double};

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "unshared")]
    #[hare(capture(app = "shop", extend = double))]
    pub(super) struct Model {
        #[sea_orm(primary_key)]
        pub(super) id: i32,
        pub(super) size: Unshared,
        #[sea_orm(column_type = "Decimal(Some((16, 4)))")]
        pub(super) price: Decimal,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

async fn double<C: ConnectionTrait>(
    db: &C,
    change: CapturedChange<unshared::Entity>,
) -> Result<Option<Extension>, DbErr> {
    let (size, price) = change
        .after()
        .map_or((0, Decimal::ZERO), |row| (row.size.0.get(), row.price));
    let rows = unshared::Entity::find().all(db).await?.len();
    let extension = Extension::new()
        .envelope("double", &(size * 2))?
        .envelope("price", &(price * Decimal::TWO).normalize().to_string())?
        .envelope("rows", &rows)?;
    Ok(Some(extension))
}

on_every_backend! {
    // catalogue H1, H5
    async fn it_sees_the_uncommitted_row_and_typed_images(t: Shop) {
        let row = new_widget!(seen).insert(&t.db).await.unwrap();
        let txn = t.db.begin().await.unwrap();
        let row = seen::ActiveModel { id: Unchanged(row.id), size: Set(8), ..Default::default() }.update(&txn).await.unwrap();
        txn.commit().await.unwrap();
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        row.delete(&ours).await.unwrap();
        ours.commit().await.unwrap();
        let told: Vec<_> = t.take_events().await.into_iter().map(|event| (event.payload["sizes"].clone(), event.payload["named"].clone())).collect();
        assert_eq!(told, [
            (json!([null, 7]), json!(null)),
            (json!([7, 8]), json!(["size"])),
            (json!([8, null]), json!(null)),
        ]);
    }

    // catalogue H1, H5
    async fn a_model_need_not_be_sync_and_keeps_its_types(t: Shop) {
        t.create_table(unshared::Entity).await;
        let new = unshared::ActiveModel { size: Set(Unshared::new(4)), price: Set(Decimal::new(12_3450, 4)), ..Default::default() };
        new.insert(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!((&event.payload["double"], &event.payload["price"]), (&json!(8), &json!("24.69")));
        assert_eq!(event.payload["rows"], json!(1));
    }

    // catalogue H2
    async fn it_adds_keys_headers_and_columns(t: Shop) {
        t.create_outboxes().await;
        let ada = customer::ActiveModel { name: Set("Ada".into()), email: Set(None), password: Set("x".into()), ..Default::default() };
        let ada = ada.insert(&t.db).await.unwrap();
        let row = new_widget!(added).insert(&t.db).await.unwrap();
        row.delete(&t.db).await.unwrap();
        let events = billing::Entity::find().order_by_asc(billing::Column::Sequence).all(&t.db).await.unwrap();
        assert_eq!(events.len(), 2);
        assert_eq!((events[0].customer_id, events[0].origin.as_str(), events[0].headers.as_str()), (Some(ada.id), "web", r#"{"actor":17}"#));
        assert!(events[0].payload.as_str().ends_with(r#","customer":"Ada","twice":2}"#), "{}", events[0].payload.as_str());
        // Nothing is added to the other, whose columns have their defaults.
        assert_eq!((events[1].customer_id, events[1].origin.as_str(), events[1].headers.as_str()), (None, "till", "{}"));
        assert!(!events[1].payload.as_str().contains("customer"));
    }

    // catalogue H6
    async fn it_takes_the_tenant_from_the_row(t: Shop) {
        t.create_outboxes().await;
        new_widget!(of_tenant).insert(&t.db).await.unwrap();
        let events = tenants::Entity::find().all(&t.db).await.unwrap();
        assert_eq!(events.iter().map(|event| event.tenant.as_str()).collect::<Vec<_>>(), ["nut"]);
    }

    // catalogue H3, B8, P1
    async fn what_it_may_not_add_is_refused_and_the_write_is_undone(t: Shop) {
        let mut wishes: Vec<_> = ["model", "operation", "pk", "changed", "before", "after", "occurred_at"].map(|key| format!("key {key}")).into();
        wishes.extend(["column topic", "column id", "column attempts", "id 4", "nan x", "header x"].map(str::to_owned));
        if t.is(sea_orm::DbBackend::Postgres) {
            wishes.extend(["nul key", "nul header"].map(str::to_owned));
        }
        for refused in &wishes {
            let error = wish(refused).insert(&t.db).await.unwrap_err();
            assert!(matches!(Error::find(&error), Some(Error::Validation { .. })), "{refused}: {error:?}");
            let txn = t.db.begin().await.unwrap();
            wish(refused).insert(&txn).await.unwrap_err();
            txn.commit().await.unwrap();
        }
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (0, 0));

        wish("id 7").insert(&t.db).await.unwrap();
        assert_eq!(t.outbox().await.iter().map(|event| event.id).collect::<Vec<_>>(), [GIVEN]);
    }

    // catalogue H4
    async fn its_error_undoes_the_write_and_reaches_the_caller(t: Shop) {
        let error = wish("own x").insert(&t.db).await.unwrap_err();
        let Some(ours @ Error::Validation { source: Some(source), .. }) = Error::find(&error) else { panic!("{error:?}") };
        assert_eq!(ours.to_string(), "a change of `shop.Refused` is not valid: `extend_many` of its declaration refused it");
        assert_eq!(source.to_string(), "no row of this kind");
        assert_eq!(t.count("widget").await, 0);

        // SeaORM's own error is given back as it is.
        let error = wish("sql x").insert(&t.db).await.unwrap_err();
        assert!(error.sql_err().is_some(), "{error:?}");

        for ours in [false, true] {
            let plain = || plain::ActiveModel { name: Set("own".to_owned()), ..Default::default() };
            if ours {
                let txn = hare_seaorm::begin(&t.db).await.unwrap();
                plain().insert(&txn).await.unwrap();
                wish("sql x").insert(&txn).await.unwrap_err();
                wish("own x").insert(&txn).await.unwrap_err();
                plain().insert(&txn).await.unwrap();
                txn.commit().await.unwrap();
            } else {
                let txn = t.db.begin().await.unwrap();
                plain().insert(&txn).await.unwrap();
                wish("sql x").insert(&txn).await.unwrap_err();
                wish("own x").insert(&txn).await.unwrap_err();
                generic_insert(&txn, wish("own x")).await.unwrap_err();
                plain().insert(&txn).await.unwrap();
                txn.commit().await.unwrap();
            }
        }
        assert_eq!((t.count("widget").await, t.count("plain").await, t.count("hare_outbox").await), (0, 4, 0));
    }

    // catalogue H8, P1
    async fn another_number_of_answers_undoes_the_write(t: Shop) {
        for count in ["count fewer", "count more"] {
            let error = wish(count).insert(&t.db).await.unwrap_err();
            let Some(Error::Validation { reason, .. }) = Error::find(&error) else { panic!("{error:?}") };
            assert!(reason.starts_with("`extend_many` of its declaration gave") && reason.contains("for 1 changes"), "{reason}");
        }
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (0, 0));
    }

    // catalogue F8
    async fn functions_of_the_change_give_topic_and_key(t: Shop) {
        let row = new_widget!(functions).insert(&t.db).await.unwrap();
        let row = functions::ActiveModel { id: Unchanged(row.id), note: Set(Some("no key".to_owned())), ..Default::default() }.update(&t.db).await.unwrap();
        row.delete(&t.db).await.unwrap();
        let told: Vec<_> = t.take_events().await.into_iter().map(|event| (event.topic, event.ordering_key)).collect();
        let nut = Some("nut".to_owned());
        assert_eq!(told, [("rows.insert".to_owned(), nut), ("rows.update".to_owned(), None), ("rows.delete".to_owned(), None)]);
    }

    // catalogue F10, P1, P4
    async fn what_a_function_gives_is_not_shortened(t: Shop) {
        let new = |note: &str| functions::ActiveModel { note: Set(Some(note.to_owned())), ..new_widget!(functions) };
        let mut notes = vec![("long key", "the ordering key"), ("empty key", "the ordering key"), ("long topic", "the topic"), ("empty topic", "the topic")];
        if t.is(sea_orm::DbBackend::Postgres) {
            notes.push(("nul topic", "the topic"));
        }
        for (note, place) in notes {
            let error = new(note).insert(&t.db).await.unwrap_err();
            assert!(matches!(Error::find(&error), Some(Error::Validation { what, .. }) if what == place), "{note}: {error:?}");
            assert!(error.to_string().len() < 400, "{error}");
        }
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (0, 0));
        new("longest key").insert(&t.db).await.unwrap();
        assert_eq!(t.event().await.ordering_key.unwrap().chars().count(), 255);
    }

    async fn it_may_write_captured_rows_and_events_of_its_own(t: Shop) {
        let topics = ["rows.insert", "rows.insert", "one", "many", "many", "rows.delete", "shop.writing.inserted"];
        let told = async || t.take_events().await.into_iter().map(|event| event.topic).collect::<Vec<_>>();
        new_widget!(writing).insert(&t.db).await.unwrap();
        assert_eq!(told().await, topics);
        let txn = t.db.begin().await.unwrap();
        new_widget!(writing).insert(&txn).await.unwrap();
        generic_insert(&txn, new_widget!(writing)).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(told().await, [topics, topics].concat());
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        new_widget!(writing).insert(&ours).await.unwrap();
        generic_insert(&ours, new_widget!(writing)).await.unwrap();
        ours.commit().await.unwrap();
        assert_eq!(told().await, [topics, topics].concat());
        assert_eq!((t.count("widget").await, t.count("plain").await), (10, 5));
    }

    // catalogue H4
    async fn what_it_wrote_is_undone_with_the_write(t: Shop) {
        let failing = || writing::ActiveModel { note: Set(Some("fail".to_owned())), ..new_widget!(writing) };
        let own = || plain::ActiveModel { name: Set("own".to_owned()), ..Default::default() };
        assert_eq!(failing().insert(&t.db).await, Err(DbErr::Custom("after all that".to_owned())));
        let txn = t.db.begin().await.unwrap();
        own().insert(&txn).await.unwrap();
        failing().insert(&txn).await.unwrap_err();
        own().insert(&txn).await.unwrap();
        txn.commit().await.unwrap();
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        own().insert(&ours).await.unwrap();
        failing().insert(&ours).await.unwrap_err();
        own().insert(&ours).await.unwrap();
        ours.commit().await.unwrap();
        assert_eq!((t.count("widget").await, t.count("plain").await, t.count("hare_outbox").await), (0, 4, 0));
    }

    // catalogue H7, H8
    async fn only_what_is_captured_reaches_it(t: Shop) {
        let row = new_widget!(deletes).insert(&t.db).await.unwrap();
        assert_eq!(CALLS.load(Ordering::SeqCst) / 1000, 0);
        row.delete(&t.db).await.unwrap();
        assert_eq!(t.event().await.operation(), "delete");
    }
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

widget!(
    deletes,
    app = "shop",
    operations(delete),
    extend_many = super::count_deletes
);

async fn count_deletes<C: ConnectionTrait>(
    _: &C,
    changes: Vec<CapturedChange<deletes::Entity>>,
) -> Result<Vec<Option<Extension>>, Error> {
    for change in &changes {
        if change.operation() != Operation::Delete {
            CALLS.fetch_add(1000, Ordering::SeqCst);
        }
    }
    Ok(changes.iter().map(|_| None).collect())
}

#[test]
fn a_declaration_without_code_shows_no_change() {
    use hare_seaorm::capture::Code;
    assert_eq!(customer::Entity::declaration().code, Code::None);
    assert_eq!(functions::Entity::declaration().code, Code::None);
    assert_eq!(seen::Entity::declaration().code, Code::Extend);
}
