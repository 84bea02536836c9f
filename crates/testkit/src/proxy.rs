//! A TCP proxy in front of PostgreSQL that knows the protocol well enough to lose a COMMIT, or its reply.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::ReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// What happens to the next COMMIT that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitFault {
    /// The server commits. Both connections are cut before the client receives the reply.
    CutReply,
    /// The server commits. The client receives the reply when the fault is released.
    HoldReply,
    /// The client's connection is cut. The server receives the COMMIT when the fault is released.
    HoldCommitAndCut,
}

/// A fault that was ordered from the proxy.
#[derive(Debug)]
pub struct Fault {
    happened: oneshot::Receiver<()>,
    release: Option<oneshot::Sender<()>>,
    finished: oneshot::Receiver<()>,
}

impl Fault {
    /// Waits until a COMMIT (or its reply) has been held or cut.
    ///
    /// # Panics
    /// Panics if the proxy ends before that.
    pub async fn happened(&mut self) {
        (&mut self.happened).await.expect("the proxy saw a COMMIT");
    }

    /// Delivers the held message, and waits until it has been delivered or cannot be.
    pub async fn release(mut self) {
        drop(self.release.take());
        // If the connection was cut, nothing has to finish.
        let _ = self.finished.await;
    }
}

/// The proxy's side of a fault.
#[derive(Debug)]
struct Ordered {
    fault: CommitFault,
    happened: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
    finished: oneshot::Sender<()>,
}

#[derive(Debug)]
pub struct Proxy {
    /// The URL that connects through the proxy.
    pub url: String,
    ordered: Arc<Mutex<Option<Ordered>>>,
    listening: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to the server and database of a URL.
    ///
    /// # Panics
    /// Panics if the URL names no TCP address, or if no port is free.
    pub async fn start(url: &str) -> Self {
        let config: Config = url.parse().expect("the URL is valid");
        let Some(Host::Tcp(host)) = config.get_hosts().first() else { panic!("{url} names no host") };
        let server = (host.clone(), config.get_ports().first().copied().unwrap_or(5432));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let (user, database) =
            (config.get_user().unwrap_or("postgres"), config.get_dbname().unwrap_or("postgres"));
        let url = format!("postgres://{user}@127.0.0.1:{port}/{database}");
        let ordered: Arc<Mutex<Option<Ordered>>> = Arc::default();
        let listening = tokio::spawn(listen(listener, server, Arc::clone(&ordered)));
        Self { url, ordered, listening }
    }

    /// Orders a fault for the next COMMIT.
    pub fn at_next_commit(&self, fault: CommitFault) -> Fault {
        let (happened_sender, happened) = oneshot::channel();
        let (release, released) = oneshot::channel();
        let (finished_sender, finished) = oneshot::channel();
        let ordered = Ordered { fault, happened: happened_sender, released, finished: finished_sender };
        *self.ordered.lock().unwrap_or_else(PoisonError::into_inner) = Some(ordered);
        Fault { happened, release: Some(release), finished }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, server: (String, u16), ordered: Arc<Mutex<Option<Ordered>>>) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, ordered) = (server.clone(), Arc::clone(&ordered));
        tokio::spawn(async move {
            // A proxy must tolerate that either side closes the connection.
            let _ = serve(client, server, &ordered).await;
        });
    }
}

/// Why a connection is no longer passed on.
enum End {
    Closed,
    /// The client must be cut. The server receives this message later.
    Held(Vec<u8>, Ordered),
}

async fn serve(
    mut client: TcpStream,
    server: (String, u16),
    ordered: &Mutex<Option<Ordered>>,
) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    if let End::Held(commit, fault) = pass(&mut client, &mut server, ordered).await? {
        drop(client);
        let _ = fault.happened.send(());
        let _ = fault.released.await;
        // The server may have closed the connection. That is the situation under test.
        let _ = server.write_all(&commit).await;
        // No further request follows: a server that is still connected answers and then closes.
        let _ = server.shutdown().await;
        let _ = server.read_to_end(&mut Vec::new()).await;
        let _ = fault.finished.send(());
    }
    Ok(())
}

/// Passes messages both ways until one side closes or a fault ends it.
async fn pass(
    client: &mut TcpStream,
    server: &mut TcpStream,
    ordered: &Mutex<Option<Ordered>>,
) -> io::Result<End> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    // A fault that waits for the reply to a COMMIT that was passed on.
    let awaited: Mutex<Option<Ordered>> = Mutex::default();
    let requests = async {
        // The first message of the protocol has no type byte.
        let startup = read_message(&mut from_client, 0).await?;
        to_server.write_all(&startup).await?;
        loop {
            let message = read_message(&mut from_client, 1).await?;
            if message.starts_with(b"Q") && message.ends_with(b"COMMIT\0") {
                let fault = ordered.lock().unwrap_or_else(PoisonError::into_inner).take();
                match fault {
                    Some(fault) if fault.fault == CommitFault::HoldCommitAndCut => {
                        return Ok(End::Held(message, fault));
                    }
                    fault => *awaited.lock().unwrap_or_else(PoisonError::into_inner) = fault,
                }
            }
            to_server.write_all(&message).await?;
        }
    };
    let replies = async {
        loop {
            let message = read_message(&mut from_server, 1).await?;
            let is_reply = message.starts_with(b"C") && message.ends_with(b"COMMIT\0");
            let fault = awaited.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| is_reply);
            let Some(fault) = fault else {
                to_client.write_all(&message).await?;
                continue;
            };
            let _ = fault.happened.send(());
            if fault.fault == CommitFault::CutReply {
                return Ok(End::Closed);
            }
            let _ = fault.released.await;
            to_client.write_all(&message).await?;
            let _ = fault.finished.send(());
        }
    };
    tokio::select! {
        end = requests => end,
        end = replies => end,
    }
}

/// Reads a message with its header: `type_bytes` bytes of type, then four bytes of length. The length counts
/// itself.
async fn read_message(from: &mut ReadHalf<'_>, type_bytes: usize) -> io::Result<Vec<u8>> {
    let mut message = vec![0; type_bytes + 4];
    from.read_exact(&mut message).await?;
    let mut length = [0; 4];
    length.copy_from_slice(&message[type_bytes..]);
    let end = type_bytes + u32::from_be_bytes(length) as usize;
    let head = message.len();
    message.resize(end.max(head), 0);
    from.read_exact(&mut message[head..]).await?;
    Ok(message)
}
