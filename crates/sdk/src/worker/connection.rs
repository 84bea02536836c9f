//! The stream to the server: sends the hello and results, receives work, and reconnects after a failure.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flovyn_proto::v1;
use flovyn_proto::v1::worker_stream_client::WorkerStreamClient;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use uuid::Uuid;

use super::cache::Cache;
use super::desk::Desk;
use super::registry::{RegisteredTask, WorkflowKind};
use super::{Setup, WorkerEvent, activation, attempt, rows};
use crate::backoff::{Backoff, Warned, random};
use crate::reason::reason;
use crate::wire::json_bytes;

/// Maximum number of outbound frames that wait for the connection.
const OUTBOUND_FRAMES: usize = 16;
/// How long to wait for the server after a goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// Runs until the worker has stopped.
pub(super) async fn run(setup: Arc<Setup>, cache: Arc<Cache>, desk: Arc<Desk>) {
    let (mut backoff, mut warned) = (Backoff::default(), Warned::default());
    let mut away = false;
    while !desk.is_stopping() {
        let reason = match connect(&setup, &desk).await {
            Ok((outbound, inbound, lease)) => {
                setup.metrics.connections.fetch_add(1, Ordering::Relaxed);
                setup.tell(&WorkerEvent::Connected);
                if std::mem::take(&mut away) {
                    tracing::info!("reconnected to the server");
                }
                let since = Instant::now();
                let (reason, heard) = serve(&setup, &cache, &desk, outbound, inbound, lease).await;
                if heard || Backoff::is_steady(since.elapsed()) {
                    // The previous failure is over, so a new one is logged again.
                    backoff.reset();
                    warned.clear();
                }
                reason
            }
            Err(reason) => {
                away = true;
                Some(reason)
            }
        };
        if let Some(reason) = reason {
            if warned.is_new(&reason) {
                tracing::warn!(%reason, "cannot connect to the server; retrying");
            }
            setup.tell(&WorkerEvent::Disconnected(reason));
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.pause(random())) => {}
            () = desk.stopped() => {}
        }
    }
}

type Connected = (mpsc::Sender<v1::WorkerFrame>, Streaming<v1::ServerFrame>, Duration);

async fn connect(setup: &Setup, desk: &Desk) -> Result<Connected, String> {
    let (outbound, frames) = mpsc::channel(OUTBOUND_FRAMES);
    let first = desk.hello(hello(setup));
    outbound.send(first).await.map_err(|error| error.to_string())?;
    let mut client = WorkerStreamClient::new(setup.channel.transport());
    let stream = client.connect(setup.channel.signed(ReceiverStream::new(frames))).await;
    let mut inbound = stream.map_err(|status| reason(&status))?.into_inner();
    let welcome = inbound.message().await.map_err(|status| reason(&status))?;
    let welcome = welcome.and_then(|frame| frame.welcome).ok_or("the server sent no welcome frame")?;
    setup.limits.set(welcome.limits);
    let lease = Duration::from_millis(welcome.lease_ms.max(1).unsigned_abs());
    Ok((outbound, inbound, lease))
}

fn hello(setup: &Setup) -> v1::StreamHello {
    let bytes = |schema: Option<&serde_json::Value>| schema.map(json_bytes).unwrap_or_default();
    let workflow = |(kind, registered): (&String, &WorkflowKind)| v1::StreamWorkflowKind {
        kind: kind.clone(),
        versions: registered.versions(),
        input_schema: bytes(registered.schemas().and_then(|schemas| schemas.input.as_ref())),
        output_schema: bytes(registered.schemas().and_then(|schemas| schemas.output.as_ref())),
    };
    let task = |(task_type, registered): (&String, &RegisteredTask)| v1::StreamTaskType {
        task_type: task_type.clone(),
        timeout_ms: None,
        input_schema: bytes(registered.schemas.input.as_ref()),
        output_schema: bytes(registered.schemas.output.as_ref()),
    };
    v1::StreamHello {
        session_id: setup.session.to_string(),
        worker_name: setup.name.clone(),
        queue: setup.queue.clone(),
        build_id: setup.build_id.clone(),
        host_name: std::env::var("HOSTNAME").unwrap_or_default(),
        process_id: std::process::id().to_string(),
        workflows: setup.registry.workflows.iter().map(workflow).collect(),
        tasks: setup.registry.tasks.iter().map(task).collect(),
        held: Vec::new(),
        provisional: true,
    }
}

/// Serves one connection. Returns why it ended (`None`: the worker has stopped), and whether the server sent
/// anything.
async fn serve(
    setup: &Arc<Setup>,
    cache: &Arc<Cache>,
    desk: &Arc<Desk>,
    outbound: mpsc::Sender<v1::WorkerFrame>,
    mut inbound: Streaming<v1::ServerFrame>,
    lease: Duration,
) -> (Option<String>, bool) {
    let mut heard = false;
    // A `JoinSet` aborts the sender when this function ends in any way. Otherwise the heartbeats of an aborted worker
    // would keep its claims alive.
    let mut sender = JoinSet::new();
    sender.spawn(send(desk.clone(), outbound.clone(), lease / 3));
    let drained = drained(setup, desk);
    tokio::pin!(drained);
    loop {
        tokio::select! {
            frame = inbound.message() => match frame {
                Ok(Some(frame)) => {
                    heard = true;
                    take_in(setup, cache, desk, frame);
                }
                Ok(None) => break (Some("the server closed the stream".to_owned()), heard),
                Err(status) => break (Some(reason(&status)), heard),
            },
            () = &mut drained => {
                let goodbye = v1::WorkerFrame { goodbye: true, ..v1::WorkerFrame::default() };
                // A failure is ignored: the server may be gone.
                let _ = outbound.send(goodbye).await;
                let ends = async { while let Ok(Some(_)) = inbound.message().await {} };
                let _ = tokio::time::timeout(GOODBYE, ends).await;
                break (None, heard);
            }
        }
    }
}

/// Completes when the worker was asked to stop and all work has finished or the drain time is over.
async fn drained(setup: &Setup, desk: &Desk) {
    desk.stopped().await;
    if tokio::time::timeout(setup.drain, desk.idle_after_stop()).await.is_err() {
        tracing::warn!("the worker stops with work in flight; the server will reassign it");
    }
}

/// Sends frames and regular heartbeats. This is separate from reading, so that neither side waits for the other to
/// read first.
async fn send(desk: Arc<Desk>, outbound: mpsc::Sender<v1::WorkerFrame>, every: Duration) {
    let mut beat = tokio::time::interval(every);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            frame = desk.next_frame() => frame,
            _ = beat.tick() => {
                desk.heartbeat_session();
                continue;
            }
        };
        if outbound.send(frame).await.is_err() {
            return;
        }
    }
}

fn take_in(setup: &Arc<Setup>, cache: &Arc<Cache>, desk: &Arc<Desk>, frame: v1::ServerFrame) {
    for ack in frame.acks {
        desk.acknowledge(ack);
    }
    for refused in frame.refused_heartbeats {
        let (code, message) = (refused.code, refused.message);
        tracing::warn!(task = refused.task_execution_id, code, message, "the server refused a heartbeat");
        let task_id = Uuid::try_parse(&refused.task_execution_id).unwrap_or_default();
        setup.tell(&WorkerEvent::HeartbeatRefused { task_id, code, message });
    }
    let mut work: Vec<BoxFuture<'static, ()>> = Vec::new();
    for item in frame.activations {
        if desk.take_activation(&item.id, item.claim_token) {
            work.push(Box::pin(activation::run(setup.clone(), cache.clone(), desk.clone(), item)));
        } else {
            dropped(setup, &item.id, item.claim_token);
        }
    }
    for task in frame.tasks {
        match desk.take_task(&task.task_execution_id, task.claim_token) {
            Some(cancelled) => {
                work.push(Box::pin(attempt::run(
                    setup.clone(),
                    cache.clone(),
                    desk.clone(),
                    task,
                    cancelled,
                )));
            }
            None => dropped(setup, &task.task_execution_id, task.claim_token),
        }
    }
    rows::start(work);
    // After the work, because a cancel may concern work in the same frame.
    for cancel in frame.cancels {
        desk.cancel(&cancel.task_execution_id, cancel.claim_token);
    }
}

/// Drops a second delivery of a claim that is already running: it runs once and is answered once.
fn dropped(setup: &Setup, id: &str, token: i64) {
    setup.metrics.duplicates_dropped.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(id, token, "the server delivered a claim twice; the duplicate was dropped");
}
