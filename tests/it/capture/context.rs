//! Headers set around a piece of work, in the events written inside it.

use hare_seaorm::capture::{CapturedChange, ContextHeaders, Extension, with_context};
use hare_seaorm::{Error, OutboxMessage, outbox};
use hare_seaorm_tests::shop::widget;
use hare_seaorm_tests::{Shop, TestDb, on_backends, on_every_backend};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use sea_orm::{
    ActiveModelBehavior, ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, Set,
    TransactionTrait,
};
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::relay::logs;

widget!(extended, app = "shop", extend = super::extend);

async fn extend<C: ConnectionTrait>(
    _: &C,
    _: CapturedChange<extended::Entity>,
) -> Result<Option<Extension>, Error> {
    Ok(Some(
        Extension::new()
            .header("actor", "extension")?
            .header("own", &true)?,
    ))
}

fn new() -> widget::both::ActiveModel {
    widget::both::ActiveModel {
        name: Set("nut".to_owned()),
        ..Default::default()
    }
}

fn message() -> OutboxMessage {
    OutboxMessage::new("own", &1).unwrap()
}

fn actor(actor: i32) -> ContextHeaders {
    ContextHeaders::new().header("actor", &actor).unwrap()
}

async fn generic<A, C>(db: &C, new: A) -> Result<<A::Entity as EntityTrait>::Model, DbErr>
where
    A: ActiveModelTrait + ActiveModelBehavior + Send,
    <A::Entity as EntityTrait>::Model: IntoActiveModel<A>,
    C: ConnectionTrait,
{
    new.insert(db).await
}

async fn headers(t: &TestDb) -> Vec<String> {
    let headers = t
        .outbox()
        .await
        .into_iter()
        .map(|event| event.headers.into_string());
    let headers = headers.collect();
    t.take_events().await;
    headers
}

on_every_backend! {
    async fn every_event_inside_has_its_headers(t: Shop) {
        let work = async {
            let row = new().insert(&t.db).await.unwrap();
            let mut change = row.into_active_model();
            change.size = Set(8);
            let row = change.update(&t.db).await.unwrap();
            row.delete(&t.db).await.unwrap();
            let txn = t.db.begin().await.unwrap();
            new().insert(&txn).await.unwrap();
            generic(&txn, new()).await.unwrap();
            outbox::enqueue(&txn, message()).await.unwrap();
            txn.commit().await.unwrap();
            let ours = hare_seaorm::begin(&t.db).await.unwrap();
            new().insert(&ours).await.unwrap();
            generic(&ours, new()).await.unwrap();
            ours.commit().await.unwrap();
            outbox::enqueue(&t.db, message()).await.unwrap();
            outbox::enqueue_many(&t.db, [message(), message()]).await.unwrap();
        };
        with_context(actor(17).header("tenant", "a").unwrap(), work).await;
        assert_eq!(headers(&t).await, vec![r#"{"actor":17,"tenant":"a"}"#; 11]);

        new().insert(&t.db).await.unwrap();
        outbox::enqueue(&t.db, message()).await.unwrap();
        assert_eq!(headers(&t).await, ["{}", "{}"], "nothing is left of it outside");
    }

    async fn an_inner_context_adds_to_the_outer_one_and_wins(t: Shop) {
        let both = ContextHeaders::new().header("actor", &1).unwrap().header("tenant", "a").unwrap();
        with_context(both, async {
            let inner = ContextHeaders::new().header("actor", &2).unwrap().header("job", &[1]).unwrap();
            with_context(inner, async { new().insert(&t.db).await.unwrap() }).await;
            new().insert(&t.db).await.unwrap();
        }).await;
        assert_eq!(headers(&t).await, [r#"{"tenant":"a","actor":2,"job":[1]}"#, r#"{"actor":1,"tenant":"a"}"#]);
    }

    async fn a_header_of_the_event_itself_wins(t: Shop) {
        with_context(actor(17).header("tenant", "a").unwrap(), async {
            outbox::enqueue(&t.db, message().header("actor", "message").unwrap()).await.unwrap();
            new_widget!(extended).insert(&t.db).await.unwrap();
        }).await;
        assert_eq!(headers(&t).await, [r#"{"tenant":"a","actor":"message"}"#, r#"{"tenant":"a","actor":"extension","own":true}"#]);
    }

    async fn the_spans_trace_is_in_the_headers_and_counts_least(t: Shop) {
        logs::listen();
        let state = TraceState::from_key_value([("vendor", "1")]).unwrap();
        let parent = SpanContext::new(TraceId::from(0xabc), SpanId::from(0xdef), TraceFlags::SAMPLED, true, state);
        let span = tracing::info_span!("request");
        span.set_parent(opentelemetry::Context::new().with_remote_span_context(parent)).unwrap();
        let work = async {
            new().insert(&t.db).await.unwrap();
            outbox::enqueue(&t.db, message()).await.unwrap();
            let explicit = ContextHeaders::new().header("tracestate", "mine").unwrap();
            with_context(explicit, async { new().insert(&t.db).await.unwrap() }).await;
        };
        work.instrument(span).await;
        let traceparent = r#""traceparent":"00-00000000000000000000000000000abc-0000000000000def-01""#;
        let traced = format!(r#"{{{traceparent},"tracestate":"vendor=1"}}"#);
        assert_eq!(headers(&t).await, [traced.clone(), traced, format!(r#"{{{traceparent},"tracestate":"mine"}}"#)]);

        new().insert(&t.db).instrument(tracing::info_span!("of no trace")).await.unwrap();
        assert_eq!(headers(&t).await, ["{}"]);
    }
}

on_backends! { [postgres]
    // catalogue B10
    async fn a_nul_is_refused_before_it_is_written(t: Shop) {
        let nul = ContextHeaders::new().header("actor", "a\0b").unwrap();
        with_context(nul, async {
            let txn = t.db.begin().await.unwrap();
            let error = new().insert(&txn).await.unwrap_err();
            assert!(matches!(Error::find(&error), Some(Error::Validation { what, .. }) if what == "a header"), "{error:?}");
            let error = outbox::enqueue(&txn, message()).await.unwrap_err();
            assert!(matches!(error, Error::Validation { .. }), "{error:?}");
            txn.commit().await.unwrap();
        }).await;
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (0, 0));
    }
}

#[test]
fn names_and_values_are_checked_as_those_of_a_message() {
    let empty = ContextHeaders::new().header("", &1).unwrap_err();
    assert!(matches!(empty, Error::Validation { what, .. } if what == "a header's name"));
    let nan = ContextHeaders::new().header("load", &f64::NAN).unwrap_err();
    assert!(matches!(nan, Error::Validation { what, .. } if what == "the header `load`"));
}
