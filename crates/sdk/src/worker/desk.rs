//! The work in flight: free slots, held claims, and results that the server has not acknowledged.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flovyn_proto::v1;
use prost::Message;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::unharmed;
use crate::backoff::{Backoff, Warned, random};
use crate::wire::MAX_FRAME_BYTES;

/// Maximum number of results in one frame: as many as the server takes into one commit.
const MAX_RESULTS: usize = 250;

/// The result of a finished activation or attempt.
#[derive(Debug, Clone)]
pub(super) enum Finished {
    Activation(v1::SubmitWorkflowCommandsRequest),
    /// An activation whose start must be durable first. Its claim is released.
    GivenBack(v1::HeldClaim),
    /// The result of an attempt, with the next step of its workflow if that is known.
    Task(v1::task_result::Result, Option<v1::SubmitWorkflowCommandsRequest>),
}

impl Finished {
    /// Approximate size on the wire.
    fn bytes(&self) -> usize {
        let (result, next) = match self {
            Self::Activation(submit) => return submit.encoded_len(),
            Self::GivenBack(claim) => return claim.encoded_len(),
            Self::Task(result, next) => (result, next),
        };
        let content = match result {
            v1::task_result::Result::Complete(complete) => complete.output.len(),
            v1::task_result::Result::Fail(fail) => fail.error.len(),
        };
        content + 128 + next.as_ref().map_or(0, Message::encoded_len)
    }
}

/// Called with the server's answer.
type OnAck = Box<dyn FnOnce(v1::ResultAck) + Send>;

struct Unacknowledged {
    id: String,
    token: i64,
    finished: Finished,
    on_ack: OnAck,
}

/// Slots for activations or for tasks.
#[derive(Debug)]
struct Slots {
    max: u32,
    running: u32,
    /// Credit to grant with the next frame.
    owed: u32,
}

/// Results that the server refused temporarily. They are all sent again at `due`.
#[derive(Debug, Default)]
struct PutOff {
    numbers: Vec<u64>,
    due: Option<Instant>,
    backoff: Backoff,
    warned: Warned,
}

struct Inner {
    next_ref: u64,
    unacknowledged: BTreeMap<u64, Unacknowledged>,
    unsent: Vec<u64>,
    put_off: PutOff,
    heartbeats: Vec<v1::TaskHeartbeat>,
    session_heartbeat: bool,
    workflows: Slots,
    tasks: Slots,
    /// Token of the held claim, by execution or task.
    held: HashMap<String, i64>,
    cancels: HashMap<(String, i64), watch::Sender<bool>>,
    paused: bool,
    stopping: bool,
}

pub(super) struct Desk {
    inner: Mutex<Inner>,
    /// Notified when a frame may be ready to send.
    work: Notify,
    /// Notified when work has finished or the worker stops.
    finished: Notify,
}

impl Inner {
    /// Whether this claim, or a later one for the same work, is held. A claim is held until its result is
    /// acknowledged.
    fn holds(&self, id: &str, token: i64) -> bool {
        self.held.get(id).is_some_and(|held| *held >= token)
    }
}

impl Desk {
    pub(super) fn new(max_workflows: u32, max_tasks: u32) -> Self {
        let slots = |max| Slots { max, running: 0, owed: 0 };
        let inner = Inner {
            next_ref: 0,
            unacknowledged: BTreeMap::new(),
            unsent: Vec::new(),
            put_off: PutOff::default(),
            heartbeats: Vec::new(),
            session_heartbeat: false,
            workflows: slots(max_workflows),
            tasks: slots(max_tasks),
            held: HashMap::new(),
            cancels: HashMap::new(),
            paused: false,
            stopping: false,
        };
        Self { inner: Mutex::new(inner), work: Notify::new(), finished: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pause(&self, paused: bool) {
        self.lock().paused = paused;
        self.work.notify_one();
    }

    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.finished.notify_waiters();
        self.work.notify_one();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Completes when the worker is stopping and no work is in flight.
    pub(super) async fn idle_after_stop(&self) {
        loop {
            let changed = self.finished.notified();
            {
                let inner = self.lock();
                let busy =
                    inner.workflows.running + inner.tasks.running > 0 || !inner.unacknowledged.is_empty();
                if inner.stopping && !busy {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Completes when the worker is asked to stop.
    pub(super) async fn stopped(&self) {
        loop {
            let changed = self.finished.notified();
            if self.is_stopping() {
                return;
            }
            changed.await;
        }
    }

    /// The first frame of a connection: the claims still held, and credit for the free slots. All unacknowledged
    /// results are sent again after it.
    pub(super) fn hello(&self, mut hello: v1::StreamHello) -> v1::WorkerFrame {
        let mut inner = self.lock();
        hello.held = inner
            .held
            .iter()
            .map(|(id, token)| v1::HeldClaim { id: id.clone(), claim_token: *token })
            .collect();
        inner.unsent = inner.unacknowledged.keys().copied().collect();
        inner.put_off.numbers.clear();
        inner.put_off.due = None;
        let open = !inner.paused && !inner.stopping;
        let grant = |slots: &mut Slots| {
            let free = slots.max.saturating_sub(slots.running);
            slots.owed = if open { 0 } else { free };
            if open { free } else { 0 }
        };
        let workflow_credits = grant(&mut inner.workflows);
        let task_credits = grant(&mut inner.tasks);
        v1::WorkerFrame { hello: Some(hello), workflow_credits, task_credits, ..v1::WorkerFrame::default() }
    }

    /// Waits for the next frame to send.
    pub(super) async fn next_frame(&self) -> v1::WorkerFrame {
        loop {
            let changed = self.work.notified();
            if let Some(frame) = self.frame(Instant::now()) {
                return frame;
            }
            let due = self.lock().put_off.due;
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
            }
        }
    }

    fn frame(&self, now: Instant) -> Option<v1::WorkerFrame> {
        let mut inner = self.lock();
        if inner.put_off.due.take_if(|due| *due <= now).is_some() {
            let due = std::mem::take(&mut inner.put_off.numbers);
            inner.unsent.extend(due);
        }
        let mut bytes = 0;
        let mut beats = 0;
        for beat in &inner.heartbeats {
            bytes += beat.encoded_len();
            if beats > 0 && bytes > MAX_FRAME_BYTES {
                self.work.notify_one();
                break;
            }
            beats += 1;
        }
        let mut frame = v1::WorkerFrame {
            heartbeat: std::mem::take(&mut inner.session_heartbeat),
            task_heartbeats: inner.heartbeats.drain(..beats).collect(),
            ..v1::WorkerFrame::default()
        };
        if !inner.paused && !inner.stopping {
            frame.workflow_credits = std::mem::take(&mut inner.workflows.owed);
            frame.task_credits = std::mem::take(&mut inner.tasks.owed);
        }
        let mut taken = 0;
        for number in &inner.unsent {
            let Some(result) = inner.unacknowledged.get(number) else {
                taken += 1;
                continue;
            };
            bytes += result.finished.bytes();
            let count = frame.activations.len() + frame.tasks.len();
            if count + beats > 0 && (bytes > MAX_FRAME_BYTES || count >= MAX_RESULTS) {
                // The rest goes with the next frame.
                self.work.notify_one();
                break;
            }
            taken += 1;
            match result.finished.clone() {
                Finished::Activation(submit) => {
                    let submit = Some(submit);
                    frame.activations.push(v1::ActivationResult { r#ref: *number, submit, give_back: None });
                }
                Finished::GivenBack(claim) => {
                    let give_back = Some(claim);
                    frame.activations.push(v1::ActivationResult { r#ref: *number, submit: None, give_back });
                }
                Finished::Task(result, next) => {
                    frame.tasks.push(v1::TaskResult { r#ref: *number, result: Some(result), next });
                }
            }
        }
        inner.unsent.drain(..taken);
        let empty = frame == v1::WorkerFrame::default();
        (!empty).then_some(frame)
    }

    pub(super) fn heartbeat_session(&self) {
        self.lock().session_heartbeat = true;
        self.work.notify_one();
    }

    pub(super) fn heartbeat_task(&self, heartbeat: v1::TaskHeartbeat) {
        self.lock().heartbeats.push(heartbeat);
        self.work.notify_one();
    }

    /// Accepts a claim. `false`: this claim or a later one is already held, so it must not be run.
    pub(super) fn take_activation(&self, id: &str, token: i64) -> bool {
        let mut inner = self.lock();
        if inner.holds(id, token) {
            inner.workflows.owed += 1;
            drop(inner);
            self.work.notify_one();
            return false;
        }
        inner.workflows.running += 1;
        inner.held.insert(id.to_owned(), token);
        true
    }

    /// Like [`take_activation`](Self::take_activation), for a task. The receiver says whether the task should stop.
    /// `None`: the claim must not be run.
    pub(super) fn take_task(&self, id: &str, token: i64) -> Option<watch::Receiver<bool>> {
        let mut inner = self.lock();
        if inner.holds(id, token) {
            inner.tasks.owed += 1;
            drop(inner);
            self.work.notify_one();
            return None;
        }
        inner.tasks.running += 1;
        inner.held.insert(id.to_owned(), token);
        let (sender, receiver) = watch::channel(false);
        inner.cancels.insert((id.to_owned(), token), sender);
        Some(receiver)
    }

    pub(super) fn cancel(&self, id: &str, token: i64) {
        if let Some(sender) = self.lock().cancels.get(&(id.to_owned(), token)) {
            sender.send_replace(true);
        }
    }

    /// Records the result of finished work: frees its slot, and sends the result until the server acknowledges it.
    pub(super) fn settle(
        &self,
        id: String,
        token: i64,
        finished: Finished,
        on_ack: impl FnOnce(v1::ResultAck) + Send + 'static,
    ) {
        let mut inner = self.lock();
        let slots = match finished {
            Finished::Activation(_) | Finished::GivenBack(_) => &mut inner.workflows,
            Finished::Task(..) => &mut inner.tasks,
        };
        slots.running -= 1;
        slots.owed += 1;
        inner.next_ref += 1;
        let number = inner.next_ref;
        let on_ack = Box::new(on_ack);
        inner.unacknowledged.insert(number, Unacknowledged { id, token, finished, on_ack });
        inner.unsent.push(number);
        drop(inner);
        self.work.notify_one();
    }

    /// Handles the server's answer. A retryable refusal is sent again after a pause.
    pub(super) fn acknowledge(&self, ack: v1::ResultAck) {
        if ack.retryable {
            return self.put_off(&ack, Instant::now(), random());
        }
        let mut inner = self.lock();
        if ack.code.is_empty() {
            inner.put_off.backoff.reset();
            if inner.put_off.warned.clear() {
                tracing::info!("the server accepts results again");
            }
        }
        let Some(result) = inner.unacknowledged.remove(&ack.r#ref) else { return };
        if inner.held.get(&result.id) == Some(&result.token) {
            inner.held.remove(&result.id);
        }
        inner.cancels.remove(&(result.id, result.token));
        drop(inner);
        // Call without the lock, because this may drop users' values.
        unharmed("after an acknowledgement", || (result.on_ack)(ack));
        self.finished.notify_waiters();
    }

    fn put_off(&self, ack: &v1::ResultAck, now: Instant, random: f64) {
        let mut inner = self.lock();
        if !inner.unacknowledged.contains_key(&ack.r#ref) {
            return;
        }
        let put_off = &mut inner.put_off;
        put_off.numbers.push(ack.r#ref);
        if put_off.due.is_none() {
            put_off.due = Some(now + put_off.backoff.pause(random));
        }
        if put_off.warned.is_new(&ack.code) {
            let (code, message) = (&ack.code, &ack.message);
            tracing::warn!(code, message, "the server temporarily refuses results; retrying");
        }
        drop(inner);
        self.work.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn credits(desk: &Desk) -> (u32, u32) {
        desk.frame(Instant::now()).map_or((0, 0), |frame| (frame.workflow_credits, frame.task_credits))
    }

    #[test]
    fn a_claim_is_taken_on_once() {
        let desk = Desk::new(2, 2);
        assert!(desk.take_activation("workflow", 1));
        assert!(!desk.take_activation("workflow", 1));
        assert!(desk.take_task("task", 4).is_some());
        assert!(desk.take_task("task", 4).is_none(), "a copy");
        assert!(desk.take_task("task", 3).is_none(), "older than the held claim");
        assert!(desk.take_task("task", 5).is_some(), "claimed again: the older claim has ended");
    }

    #[test]
    fn what_is_dropped_gives_its_credit_back() {
        let desk = Desk::new(2, 2);
        assert!(desk.take_activation("workflow", 1) && desk.take_task("task", 1).is_some());
        assert_eq!(credits(&desk), (0, 0));
        assert!(!desk.take_activation("workflow", 1) && desk.take_task("task", 1).is_none());
        assert_eq!(credits(&desk), (1, 1));
        let inner = desk.lock();
        assert_eq!((inner.workflows.running, inner.tasks.running), (1, 1));
    }

    #[test]
    fn a_claim_is_held_until_its_result_is_acknowledged() {
        let desk = Desk::new(1, 1);
        assert!(desk.take_activation("workflow", 1));
        let finished = Finished::Activation(v1::SubmitWorkflowCommandsRequest::default());
        let (told, acknowledged) = std::sync::mpsc::channel();
        desk.settle("workflow".to_owned(), 1, finished, move |ack| told.send(ack.r#ref).unwrap());
        assert!(!desk.take_activation("workflow", 1), "its result is not acknowledged");
        assert!(acknowledged.try_recv().is_err());
        desk.acknowledge(v1::ResultAck { r#ref: 1, ..v1::ResultAck::default() });
        assert_eq!(acknowledged.try_recv(), Ok(1));
        assert!(desk.take_activation("workflow", 2));
    }

    fn refusal(number: u64) -> v1::ResultAck {
        v1::ResultAck { r#ref: number, code: "FLV0070".into(), retryable: true, ..v1::ResultAck::default() }
    }

    fn sent(desk: &Desk, now: Instant) -> Vec<u64> {
        let results = desk.frame(now).map(|frame| frame.tasks).unwrap_or_default();
        results.iter().map(|result| result.r#ref).collect()
    }

    #[test]
    fn a_result_that_is_refused_for_the_moment_is_sent_again_after_a_pause_that_grows() {
        let desk = Desk::new(1, 2);
        for id in ["one", "two"] {
            assert!(desk.take_task(id, 1).is_some());
            let failed = v1::task_result::Result::Fail(v1::FailTaskRequest::default());
            desk.settle(id.to_owned(), 1, Finished::Task(failed, None), |_| {});
        }
        let mut now = Instant::now();
        assert_eq!(sent(&desk, now), [1, 2]);
        for pause_ms in [200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            desk.put_off(&refusal(1), now, 1.0);
            desk.put_off(&refusal(2), now, 1.0);
            desk.put_off(&refusal(3), now, 1.0);
            assert_eq!(sent(&desk, now + Duration::from_millis(pause_ms - 1)), [0_u64; 0], "{pause_ms}");
            now += Duration::from_millis(pause_ms);
            assert_eq!(sent(&desk, now), [1, 2], "together");
        }
        desk.acknowledge(v1::ResultAck { r#ref: 2, ..v1::ResultAck::default() });
        desk.put_off(&refusal(1), now, 1.0);
        assert_eq!(sent(&desk, now + Duration::from_millis(200)), [1], "an accepted result resets the pause");
    }

    #[test]
    fn a_new_connection_sends_at_once_what_was_put_off() {
        let desk = Desk::new(1, 1);
        assert!(desk.take_task("one", 1).is_some());
        let failed = v1::task_result::Result::Fail(v1::FailTaskRequest::default());
        desk.settle("one".to_owned(), 1, Finished::Task(failed, None), |_| {});
        let now = Instant::now();
        assert_eq!(sent(&desk, now), [1]);
        desk.put_off(&refusal(1), now, 1.0);
        desk.hello(v1::StreamHello::default());
        assert_eq!(sent(&desk, now), [1]);
        assert_eq!(sent(&desk, now + Duration::from_secs(9)), [0_u64; 0], "once");
    }
}
