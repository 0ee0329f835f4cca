//! A gate between a client and its server: answers pass only while it is open.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::{Backend, TestDb};

/// Whether answers pass. Open at first.
#[derive(Debug, Clone)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
}

impl Gate {
    /// A server in front of `server`, on a thread of its own, and the gate that its answers pass.
    pub fn before(server: SocketAddr) -> (SocketAddr, Self) {
        let gate = Self::unused();
        let open = gate.open.subscribe();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                sender
                    .send(listener.local_addr().expect("an address"))
                    .expect("someone waits for it");
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(pass(client, server, open.clone()));
                }
            });
        });
        (receiver.recv().expect("the gate stands"), gate)
    }

    /// A gate that nothing passes.
    pub fn unused() -> Self {
        Self {
            open: Arc::new(watch::Sender::new(true)),
        }
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    pub fn close(&self) {
        self.open.send_replace(false);
    }
}

async fn pass(client: TcpStream, server: SocketAddr, mut open: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
    });
    let mut answer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from_server.read(&mut answer).await {
        if open.wait_for(|open| *open).await.is_err() || to_client.write_all(&answer[..length]).await.is_err()
        {
            break;
        }
    }
}

/// Polls `work` and drops it the `polls`-th time that it is pending. `None` if it was dropped.
///
/// No answer of the server passes while it is polled, so each round trip is a point to be dropped at, however fast the server.
pub async fn drop_after<T>(gate: &Gate, polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    let outcome = poll_fn(|context| {
        gate.close();
        let polled = work.as_mut().poll(context);
        gate.open();
        match polled {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => {
                left -= 1;
                Poll::Pending
            }
        }
    });
    outcome.await
}

/// Makes SQLite's writes slow enough to be waited for: its answers do not come over a socket, so they cannot be held back.
pub async fn slow_down(t: &TestDb, writes: &[(&str, &str)]) {
    if t.backend != Backend::Sqlite {
        return;
    }
    for (table, operation) in writes {
        t.execute(&format!(
            "CREATE TRIGGER IF NOT EXISTS slow_{table}_{operation} AFTER {operation} ON {table} BEGIN \
             SELECT COUNT(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT i FROM n); END"
        ))
        .await;
    }
}
