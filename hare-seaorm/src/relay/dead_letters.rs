//! Dead letters, for whoever decides what becomes of them.

use uuid::Uuid;

use super::OutboxRelay;
use super::options::check;
use super::store_access::Store;
use crate::error::{ConfigError, Error};
use crate::outbox::topics::{TopicFilter, read_patterns};
use crate::outbox::{DeadLetter, OutboxEntity};
use crate::store::dead_letters::{Place, Selection};
use crate::transaction::Signalled;

/// How many are retried or removed by one statement.
const BATCH: u64 = 1024;

/// The most ids of a filter.
const MOST_IDS: usize = 10_000;

/// The longest page.
const LONGEST_PAGE: u64 = 10_000;

/// Which dead letters are meant; each part narrows it.
///
/// ```
/// use hare_seaorm::relay::DeadLetterFilter;
///
/// let everything = DeadLetterFilter::all();
/// let mail = DeadLetterFilter::all().topics(["mail.*"]);
/// # let _ = (everything, mail);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct DeadLetterFilter {
    topics: Option<Vec<String>>,
    ids: Option<Vec<Uuid>>,
}

impl DeadLetterFilter {
    /// Every dead letter of the relay's topics.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only those of these topics, in the patterns of [`OutboxRelay::topics`]; at least one.
    pub fn topics<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        self.topics = Some(patterns.into_iter().map(Into::into).collect());
        self
    }

    /// Only those with these event ids, at most 10,000. No ids are no dead letters.
    pub fn ids(mut self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        self.ids = Some(ids.into_iter().collect());
        self
    }

    fn problems(&self) -> Vec<String> {
        let topics = self
            .topics
            .as_deref()
            .and_then(|given| read_patterns("topics", given).err());
        let ids = self.ids.as_ref().map_or(0, Vec::len);
        let too_many =
            (ids > MOST_IDS).then(|| format!("`ids` holds {ids} ids: at most {MOST_IDS} are allowed"));
        topics.into_iter().flatten().chain(too_many).collect()
    }
}

/// The dead letters of a relay: of its outbox, and of its topics only. From [`OutboxRelay::dead_letters`].
///
/// ```no_run
/// # use hare_seaorm::{MemoryDelivery, OutboxRelay};
/// # use hare_seaorm::relay::DeadLetterFilter;
/// # async fn look(db: sea_orm::DatabaseConnection) -> Result<(), hare_seaorm::Error> {
/// # let delivery = MemoryDelivery::new();
/// let relay = OutboxRelay::new(db, delivery);
/// let dead = relay.dead_letters();
/// for letter in dead.list(&DeadLetterFilter::all(), 100, None).await? {
///     println!("{} {} {:?}", letter.id, letter.topic, letter.last_error);
/// }
/// let retried = dead.retry(&DeadLetterFilter::all().topics(["mail.*"])).await?;
/// # let _ = retried;
/// # Ok(())
/// # }
/// ```
pub struct DeadLetters<'r, E: OutboxEntity> {
    relay: &'r OutboxRelay<E>,
}

impl<E: OutboxEntity> std::fmt::Debug for DeadLetters<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadLetters").field("relay", self.relay).finish()
    }
}

impl<E: OutboxEntity> OutboxRelay<E> {
    /// The dead letters of this relay's topics: to look at, to try again, to remove. The relay need not run.
    pub fn dead_letters(&self) -> DeadLetters<'_, E> {
        DeadLetters { relay: self }
    }
}

impl<E: OutboxEntity> DeadLetters<'_, E> {
    /// The first `limit` (1 to 10,000) dead letters in the order of their sequence, without their bodies. `after` is the sequence
    /// of the last one of the page before.
    ///
    /// # Errors
    /// [`Error::Config`] for bad options, a bad filter or a limit out of its range. [`Error::Database`].
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn list(
        &self,
        filter: &DeadLetterFilter,
        limit: u64,
        after: Option<i64>,
    ) -> Result<Vec<DeadLetter>, Error> {
        let mut problems = filter.problems();
        problems.extend(check("limit", &limit, 1..=LONGEST_PAGE));
        let selection = self.selection(filter, problems)?;
        let after = after.unwrap_or(i64::MIN);
        self.store().list_dead_letters(selection, after, limit).await
    }

    /// One dead letter, whole; `None` if there is none with this id among the relay's topics.
    ///
    /// # Errors
    /// [`Error::Config`] for bad options. [`Error::Database`], also if the row cannot be read as an event.
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn show(&self, id: Uuid) -> Result<Option<E::Model>, Error> {
        let selection = self.selection(&DeadLetterFilter::all().ids([id]), Vec::new())?;
        self.store().find_dead_letter(selection).await
    }

    /// Makes dead letters pending again, with all their attempts before them and due at once, and answers how many. The error
    /// of the last failure stays in the row. Relays are woken, this one and those that the outbox's wakeup reaches.
    ///
    /// The order of its key stands: what waited behind a dead letter is delivered after it. **Not** where the
    /// [policy](super::DeadLetterPolicy) let the key go on without it: such an event arrives after ones that were written later,
    /// perhaps while one of them is being delivered, and from now on holds back its key again.
    ///
    /// # Errors
    /// [`Error::Config`] for bad options or a bad filter. [`Error::Database`] or [`Error::Retryable`] with a part of them retried:
    /// calling again goes on with the rest.
    /// # Cancel safety
    /// Dropped half-way, a part of them is retried, and relays find it at their next poll.
    pub async fn retry(&self, filter: &DeadLetterFilter) -> Result<u64, Error> {
        let selection = self.selection(filter, filter.problems())?;
        let wakeup = self.relay.checked()?;
        let store = self.store();
        let mut topics = Signalled::default();
        let mut batches = Batches::new(&store, selection);
        let mut retried = 0;
        let ended = loop {
            let places = match batches.next().await {
                Ok(places) if places.is_empty() => break Ok(retried),
                Ok(places) => places,
                Err(error) => break Err(error),
            };
            match store.retry_dead_letters(sequences(&places)).await {
                Ok(done) => retried += done,
                Err(error) => break Err(error),
            }
            let own = &self.relay.own_wakeup;
            for wakeup in [own].into_iter().chain(&wakeup) {
                topics.add(wakeup, places.iter().map(|place| place.topic.clone()));
            }
        };
        topics.send().await;
        ended
    }

    /// Deletes dead letters for good, and answers how many. What waited behind them is delivered.
    ///
    /// # Errors
    /// [`Error::Config`] for bad options or a bad filter. [`Error::Database`] or [`Error::Retryable`] with a part of them removed:
    /// calling again goes on with the rest.
    /// # Cancel safety
    /// Dropped half-way, a part of them is removed.
    pub async fn remove(&self, filter: &DeadLetterFilter) -> Result<u64, Error> {
        let selection = self.selection(filter, filter.problems())?;
        let store = self.store();
        let mut batches = Batches::new(&store, selection);
        let mut removed = 0;
        loop {
            let places = batches.next().await?;
            if places.is_empty() {
                return Ok(removed);
            }
            removed += store.remove_dead_letters(sequences(&places)).await?;
        }
    }

    fn store(&self) -> Store<E> {
        self.relay.store()
    }

    /// What the filter names among the relay's own topics.
    fn selection(&self, filter: &DeadLetterFilter, more: Vec<String>) -> Result<Selection, ConfigError> {
        let mut problems = self.relay.options.problems();
        problems.extend(more);
        ConfigError::all(problems).map_or(Ok(()), Err)?;
        let topics = filter
            .topics
            .as_deref()
            .and_then(|given| read_patterns("topics", given).ok());
        Ok(Selection {
            topics: vec![
                self.relay.options.topics.filter(),
                TopicFilter {
                    included: topics,
                    excluded: Vec::new(),
                },
            ],
            ids: filter.ids.clone(),
        })
    }
}

fn sequences(places: &[Place]) -> Vec<i64> {
    places.iter().map(|place| place.sequence).collect()
}

/// What is selected, batch by batch in order; each dead letter is met once, so that one which fails again meanwhile does not keep
/// this going. No async closure over it: the future of one is not known to be `Send`.
struct Batches<'s, E: OutboxEntity> {
    store: &'s Store<E>,
    selection: Selection,
    /// The sequence to go on after; `None` after the last batch.
    after: Option<i64>,
}

impl<'s, E: OutboxEntity> Batches<'s, E> {
    fn new(store: &'s Store<E>, selection: Selection) -> Self {
        Self {
            store,
            selection,
            after: Some(i64::MIN),
        }
    }

    /// The next batch, empty after the last.
    async fn next(&mut self) -> Result<Vec<Place>, Error> {
        let Some(after) = self.after else {
            return Ok(Vec::new());
        };
        let selection = self.selection.clone();
        let places = self.store.dead_letter_places(selection, after, BATCH).await?;
        let is_last = (places.len() as u64) < BATCH;
        self.after = places.last().filter(|_| !is_last).map(|place| place.sequence);
        Ok(places)
    }
}
