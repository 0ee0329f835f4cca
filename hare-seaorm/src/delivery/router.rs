//! Different topics to different deliveries.
//!
//! Invariant: deliveries do not see each other. One that panics, hangs or miscounts its answers fails its own events; what the
//! others answered stands. Upheld in `batch::deliver_batch`; tested in `tests/it/relay/router.rs`.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::batch::deliver_batch;
use super::glob::Glob;
use super::{BatchLimits, DeliveryError, OutboxDelivery, Receipt, panic_text};
use crate::error::ConfigError;
use crate::outbox::{self, OutboxEvent};

/// Sends each event where its topic says.
///
/// A route is a topic or a pattern: `*` stands for any characters, dots too, `?` for one, `[abc]` or `[a-c]` for one of these,
/// `[!abc]` for one that is none of these. Case counts, and a pattern stands for whole topics. The route of exactly the event's
/// topic is taken first, wherever it is listed, else the first pattern in the order given, else the default. An event that has
/// no route fails: it is tried again and becomes a dead letter, but is never taken for published.
///
/// ```
/// use hare_seaorm::{CallableDelivery, MemoryDelivery, TopicRouter, outbox};
/// use std::sync::Arc;
///
/// let warehouse = Arc::new(MemoryDelivery::new());
/// let audit = CallableDelivery::new(|event: outbox::Model| async move {
///     println!("{}", event.topic);
///     Ok::<_, std::io::Error>(())
/// });
/// let router = TopicRouter::new()
///     .route("shop.order.*", warehouse.clone())
///     .route("shop.stock.counted", warehouse) // the same one: one batch for both routes
///     .default_route(audit);
/// # fn is_delivery(_: &impl hare_seaorm::OutboxDelivery) {} is_delivery(&router);
/// ```
///
/// Each delivery gets its part of a batch in one call, all at the same time, each with the whole of the relay's `concurrency`. The
/// same `Arc` given for several routes is one delivery: it gets one batch, and is closed once. A delivery that cannot be reached is
/// left alone for a while, and only its events wait. A slow one holds back the next batch, though never for longer than
/// `delivery_timeout` allows; where that is too long, give it a relay of its own with
/// [`topics`](crate::OutboxRelay::topics).
///
/// A bad pattern fails the start of the relay.
pub struct TopicRouter<M = outbox::Model> {
    exact: HashMap<String, usize>,
    /// In the order given.
    patterns: Vec<(String, Glob, usize)>,
    default: Option<usize>,
    deliveries: Vec<Arc<dyn OutboxDelivery<M>>>,
    problems: Vec<String>,
}

impl<M> fmt::Debug for TopicRouter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicRouter")
            .field("exact", &self.exact)
            .field("patterns", &self.patterns)
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}

impl<M> Default for TopicRouter<M> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            patterns: Vec::new(),
            default: None,
            deliveries: Vec::new(),
            problems: Vec::new(),
        }
    }
}

impl TopicRouter {
    /// A router of the built-in outbox's events, without a route. For another outbox:
    /// `TopicRouter::<my_outbox::Model>::default()`.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<M: OutboxEvent> TopicRouter<M> {
    /// Sends the events of this topic, or of the topics that this pattern stands for, to `delivery`.
    ///
    /// What is wrong with a pattern is said by [`check`](OutboxDelivery::check), when the relay starts: it is empty, a `[` is not
    /// closed, a range ends before it begins, or it was given before.
    #[must_use]
    pub fn route(mut self, pattern: impl Into<String>, delivery: impl OutboxDelivery<M>) -> Self {
        let pattern = pattern.into();
        let delivery = self.add(delivery);
        match Glob::parse(&pattern) {
            Ok(_) if self.is_known(&pattern) => self.problems.push(format!(
                "the route `{pattern}` is given twice: the second would never be taken"
            )),
            Ok(glob) if glob.is_exact() => {
                self.exact.insert(pattern, delivery);
            }
            Ok(glob) => self.patterns.push((pattern, glob, delivery)),
            Err(problem) => self
                .problems
                .push(format!("the route `{pattern}` is no pattern: {problem}")),
        }
        self
    }

    /// Sends what has no route to `delivery`. Without a default, such events fail.
    #[must_use]
    pub fn default_route(mut self, delivery: impl OutboxDelivery<M>) -> Self {
        self.default = Some(self.add(delivery));
        self
    }

    /// The number of this delivery, the one it had before if it is the same object.
    fn add(&mut self, delivery: impl OutboxDelivery<M>) -> usize {
        let delivery: Arc<dyn OutboxDelivery<M>> = Arc::new(delivery);
        let known = |other: &Arc<dyn OutboxDelivery<M>>| other.address() == delivery.address();
        self.deliveries.iter().position(known).unwrap_or_else(|| {
            self.deliveries.push(delivery);
            self.deliveries.len() - 1
        })
    }

    fn is_known(&self, pattern: &str) -> bool {
        self.exact.contains_key(pattern) || self.patterns.iter().any(|(known, ..)| known == pattern)
    }

    /// The number of the delivery that takes this topic.
    fn delivery_of(&self, topic: &str) -> Option<usize> {
        let first_pattern = || self.patterns.iter().find(|(_, glob, _)| glob.matches(topic));
        self.exact
            .get(topic)
            .copied()
            .or_else(|| first_pattern().map(|(_, _, delivery)| *delivery))
            .or(self.default)
    }

    /// The error of an event that cannot be sent, else the delivery that takes it.
    fn chosen(&self, event: &M) -> Result<usize, DeliveryError> {
        if let Some(error) = ConfigError::all(self.problems.clone()) {
            return Err(DeliveryError::failed(error));
        }
        let topic = event.topic();
        self.delivery_of(topic).ok_or_else(|| {
            DeliveryError::failed(format!(
                "the topic `{topic}` has no route, and there is no default"
            ))
        })
    }

    /// The columns that reports are written to, each once.
    fn report_columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = self
            .deliveries
            .iter()
            .filter_map(|delivery| delivery.report_column())
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

#[async_trait::async_trait]
impl<M: OutboxEvent> OutboxDelivery<M> for TopicRouter<M> {
    async fn deliver(&self, event: &M) -> Result<Receipt, DeliveryError> {
        self.deliveries[self.chosen(event)?].deliver(event).await
    }

    async fn deliver_batch(&self, events: &[M], limits: BatchLimits) -> Vec<Result<Receipt, DeliveryError>> {
        let mut groups: HashMap<usize, (Vec<usize>, Vec<M>)> = HashMap::new();
        let mut answers: Vec<Option<Result<Receipt, DeliveryError>>> = Vec::with_capacity(events.len());
        for (place, event) in events.iter().enumerate() {
            answers.push(match self.chosen(event) {
                Ok(delivery) => {
                    let (places, group) = groups.entry(delivery).or_default();
                    places.push(place);
                    group.push(event.clone());
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
        let calls = groups.into_iter().map(|(delivery, (places, group))| {
            let (delivery, limits) = (&*self.deliveries[delivery], limits.clone());
            async move {
                places
                    .into_iter()
                    .zip(deliver_batch(delivery, &group, limits).await)
            }
        });
        for (place, answer) in join_all(calls).await.into_iter().flatten() {
            answers[place] = Some(answer);
        }
        answers.into_iter().flatten().collect()
    }

    /// What is wrong with the routes, and with the deliveries behind them.
    fn check(&self) -> Result<(), ConfigError> {
        let mut problems = self.problems.clone();
        if self.deliveries.is_empty() {
            problems.push("the router has no route: every event would become a dead letter".to_owned());
        }
        let columns = self.report_columns();
        if columns.len() > 1 {
            problems.push(format!(
                "the deliveries of a router write their reports to one column, not to `{}`",
                columns.join("` and `")
            ));
        }
        let theirs = self
            .deliveries
            .iter()
            .filter_map(|delivery| delivery.check().err());
        problems.extend(theirs.flat_map(|error| error.problems));
        ConfigError::all(problems).map_or(Ok(()), Err)
    }

    fn receiver_of(&self, topic: &str) -> Option<u64> {
        let delivery = self.delivery_of(topic);
        let behind = delivery.and_then(|delivery| self.deliveries[delivery].receiver_of(topic));
        let mut receiver = DefaultHasher::new();
        (delivery, behind).hash(&mut receiver);
        Some(receiver.finish())
    }

    fn report_column(&self) -> Option<&str> {
        self.report_columns().first().copied()
    }

    /// Closes each delivery once, all of them even if one fails.
    async fn close(&self) -> Result<(), DeliveryError> {
        let closing = self.deliveries.iter().map(|delivery| async move {
            match AssertUnwindSafe(delivery.close()).catch_unwind().await {
                Ok(closed) => closed,
                Err(panic) => Err(DeliveryError::failed(panic_text(&*panic))),
            }
        });
        let mut errors: Vec<DeliveryError> = join_all(closing)
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => {
                let texts: Vec<String> = errors.iter().map(DeliveryError::text).collect();
                Err(DeliveryError::failed(texts.join("; ")))
            }
        }
    }
}
