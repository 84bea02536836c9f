//! Sends requests one by one to all stores at once, with a clock that a seed moves.

use std::sync::Arc;

use flovyn_engine::request::*;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::{ClockKind, Due};
use flovyn_engine::{Decided, Limits, Op, Request};
use flovyn_store::{Clock, ManualClock};
use uuid::Uuid;

use crate::generate::TENANTS;
use crate::lockstep::{Rows, decide};
use crate::rng::Rng;

pub(crate) struct Stage<'a> {
    pub(crate) rng: Rng,
    seed: u64,
    clock: &'a ManualClock,
    stores: &'a [(&'a str, Arc<dyn Rows>)],
    limits: Arc<Limits>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(seed: u64, clock: &'a ManualClock, stores: &'a [(&'a str, Arc<dyn Rows>)]) -> Self {
        Self { rng: Rng::new(seed), seed: seed << 20, clock, stores, limits: Arc::new(Limits::default()) }
    }

    /// The clock of leases.
    pub(crate) fn lease_ms(&self) -> i64 {
        self.clock.now().lease_ms
    }

    /// Lets time pass and fires everything that becomes due.
    pub(crate) async fn pass(&mut self) -> Result<(), String> {
        self.clock.advance_ms(self.rng.of([1_000, 30_000, 70_000, 400_000]));
        for _ in 0..100 {
            let now = self.clock.now();
            let come = |row: &&Due| match row.clock {
                ClockKind::Product => row.due_ms <= now.ms,
                ClockKind::Lease => row.due_ms <= now.lease_ms,
            };
            let Some(due) = self.snapshot().await?.due.iter().find(come).cloned() else { return Ok(()) };
            self.ask(None, FireDue { due }.into()).await?;
        }
        Err("due rows never run out".to_owned())
    }

    pub(crate) async fn snapshot(&self) -> Result<Snapshot, String> {
        self.stores[0].1.snapshot().await.map_err(|error| error.to_string())
    }

    pub(crate) async fn ask(&mut self, peer: Option<Peer>, op: Op) -> Result<Decided, String> {
        self.seed += 1;
        let tenant = Uuid::from_u128(TENANTS[0]);
        let request = Request { peer: peer.map(Arc::new), ..Request::new(tenant, self.seed, op) };
        let requests = [Arc::new(request)];
        let mut first: Option<Vec<Decided>> = None;
        for (name, store) in self.stores {
            let decided = decide(store.as_ref(), &requests, &self.limits).await.map_err(|e| e.to_string())?;
            if first.get_or_insert_with(|| decided.clone()) != &decided {
                return Err(format!("{name} answers {decided:?}, expected {first:?}"));
            }
        }
        first.and_then(|mut decided| decided.pop()).ok_or_else(|| "no answer".to_owned())
    }
}
