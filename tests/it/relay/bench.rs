//! What the relay's tests stand on: events, rows, deliveries that do as they are told, and probes to wait on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hare_seaorm::delivery::{BatchLimits, DeliveryError, OutboxDelivery, Receipt};
use hare_seaorm::outbox::{self, Model};
use hare_seaorm::testing::TestClock;
use hare_seaorm::{OutboxMessage, OutboxRelay};
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{Backend, TestDb};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use tokio::sync::{mpsc, oneshot};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// A relay with exact waits that is woken by nothing.
pub(super) fn relay(db: &DatabaseConnection, delivery: impl OutboxDelivery<Model>) -> OutboxRelay {
    OutboxRelay::new(db.clone(), delivery)
        .without_wakeup()
        .retry_spread(0.0)
        .poll_interval(24 * 60 * MINUTE)
}

/// A relay whose time the test moves.
pub(super) fn relay_with_clock(
    db: &DatabaseConnection,
    delivery: impl OutboxDelivery<Model>,
) -> (OutboxRelay, TestClock) {
    let clock = TestClock::new();
    (relay(db, delivery).clock(clock.clone()), clock)
}

/// Writes an event that signals nobody, and answers its sequence.
pub(super) async fn write(t: &TestDb, topic: &str, key: Option<&str>) -> i64 {
    let mut message = OutboxMessage::new(topic, &"body")
        .unwrap()
        .wakeup(Arc::new(RecordingWakeup::default()));
    if let Some(key) = key {
        message = message.ordering_key(key);
    }
    outbox::enqueue(&t.db, message).await.unwrap().event.sequence
}

/// Writes an event for each key, in order; `""` is no key.
pub(super) async fn write_keys<const N: usize>(t: &TestDb, keys: [&str; N]) -> [i64; N] {
    let mut sequences = [0; N];
    for (sequence, key) in sequences.iter_mut().zip(keys) {
        *sequence = write(t, "shop.order", (!key.is_empty()).then_some(key)).await;
    }
    sequences
}

/// The database's now, so many seconds later.
pub(super) fn at(t: &TestDb, seconds: f64) -> String {
    match t.backend {
        Backend::Postgres => format!("(now() + {seconds} * interval '1 second')"),
        Backend::MariaDb => format!(
            "(UTC_TIMESTAMP(6) + INTERVAL {} MICROSECOND)",
            (seconds * 1e6).round()
        ),
        Backend::Sqlite => format!("strftime('%Y-%m-%d %H:%M:%f000+00:00', 'now', '{seconds:+} seconds')"),
    }
}

/// Changes a row by hand.
pub(super) async fn set(t: &TestDb, sequence: i64, assignments: &str) {
    t.execute(&format!(
        "UPDATE hare_outbox SET {assignments} WHERE sequence = {sequence}"
    ))
    .await;
}

pub(super) async fn row(t: &TestDb, sequence: i64) -> Model {
    let rows = t.outbox().await;
    rows.into_iter()
        .find(|row| row.sequence == sequence)
        .expect("the row is there")
}

/// A token that no relay has, as the backend writes it.
pub(super) fn foreign_token(t: &TestDb) -> &'static str {
    match t.backend {
        Backend::Postgres => "'018f0000-0000-7000-8000-000000000001'",
        Backend::MariaDb | Backend::Sqlite => "x'018f0000000070008000000000000001'",
    }
}

pub(super) fn sequences(events: &[Model]) -> Vec<i64> {
    events.iter().map(|event| event.sequence).collect()
}

/// A send that waits for the test to answer it.
#[derive(Debug)]
pub(super) struct Send {
    pub(super) event: Model,
    pub(super) answer: oneshot::Sender<Result<(), DeliveryError>>,
}

/// Hands each send to the test, which answers.
#[derive(Debug)]
pub(super) struct Asking {
    sends: mpsc::UnboundedSender<Send>,
    pub(super) closed: Arc<tokio::sync::Semaphore>,
}

/// The test's end of [`Asking`].
#[derive(Debug)]
pub(super) struct Sends {
    sends: mpsc::UnboundedReceiver<Send>,
    /// Has one permit more each time the delivery was closed.
    pub(super) closed: Arc<tokio::sync::Semaphore>,
}

pub(super) fn asking() -> (Asking, Sends) {
    let (sender, sends) = mpsc::unbounded_channel();
    let closed = Arc::new(tokio::sync::Semaphore::new(0));
    (
        Asking {
            sends: sender,
            closed: Arc::clone(&closed),
        },
        Sends { sends, closed },
    )
}

impl Sends {
    pub(super) async fn next(&mut self) -> Send {
        within(self.sends.recv()).await.expect("the delivery is there")
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.sends.is_empty()
    }
}

#[async_trait::async_trait]
impl OutboxDelivery for Asking {
    async fn deliver(&self, event: &Model) -> Result<Receipt, DeliveryError> {
        let (answer, answered) = oneshot::channel();
        self.sends
            .send(Send {
                event: event.clone(),
                answer,
            })
            .expect("the test is there");
        match answered.await {
            Ok(answer) => answer.map(|()| Receipt::default()),
            // The test is not interested.
            Err(_) => std::future::pending().await,
        }
    }

    async fn close(&self) -> Result<(), DeliveryError> {
        self.closed.add_permits(1);
        Ok(())
    }
}

type Answers = Vec<Result<Receipt, DeliveryError>>;
type Answering = Box<dyn Fn(&[Model]) -> Answers + std::marker::Send + Sync>;

/// Notes each batch and answers as it is told.
pub(super) struct Batches {
    pub(super) seen: Arc<Mutex<Vec<Vec<i64>>>>,
    pub(super) answer: Answering,
    pub(super) keeps_order: bool,
}

impl Batches {
    pub(super) fn new(answer: impl Fn(&[Model]) -> Answers + std::marker::Send + Sync + 'static) -> Self {
        Self {
            seen: Arc::default(),
            answer: Box::new(answer),
            keeps_order: false,
        }
    }

    pub(super) fn accepting() -> Self {
        Self::new(|events| events.iter().map(|_| Ok(Receipt::default())).collect())
    }

    /// Refuses the events of these sequences.
    pub(super) fn refusing(refused: &[i64]) -> Self {
        let refused = refused.to_vec();
        Self::new(move |events| {
            let answer = |event: &Model| match refused.contains(&event.sequence) {
                true => Err(DeliveryError::failed("refused")),
                false => Ok(Receipt::default()),
            };
            events.iter().map(answer).collect()
        })
    }
}

#[async_trait::async_trait]
impl OutboxDelivery for Batches {
    async fn deliver(&self, _: &Model) -> Result<Receipt, DeliveryError> {
        unreachable!("batches only")
    }

    async fn deliver_batch(&self, events: &[Model], _: BatchLimits) -> Answers {
        self.seen.lock().unwrap().push(sequences(events));
        (self.answer)(events)
    }

    fn keeps_key_order(&self) -> bool {
        self.keeps_order
    }
}

/// The statements of a pool, as they end.
#[derive(Debug)]
pub(super) struct Seen(mpsc::UnboundedReceiver<String>);

impl Seen {
    pub(super) fn watch(db: &mut DatabaseConnection) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        db.set_metric_callback(move |info| drop(sender.send(info.statement.sql.clone())));
        Self(receiver)
    }

    /// Waits for the next statement that contains `part`.
    pub(super) async fn wait_for(&mut self, part: &str) {
        while !within(self.0.recv())
            .await
            .expect("the pool is there")
            .contains(part)
        {}
    }

    /// The statements that have ended since they were last looked at.
    pub(super) fn drain(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// Does something in another session once a statement of `db` that contains `after` has ended, before `db` goes on.
pub(super) fn meddle(db: &mut DatabaseConnection, t: &Arc<TestDb>, after: &'static str, sql: String) {
    let (t, sql) = (Arc::clone(t), Mutex::new(Some(sql)));
    db.set_metric_callback(move |info| {
        if !info.statement.sql.contains(after) {
            return;
        }
        let Some(sql) = sql.lock().unwrap().take() else {
            return;
        };
        let t = Arc::clone(&t);
        let other_session = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async { t.another_pool(1).await.execute_unprepared(&sql).await.unwrap() });
        });
        other_session.join().unwrap();
    });
}

/// How many sessions of this database stand inside a transaction.
pub(super) async fn open_transactions(t: &TestDb) -> i64 {
    let sql = match t.backend {
        Backend::Postgres => {
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        }
        Backend::MariaDb => {
            "SELECT COUNT(*) FROM information_schema.innodb_trx AS x
             JOIN information_schema.processlist AS p ON p.id = x.trx_mysql_thread_id WHERE p.db = DATABASE()"
        }
        Backend::Sqlite => {
            // A writer would hold the lock.
            t.execute("UPDATE hare_outbox SET claims = claims").await;
            return 0;
        }
    };
    t.rows(sql).await[0].try_get_by_index(0).unwrap()
}

/// Fails a test that would wait for ever.
pub(super) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("what the test waits for happens")
}
