//! Opening real databases on the run's own clock.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flovyn_engine::Loaded;
use flovyn_engine::snapshot::Snapshot;
use flovyn_store::postgres::{PostgresOptions, PostgresStore};
use flovyn_store::sqlite::{Options, SqliteStore};
use flovyn_store::{Clock, Decider, SharedDecider, Step, Store, StoreResult, TransactOptions};

use crate::lockstep::Rows;

pub fn sqlite(directory: &Path, clock: Arc<dyn Clock>) -> Result<Arc<dyn Rows>, String> {
    let options = Options { clock, readers: 1, ..Default::default() };
    let store = SqliteStore::open(directory.join("flovyn.db"), options).map_err(|error| error.to_string())?;
    Ok(Arc::new(Plain(store)))
}

/// PostgreSQL has its own clock. It is overridden by the run's clock, so that all stores decide at the same time.
pub async fn postgres(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Rows>, String> {
    let store = PostgresStore::connect(PostgresOptions::new(url)).await.map_err(|error| error.to_string())?;
    Ok(Arc::new(Clocked { store, clock }))
}

/// A store without changes.
pub struct Plain<S>(pub S);

impl<S> std::fmt::Debug for Plain<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plain")
    }
}

#[async_trait]
impl<S: Store> Rows for Plain<S> {
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        self.0.transact(batch, options).await
    }

    async fn snapshot(&self) -> StoreResult<Snapshot> {
        self.0.snapshot().await
    }
}

struct Clocked {
    store: PostgresStore,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Rows for Clocked {
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        let batch = OverriddenClock { batch, clock: self.clock.clone() };
        self.store.transact(Arc::new(Mutex::new(batch)), options).await
    }

    async fn snapshot(&self) -> StoreResult<Snapshot> {
        self.store.snapshot().await
    }
}

struct OverriddenClock {
    batch: SharedDecider,
    clock: Arc<dyn Clock>,
}

impl Decider for OverriddenClock {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        let loaded = loaded.map(|loaded| Loaded { now: self.clock.now(), ..loaded });
        self.batch.lock().expect("a batch that panicked is not asked again").step(loaded)
    }
}
