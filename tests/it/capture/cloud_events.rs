//! Events as CloudEvents.

use hare_seaorm::capture::{CaptureProfile, CapturedChange, EnvelopeForm, Extension};
use hare_seaorm::{Error, outbox};
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::prelude::Uuid;
use sea_orm::{ConnectionTrait, Set};
use serde_json::{Value as Json, json};

pub struct Profile;

impl CaptureProfile for Profile {
    type Outbox = outbox::Entity;
    type Functions = ();
    const APP: Option<&'static str> = Some("the shop");
    const ENVELOPE: EnvelopeForm = EnvelopeForm::CloudEvents;
}

const ID: Uuid = Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0002);

widget!(
    by_attribute,
    app = "shop",
    name = "Widget",
    payload = "keys",
    envelope = "cloudevents",
    extend = super::give_id
);
widget!(by_profile, profile = super::Profile);

async fn give_id<C: ConnectionTrait>(
    _: &C,
    _: CapturedChange<by_attribute::Entity>,
) -> Result<Option<Extension>, Error> {
    Ok(Some(Extension::new().id(ID).envelope("actor", &17)?))
}

mod document {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "document")]
    #[hare(capture(app = "shop", envelope = "cloudevents"))]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub name: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub number: i32,
        #[sea_orm(column_type = "Text")]
        #[hare(json_with = super::parsed)]
        pub body: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

fn parsed(body: &str) -> Json {
    (0..body.len()).fold(json!(1), |inner, _| json!([inner]))
}

on_every_backend! {
    async fn the_envelope_is_the_data_of_a_cloud_event(t: Shop) {
        let row = new_widget!(by_attribute).insert(&t.db).await.unwrap();
        let event = t.event().await;
        let time = event.payload["time"].as_str().unwrap();
        assert!(time.ends_with("+00:00") && time.contains('T'), "{time}");
        assert_eq!(event.text, format!(
            r#"{{"specversion":"1.0","id":"{ID}","source":"/shop/Widget","type":"shop.widget.inserted","subject":"{id}","time":"{time}","datacontenttype":"application/json","data":{{"model":"shop.Widget","operation":"insert","pk":{id},"changed":null,"occurred_at":"{time}","actor":17}}}}"#,
            id = row.id,
        ));

        new_widget!(by_profile).insert(&t.db).await.unwrap();
        let stored = t.outbox().await.remove(0);
        let event = t.event().await;
        assert_eq!((&event.payload["source"], &event.payload["id"]), (&json!("/the%20shop/ByProfile"), &json!(stored.id.to_string())));
        assert_eq!(event.payload["data"]["after"]["name"], json!("nut"));
    }

    async fn a_composite_key_is_its_subject_and_one_that_nests_too_deep_is_refused(t: Shop) {
        t.create_table(document::Entity).await;
        let new = |depth| document::ActiveModel { name: Set("a".to_owned()), number: Set(2), body: Set("x".repeat(depth)) };
        let error = new(125).insert(&t.db).await.unwrap_err();
        assert!(matches!(Error::find(&error), Some(Error::Validation { what, .. }) if what == "the CloudEvent"), "{error:?}");
        new(124).insert(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!((&event.payload["subject"], &event.payload["data"]["pk"]), (&json!("a:2"), &json!({"name": "a", "number": 2})));
    }
}
