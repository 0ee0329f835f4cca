//! Single-row writes and the events they make.

use hare_seaorm_tests::shop::{customer, line, order, widget};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Event, Shop, on_backends, on_every_backend};
use sea_orm::prelude::Decimal;
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, Set, TransactionTrait,
    TryIntoModel, Unchanged,
};
use serde_json::json;

macro_rules! new_widget {
    ($module:ident) => {
        widget::$module::ActiveModel {
            name: Set("nut".to_owned()),
            ..Default::default()
        }
    };
}

fn names_in(event: &Event) -> Vec<String> {
    // serde_json sorts the keys of an object; the text keeps them as they were written.
    let mut positions: Vec<_> = event
        .payload
        .as_object()
        .unwrap()
        .keys()
        .map(|key| (event.text.find(&format!("\"{key}\":")).unwrap(), key.clone()))
        .collect();
    positions.sort();
    positions.into_iter().map(|(_, key)| key).collect()
}

on_every_backend! {
    // catalogue G1
    async fn an_envelope_is_this_to_the_letter(t: Shop) {
        let row = new_widget!(both).insert(&t.db).await.unwrap();
        let event = t.event().await;
        let occurred_at = event.payload["occurred_at"].as_str().unwrap();
        let expected = format!(
            r#"{{"model":"shop.Widget","operation":"insert","pk":{id},"changed":null,"before":null,"after":{{"id":{id},"name":"nut","size":7,"note":null}},"occurred_at":"{occurred_at}"}}"#,
            id = row.id,
        );
        assert_eq!(event.text, expected);
    }

    // catalogue G2
    async fn each_mode_holds_its_images(t: Shop) {
        macro_rules! insert_update_delete {
            ($module:ident) => {{
                let row = new_widget!($module).insert(&t.db).await.unwrap();
                let mut change = row.into_active_model();
                change.size = Set(8);
                let row = change.update(&t.db).await.unwrap();
                row.clone().delete(&t.db).await.unwrap();
                (row.id, t.take_events().await)
            }};
        }
        let all = ["model", "operation", "pk", "changed", "before", "after", "occurred_at"];
        let image = |id: i32, size: i32| json!({"id": id, "name": "nut", "size": size, "note": null});

        let (id, events) = insert_update_delete!(keys);
        for event in &events {
            assert_eq!(names_in(event), ["model", "operation", "pk", "changed", "occurred_at"]);
            assert_eq!(event.payload["pk"], json!(id));
        }

        let (id, events) = insert_update_delete!(after);
        let images: Vec<_> = events.iter().map(|event| (event.payload["before"].clone(), event.payload["after"].clone())).collect();
        assert_eq!(images, [(json!(null), image(id, 7)), (json!(null), image(id, 8)), (image(id, 8), json!(null))]);
        assert!(events.iter().all(|event| names_in(event) == all));

        let (id, events) = insert_update_delete!(both);
        let images: Vec<_> = events.iter().map(|event| (event.payload["before"].clone(), event.payload["after"].clone())).collect();
        assert_eq!(images, [(json!(null), image(id, 7)), (image(id, 7), image(id, 8)), (image(id, 8), json!(null))]);
        assert!(events.iter().all(|event| names_in(event) == all));
    }

    // catalogue G3
    async fn a_composite_key_is_an_object_and_joined_by_colons(t: Shop) {
        let new = line::ActiveModel { order_id: Set(1), number: Set(2), product: Set("nut".to_owned()), quantity: Set(3) };
        let row = new.insert(&t.db).await.unwrap();
        let mut change = row.into_active_model();
        change.quantity = Set(4);
        let row = change.update(&t.db).await.unwrap();
        row.delete(&t.db).await.unwrap();
        let events = t.take_events().await;
        assert_eq!(events.len(), 3);
        for event in events {
            assert!(event.text.contains(r#""pk":{"order_id":1,"number":2}"#), "{}", event.text);
            assert_eq!(event.ordering_key.as_deref(), Some("shop.Line:1:2"));
        }
    }

    // catalogue G4
    async fn occurred_at_is_a_moment_with_an_offset(t: Shop) {
        let before = chrono::Utc::now();
        new_widget!(after).insert(&t.db).await.unwrap();
        let event = t.event().await;
        let text = event.payload["occurred_at"].as_str().unwrap();
        assert!(text.ends_with("+00:00") && text.contains('T'), "{text}");
        let moment = chrono::DateTime::parse_from_rfc3339(text).unwrap();
        assert!((moment.to_utc() - before).num_seconds().abs() < 5, "{text}");
    }

    // catalogue G5
    async fn changed_is_what_the_caller_named(t: Shop) {
        let row = new_widget!(after).insert(&t.db).await.unwrap();
        let mut change = row.into_active_model();
        change.note = Set(Some("x".to_owned()));
        change.name = Set("nut".to_owned());
        let row = change.update(&t.db).await.unwrap();
        row.delete(&t.db).await.unwrap();
        let changed: Vec<_> = t.take_events().await.iter().map(|event| event.payload["changed"].clone()).collect();
        assert_eq!(changed, [json!(null), json!(["name", "note"]), json!(null)]);
    }

    // catalogue G6
    async fn a_rows_events_share_a_key_in_order(t: Shop) {
        let row = new_widget!(after).insert(&t.db).await.unwrap();
        let id = row.id;
        let mut row = row;
        for size in [1, 2] {
            let mut change = row.into_active_model();
            change.size = Set(size);
            row = change.update(&t.db).await.unwrap();
        }
        row.delete(&t.db).await.unwrap();
        let events = t.take_events().await;
        let operations: Vec<_> = events.iter().map(Event::operation).collect();
        assert_eq!(operations, ["insert", "update", "update", "delete"]);
        assert!(events.iter().all(|event| event.ordering_key.as_deref() == Some(format!("shop.Widget:{id}").as_str())));
    }

    // catalogue G7
    async fn an_insert_tells_generated_keys_and_defaults(t: Shop) {
        let row = new_widget!(after).insert(&t.db).await.unwrap();
        assert_eq!((row.id, row.size), (1, 7));
        let event = t.event().await;
        assert_eq!(event.payload["pk"], json!(1));
        assert_eq!(event.payload["after"]["size"], json!(7));
    }

    // catalogue G8
    async fn an_update_tells_the_row_as_it_was_left(t: Shop) {
        let row = new_widget!(both).insert(&t.db).await.unwrap();
        t.take_events().await;
        t.execute("UPDATE widget SET note = 'by another'").await;
        let change = widget::both::ActiveModel { id: Unchanged(row.id), size: Set(9), ..Default::default() };
        let returned = change.update(&t.db).await.unwrap();
        assert_eq!(returned.note.as_deref(), Some("by another"));
        let event = t.event().await;
        assert_eq!(event.payload["before"], json!({"id": row.id, "name": "nut", "size": 7, "note": "by another"}));
        assert_eq!(event.payload["after"], json!({"id": row.id, "name": "nut", "size": 9, "note": "by another"}));
        assert_eq!(event.payload["changed"], json!(["size"]));
    }

    // catalogue G8
    async fn an_update_to_the_value_that_is_there_is_told_with_the_stored_row(t: Shop) {
        let row = new_widget!(both).insert(&t.db).await.unwrap();
        t.take_events().await;
        let txn = t.db.begin().await.unwrap();
        // On MariaDB this reads, and so fixes what plain reads see in this transaction.
        widget::both::Entity::find_by_id(row.id).one(&txn).await.unwrap();
        if t.backend != Backend::Sqlite {
            t.execute("UPDATE widget SET note = 'by another'").await;
        }
        let change = widget::both::ActiveModel { id: Unchanged(row.id), size: Set(7), ..Default::default() };
        let returned = change.update(&txn).await.unwrap();
        txn.commit().await.unwrap();
        let event = t.event().await;
        let note = if t.backend == Backend::Sqlite { json!(null) } else { json!("by another") };
        assert_eq!(event.payload["after"]["note"], note);
        assert_eq!(event.payload["before"]["note"], note);
        assert_eq!(json!(returned.note), note);
    }

    // catalogue G9
    async fn a_full_save_tells_the_true_row_before(t: Shop) {
        let row = new_widget!(both).insert(&t.db).await.unwrap();
        t.take_events().await;
        t.execute("UPDATE widget SET name = 'by another'").await;
        row.into_active_model().reset_all().save(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!(event.payload["before"]["name"], json!("by another"));
        assert_eq!(event.payload["after"]["name"], json!("nut"));
    }

    // catalogue G10
    async fn an_update_of_nothing_is_no_event(t: Shop) {
        let row = new_widget!(both).insert(&t.db).await.unwrap();
        t.take_events().await;

        let gone = widget::both::ActiveModel { id: Unchanged(999), size: Set(1), ..Default::default() };
        assert_eq!(gone.clone().update(&t.db).await, Err(DbErr::RecordNotUpdated));
        assert_eq!(gone.clone().update_without_returning(&t.db).await.unwrap_err(), DbErr::RecordNotUpdated);
        assert_eq!(gone.save(&t.db).await.unwrap_err(), DbErr::RecordNotUpdated);

        // Nothing set: SeaORM sends no UPDATE.
        assert_eq!(row.clone().into_active_model().update(&t.db).await.unwrap(), row);
        assert_eq!(row.into_active_model().update_without_returning(&t.db).await.unwrap().rows_affected, 0);
        let no_key = widget::both::ActiveModel { size: Set(1), ..Default::default() };
        assert!(matches!(no_key.update(&t.db).await, Err(DbErr::PrimaryKeyNotSet { .. })));
        assert_eq!(t.events().await, []);
    }

    // catalogue G11
    async fn find_or_insert_tells_what_it_did(t: Shop) {
        for round in 0..2 {
            let found = widget::after::Entity::find_by_id(1).one(&t.db).await.unwrap();
            match found {
                None => drop(new_widget!(after).insert(&t.db).await.unwrap()),
                Some(row) => {
                    let mut change = row.into_active_model();
                    change.size = Set(9);
                    change.save(&t.db).await.unwrap();
                }
            }
            assert_eq!(t.event().await.operation(), ["insert", "update"][round]);
        }
    }

    // catalogue G12
    async fn a_delete_tells_the_stored_row_and_a_missing_one_nothing(t: Shop) {
        let row = new_widget!(both).insert(&t.db).await.unwrap();
        t.take_events().await;
        let mut unsaved = row.clone().into_active_model();
        unsaved.name = Set("never saved".to_owned());
        assert_eq!(unsaved.delete(&t.db).await.unwrap().rows_affected, 1);
        assert_eq!(t.event().await.payload["before"]["name"], json!("nut"));

        assert_eq!(row.clone().delete(&t.db).await.unwrap().rows_affected, 0);
        let keys = widget::keys::ActiveModel { id: Set(row.id), ..Default::default() };
        assert_eq!(keys.delete(&t.db).await.unwrap().rows_affected, 0);
        let no_key = widget::both::ActiveModel { ..Default::default() };
        assert!(matches!(no_key.delete(&t.db).await, Err(DbErr::PrimaryKeyNotSet { .. })));
        assert_eq!(t.events().await, []);
    }

    async fn save_inserts_without_a_key_and_updates_with_one(t: Shop) {
        let saved = new_widget!(after).save(&t.db).await.unwrap();
        assert_eq!(t.event().await.operation(), "insert");
        let mut again = saved;
        again.size = Set(3);
        let row = again.save(&t.db).await.unwrap().try_into_model().unwrap();
        assert_eq!(row.size, 3);
        assert_eq!(t.event().await.operation(), "update");
    }

    async fn update_without_returning_counts_and_tells(t: Shop) {
        let row = new_widget!(keys).insert(&t.db).await.unwrap();
        t.take_events().await;
        let change = || widget::keys::ActiveModel { id: Unchanged(row.id), size: Set(3), ..Default::default() };
        assert_eq!(change().update_without_returning(&t.db).await.unwrap().rows_affected, 1);
        assert_eq!(t.event().await.payload["changed"], json!(["size"]));
        let both = widget::both::ActiveModel { id: Unchanged(row.id), size: Set(4), ..Default::default() };
        assert_eq!(both.update_without_returning(&t.db).await.unwrap().rows_affected, 1);
        let event = t.event().await;
        assert_eq!((&event.payload["before"]["size"], &event.payload["after"]["size"]), (&json!(3), &json!(4)));
    }

    async fn a_unique_violation_of_the_users_table_stays_seaorms(t: Shop) {
        let new = || customer::ActiveModel {
            name: Set("Ada".to_owned()),
            email: Set(Some("ada@example.org".to_owned())),
            password: Set("secret".to_owned()),
            ..Default::default()
        };
        new().insert(&t.db).await.unwrap();
        let error = new().insert(&t.db).await.unwrap_err();
        assert!(matches!(error.sql_err(), Some(sea_orm::SqlErr::UniqueConstraintViolation(_))), "{error:?}");
        assert_eq!(t.take_events().await.len(), 1);
    }

    async fn an_enum_and_a_decimal_travel_in_their_own_forms(t: Shop) {
        let customer = customer::ActiveModel { name: Set("Ada".to_owned()), password: Set("secret".to_owned()), email: Set(None), ..Default::default() };
        let customer = customer.insert(&t.db).await.unwrap();
        t.take_events().await;
        let new = order::ActiveModel {
            customer_id: Set(customer.id),
            status: Set(order::Status::Open),
            total: Set(Decimal::new(125_000, 4)),
            ..Default::default()
        };
        let row = new.insert(&t.db).await.unwrap();
        let mut change = row.into_active_model();
        change.status = Set(order::Status::Paid);
        change.update(&t.db).await.unwrap();
        let event = t.take_events().await.remove(1);
        assert_eq!(event.payload["before"]["status"], json!("open"));
        assert_eq!(event.payload["after"]["status"], json!("paid"));
        let total = event.payload["after"]["total"].as_str().unwrap();
        assert!(total.starts_with("12.5"), "{total}");
    }

    async fn each_mode_reads_no_more_than_it_needs(t: Shop) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let verbs = || -> Vec<String> {
            statements.take().iter().map(|sql| sql.split(' ').next().unwrap().to_owned()).collect()
        };
        let returns = t.backend != Backend::MariaDb;
        let row = new_widget!(after).insert(&db).await.unwrap();
        assert_eq!(verbs(), if returns { vec!["INSERT", "INSERT"] } else { vec!["INSERT", "SELECT", "INSERT"] });

        let change = |size| widget::after::ActiveModel { id: Unchanged(row.id), size: Set(size), ..Default::default() };
        change(1).update(&db).await.unwrap();
        assert_eq!(verbs(), if returns { vec!["UPDATE", "INSERT"] } else { vec!["UPDATE", "SELECT", "INSERT"] });

        let keys = widget::keys::ActiveModel { id: Unchanged(row.id), size: Set(2), ..Default::default() };
        keys.clone().update_without_returning(&db).await.unwrap();
        // Without RETURNING the key is read as it is stored.
        assert_eq!(verbs(), if returns { vec!["UPDATE", "INSERT"] } else { vec!["UPDATE", "SELECT", "INSERT"] });
        keys.delete(&db).await.unwrap();
        assert_eq!(verbs(), if returns { vec!["DELETE", "INSERT"] } else { vec!["SELECT", "DELETE", "INSERT"] });
    }
}

on_backends! { [postgres, mariadb]
    // catalogue G12
    async fn a_deleted_row_is_locked_first(t: Shop) {
        let row = new_widget!(both).insert(&t.db).await.unwrap();
        t.take_events().await;
        let other = t.db.begin().await.unwrap();
        other.execute_unprepared("UPDATE widget SET name = 'by another'").await.unwrap();
        let db = t.db.clone();
        let deleting = tokio::spawn(async move { row.delete(&db).await });
        hare_seaorm_tests::database::until_someone_waits_for_a_lock(&t).await;
        other.commit().await.unwrap();
        assert_eq!(deleting.await.unwrap().unwrap().rows_affected, 1);
        assert_eq!(t.event().await.payload["before"]["name"], json!("by another"));
    }
}
