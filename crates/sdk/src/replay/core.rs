//! The state of a workflow during replay: the commands it has emitted, the rows of the log, and the futures that
//! wait.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::command::{Command, Kind, Row, fully};
use super::event::LogEvent;
use super::ids::{self, LoggedIds};
use super::operations::{Operation, Started};
use super::slots::{SlotId, Slots};
use crate::error::Error;

/// The core, shared by the driver, the context and every future.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Mutex<Core>>);

impl Shared {
    pub(crate) fn new(core: Core) -> Self {
        Self(Arc::new(Mutex::new(core)))
    }

    /// The guard is held briefly, never across an await or a call into user code.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An emitted command.
#[derive(Debug)]
struct Asked {
    what: String,
    /// The id that the SDK generated for the command, or the id of the item that the command cancels. `None`: the
    /// command has no id, or the server generates it.
    id: Option<String>,
    /// The input. `None`: inputs are not compared, or the command has none.
    input: Option<Value>,
}

/// Something that the workflow waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waiting {
    Task {
        id: String,
        kind: String,
    },
    /// Anything else, described in words.
    Other(String),
}

/// Whether the workflow runs on events that are not durable yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    No,
    /// On an event that the server has not yet written to the log.
    Yes,
    /// On events that the server is about to write and whose times it has already set.
    Provisional,
    /// The workflow needs a value that only the log can provide, so it cannot continue ahead of the log.
    NeedsLog,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) execution_id: Uuid,
    pub(crate) kind: String,
    created_ms: i64,
    /// Time of the last event that was applied.
    now_ms: i64,
    ahead: Ahead,
    pub(crate) slots: Slots,
    /// The emitted commands, by kind, in order.
    emitted: [Vec<Asked>; Kind::COUNT],
    /// Rows of the log, by kind, in order.
    logged: [Vec<Row>; Kind::COUNT],
    ids: LoggedIds,
    /// Commands that had no row in the log when they were emitted.
    pub(crate) new_commands: Vec<Command>,
    /// Tasks that have not ended, by id.
    tasks: HashMap<String, (SlotId, String)>,
    timers: HashMap<String, SlotId>,
    /// Promises by number. The server's id is in the row with the same number.
    promises: Vec<(SlotId, String)>,
    children: HashMap<String, (SlotId, String)>,
    signals: HashMap<String, VecDeque<Value>>,
    /// The slots that wait for signals of a name, in order of creation.
    waiters: HashMap<String, Vec<SlotId>>,
    pub(crate) state: BTreeMap<String, Value>,
    pub(crate) cancel_reason: Option<String>,
    /// Time for clean-up after a cancel request, as the definition sets it.
    pub(crate) cancel_grace: Option<Duration>,
    /// Futures that resolve on a cancel request.
    cancel_waiters: Vec<SlotId>,
    /// Slots that a cancel request does not resolve.
    shielded: Vec<SlotId>,
    /// Steps (`run`) that were created and whose results have not been delivered.
    pub(crate) operations: VecDeque<Operation>,
    operation_count: usize,
    random_uuids: u64,
    randoms: u64,
    /// The first mismatch between code and log.
    pub(crate) violation: Option<(i64, String)>,
    /// Whether inputs are compared too. Only for tests: in production, changing an input in running code is allowed.
    strict: bool,
}

impl Core {
    pub(crate) fn new(execution_id: Uuid, kind: &str, created_ms: i64) -> Self {
        Self {
            execution_id,
            kind: kind.to_owned(),
            created_ms,
            now_ms: created_ms,
            ahead: Ahead::No,
            slots: Slots::default(),
            emitted: Default::default(),
            logged: Default::default(),
            ids: LoggedIds::default(),
            new_commands: Vec::new(),
            tasks: HashMap::new(),
            timers: HashMap::new(),
            promises: Vec::new(),
            children: HashMap::new(),
            signals: HashMap::new(),
            waiters: HashMap::new(),
            state: BTreeMap::new(),
            cancel_reason: None,
            cancel_grace: None,
            cancel_waiters: Vec::new(),
            shielded: Vec::new(),
            operations: VecDeque::new(),
            operation_count: 0,
            random_uuids: 0,
            randoms: 0,
            violation: None,
            strict: false,
        }
    }

    pub(crate) fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Turns on the comparison of inputs. Call this before the first command.
    pub(crate) fn be_strict(&mut self) {
        self.strict = true;
    }

    /// What the workflow waits for, in order of creation.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let tasks = self.tasks.iter();
        let tasks =
            tasks.map(|(id, (slot, kind))| (*slot, Waiting::Task { id: id.clone(), kind: kind.clone() }));
        let other = |slot: SlotId, what: String| (slot, Waiting::Other(what));
        let timers = self.timers.iter().map(|(name, slot)| other(*slot, format!("timer {name:?}")));
        let promises = self.promises.iter().map(|(slot, name)| other(*slot, format!("promise {name:?}")));
        let children = self.children.values().map(|(slot, name)| other(*slot, format!("child {name:?}")));
        let waiters =
            self.waiters.iter().flat_map(|(name, slots)| slots.iter().map(move |slot| (name, *slot)));
        let signals = waiters.map(|(name, slot)| other(slot, format!("signal {name:?}")));
        let cancels = self.cancel_waiters.iter().map(|slot| other(*slot, "request to cancel".to_owned()));
        let all = tasks.chain(timers).chain(promises).chain(children).chain(signals).chain(cancels);
        let mut waiting: Vec<(SlotId, Waiting)> =
            all.filter(|(slot, _)| self.slots.is_waiting(*slot)).collect();
        waiting.sort_by_key(|(slot, _)| *slot);
        waiting.into_iter().map(|(_, waiting)| waiting).collect()
    }

    /// Whether the workflow waits for a task, timer or child. After a cancel request only clean-up waits for these.
    pub(crate) fn waits_for_work(&self) -> bool {
        let tasks = self.tasks.values().map(|(slot, _)| *slot);
        let children = self.children.values().map(|(slot, _)| *slot);
        let mut all = tasks.chain(self.timers.values().copied()).chain(children);
        all.any(|slot| self.slots.is_waiting(slot))
    }

    /// Emits a command. If the log has a row for it, the command is compared with the row; otherwise the command is
    /// new.
    pub(crate) fn emit(&mut self, mut command: Command) {
        let kind = command.kind();
        self.ids.translate(&mut command);
        let number = self.emitted[kind as usize].len();
        let input = if self.strict { command.input() } else { None };
        let asked = Asked { what: command.what(), id: command.id(), input };
        match self.logged[kind as usize].get(number) {
            None => self.new_commands.push(command),
            Some(row) => compare(&mut self.violation, &self.ids, row, &asked, self.strict),
        }
        self.emitted[kind as usize].push(asked);
    }

    /// Reads a row of the log that was written for a command of this workflow.
    pub(crate) fn learn(&mut self, event: &LogEvent) {
        let Some(row) = Row::read(event) else { return };
        let kind = row.kind;
        let number = self.logged[kind as usize].len();
        if let Some(asked) = self.emitted[kind as usize].get(number) {
            compare(&mut self.violation, &self.ids, &row, asked, self.strict);
            if let (Some(own), Some(logged), None) = (&asked.id, &row.id, kind.cancels())
                && own != logged
            {
                // The command was emitted before its row was read, and the writer of the row used another id.
                let (own, logged) = (own.clone(), logged.clone());
                self.follow(kind, &own, canonical(&logged).into_owned());
                self.ids.rename(kind, own, logged);
            }
        }
        self.logged[kind as usize].push(row);
    }

    /// Moves a waiting future from the SDK's own id to the id in the log.
    fn follow(&mut self, kind: Kind, own: &str, logged: String) {
        fn under<T>(waiting: &mut HashMap<String, T>, own: &str, logged: String) {
            let waits = waiting.remove(own);
            waiting.extend(waits.map(|waits| (logged, waits)));
        }
        match kind {
            Kind::Task => under(&mut self.tasks, own, logged),
            Kind::Child => under(&mut self.children, own, logged),
            Kind::Timer => under(&mut self.timers, own, logged),
            _ => {}
        }
    }

    /// The id of a task or child in the log.
    pub(crate) fn logged_id(&self, kind: Kind, id: Uuid) -> Uuid {
        self.ids.logged(kind, &id.to_string()).and_then(|id| Uuid::try_parse(id).ok()).unwrap_or(id)
    }

    /// Adds the rows that commands of these kinds produced, in order, without reading the events.
    pub(crate) fn learn_own(&mut self, kinds: &[Kind], mut sequence: i64) {
        for kind in kinds {
            let rows = &mut self.logged[*kind as usize];
            if let Some(asked) = self.emitted[*kind as usize].get(rows.len()) {
                let (what, id) = (asked.what.clone(), asked.id.clone());
                rows.push(Row { sequence, kind: *kind, what, id, input: None, result: None });
            }
            sequence += 1;
        }
    }

    /// Whether this task is the only open task of the workflow, so no other task result can arrive from a worker.
    pub(crate) fn waits_only_for(&self, task_id: &str) -> bool {
        let open = |(slot, _): &(SlotId, String)| self.slots.is_open(*slot);
        self.tasks.get(task_id).is_some_and(open)
            && self.tasks.values().filter(|task| open(task)).count() == 1
    }

    pub(crate) fn go_ahead(&mut self) {
        self.ahead = Ahead::Yes;
    }

    /// Continues on events that the server has not written yet.
    pub(crate) fn go_provisionally(&mut self) {
        self.ahead = Ahead::Provisional;
    }

    /// Returns to the log. `false`: the workflow needed a value that only the log can provide.
    pub(crate) fn came_through(&mut self) -> bool {
        std::mem::replace(&mut self.ahead, Ahead::No) != Ahead::NeedsLog
    }

    /// Time of the last event. Unlike `time_ms`, this does not count as a use of the time.
    pub(crate) fn last_time_ms(&self) -> i64 {
        self.now_ms
    }

    /// Time of the last event that was applied.
    pub(crate) fn time_ms(&mut self) -> i64 {
        if self.ahead == Ahead::Yes {
            // The server has not set the time of this event yet.
            self.ahead = Ahead::NeedsLog;
        }
        self.now_ms
    }

    /// Whether steps (`run`) may execute. Their effects cannot be undone, so all events that led to them must be
    /// durable.
    pub(crate) fn may_act(&mut self) -> bool {
        if self.ahead != Ahead::No {
            self.ahead = Ahead::NeedsLog;
        }
        self.ahead == Ahead::No
    }

    /// Reports rows before this sequence whose commands the workflow should have emitted by now but has not.
    pub(crate) fn check_matched(&mut self, before: i64) {
        for kind in Kind::ALL {
            let emitted = self.emitted[kind as usize].len();
            let row = self.logged[kind as usize].get(emitted);
            if let Some(row) = row.filter(|row| row.sequence < before) {
                let asked = self.new_commands.first().map(Command::describe);
                let message = format!(
                    "the history has {}, which the workflow code no longer requests: it requested {} instead",
                    row.describe(),
                    asked.as_deref().unwrap_or("nothing"),
                );
                self.violation.get_or_insert((row.sequence, message));
            }
        }
    }

    fn number(&self, kind: Kind) -> u64 {
        self.emitted[kind as usize].len() as u64
    }

    /// The log's id for the next command of this kind. If the log has none, an id of our own.
    fn next_id(&mut self, kind: Kind, own: impl Fn(u64) -> String) -> String {
        let number = self.number(kind);
        let row = self.logged[kind as usize].get(self.emitted[kind as usize].len());
        self.ids.next(kind, number, row.and_then(|row| row.id.as_deref()), own)
    }

    pub(crate) fn next_task_id(&mut self) -> Uuid {
        let (execution, created_ms) = (self.execution_id, self.created_ms);
        let own = |number| ids::id(execution, created_ms, "task", number);
        let id = self.next_id(Kind::Task, |number| own(number).to_string());
        Uuid::try_parse(&id).unwrap_or_else(|_| own(self.number(Kind::Task)))
    }

    pub(crate) fn next_child_id(&mut self) -> Uuid {
        let (execution, created_ms) = (self.execution_id, self.created_ms);
        let own = |number| ids::id(execution, created_ms, "child", number);
        let id = self.next_id(Kind::Child, |number| own(number).to_string());
        Uuid::try_parse(&id).unwrap_or_else(|_| own(self.number(Kind::Child)))
    }

    pub(crate) fn next_timer_name(&mut self) -> String {
        self.next_id(Kind::Timer, |number| format!("timer-{}", number + 1))
    }

    pub(crate) fn random_uuid(&mut self) -> Uuid {
        self.random_uuids += 1;
        ids::id(self.execution_id, self.created_ms, "uuid", self.random_uuids)
    }

    pub(crate) fn random(&mut self) -> f64 {
        self.randoms += 1;
        ids::fraction(self.execution_id, self.randoms)
    }

    /// Adds a slot. A cancel request resolves all slots except shielded ones.
    pub(crate) fn slot(&mut self, shielded: bool) -> SlotId {
        let slot = self.slots.add();
        if shielded {
            self.shielded.push(slot);
        }
        slot
    }

    pub(crate) fn wait_for_task(&mut self, id: Uuid, task_type: &str, slot: SlotId) {
        self.tasks.insert(id.to_string(), (slot, task_type.to_owned()));
    }

    pub(crate) fn wait_for_timer(&mut self, name: &str, slot: SlotId) {
        self.timers.insert(name.to_owned(), slot);
    }

    pub(crate) fn wait_for_promise(&mut self, name: &str, slot: SlotId) {
        self.promises.push((slot, name.to_owned()));
    }

    pub(crate) fn wait_for_child(&mut self, id: Uuid, name: &str, slot: SlotId) {
        self.children.insert(id.to_string(), (slot, name.to_owned()));
    }

    pub(crate) fn wait_for_cancel(&mut self, slot: SlotId) {
        self.shielded.push(slot);
        match &self.cancel_reason {
            Some(reason) => self.slots.resolve(slot, Ok(Value::String(reason.clone()))),
            None => self.cancel_waiters.push(slot),
        }
    }

    /// The recorded result of the next step. `None`: the step is not in the log. Advances the step number.
    pub(crate) fn next_operation(&mut self) -> Option<Value> {
        let number = self.operation_count;
        self.operation_count += 1;
        let row = self.logged[Kind::Operation as usize].get(number)?;
        Some(row.result.clone().unwrap_or(Value::Null))
    }

    pub(crate) fn add_operation(&mut self, name: &str, slot: SlotId, started: Started) {
        self.operations.push_back(Operation { name: name.to_owned(), slot, started });
    }

    pub(crate) fn wait_for_signal(&mut self, name: &str, slot: SlotId) {
        self.waiters.entry(name.to_owned()).or_default().push(slot);
    }

    /// Takes a signal for this waiter. The oldest open waiter receives the oldest signal. `None`: no signal, or
    /// another waiter comes first.
    pub(crate) fn take_signal(&mut self, name: &str, slot: SlotId) -> Option<Value> {
        let slots = &self.slots;
        let waiters = self.waiters.entry(name.to_owned()).or_default();
        waiters.retain(|waiter| *waiter == slot || slots.is_open(*waiter));
        if waiters.first() != Some(&slot) {
            return None;
        }
        let value = self.signals.get_mut(name)?.pop_front()?;
        waiters.remove(0);
        self.wake_waiter(name);
        Some(value)
    }

    /// Wakes the next waiter for a signal of this name, if there is one.
    pub(crate) fn wake_waiter(&mut self, name: &str) {
        if let Some(waiter) = self.next_waiter(name) {
            self.slots.wake(waiter);
        }
    }

    fn next_waiter(&self, name: &str) -> Option<SlotId> {
        self.signals.get(name).filter(|values| !values.is_empty())?;
        self.waiters.get(name)?.iter().copied().find(|waiter| self.slots.is_open(*waiter))
    }

    pub(crate) fn drop_waiter(&mut self, name: &str, slot: SlotId) {
        self.slots.drop_future(slot);
        if let Some(waiters) = self.waiters.get_mut(name) {
            waiters.retain(|waiter| *waiter != slot);
        }
        self.wake_waiter(name);
    }

    pub(crate) fn has_signal(&self, name: &str) -> bool {
        self.signals.get(name).is_some_and(|values| !values.is_empty())
    }

    pub(crate) fn drain_signals(&mut self, name: &str) -> Vec<Value> {
        self.signals.remove(name).map(Vec::from).unwrap_or_default()
    }

    /// Applies one external event.
    pub(crate) fn apply(&mut self, event: &LogEvent) {
        self.now_ms = event.time_ms;
        match event.kind.as_str() {
            "TASK_COMPLETED" => self.task_ended(event, |_| Ok(event.value("output"))),
            "TASK_FAILED" => self.task_ended(event, |task_type| {
                let message = event.text("error").to_owned();
                match event.flag("cancelled") {
                    true => Err(Error::Cancelled(message)),
                    false => {
                        let (task_type, failure) = (task_type.to_owned(), Box::new(event.failure()));
                        Err(Error::TaskFailed { task_type, message, failure })
                    }
                }
            }),
            "TIMER_FIRED" => {
                if let Some(slot) = self.timers.get(event.text("timerId")) {
                    self.slots.resolve(*slot, Ok(Value::Null));
                }
            }
            "PROMISE_RESOLVED" => self.promise_ended(event, |_| Ok(event.value("value"))),
            "PROMISE_REJECTED" => self.promise_ended(event, |name| {
                Err(Error::PromiseRejected { name: name.to_owned(), message: event.text("error").to_owned() })
            }),
            "PROMISE_TIMEOUT" => self.promise_ended(event, |_| Err(Error::Timeout(None))),
            "CHILD_WORKFLOW_COMPLETED" => self.child_ended(event, |_| Ok(event.value("output"))),
            "CHILD_WORKFLOW_FAILED" => self.child_ended(event, |name| {
                let (message, failure) = (event.text("error").to_owned(), Box::new(event.failure()));
                Err(Error::ChildFailed { name: name.to_owned(), message, failure })
            }),
            "SIGNAL_RECEIVED" => self.receive(event),
            "CANCELLATION_REQUESTED" => self.cancel_requested(event.text("reason")),
            // Ignored by rule: kinds that do not concern the workflow, and kinds of later servers.
            _ => {}
        }
    }

    /// Buffers a signal. The workflow's time does not change: signals that deferred an end are delivered before their
    /// time.
    pub(crate) fn receive(&mut self, signal: &LogEvent) {
        let name = signal.text("signalName").to_owned();
        self.signals.entry(name.clone()).or_default().push_back(signal.value("signalValue"));
        self.wake_waiter(&name);
    }

    /// Signals that the workflow has not received: the number for each name.
    pub(crate) fn untaken_signals(&self) -> BTreeMap<String, usize> {
        let buffered = self.signals.iter().filter(|(_, values)| !values.is_empty());
        buffered.map(|(name, values)| (name.clone(), values.len())).collect()
    }

    fn task_ended(&mut self, event: &LogEvent, resolution: impl FnOnce(&str) -> Result<Value, Error>) {
        let id = canonical(event.text("taskExecutionId"));
        if let Some((slot, task_type)) = self.tasks.remove(&*id) {
            self.slots.resolve(slot, resolution(&task_type));
        }
    }

    fn promise_ended(&mut self, event: &LogEvent, resolution: impl FnOnce(&str) -> Result<Value, Error>) {
        let id = event.text("promiseId");
        let rows = &self.logged[Kind::Promise as usize];
        let number = rows.iter().position(|row| row.id.as_deref() == Some(id));
        if let Some((slot, name)) = number.and_then(|number| self.promises.get(number)) {
            self.slots.resolve(*slot, resolution(name));
        }
    }

    fn child_ended(&mut self, event: &LogEvent, resolution: impl FnOnce(&str) -> Result<Value, Error>) {
        let id = canonical(event.text("childExecutionId"));
        if let Some((slot, name)) = self.children.get(&*id) {
            self.slots.resolve(*slot, resolution(name));
        }
    }

    /// Cancels all unshielded waits. Clean-up is shielded.
    fn cancel_requested(&mut self, reason: &str) {
        if self.cancel_reason.is_some() {
            return;
        }
        self.cancel_reason = Some(reason.to_owned());
        let told = std::mem::take(&mut self.cancel_waiters);
        // In one pass, so that wakes happen in order of creation.
        for slot in self.slots.open() {
            if told.contains(&slot) {
                self.slots.resolve(slot, Ok(Value::String(reason.to_owned())));
            } else if !self.shielded.contains(&slot) {
                self.slots.resolve(slot, Err(Error::Cancelled(reason.to_owned())));
            }
        }
        // Shielded waiters may have waited behind others that are closed now.
        let mut next: Vec<SlotId> = self.signals.keys().filter_map(|name| self.next_waiter(name)).collect();
        next.sort_unstable();
        for slot in next {
            self.slots.wake(slot);
        }
    }
}

/// An id of a task or child in lower case, as this SDK writes ids.
fn canonical(id: &str) -> Cow<'_, str> {
    match id.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(id.to_ascii_lowercase()),
        false => Cow::Borrowed(id),
    }
}

/// Kind, order and type must match. Ids may differ, and the ids in the log count. A command that cancels something
/// must cancel the same item as in the log.
fn compare(violation: &mut Option<(i64, String)>, ids: &LoggedIds, row: &Row, asked: &Asked, strict: bool) {
    let own = asked.id.as_deref();
    let same_target = row.kind.cancels().is_none_or(|kind| {
        let target = own.map(|own| ids.logged(kind, own).unwrap_or(own));
        target == row.id.as_deref().map(canonical).as_deref()
    });
    // Some logs do not include the inputs.
    let inputs = strict && row.input.is_some();
    if row.what == asked.what && same_target && (!inputs || row.input == asked.input) {
        return;
    }
    let description = row.kind.describe(&asked.what, own);
    let (logged, asked) = match inputs {
        true => (row.describe_fully(), fully(description, asked.input.as_ref())),
        false => (row.describe(), description),
    };
    let message = format!("the history has {logged}, but the workflow code requested {asked}");
    violation.get_or_insert((row.sequence, message));
}
