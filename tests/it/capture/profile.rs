//! One declaration for many entities, and what they say themselves.

use hare_seaorm::capture::{
    BoxError, CaptureProfile, CapturedChange, CapturedEntity, Code, EnvelopeForm, Extension, OnPool,
    Operation, Operations, Payload, ProfileFunctions, Strategy,
};
use hare_seaorm::{Error, outbox};
use hare_seaorm_tests::shop::outbox::audit;
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::{ConnectionTrait, EntityTrait, IntoActiveModel, Set};
use serde_json::json;

use super::sink::Trail;

/// Nothing but what has to be said.
pub struct Bare;

impl CaptureProfile for Bare {
    type Outbox = outbox::Entity;
    type Functions = ();
}

/// Everything but functions.
pub struct Consts;

impl CaptureProfile for Consts {
    type Outbox = audit::Entity;
    type Functions = ();
    const APP: Option<&'static str> = Some("Consts");
    const PAYLOAD: Payload = Payload::BeforeAndAfter;
    const OPERATIONS: Operations = Operations {
        insert: true,
        update: false,
        delete: true,
    };
    const TOPIC: &'static str = "{{{app}}}/{model}/{table}/{operation}";
    const ORDERING_KEY: Option<&'static str> = None;
    const ON_POOL: OnPool = OnPool::NonAtomic;
    const STRATEGY: Strategy = Strategy::Portable;
}

/// With functions, for the built-in outbox.
pub struct Functions;

impl CaptureProfile for Functions {
    type Outbox = outbox::Entity;
    type Functions = Self;
    const APP: Option<&'static str> = Some("shop");
    const ORDERING_KEY: Option<&'static str> = Some("{table}:{pk}");
    const ENVELOPE: EnvelopeForm = EnvelopeForm::Plain;
}

impl ProfileFunctions<outbox::Entity> for Functions {
    fn topic<E: CapturedEntity>(change: &CapturedChange<E>) -> Result<String, Error> {
        Ok(format!("all.{}", change.templated_topic()?))
    }

    fn ordering_key<E: CapturedEntity>(change: &CapturedChange<E>) -> Result<Option<String>, Error> {
        match change.operation() {
            Operation::Delete => Ok(None),
            _ => change.templated_ordering_key(),
        }
    }

    async fn extend<E: CapturedEntity, C: ConnectionTrait>(
        db: &C,
        change: CapturedChange<E>,
    ) -> Result<Option<Extension>, BoxError> {
        if change.operation() == Operation::Update {
            return Err("no updates".into());
        }
        let one = E::find().one(db).await?;
        Ok(Some(Extension::new().envelope("is_there", &one.is_some())?))
    }
}

widget!(bare, profile = super::Bare);
widget!(nut, profile = super::Consts);
widget!(bolt, profile = super::Consts);
widget!(
    own,
    profile = super::Consts,
    outbox = hare_seaorm::outbox::Entity,
    app = "own",
    payload = "keys",
    operations(insert, update, delete),
    topic = "{model}",
    ordering_key = "{pk}",
    envelope = "plain",
    on_pool = "refuse",
    strategy = "auto"
);
widget!(with, profile = super::Functions);
widget!(
    without,
    profile = super::Functions,
    topic = "{model}",
    unordered,
    extend_many = super::nothing
);
widget!(sunk, profile = super::Functions, sink = super::Trail);

async fn nothing<C: ConnectionTrait>(
    _: &C,
    changes: Vec<CapturedChange<without::Entity>>,
) -> Result<Vec<Option<Extension>>, Error> {
    Ok(changes.iter().map(|_| None).collect())
}

#[test]
fn a_profile_without_functions_is_code_free_and_has_the_defaults() {
    let declaration = bare::Entity::declaration();
    assert_eq!(declaration.label(), "hare-seaorm-tests.Bare");
    assert_eq!(
        (declaration.payload, declaration.operations),
        (Payload::After, Operations::ALL)
    );
    assert_eq!(
        (declaration.on_pool, declaration.strategy),
        (OnPool::Refuse, Strategy::Auto)
    );
    assert_eq!(declaration.code, Code::None);
    assert!(declaration.topic_with.is_none() && declaration.ordering_key_with.is_none());
    let default = hare_seaorm_tests::shop::widget::after::Entity::declaration();
    assert_eq!(
        (&declaration.topic, &declaration.ordering_key),
        (&default.topic, &default.ordering_key)
    );
}

// catalogue F14
#[test]
fn what_an_entity_says_itself_counts_more() {
    let declaration = nut::Entity::declaration();
    assert_eq!(
        (declaration.on_pool, declaration.strategy),
        (OnPool::NonAtomic, Strategy::Portable)
    );
    let declaration = own::Entity::declaration();
    assert_eq!(declaration.label(), "own.Own");
    assert_eq!(
        (declaration.payload, declaration.operations),
        (Payload::Keys, Operations::ALL)
    );
    assert_eq!(
        (declaration.on_pool, declaration.strategy),
        (OnPool::Refuse, Strategy::Auto)
    );
    assert_eq!(sunk::Entity::declaration().code, Code::Sink);
    let declaration = without::Entity::declaration();
    assert!(declaration.topic_with.is_none() && declaration.ordering_key_with.is_none());
}

on_every_backend! {
    // catalogue F13
    async fn entities_of_a_profile_differ_in_their_names_alone(t: Shop) {
        t.create_outboxes().await;
        let row = new_widget!(nut).insert(&t.db).await.unwrap();
        let mut change = row.into_active_model();
        change.size = Set(8);
        change.update(&t.db).await.unwrap().delete(&t.db).await.unwrap();
        new_widget!(bolt).insert(&t.db).await.unwrap();
        let events = audit::Entity::find().all(&t.db).await.unwrap();
        let told: Vec<_> = events.iter().map(|event| (event.topic.as_str(), event.ordering_key.as_deref())).collect();
        assert_eq!(told, [("{consts}/nut/widget/inserted", None), ("{consts}/nut/widget/deleted", None), ("{consts}/bolt/widget/inserted", None)]);
        let labels: Vec<_> = events.iter().map(|event| event.payload.parse::<serde_json::Value>().unwrap()["model"].clone()).collect();
        assert_eq!(labels, ["Consts.Nut", "Consts.Nut", "Consts.Bolt"]);
    }

    // catalogue F14
    async fn each_option_can_be_said_by_the_entity(t: Shop) {
        let row = new_widget!(own).insert(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!((event.topic, event.ordering_key), ("own".to_owned(), Some(row.id.to_string())));
        assert_eq!(event.payload.get("after"), None);

        let row = new_widget!(without).insert(&t.db).await.unwrap();
        let mut change = row.into_active_model();
        change.size = Set(8);
        change.update(&t.db).await.unwrap();
        for event in t.take_events().await {
            assert_eq!((event.topic.as_str(), &event.ordering_key, event.payload.get("is_there")), ("without", &None, None));
        }
        new_widget!(sunk).insert(&t.db).await.unwrap();
        assert_eq!(t.events().await, []);
        assert_eq!(t.count("plain").await, 1);
    }

    // catalogue H1, H4
    async fn its_functions_are_every_entitys(t: Shop) {
        let row = new_widget!(with).insert(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!((event.topic.as_str(), event.ordering_key), ("all.shop.with.inserted", Some(format!("widget:{}", row.id))));
        assert_eq!(event.payload["is_there"], json!(true));
        let mut change = row.clone().into_active_model();
        change.size = Set(8);
        let error = change.update(&t.db).await.unwrap_err();
        let Some(Error::Validation { source: Some(source), .. }) = Error::find(&error) else { panic!("{error:?}") };
        assert_eq!(source.to_string(), "no updates");
        assert_eq!(with::Entity::find().one(&t.db).await.unwrap(), Some(row.clone()));
        row.delete(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!((event.ordering_key, &event.payload["is_there"]), (None, &json!(false)));
    }
}
