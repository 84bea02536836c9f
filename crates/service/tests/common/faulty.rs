//! A store that injects faults into another store. It is for a single service, because it decides and writes in two
//! transactions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flovyn_engine::{Change, Loaded, Mutations, Now};
use flovyn_store::{Decider, SharedDecider, Step, Store, StoreError, TransactOptions, store_around};
use tokio::sync::Semaphore;

/// The input of a workflow that this store cannot write.
pub(crate) const UNSTORABLE: &str = "\"unstorable\"";

/// More permits than transactions can ever run at once.
const ALL: usize = 1 << 20;

/// The fault of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The commit succeeds.
    None,
    /// Nothing is written, because another writer changed a row first.
    Conflict,
    /// Nothing is written, and the outcome is unknown.
    LostBefore,
    /// Everything is written, and the outcome is unknown.
    LostAfter,
    /// The database cannot be reached.
    Unavailable,
    Fatal,
    /// A damaged page was found.
    Damaged,
}

pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    faults: Mutex<VecDeque<Fault>>,
    /// Has one permit for each transaction that may begin.
    gate: Semaphore,
    waiting: AtomicUsize,
}

impl Faulty {
    /// Applies the given faults, commit by commit; after the last one, commits succeed.
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Mutex::default(),
            gate: Semaphore::new(ALL),
            waiting: AtomicUsize::new(0),
        })
    }

    pub(crate) fn next(&self, faults: &[Fault]) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// From now on, transactions wait.
    pub(crate) fn hold(&self) {
        assert_eq!(self.gate.forget_permits(ALL), ALL, "nothing is in flight");
    }

    /// Lets the waiting transactions and all later ones continue.
    pub(crate) fn release(&self) {
        self.gate.add_permits(ALL);
    }

    /// The number of waiting transactions.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn take_fault(&self) -> Fault {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Fault::None)
    }

    async fn run(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _permit = self.gate.acquire().await.expect("the gate is never closed");
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let watched = Arc::new(Mutex::new(Watched { batch, held: None }));
        self.inner.transact(watched.clone(), options).await?;
        let Some(mutations) = watched.lock().unwrap_or_else(PoisonError::into_inner).held.take() else {
            return Ok(());
        };
        if is_unstorable(&mutations) {
            return Err(StoreError::Refused("the input is marked as unstorable".to_owned()));
        }
        match self.take_fault() {
            Fault::None => self.write(mutations, options).await,
            Fault::Conflict => Err(StoreError::Conflict("as ordered".to_owned())),
            Fault::LostBefore => Err(StoreError::OutcomeUnknown("as ordered".to_owned())),
            Fault::LostAfter => {
                self.write(mutations, options).await?;
                Err(StoreError::OutcomeUnknown("as ordered".to_owned()))
            }
            Fault::Unavailable => Err(StoreError::Unavailable("as ordered".to_owned())),
            Fault::Fatal => Err(StoreError::Fatal("as ordered".to_owned())),
            Fault::Damaged => Err(StoreError::Damaged("as ordered".to_owned())),
        }
    }

    /// Only commits fail, not reads.
    async fn reads(&self) -> StoreResult<()> {
        Ok(())
    }

    async fn write(&self, mutations: Box<Mutations>, options: TransactOptions) -> StoreResult<()> {
        self.inner.transact(Arc::new(Mutex::new(Write(Some(mutations)))), options).await
    }
}

/// Lets the batch decide, and keeps the mutations that it would write.
struct Watched {
    batch: SharedDecider,
    held: Option<Box<Mutations>>,
}

impl Decider for Watched {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match self.batch.lock().unwrap_or_else(PoisonError::into_inner).step(loaded) {
            Step::Commit(mutations) => {
                self.held = Some(mutations);
                Step::Done
            }
            step => step,
        }
    }
}

struct Write(Option<Box<Mutations>>);

impl Decider for Write {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match loaded {
            None => Step::Load(Default::default()),
            Some(_) => self.0.take().map_or(Step::Done, Step::Commit),
        }
    }
}

fn is_unstorable(mutations: &Mutations) -> bool {
    let marked = |change: &Change<Event>| match change {
        Change::Insert(event) => event.payload.as_deref() == Some(UNSTORABLE.as_bytes()),
        _ => false,
    };
    mutations.events.iter().any(marked)
}

store_around!(Faulty, reads, {
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        self.run(batch, options).await
    }

    async fn now(&self) -> StoreResult<Now> {
        self.inner.now().await
    }

    async fn turn_take(&self, name: &str, every_ms: i64) -> StoreResult<bool> {
        self.inner.turn_take(name, every_ms).await
    }
});
