//! Connections of gRPC clients, told apart: clients of the public protocol report without a claim token, and the connection
//! says which of them it is.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Extensions;
use flovyn_engine::ids::{TaskId, WorkerId};
use flovyn_engine::state::{Lane, WorkClass};
use tonic::transport::server::TlsConnectInfo;
use uuid::Uuid;

use super::holds::Holds;
use super::vouched::{Vouched, VouchedClaim};

/// One connection of a client.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Drawn at random: no other connection has it, of this process or another one, now or later.
    number: i64,
    /// The address at its other end.
    pub(crate) address: Option<SocketAddr>,
    /// Who has polled here for workflows, and for tasks.
    pollers: Mutex<[Pollers; 2]>,
    holding: Mutex<Holding>,
    vouched: Mutex<Vouched>,
    processes: Mutex<HashMap<String, Process>>,
}

/// The process that has registered under a name on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    One(WorkerId),
    /// A proxy: the connection does not say which of them polls.
    Several,
}

/// Names whose processes are remembered.
const MAX_NAMES: usize = 1_000;

/// How polls are held here.
#[derive(Debug)]
struct Holding {
    holds: Holds,
    /// What the last poll for workflows, and the last one for tasks, asked for.
    lanes: [Vec<Lane>; 2],
}

/// The workers that poll on a connection for one class of work.
#[derive(Debug, Default)]
enum Pollers {
    #[default]
    None,
    /// With its id, if it is registered.
    One(String, Option<WorkerId>),
    /// A proxy, or a program that runs several workers: the connection says nothing about who reports.
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

    /// The connection on which a request has come.
    pub(crate) fn of(extensions: &Extensions) -> Option<Arc<Self>> {
        let tls = || extensions.get::<TlsConnectInfo<Arc<Self>>>().map(TlsConnectInfo::get_ref);
        extensions.get::<Arc<Self>>().or_else(tls).cloned()
    }

    /// Held for a moment, never across an await.
    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to hold a poll. `lanes`: what it asks for; empty if its worker has nothing of the class.
    pub(crate) fn hold(self: Arc<Self>, class: WorkClass, lanes: impl FnOnce() -> Vec<Lane>) -> Held {
        let mut holding = self.holding();
        holding.holds.begins(class);
        if !holding.holds.is_concurrent() {
            holding.lanes[place(class)] = lanes();
        }
        drop(holding);
        Held { connection: self, class, answered: false }
    }

    /// A worker reports a result here.
    pub(crate) fn reports(&self) {
        self.holding().holds.reports(Instant::now());
    }

    /// An application calls here.
    pub(crate) fn calls(&self) {
        self.holding().holds.calls(Instant::now());
    }

    /// Its client has claimed a task, for so long.
    pub(crate) fn took(&self, claim: VouchedClaim, lease: Duration, extension: Duration) {
        self.vouched().took(claim, Instant::now() + lease, extension);
    }

    /// A task's end was reported here.
    pub(crate) fn ended(&self, task_id: TaskId) {
        self.vouched().ended(task_id);
    }

    /// Its client shows life: claims that are to be extended.
    pub(crate) fn shows_life(&self, extension: Duration) -> Vec<VouchedClaim> {
        self.vouched().shows_life(Instant::now(), extension)
    }

    fn vouched(&self) -> MutexGuard<'_, Vouched> {
        self.vouched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process has registered here.
    pub(crate) fn registered(&self, name: &str, id: WorkerId) {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        match processes.get(name) {
            Some(known) if *known == Process::One(id) => {}
            Some(_) => drop(processes.insert(name.to_owned(), Process::Several)),
            None if processes.len() < MAX_NAMES => drop(processes.insert(name.to_owned(), Process::One(id))),
            None => {}
        }
    }

    /// The only process that has registered here under this name.
    pub(crate) fn process(&self, name: &str) -> Option<WorkerId> {
        match self.processes.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            Some(Process::One(id)) => Some(*id),
            Some(Process::Several) | None => None,
        }
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

    /// Notes that a worker polls here. `id`: of its registration.
    pub(crate) fn polled(&self, class: WorkClass, worker: &str, id: Option<WorkerId>) {
        let pollers = &mut self.pollers.lock().unwrap_or_else(PoisonError::into_inner)[place(class)];
        match pollers {
            Pollers::One(known, known_id) if known == worker => *known_id = id,
            Pollers::None => *pollers = Pollers::One(worker.to_owned(), id),
            _ => *pollers = Pollers::Several,
        }
    }

    /// The number by which a reporter is known. `None`: several workers share the connection.
    pub(crate) fn reporter(&self, class: WorkClass) -> Option<i64> {
        let pollers = &self.pollers.lock().unwrap_or_else(PoisonError::into_inner)[place(class)];
        (!matches!(pollers, Pollers::Several)).then_some(self.number)
    }
}

/// A poll that is held, until it is answered or this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    connection: Arc<Connection>,
    class: WorkClass,
    answered: bool,
}

impl Held {
    /// For how long the poll may be held from now on. `None`: for as long as it asks.
    pub(crate) fn at_most(&self) -> Option<Duration> {
        self.connection.holding().holds.at_most(Instant::now())
    }

    /// It has been held for that long. Returns whether it may be held on.
    pub(crate) fn was_held(&self) -> bool {
        let mut holding = self.connection.holding();
        holding.holds.was_held();
        holding.holds.is_concurrent()
    }

    /// What the client asks for in polls of the other class, which may be standing still.
    pub(crate) fn lanes_beside(&self) -> Vec<Lane> {
        self.connection.holding().lanes[1 - place(self.class)].clone()
    }

    /// It is answered with so many items of work.
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
}
