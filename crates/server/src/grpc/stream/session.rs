//! One connection of a worker, from its hello to its end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use flovyn_auth::AuthError;
use flovyn_engine::ids::Text;
use flovyn_engine::request::{Claimer, HeartbeatWorker};
use flovyn_engine::state::{TaskStatus, WorkClass};
use flovyn_engine::{Code, Limits};
use flovyn_proto::v1;
use flovyn_service::TaskCancel;
use futures::StreamExt;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tonic::{Status, Streaming};
use uuid::Uuid;

use super::super::MAX_MESSAGE_BYTES;
use super::super::call::Call;
use super::super::convert::non_empty;
use super::super::status::{not_allowed, refuse};
use super::super::worker_lifecycle;
use super::feed::Feed;
use super::hello::{self, Hello};
use super::pulse::Pulse;
use super::results::{self, Why};
use super::sessions::{Held, Holdings, Sessions};
use super::strays;

/// How long a session keeps its claims after its connection broke.
const GRACE: Duration = Duration::from_secs(10);
/// How long a connection may take to send its hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// How often a stream's credential is checked, in addition to each heartbeat.
const CREDENTIAL_EVERY: Duration = Duration::from_secs(15);
/// Result frames in flight. At the limit, the next frame is read when one is done.
const FRAMES_IN_FLIGHT: usize = 12;
/// The most credit that a session can have open per class.
const MAX_CREDIT: usize = 10_000;

type Outbound = mpsc::Sender<Result<v1::ServerFrame, Status>>;

/// Why a connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The worker said goodbye: its claims are released at once.
    Goodbye,
    /// The connection broke: the worker may reconnect.
    Broken,
    /// The worker has reconnected. The new connection has all claims of this one.
    TakenOver,
    /// The server is stopping. The worker keeps its claims and takes them to another server.
    Draining,
}

#[derive(Clone)]
struct Session {
    call: Call,
    id: Uuid,
    /// The header that authenticated the connection.
    credential: Option<HeaderValue>,
    /// The identity under which the session claims work.
    claimer: Arc<Claimer>,
    /// The worker's build. Empty if it has named none.
    build: Text,
    holdings: Arc<Holdings>,
    connection: u64,
    outbound: Outbound,
    pulse: Arc<Pulse>,
    workflow_credit: Arc<Semaphore>,
    task_credit: Arc<Semaphore>,
}

pub(super) async fn run(
    call: Call,
    credential: Option<HeaderValue>,
    sessions: Arc<Sessions>,
    mut inbound: Streaming<v1::WorkerFrame>,
    outbound: Outbound,
) {
    let tenant_id = call.tenant_id();
    let hello = tokio::select! {
        hello = first(&mut inbound) => hello,
        () = tokio::time::sleep(HELLO_WITHIN) => Err(refuse(Code::NotRegistered, "no hello arrived in time")),
        () = call.api().drains() => Err(refuse(Code::ShuttingDown, "the server is stopping")),
    };
    let begun = match hello {
        Ok((first, hello)) => begin(&call, credential, &sessions, &hello, &outbound)
            .await
            .map(|session| (session, first, hello)),
        Err(status) => Err(status),
    };
    let (session, first, hello) = match begun {
        Ok(begun) => begun,
        Err(status) => {
            // The worker is informed of the reason, if it is still connected.
            let _ = outbound.send(Err(status)).await;
            return;
        }
    };
    let connection = session.connection;
    let cancels = call.api().service().cancels();
    let mut feeds = session.feeds(hello);
    let mut in_flight = JoinSet::new();
    let end = session.serve(first, &mut inbound, cancels, &mut in_flight).await;
    // Stop pushing first: work that is pushed now would have to be released, and its attempt would count.
    feeds.shutdown().await;
    // Results that were read are executed and acknowledged, however the connection ends.
    while in_flight.join_next().await.is_some() {}
    let id = session.id;
    match end {
        End::Draining | End::TakenOver => {}
        End::Goodbye => {
            results::release(&call, sessions.end(tenant_id, id, connection), Why::Goodbye).await;
        }
        End::Broken => {
            // Nothing more is sent, so the response ends now and not after the grace time.
            drop((session, outbound));
            tokio::select! {
                () = tokio::time::sleep(GRACE) => {}
                () = call.api().drains() => return,
            }
            results::release(&call, sessions.end(tenant_id, id, connection), Why::Lost).await;
        }
    }
}

/// Reads the first frame.
async fn first(inbound: &mut Streaming<v1::WorkerFrame>) -> Result<(v1::WorkerFrame, Hello), Status> {
    let missing = || refuse(Code::NotRegistered, "the stream ended before its hello");
    let mut first = inbound.next().await.ok_or_else(missing)??;
    let hello = hello::read(&mut first)?;
    Ok((first, hello))
}

/// Registers the session and sends the welcome.
async fn begin(
    call: &Call,
    credential: Option<HeaderValue>,
    sessions: &Sessions,
    hello: &Hello,
    outbound: &Outbound,
) -> Result<Session, Status> {
    let known = sessions.knows(call.tenant_id(), hello.session);
    let strays = match !known && strays::may_have(call, hello.session).await? {
        true => strays::of(call, hello.session, &hello.held).await?,
        false => Vec::new(),
    };
    worker_lifecycle::run(call, hello.register.clone()).await?;
    let (kept, lost) = adopt(call, hello).await?;
    // Nothing fails from here on: a session that has begun always ends in an orderly way.
    let (holdings, connection, forgotten) = sessions.begin(call.tenant_id(), hello.session, &hello.held);
    // If there is an even newer connection, it has adopted the claims.
    let _ = holdings.add(connection, &kept);
    // Claims that the worker does not name were never delivered, or were lost with the connection.
    results::release(call, forgotten.into_iter().chain(strays).collect(), Why::Lost).await;
    let limits = call.api().service().limits();
    let welcome = v1::StreamWelcome {
        session_id: hello.session.to_string(),
        lease_ms: limits.session_lease_ms,
        lost,
        limits: Some(told(limits)),
    };
    let claimer = Claimer {
        worker: hello.register.name.clone(),
        session: Some(hello.session),
        plain: false,
        cooperative: true,
        build: non_empty(&hello.register.build_id),
    };
    let session = Session {
        call: call.clone(),
        id: hello.session,
        credential,
        claimer: Arc::new(claimer),
        build: hello.register.build_id.clone(),
        holdings,
        connection,
        outbound: outbound.clone(),
        pulse: Arc::new(Pulse::new(limits.session_lease_ms)),
        workflow_credit: Arc::new(Semaphore::new(0)),
        task_credit: Arc::new(Semaphore::new(0)),
    };
    session.send(v1::ServerFrame { welcome: Some(welcome), ..v1::ServerFrame::default() }).await;
    Ok(session)
}

/// The limits that a worker must observe.
fn told(limits: &Limits) -> v1::StreamLimits {
    let bytes = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    v1::StreamLimits {
        payload_bytes: bytes(limits.payload_bytes),
        text_bytes: bytes(limits.text_bytes),
        commands: bytes(limits.commands),
        frame_bytes: bytes(MAX_MESSAGE_BYTES),
    }
}

/// The claims that the worker names in its hello: those that it still holds, and the ids of the others.
async fn adopt(call: &Call, hello: &Hello) -> Result<(Vec<(Uuid, Held)>, Vec<String>), Status> {
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    for (&id, &token) in &hello.held {
        match results::holder(call, hello.session, id, token).await? {
            Some(held) => kept.push((id, held)),
            None => lost.push(id.to_string()),
        }
    }
    Ok((kept, lost))
}

impl Session {
    fn feeds(&self, hello: Hello) -> JoinSet<()> {
        let queue = hello.register.queue.clone().unwrap_or_default();
        // While one feed sends its work to the worker, the next batch finds another feed waiting.
        let count = self.call.api().service().batches_at_once() + 1;
        let feed = |class, kinds, credit: &Arc<Semaphore>| Feed {
            call: self.call.clone(),
            class,
            claimer: (*self.claimer).clone(),
            queue: queue.clone(),
            kinds,
            provisional: hello.provisional,
            feeds: count,
            credit: credit.clone(),
            pulse: self.pulse.clone(),
            holdings: self.holdings.clone(),
            connection: self.connection,
            outbound: self.outbound.clone(),
        };
        let mut feeds = JoinSet::new();
        let workflows = feed(WorkClass::Workflow, hello.workflows, &self.workflow_credit);
        let tasks = feed(WorkClass::Task, hello.tasks, &self.task_credit);
        for _ in 0..count {
            feeds.spawn(workflows.clone().run());
            feeds.spawn(tasks.clone().run());
        }
        feeds
    }

    async fn send(&self, frame: v1::ServerFrame) {
        // A disconnected worker needs no answer; its claims are settled when the connection ends.
        let _ = self.outbound.send(Ok(frame)).await;
    }

    /// Processes frames until the connection ends.
    async fn serve(
        &self,
        first: v1::WorkerFrame,
        inbound: &mut Streaming<v1::WorkerFrame>,
        mut cancels: broadcast::Receiver<TaskCancel>,
        in_flight: &mut JoinSet<()>,
    ) -> End {
        // Tasks that the worker names in its hello may have been cancelled while it was disconnected.
        self.look_for_cancels().await;
        let mut look_at_credential = tokio::time::interval(CREDENTIAL_EVERY);
        look_at_credential.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut taken_over = pin!(self.holdings.taken_over(self.connection));
        let mut drains = pin!(self.call.api().drains());
        let mut next = Some(first);
        loop {
            if let Some(frame) = next.take() {
                self.pulse.beat();
                if frame.hello.is_some() {
                    let status = refuse(Code::NotRegistered, "a second hello on the same stream");
                    let _ = self.outbound.send(Err(status)).await;
                    return End::Broken;
                }
                if frame.heartbeat {
                    look_at_credential.reset_immediately();
                }
                let goodbye = frame.goodbye;
                self.grant(&frame);
                while in_flight.len() >= FRAMES_IN_FLIGHT {
                    in_flight.join_next().await;
                }
                in_flight.spawn(self.clone().take_in(frame));
                if goodbye {
                    return End::Goodbye;
                }
            }
            tokio::select! {
                frame = inbound.next() => match frame {
                    Some(Ok(frame)) => next = Some(frame),
                    Some(Err(_)) | None => return End::Broken,
                },
                cancel = cancels.recv() => match cancel {
                    Ok(cancel) if cancel.session == self.id && cancel.tenant_id == self.call.tenant_id() => {
                        if self.holdings.stops(cancel.task_id, cancel.token) {
                            self.cancel(vec![results::notice(cancel.task_id, cancel.token)]).await;
                        }
                    }
                    Ok(_) => {}
                    // Notices were skipped because there were too many: check the tasks of this session.
                    Err(broadcast::error::RecvError::Lagged(_)) => self.look_for_cancels().await,
                    Err(broadcast::error::RecvError::Closed) => return End::Draining,
                },
                Some(_) = in_flight.join_next() => {}
                _ = look_at_credential.tick() => {
                    if let Err(status) = self.may_stay().await {
                        let _ = self.outbound.send(Err(status)).await;
                        return End::Broken;
                    }
                }
                () = &mut taken_over => return End::TakenOver,
                () = &mut drains => {
                    self.send(v1::ServerFrame { drain: true, ..v1::ServerFrame::default() }).await;
                    return End::Draining;
                }
            }
        }
    }

    /// Checks the credential again: a stream must not outlive a credential that was revoked or has expired.
    async fn may_stay(&self) -> Result<(), Status> {
        match self.call.api().authenticate_bearer(self.credential.as_ref()).await {
            Ok(_) | Err(AuthError::Unavailable) => Ok(()),
            Err(error) => Err(not_allowed(error)),
        }
    }

    fn grant(&self, frame: &v1::WorkerFrame) {
        let grants =
            [(&self.workflow_credit, frame.workflow_credits), (&self.task_credit, frame.task_credits)];
        for (credit, granted) in grants {
            let room = MAX_CREDIT.saturating_sub(credit.available_permits());
            credit.add_permits((granted as usize).min(room));
        }
    }

    async fn take_in(self, frame: v1::WorkerFrame) {
        if frame.heartbeat {
            self.heartbeat().await;
        }
        let (cancels, refused_heartbeats) = results::heartbeats(&self.call, frame.task_heartbeats).await;
        if !cancels.is_empty() || !refused_heartbeats.is_empty() {
            self.send(v1::ServerFrame { cancels, refused_heartbeats, ..v1::ServerFrame::default() }).await;
        }
        let (activations, tasks) = (frame.activations, frame.tasks);
        let acks =
            results::settle(&self.call, &self.holdings, activations, tasks, &self.claimer, &self.build).await;
        if !acks.is_empty() {
            self.send(v1::ServerFrame { acks, ..v1::ServerFrame::default() }).await;
        }
    }

    async fn cancel(&self, cancels: Vec<v1::CancelNotice>) {
        self.send(v1::ServerFrame { cancels, ..v1::ServerFrame::default() }).await;
    }

    /// Renews the session's claims.
    async fn heartbeat(&self) {
        if let Err(status) = self.call.run(HeartbeatWorker { worker_id: self.id }).await {
            tracing::warn!(session = %self.id, %status, "a session's heartbeat was refused");
        }
        if self.call.api().service().store().is_shared() {
            // A cancel request may have gone to another process, which cannot notify this worker.
            self.look_for_cancels().await;
        }
    }

    async fn look_for_cancels(&self) {
        let store = self.call.api().service().store();
        let mut cancels = Vec::new();
        for (task_id, token) in self.holdings.tasks() {
            let row = store.task_get(self.call.tenant_id(), task_id).await;
            let stops = |row: Option<flovyn_engine::state::Task>| {
                row.is_none_or(|row| {
                    row.cancel_requested || row.status != TaskStatus::Running || row.epoch != token
                })
            };
            if row.is_ok_and(stops) {
                cancels.push(results::notice(task_id, token));
            }
        }
        if !cancels.is_empty() {
            self.cancel(cancels).await;
        }
    }
}
