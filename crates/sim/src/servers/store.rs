//! The database as one simulated server sees it: every answer takes time, and faults occur.
//!
//! The rows are in the memory store. Between the steps of a transaction other servers may run, as on a real database.
//! Conflicts are decided either by row locks or by the versions of the written rows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flovyn_engine::{Loaded, Mutations, Now, Wants};
use flovyn_store::{
    Clock, Decider, Hint, SharedDecider, Step, Store, StoreError, TransactOptions, store_around,
};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::chaos::Fault;
use super::server::Machine;
use super::world::World;

/// How long a transaction waits for rows that other transactions have locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) struct SimulatedStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) world: Arc<World>,
    pub(super) machine: Arc<Machine>,
}

/// A transaction. Its locks are released on drop.
struct Transaction<'a> {
    world: &'a World,
    id: u64,
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.world.lock().locks.free(self.id);
        self.world.lock_freed.notify_waiters();
    }
}

impl SimulatedStore {
    /// Waits for the database. The server may die or freeze meanwhile.
    async fn pace(&self, stage: &str) {
        let name = || format!("{} {stage}", self.machine.name);
        self.machine.running().await;
        if self.world.strikes(Fault::CrashServer, name) {
            self.machine.die();
            std::future::pending::<()>().await;
        }
        if self.world.strikes(Fault::PauseServer, name) {
            self.machine.pause(1_000 + self.world.below(9_000));
        }
        let slow = self.world.strikes(Fault::Delay, name);
        let ms = if slow { 50 + self.world.below(2_000) } else { self.world.below(4) };
        self.world.sleep(ms).await;
        self.machine.running().await;
    }

    async fn reads(&self) -> StoreResult<()> {
        self.pace("reads").await;
        match self.world.strikes(Fault::ReadError, || self.machine.name.clone()) {
            true => Err(StoreError::Unavailable("simulated".to_owned())),
            false => Ok(()),
        }
    }

    async fn run(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        let transaction = Transaction { world: &self.world, id: self.world.begin() };
        // Every transaction takes time: otherwise a server that retries at once would stop the virtual clock.
        self.world.sleep(1).await;
        let mut loaded = None;
        loop {
            let step = batch.lock().unwrap_or_else(PoisonError::into_inner).step(loaded.take());
            match step {
                Step::Load(wants) => {
                    self.pace("loads").await;
                    if options.wait_for_locks {
                        self.wait_for_locks(transaction.id, &wants).await?;
                    }
                    loaded = Some(self.load(transaction.id, wants).await?);
                }
                Step::Commit(mutations) => return self.commit(transaction, mutations).await,
                Step::Done => return Ok(()),
            }
        }
    }

    async fn wait_for_locks(&self, transaction: u64, wants: &Wants) -> StoreResult<()> {
        let free = async {
            loop {
                let freed = self.world.lock_freed.notified();
                if !self.world.locking || !self.world.lock().locks.blocks(transaction, wants) {
                    return;
                }
                freed.await;
            }
        };
        let waited = tokio::time::timeout(LOCK_TIMEOUT, free).await;
        waited.map_err(|_| StoreError::Conflict("waited too long for a lock".to_owned()))
    }

    async fn load(&self, transaction: u64, wants: Arc<Wants>) -> StoreResult<Loaded> {
        let reader = Arc::new(Mutex::new(Read { wants: wants.clone(), found: None }));
        self.inner.transact(reader.clone(), plain()).await?;
        let found = reader.lock().unwrap_or_else(PoisonError::into_inner).found.take();
        let mut loaded = found.unwrap_or_else(|| Loaded::at(self.world.clock.now()));
        if self.world.locking {
            self.world.lock().locks.take(transaction, &wants, &mut loaded);
        }
        Ok(loaded)
    }

    async fn commit(&self, transaction: Transaction<'_>, mutations: Box<Mutations>) -> StoreResult<()> {
        let name = || self.machine.name.clone();
        self.pace("commits").await;
        if self.world.strikes(Fault::Conflict, name) {
            return Err(StoreError::Conflict("simulated".to_owned()));
        }
        if self.world.strikes(Fault::ErrorBefore, name) {
            return Err(StoreError::Unavailable("simulated".to_owned()));
        }
        if self.world.strikes(Fault::UnknownBefore, name) {
            return Err(StoreError::OutcomeUnknown("simulated".to_owned()));
        }
        let summary = summary(&mutations);
        if let Err(error) = self.inner.transact(Arc::new(Mutex::new(Write(Some(mutations)))), plain()).await {
            self.world.lock().figures.met += 1;
            self.world.say(|| format!("{}: {error}", self.machine.name));
            return Err(error);
        }
        self.world.lock().figures.commits += 1;
        self.world.say(|| format!("{} wrote {summary}", self.machine.name));
        self.world.check().await;
        drop(transaction);
        self.pace("has committed").await;
        match self.world.strikes(Fault::UnknownAfter, name) {
            true => Err(StoreError::OutcomeUnknown("simulated".to_owned())),
            false => Ok(()),
        }
    }

    /// The first server that asks after the interval has the turn.
    fn take_turn(&self, name: &str, every_ms: i64) -> bool {
        let now_ms = self.world.clock.now().ms;
        let mut inner = self.world.lock();
        let last_ms = inner.turns.entry(name.to_owned()).or_insert(i64::MIN / 2);
        let is_over = now_ms - *last_ms >= every_ms;
        if is_over {
            *last_ms = now_ms;
        }
        is_over
    }
}

store_around!(SimulatedStore, reads, {
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        self.run(batch, options).await
    }

    /// The time as this server sees it. Decisions use the database's own time.
    async fn now(&self) -> StoreResult<Now> {
        self.reads().await?;
        Ok(Now::same(self.world.clock.now().ms + self.machine.skew_ms()))
    }

    fn is_shared(&self) -> bool {
        !self.world.alone
    }

    fn hint_ready(&self, lanes: &[Lane]) {
        self.machine.send_hints(&self.world, lanes);
    }

    fn hints(&self) -> Option<mpsc::Receiver<Hint>> {
        self.machine.hints()
    }

    async fn turn_take(&self, name: &str, every_ms: i64) -> StoreResult<bool> {
        self.reads().await?;
        Ok(self.take_turn(name, every_ms))
    }
});

fn plain() -> TransactOptions {
    TransactOptions { batch_id: Uuid::nil(), wait_for_locks: false }
}

/// A summary of the written rows, for the trace.
fn summary(mutations: &Mutations) -> String {
    let rows = |change: &flovyn_engine::Change<Event>| match change {
        flovyn_engine::Change::Insert(event) => {
            Some(format!("{}#{} {}", super::short(event.execution_id), event.sequence, event.kind))
        }
        _ => None,
    };
    let events: Vec<String> = mutations.events.iter().filter_map(rows).collect();
    format!("{} rows; {}", mutations.len(), events.join(", "))
}

/// Reads rows once.
struct Read {
    wants: Arc<Wants>,
    found: Option<Loaded>,
}

impl Decider for Read {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match loaded {
            None => Step::Load(self.wants.clone()),
            found => {
                self.found = found;
                Step::Done
            }
        }
    }
}

/// Writes given rows.
pub(super) struct Write(pub(super) Option<Box<Mutations>>);

impl Decider for Write {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match loaded {
            None => Step::Load(Arc::default()),
            Some(_) => self.0.take().map_or(Step::Done, Step::Commit),
        }
    }
}
