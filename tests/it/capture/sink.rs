//! Changes that go elsewhere than to an outbox.

use hare_seaorm::Error;
use hare_seaorm::capture::{BoxError, CapturedChange, CapturedEntity, ChangeSink};
use hare_seaorm_tests::shop::plain;
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryOrder, Set, TransactionTrait,
};
use serde_json::{Value as Json, json};

/// Writes each change as a row of the plain table.
pub(super) struct Trail;

impl<E: CapturedEntity> ChangeSink<E> for Trail {
    async fn write<C: ConnectionTrait>(db: &C, changes: Vec<CapturedChange<E>>) -> Result<(), BoxError> {
        for change in changes {
            let row = plain::ActiveModel {
                name: Set(format!("{} {}", change.operation().as_str(), change.label())),
                note: Set(Some(change.envelope()?.into_string())),
                ..Default::default()
            };
            row.insert(db).await?;
            let envelope: Json = change.envelope()?.parse()?;
            if envelope["after"]["name"] == "refused" {
                return Err("not this one".into());
            }
        }
        Ok(())
    }
}

widget!(
    audited,
    app = "shop",
    name = "Widget",
    payload = "before_and_after",
    exclude(note),
    sink = super::Trail
);

async fn trail(t: &hare_seaorm_tests::TestDb) -> Vec<(String, Json)> {
    let rows = plain::Entity::find()
        .order_by_asc(plain::Column::Id)
        .all(&t.db)
        .await
        .unwrap();
    let told = |row: plain::Model| {
        (
            row.name,
            serde_json::from_str(&row.note.unwrap_or_default()).unwrap_or_default(),
        )
    };
    rows.into_iter().map(told).collect()
}

on_every_backend! {
    // catalogue F15
    async fn a_sink_takes_the_changes_in_place_of_the_outbox(t: Shop) {
        // It needs no outbox at all.
        t.execute("DROP TABLE hare_outbox").await;
        let row = new_widget!(audited).insert(&t.db).await.unwrap();
        let txn = t.db.begin().await.unwrap();
        let mut change = row.into_active_model();
        change.size = Set(8);
        let row = change.update(&txn).await.unwrap();
        txn.commit().await.unwrap();
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        let id = row.id;
        row.delete(&ours).await.unwrap();
        ours.commit().await.unwrap();

        let trail = trail(&t).await;
        let names: Vec<_> = trail.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["insert shop.Widget", "update shop.Widget", "delete shop.Widget"]);
        assert_eq!(trail[1].1["before"], json!({"id": id, "name": "nut", "size": 7}));
        assert_eq!(trail[1].1["after"], json!({"id": id, "name": "nut", "size": 8}));
    }

    // catalogue F15
    async fn its_error_undoes_the_write(t: Shop) {
        let refused = || audited::ActiveModel { name: Set("refused".to_owned()), ..Default::default() };
        let error = refused().insert(&t.db).await.unwrap_err();
        let Some(Error::Validation { source: Some(source), .. }) = Error::find(&error) else { panic!("{error:?}") };
        assert_eq!(source.to_string(), "not this one");
        let txn = t.db.begin().await.unwrap();
        plain::ActiveModel { name: Set("own".to_owned()), ..Default::default() }.insert(&txn).await.unwrap();
        refused().insert(&txn).await.unwrap_err();
        txn.commit().await.unwrap();
        assert_eq!(t.count("widget").await, 0);
        let names: Vec<_> = trail(&t).await.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["own"]);
    }
}
