//! A server that temporarily refuses results, or is unavailable: the requests and logs of a worker.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use flovyn_proto::v1;
use flovyn_proto::v1::worker_stream_server::{WorkerStream, WorkerStreamServer};
use flovyn_sdk::Worker;
use flovyn_sdk::worker::WorkerEvent;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use tracing_subscriber::fmt::MakeWriter;

/// How often the server refuses before it accepts.
const REFUSALS: usize = 4;

/// Hands out one task and temporarily refuses its result a few times.
#[derive(Clone, Default)]
struct Reluctant {
    results: Arc<AtomicUsize>,
    accepted: Arc<Notify>,
}

#[tonic::async_trait]
impl WorkerStream for Reluctant {
    type ConnectStream = ReceiverStream<Result<v1::ServerFrame, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::WorkerFrame>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (frames, outbound) = mpsc::channel(16);
        let (mut inbound, own) = (request.into_inner(), self.clone());
        tokio::spawn(async move {
            let welcome = v1::StreamWelcome { lease_ms: 60_000, ..v1::StreamWelcome::default() };
            let task = v1::TaskExecutionInfo {
                task_execution_id: uuid::Uuid::from_u128(1).to_string(),
                kind: "t".into(),
                claim_token: 1,
                ..v1::TaskExecutionInfo::default()
            };
            let first = v1::ServerFrame { welcome: Some(welcome), ..v1::ServerFrame::default() };
            let work = v1::ServerFrame { tasks: vec![task], ..v1::ServerFrame::default() };
            drop(frames.send(Ok(first)).await);
            drop(frames.send(Ok(work)).await);
            while let Ok(Some(frame)) = inbound.message().await {
                let acks = frame.tasks.iter().map(|result| own.answer(result.r#ref)).collect::<Vec<_>>();
                if !acks.is_empty() {
                    drop(frames.send(Ok(v1::ServerFrame { acks, ..v1::ServerFrame::default() })).await);
                }
                if frame.goodbye {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(outbound)))
    }
}

impl Reluctant {
    fn answer(&self, number: u64) -> v1::ResultAck {
        if self.results.fetch_add(1, Ordering::SeqCst) < REFUSALS {
            let (code, message) = ("FLV0070".to_owned(), "the database does not answer".to_owned());
            return v1::ResultAck {
                r#ref: number,
                code,
                message,
                retryable: true,
                ..v1::ResultAck::default()
            };
        }
        self.accepted.notify_one();
        v1::ResultAck { r#ref: number, ..v1::ResultAck::default() }
    }

    async fn serve(&self, address: &str) -> SocketAddr {
        // The system may give this port to an outgoing connection of the worker, so it may be in use for a moment.
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder().add_service(WorkerStreamServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }
}

/// Records the log output.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    /// Records the log of this thread from now on. Each test has a runtime with one thread.
    fn collect() -> (Self, tracing::subscriber::DefaultGuard) {
        let lines = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(lines.clone())
            .with_ansi(false)
            .with_env_filter("flovyn_sdk=info");
        (lines, tracing::subscriber::set_default(subscriber.finish()))
    }

    fn with(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_result_that_is_refused_for_the_moment_gets_through_with_one_warning() {
    let (lines, _guard) = Lines::collect();
    let server = Reluctant::default();
    let url = format!("http://{}", server.serve("127.0.0.1:0").await);
    let task = |_, _| async { Ok(json!("done")) };
    let (told, acknowledged) = std::sync::mpsc::channel();
    let builder = Worker::builder(url, "token").task_fn("t", task);
    let builder = builder.on_task_acknowledged(move |_, token| told.send(token).unwrap());
    let worker = builder.build().unwrap().start();
    server.accepted.notified().await;
    let metrics = async {
        while worker.metrics().tasks_acknowledged() == 0 {
            tokio::task::yield_now().await
        }
    };
    metrics.await;
    assert_eq!(server.results.load(Ordering::SeqCst), REFUSALS + 1);
    assert_eq!(acknowledged.try_iter().collect::<Vec<_>>(), [1], "once, and only when it was accepted");
    worker.stop().await;
    assert_eq!(lines.with("FLV0070").len(), 1, "{lines:?}", lines = lines.with(""));
    assert_eq!(lines.with("accepts results again").len(), 1, "{lines:?}", lines = lines.with(""));
}

#[tokio::test]
async fn a_server_that_is_away_is_one_warning_however_often_it_is_tried() {
    let (lines, _guard) = Lines::collect();
    // A port without a listener.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (told, mut tells) = mpsc::unbounded_channel();
    let builder =
        Worker::builder(format!("http://{address}"), "token").task_fn("t", |_, input| async { Ok(input) });
    let worker = builder.on_event(move |event| drop(told.send(event.clone()))).build().unwrap().start();
    for _ in 0..4 {
        let event = tells.recv().await;
        assert!(
            matches!(&event, Some(WorkerEvent::Disconnected(why)) if why.contains("refused")),
            "{event:?}"
        );
    }
    assert_eq!(lines.with("WARN").len(), 1, "{:?}", lines.with(""));
    assert!(lines.with("WARN")[0].contains("Connection refused"), "{:?}", lines.with(""));
    Reluctant::default().serve(&address.to_string()).await;
    while !matches!(tells.recv().await, Some(WorkerEvent::Connected)) {}
    assert_eq!(lines.with("reconnected to the server").len(), 1, "{:?}", lines.with(""));
    worker.stop().await;
}
