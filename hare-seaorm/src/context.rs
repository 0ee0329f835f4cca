//! Headers that a piece of work puts into every event written inside it: an actor, a tenant, a trace.
//!
//! They travel with the task. Writes on a pool run in a task of their own, which [`carried`] takes them to.

use std::sync::Arc;

use serde::Serialize;

use crate::error::Error;
use crate::outbox::Headers;

tokio::task_local! {
    /// What surrounds the work, merged.
    static CONTEXT: Arc<Headers>;
}

/// Headers for [`with_context`].
#[derive(Debug, Clone, Default)]
#[must_use = "it says nothing until it is given to `with_context`"]
pub struct ContextHeaders(Headers);

impl ContextHeaders {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header: any JSON value. A name given twice keeps the last value.
    ///
    /// # Errors
    /// [`Error::Validation`] if the name is empty, or the value has no JSON form.
    pub fn header<T: Serialize + ?Sized>(
        mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<Self, Error> {
        self.0.set(name, value)?;
        Ok(self)
    }
}

/// Runs `work` with these headers in every event that is written inside it, captured or of one's own, without a change to any
/// signature on the way.
///
/// A context inside a context adds to it; of a header that both have, the inner one's value counts. A header that the event itself
/// is given, by [`OutboxMessage::header`](crate::OutboxMessage::header) or an
/// [`Extension`](super::capture::Extension), counts more than both. With the cargo feature `tracing-context` the current span's
/// `traceparent` and `tracestate` are there by themselves, and count least.
///
/// Work that is handed to another task (`tokio::spawn`) leaves the context; wrap it there again.
///
/// ```
/// use hare_seaorm::capture::{ContextHeaders, with_context};
/// use hare_seaorm::{OutboxMessage, outbox};
/// # use sea_orm_migration::{MigrationTrait, MigratorTrait};
/// # struct Migrator;
/// # impl MigratorTrait for Migrator {
/// #     fn migrations() -> Vec<Box<dyn MigrationTrait>> { hare_seaorm_migration::migrations() }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let options = sea_orm::ConnectOptions::new("sqlite::memory:").max_connections(1).to_owned();
/// # let db = sea_orm::Database::connect(options).await?;
/// # Migrator::up(&db, None).await?;
///
/// let actor = ContextHeaders::new().header("actor", &17)?;
/// let written = with_context(actor, async {
///     outbox::enqueue(&db, OutboxMessage::new("library.loan.created", &5)?).await
/// });
/// assert_eq!(written.await?.event.headers.as_str(), r#"{"actor":17}"#);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// As the work's.
pub async fn with_context<F: Future>(headers: ContextHeaders, work: F) -> F::Output {
    let mut merged = CONTEXT
        .try_with(|outer| Headers::clone(outer))
        .unwrap_or_default();
    merged.extend(&headers.0);
    CONTEXT.scope(Arc::new(merged), work).await
}

/// The work with the context of the caller, for a task of its own.
pub(crate) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let context = CONTEXT.try_with(Arc::clone).ok();
    async move {
        match context {
            Some(context) => CONTEXT.scope(context, work).await,
            None => work.await,
        }
    }
}

/// The headers of an event that is written here and now.
pub(crate) fn headers() -> Headers {
    let mut headers = of_span();
    let _ = CONTEXT.try_with(|context| headers.extend(context));
    headers
}

/// The trace that the current span belongs to, in W3C's form (<https://www.w3.org/TR/trace-context/>).
#[cfg(feature = "tracing-context")]
fn of_span() -> Headers {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let mut headers = Headers::default();
    let context = tracing::Span::current().context();
    let span = context.span();
    let span = span.span_context();
    if !span.is_valid() {
        return headers;
    }
    let flags = span.trace_flags().to_u8();
    let parent = format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id());
    headers.put_text("traceparent", &parent);
    let state = span.trace_state().header();
    if !state.is_empty() {
        headers.put_text("tracestate", &state);
    }
    headers
}

#[cfg(not(feature = "tracing-context"))]
fn of_span() -> Headers {
    Headers::default()
}
