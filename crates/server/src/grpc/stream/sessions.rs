//! The claims that each session holds: pushed and not yet settled. They outlive a connection by the grace time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::ids::{TenantId, WorkerId};
use rustc_hash::FxHashMap;
use tokio::sync::watch;
use uuid::Uuid;

/// A claim of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) token: i64,
    pub(super) is_task: bool,
}

/// The most cancel requests that are remembered for claims which are still being sent to the worker.
const EARLY_CANCELS: usize = 1_024;

#[derive(Debug, Default)]
struct Inner {
    held: FxHashMap<Uuid, Held>,
    /// Tasks to be stopped that are not held yet, the newest last.
    early: VecDeque<(Uuid, i64)>,
}

/// The claims of one session, by execution or task.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    inner: Mutex<Inner>,
    /// The number of the session's newest connection. An older connection receives nothing more and ends.
    newest: watch::Sender<u64>,
}

impl Holdings {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds all items that are sent to the worker on this connection, or none. Returns those tasks among them that were
    /// cancelled in the meantime. `None` if the session has a newer connection.
    pub(super) fn add(&self, connection: u64, items: &[(Uuid, Held)]) -> Option<Vec<(Uuid, i64)>> {
        let mut inner = self.lock();
        if *self.newest.borrow() != connection {
            return None;
        }
        inner.held.extend(items.iter().copied());
        if inner.early.is_empty() {
            return Some(Vec::new());
        }
        let (stopped, early) = inner
            .early
            .drain(..)
            .partition(|(id, token)| items.iter().any(|(added, held)| added == id && held.token == *token));
        inner.early = early;
        Some(Vec::from(stopped))
    }

    /// Removes a settled claim: its result was accepted, or the session does not hold it any more.
    pub(super) fn remove(&self, id: Uuid, token: Option<i64>) {
        let held = &mut self.lock().held;
        if held.get(&id).is_some_and(|known| token.is_none_or(|token| token == known.token)) {
            held.remove(&id);
        }
    }

    /// Whether the worker has the task and must be asked to stop. If the task is still being sent, the request is
    /// remembered.
    pub(super) fn stops(&self, id: Uuid, token: i64) -> bool {
        let mut inner = self.lock();
        if inner.held.get(&id).is_some_and(|known| known.token == token) {
            return true;
        }
        if inner.early.len() >= EARLY_CANCELS {
            inner.early.pop_front();
        }
        inner.early.push_back((id, token));
        false
    }

    fn take_all(&self) -> Vec<(Uuid, Held)> {
        self.lock().held.drain().collect()
    }

    /// Makes this connection the session's newest. Removes and returns the claims that the worker does not name.
    fn take_over(&self, connection: u64, named: &FxHashMap<Uuid, i64>) -> Vec<(Uuid, Held)> {
        let mut inner = self.lock();
        self.newest.send_replace(connection);
        inner.held.extract_if(|id, held| named.get(id) != Some(&held.token)).collect()
    }

    /// Completes when the session has a newer connection than this one.
    pub(super) async fn taken_over(&self, connection: u64) {
        // This value owns the sender, so it cannot be closed.
        let _ = self.newest.subscribe().wait_for(|newest| *newest != connection).await;
    }

    pub(super) fn tasks(&self) -> Vec<(Uuid, i64)> {
        let inner = self.lock();
        inner.held.iter().filter(|(_, held)| held.is_task).map(|(id, held)| (*id, held.token)).collect()
    }
}

#[derive(Debug)]
struct Known {
    holdings: Arc<Holdings>,
    /// The number of its newest connection. Older ones may not change the session.
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

    /// Begins or resumes a session, which ends its older connections. Returns its claims, the number of this
    /// connection, and the claims that the worker does not name.
    pub(super) fn begin(
        &self,
        tenant_id: TenantId,
        session: WorkerId,
        named: &FxHashMap<Uuid, i64>,
    ) -> (Arc<Holdings>, u64, Vec<(Uuid, Held)>) {
        let mut known = self.lock();
        let entry = known
            .entry((tenant_id, session))
            .or_insert_with(|| Known { holdings: Arc::default(), connection: 0 });
        entry.connection += 1;
        let forgotten = entry.holdings.take_over(entry.connection, named);
        (entry.holdings.clone(), entry.connection, forgotten)
    }

    /// Whether this process knows the session's claims.
    pub(super) fn knows(&self, tenant_id: TenantId, session: WorkerId) -> bool {
        self.lock().contains_key(&(tenant_id, session))
    }

    /// Removes the session, unless it has a newer connection by now. Returns the claims that it held.
    pub(super) fn end(&self, tenant_id: TenantId, session: WorkerId, connection: u64) -> Vec<(Uuid, Held)> {
        let mut known = self.lock();
        let key = (tenant_id, session);
        if known.get(&key).is_none_or(|known| known.connection != connection) {
            return Vec::new();
        }
        known.remove(&key).map(|known| known.holdings.take_all()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Held = Held { token: 7, is_task: true };

    #[test]
    fn a_task_that_is_cancelled_on_its_way_is_named_when_it_goes_out() {
        let sessions = Sessions::default();
        let (holdings, connection, _) = sessions.begin(Uuid::nil(), Uuid::nil(), &FxHashMap::default());
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert!(!holdings.stops(one, 7));
        assert_eq!(holdings.add(connection, &[(one, HELD), (two, HELD)]), Some(vec![(one, 7)]));
        assert_eq!(holdings.add(connection, &[(one, HELD)]), Some(Vec::new()));
        assert!(holdings.stops(two, 7));
    }

    #[test]
    fn early_cancels_are_not_kept_without_end() {
        let holdings = Holdings::default();
        for number in 0..2 * EARLY_CANCELS {
            holdings.stops(Uuid::from_u128(number as u128), 1);
        }
        assert_eq!(holdings.lock().early.len(), EARLY_CANCELS);
    }

    #[test]
    fn an_older_connection_gets_nothing_and_releases_nothing() {
        let sessions = Sessions::default();
        let begin = || sessions.begin(Uuid::nil(), Uuid::nil(), &FxHashMap::default());
        let (old_holdings, old, _) = begin();
        let id = Uuid::from_u128(1);
        assert!(old_holdings.add(old, &[(id, HELD)]).is_some());
        let (holdings, new, forgotten) = begin();
        assert_eq!(forgotten, [(id, HELD)]);
        assert_eq!(old_holdings.add(old, &[(id, HELD)]), None);
        assert!(holdings.add(new, &[(id, HELD)]).is_some());
        assert!(sessions.end(Uuid::nil(), Uuid::nil(), old).is_empty());
        assert_eq!(sessions.end(Uuid::nil(), Uuid::nil(), new), [(id, HELD)]);
    }
}
