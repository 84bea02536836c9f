//! What each session holds: claims that were pushed and not yet settled. Outlives a connection by the grace time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::ids::{TenantId, WorkerId};
use rustc_hash::FxHashMap;
use uuid::Uuid;

/// A claim of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) token: i64,
    pub(super) is_task: bool,
}

/// The claims of one session, by execution or task.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    held: Mutex<FxHashMap<Uuid, Held>>,
}

impl Holdings {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<Uuid, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, id: Uuid, held: Held) {
        self.lock().insert(id, held);
    }

    /// Settled: its result was accepted, or it is no longer ours.
    pub(super) fn remove(&self, id: Uuid, token: Option<i64>) {
        let mut held = self.lock();
        if held.get(&id).is_some_and(|known| token.is_none_or(|token| token == known.token)) {
            held.remove(&id);
        }
    }

    pub(super) fn holds(&self, id: Uuid, token: i64) -> bool {
        self.lock().get(&id).is_some_and(|known| known.token == token)
    }

    pub(super) fn take_all(&self) -> Vec<(Uuid, Held)> {
        self.lock().drain().collect()
    }

    /// Takes out whatever the worker does not name.
    pub(super) fn take_all_but(&self, named: &FxHashMap<Uuid, i64>) -> Vec<(Uuid, Held)> {
        self.lock().extract_if(|id, held| named.get(id) != Some(&held.token)).collect()
    }

    pub(super) fn tasks(&self) -> Vec<(Uuid, i64)> {
        let held = self.lock();
        held.iter().filter(|(_, held)| held.is_task).map(|(id, held)| (*id, held.token)).collect()
    }
}

#[derive(Debug)]
struct Known {
    holdings: Arc<Holdings>,
    /// Number of its connection: an older one has nothing more to say.
    connection: u64,
}

/// All sessions of this process.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    known: Mutex<FxHashMap<(TenantId, WorkerId), Known>>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<(TenantId, WorkerId), Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session begins or comes back. Returns what it holds and the number of this connection.
    pub(super) fn begin(&self, tenant_id: TenantId, session: WorkerId) -> (Arc<Holdings>, u64) {
        let mut known = self.lock();
        let entry = known
            .entry((tenant_id, session))
            .or_insert_with(|| Known { holdings: Arc::default(), connection: 0 });
        entry.connection += 1;
        (entry.holdings.clone(), entry.connection)
    }

    /// Forgets the session, unless it has a newer connection by now. Returns what it held.
    pub(super) fn end(&self, tenant_id: TenantId, session: WorkerId, connection: u64) -> Vec<(Uuid, Held)> {
        let mut known = self.lock();
        let key = (tenant_id, session);
        if known.get(&key).is_none_or(|known| known.connection != connection) {
            return Vec::new();
        }
        known.remove(&key).map(|known| known.holdings.take_all()).unwrap_or_default()
    }
}
