//! Relay processes that are killed.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hare_seaorm::outbox::Model;
use hare_seaorm::{CallableDelivery, OutboxRelay};
use hare_seaorm_tests::{Backend, TestDb, on_backends};
use sea_orm::{ConnectOptions, Database};

const EVENTS: usize = 10_000;
const KEYS: usize = 100;
const KILLS: usize = 5;
const URL: &str = "HARE_TEST_RELAY_URL";
const LOG: &str = "HARE_TEST_RELAY_LOG";

/// The other process: relays until its input ends, and appends each delivery to a file.
#[test]
#[ignore = "run by the tests below, in processes of their own"]
fn relay_process() {
    let (Ok(url), Ok(log)) = (std::env::var(URL), std::env::var(LOG)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut options = ConnectOptions::new(url);
        options.max_connections(4).sqlx_logging(false);
        let db = Database::connect(options).await.unwrap();
        let log = Arc::new(OpenOptions::new().append(true).open(log).unwrap());
        let delivery = CallableDelivery::new(move |event: Model| {
            let log = Arc::clone(&log);
            async move {
                // A receiver takes its time, before and after it has the event: most kills come in the midst of it.
                tokio::time::sleep(Duration::from_millis(1)).await;
                // One write of one line: appended whole, in the order of the writes, whichever process it is from.
                let line = format!("{} {}\n", event.sequence, event.ordering_key.unwrap());
                (&*log).write_all(line.as_bytes())?;
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok::<_, std::io::Error>(())
            }
        });
        let relay = OutboxRelay::new(db, delivery)
            .lease(Duration::from_secs(1))
            .delivery_timeout(Duration::from_millis(500))
            .poll_interval(Duration::from_millis(50));
        let input_ends = async {
            drop(tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await);
        };
        relay.run_until(input_ends).await.unwrap();
    });
    std::process::exit(0);
}

fn start(t: &TestDb, log: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "relay::crash::relay_process",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(URL, &t.url)
        .env(LOG, log)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

async fn write_events(t: &TestDb) {
    let (series, number, id) = match t.backend {
        Backend::Postgres => (
            format!("generate_series(0, {}) AS n", EVENTS - 1),
            "n",
            "gen_random_uuid()",
        ),
        _ => (
            format!("seq_0_to_{}", EVENTS - 1),
            "seq",
            "UNHEX(REPLACE(UUID(), '-', ''))",
        ),
    };
    t.execute(&format!(
        "INSERT INTO hare_outbox (id, topic, payload, headers, ordering_key)
         SELECT {id}, 'shop.order', '{{}}', '{{}}', CONCAT('key-', {number} % {KEYS}) FROM {series} ORDER BY {number}"
    ))
    .await;
}

/// What was delivered so far: sequence and key, in the order of the deliveries.
fn deliveries(log: &mut File, text: &mut String) -> usize {
    log.read_to_string(text).unwrap();
    text.lines().count()
}

on_backends! { [postgres, mariadb]
    // catalogue Q3, J19
    async fn nothing_is_lost_or_out_of_order_when_a_relay_is_killed_again_and_again(t: TestDb) {
        write_events(&t).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deliveries");
        let mut log = OpenOptions::new().create(true).append(true).read(true).open(&path).unwrap();
        let mut text = String::new();

        let mut victim = start(&t, &path);
        let mut survivor = start(&t, &path);
        let begun = Instant::now();
        let mut kills = 0;
        while deliveries(&mut log, &mut text) < EVENTS || t.rows(UNPUBLISHED).await[0].try_get_by_index::<i64>(0).unwrap() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(120), "{} deliveries, {kills} kills", text.lines().count());
            if kills < KILLS && text.lines().count() > (kills + 1) * EVENTS / (KILLS + 2) {
                victim.kill().unwrap();
                victim.wait().unwrap();
                victim = start(&t, &path);
                kills += 1;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for process in [&mut victim, &mut survivor] {
            drop(process.stdin.take());
            assert!(process.wait().unwrap().success());
        }
        deliveries(&mut log, &mut text);
        assert_eq!(kills, KILLS);

        let expected: HashMap<i64, String> =
            t.outbox().await.into_iter().map(|row| (row.sequence, row.ordering_key.unwrap())).collect();
        let mut first_deliveries: HashMap<i64, usize> = HashMap::new();
        let mut last_of_key: HashMap<&str, i64> = HashMap::new();
        for (place, line) in text.lines().enumerate() {
            let (sequence, key) = line.split_once(' ').unwrap();
            let sequence: i64 = sequence.parse().unwrap();
            assert_eq!(expected.get(&sequence).map(String::as_str), Some(key), "invented: {line}");
            if first_deliveries.contains_key(&sequence) {
                continue;
            }
            first_deliveries.insert(sequence, place);
            let last = last_of_key.insert(key, sequence);
            assert!(last.is_none_or(|last| last < sequence), "{key}: {sequence} was delivered after {last:?}");
        }
        assert_eq!(first_deliveries.len(), EVENTS, "every event was delivered");
        let duplicates = text.lines().count() - EVENTS;
        assert!(duplicates <= KILLS * 100, "{duplicates} duplicates: at most what the killed processes held");
        println!("{kills} kills, {duplicates} duplicates, {:?}", begun.elapsed());
    }
}

const UNPUBLISHED: &str = "SELECT COUNT(*) FROM hare_outbox WHERE published_at IS NULL";
