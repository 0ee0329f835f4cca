//! A gate between a client and its server: answers pass only while it is open.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

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
