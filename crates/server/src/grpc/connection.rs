//! Connections of gRPC clients. Clients of the public protocol report without a claim token, so their connection
//! identifies them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Extensions;
use flovyn_engine::ids::{TaskId, WorkerId};
use flovyn_engine::state::{Lane, WorkClass};
use uuid::Uuid;

use super::holds::Holds;
use super::vouched::{Vouched, VouchedClaim};

/// One connection of a client.
#[derive(Debug)]
pub(crate) struct Connection {
    /// A random number. No other connection of any process has the same number, now or later.
    number: i64,
    /// The peer's address.
    pub(crate) address: Option<SocketAddr>,
    /// The workers that have polled here for workflows and for tasks.
    pollers: Mutex<[Pollers; 2]>,
    holding: Mutex<Holding>,
    vouched: Mutex<Vouched>,
    processes: Mutex<HashMap<String, Process>>,
}

/// The process that has registered under a name on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    One(WorkerId),
    /// Several processes behind a proxy: the connection does not say which of them polls.
    Several,
}

/// The most names whose processes are remembered.
const MAX_NAMES: usize = 1_000;

/// How polls are held on this connection.
#[derive(Debug)]
struct Holding {
    holds: Holds,
    /// The lanes that the last poll for workflows and the last poll for tasks asked for.
    lanes: [Vec<Lane>; 2],
}

/// The workers that poll on a connection for one class of work.
#[derive(Debug, Default)]
enum Pollers {
    #[default]
    None,
    /// One worker's name, with its id if it is registered.
    One(String, Option<WorkerId>),
    /// Several workers, behind a proxy or in one program: the connection does not say which of them reports.
    Several,
}

impl Connection {
    pub(crate) fn new(address: Option<SocketAddr>) -> Arc<Self> {
        let (high, _) = Uuid::new_v4().as_u64_pair();
        let number = i64::from_ne_bytes(high.to_ne_bytes());
        let holding = Mutex::new(Holding { holds: Holds::new(Instant::now()), lanes: <[_; 2]>::default() });
        Arc::new(Self {
            number,
            address,
            pollers: Mutex::default(),
            holding,
            vouched: Mutex::default(),
            processes: Mutex::default(),
        })
    }

    /// The connection on which a request arrived.
    pub(crate) fn of(extensions: &Extensions) -> Option<Arc<Self>> {
        extensions.get::<Arc<Self>>().cloned()
    }

    /// Locks for a short time. The guard must not be held across an await.
    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to hold a poll. `lanes` are the lanes that it asks for; empty if its worker runs nothing of the class.
    pub(crate) fn hold(self: Arc<Self>, class: WorkClass, lanes: impl FnOnce() -> Vec<Lane>) -> Held {
        let mut holding = self.holding();
        holding.holds.begins(class);
        if !holding.holds.is_concurrent() {
            holding.lanes[place(class)] = lanes();
        }
        drop(holding);
        Held { connection: self, class, answered: false }
    }

    /// Records that a worker reports a result here.
    pub(crate) fn reports(&self) {
        self.holding().holds.reports(Instant::now());
    }

    /// Records that an application calls here.
    pub(crate) fn calls(&self) {
        self.holding().holds.calls(Instant::now());
    }

    /// Records that the client has claimed a task for the duration `lease`.
    pub(crate) fn took(&self, claim: VouchedClaim, lease: Duration, extension: Duration) {
        self.vouched().took(claim, Instant::now() + lease, extension);
    }

    /// Records that the end of a task was reported here.
    pub(crate) fn ended(&self, task_id: TaskId) {
        self.vouched().ended(task_id);
    }

    /// Records a sign of life of the client. Returns the claims that must be extended.
    pub(crate) fn shows_life(&self, extension: Duration) -> Vec<(VouchedClaim, Instant)> {
        self.vouched().shows_life(Instant::now(), extension)
    }

    /// Records that a claim, which expires at `until`, could not be extended for the moment.
    pub(crate) fn not_extended(&self, task_id: TaskId, until: Instant) {
        self.vouched().not_extended(task_id, until, Instant::now());
    }

    fn vouched(&self) -> MutexGuard<'_, Vouched> {
        self.vouched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a process has registered here.
    pub(crate) fn registered(&self, name: &str, id: WorkerId) {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        match processes.get(name) {
            Some(known) if *known == Process::One(id) => {}
            Some(_) => drop(processes.insert(name.to_owned(), Process::Several)),
            None if processes.len() < MAX_NAMES => drop(processes.insert(name.to_owned(), Process::One(id))),
            None => {}
        }
    }

    /// The process that registered here under this name. `None` if there was none or more than one.
    pub(crate) fn process(&self, name: &str) -> Option<WorkerId> {
        match self.processes.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            Some(Process::One(id)) => Some(*id),
            Some(Process::Several) | None => None,
        }
    }

    /// Whether several processes have registered here under this name.
    fn registered_several(&self, name: &str) -> bool {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.get(name) == Some(&Process::Several)
    }

    /// The workers that are known to poll here.
    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        let pollers = self.pollers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |pollers: &Pollers| match pollers {
            Pollers::One(_, id) => *id,
            Pollers::None | Pollers::Several => None,
        };
        let [workflows, tasks] = [known(&pollers[0]), known(&pollers[1])];
        workflows.into_iter().chain(tasks.filter(|_| tasks != workflows))
    }

    /// Records that a worker polls here. `id` is the id of its registration, if it has one.
    pub(crate) fn polled(&self, class: WorkClass, worker: &str, id: Option<WorkerId>) {
        let shared = self.registered_several(worker);
        let pollers = &mut self.pollers.lock().unwrap_or_else(PoisonError::into_inner)[place(class)];
        *pollers = match std::mem::take(pollers) {
            _ if shared => Pollers::Several,
            Pollers::None => Pollers::One(worker.to_owned(), id),
            // A worker may register after its first polls.
            Pollers::One(known, known_id)
                if known == worker && known_id.is_none_or(|known| id == Some(known)) =>
            {
                Pollers::One(known, id)
            }
            Pollers::One(..) | Pollers::Several => Pollers::Several,
        };
    }

    /// The number that identifies a reporter. `None` if several workers share the connection.
    pub(crate) fn reporter(&self, class: WorkClass) -> Option<i64> {
        let pollers = &self.pollers.lock().unwrap_or_else(PoisonError::into_inner)[place(class)];
        (!matches!(pollers, Pollers::Several)).then_some(self.number)
    }
}

/// A poll that is held until it is answered or this value is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    connection: Arc<Connection>,
    class: WorkClass,
    answered: bool,
}

impl Held {
    /// How long the poll may be held from now on. `None`: as long as the poll asks.
    pub(crate) fn at_most(&self) -> Option<Duration> {
        self.connection.holding().holds.at_most(Instant::now())
    }

    /// Records that the poll was held for that long. Returns whether it may be held longer.
    pub(crate) fn was_held(&self) -> bool {
        let mut holding = self.connection.holding();
        holding.holds.was_held();
        holding.holds.is_concurrent()
    }

    /// How long the poll is held although there is work for the client's polls of the other class.
    pub(crate) fn yields_after(&self) -> Duration {
        self.connection.holding().holds.yields_after()
    }

    /// The lanes that the client's polls of the other class ask for. Those polls may be blocked by this one.
    pub(crate) fn lanes_beside(&self) -> Vec<Lane> {
        self.connection.holding().lanes[1 - place(self.class)].clone()
    }

    /// Records that the poll is answered with `work` items.
    pub(crate) fn answer(mut self, work: usize) {
        self.answered = true;
        self.connection.holding().holds.answered(work, Instant::now());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.answered {
            self.connection.holding().holds.dropped();
        }
    }
}

fn place(class: WorkClass) -> usize {
    usize::from(class == WorkClass::Task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_several_workers_share_identifies_none_of_them() {
        let (one, other) = (Connection::new(None), Connection::new(None));
        assert_ne!(one.reporter(WorkClass::Task), other.reporter(WorkClass::Task));
        one.polled(WorkClass::Task, "a", None);
        one.polled(WorkClass::Workflow, "b", None);
        one.polled(WorkClass::Task, "a", None);
        assert_eq!(one.reporter(WorkClass::Task), Some(one.number));
        one.polled(WorkClass::Task, "b", None);
        one.polled(WorkClass::Task, "a", None);
        assert_eq!(one.reporter(WorkClass::Task), None);
        assert_eq!(one.reporter(WorkClass::Workflow), Some(one.number));
    }

    #[test]
    fn processes_of_one_name_on_one_connection_are_several_workers() {
        let [a, b] = [1, 2].map(Uuid::from_u128);
        let registered = Connection::new(None);
        registered.registered("w", a);
        registered.polled(WorkClass::Task, "w", Some(a));
        assert_eq!(registered.reporter(WorkClass::Task), Some(registered.number));
        registered.registered("w", b);
        registered.polled(WorkClass::Task, "w", None);
        assert_eq!(registered.reporter(WorkClass::Task), None);

        let polls = Connection::new(None);
        polls.polled(WorkClass::Task, "w", None);
        polls.polled(WorkClass::Task, "w", Some(a));
        assert_eq!(polls.reporter(WorkClass::Task), Some(polls.number), "it registered after its first poll");
        polls.polled(WorkClass::Task, "w", Some(b));
        assert_eq!(polls.reporter(WorkClass::Task), None);
    }
}
