//! Those who want to know of ready work that no poller takes, without claiming it.

use std::collections::BTreeMap;
use std::sync::Arc;

use flovyn_engine::state::Lane;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::dispatch::Dispatch;

/// Numbers onlookers in the order they came.
type OnlookerId = u64;

#[derive(Debug, Default)]
pub(crate) struct Onlookers {
    next_id: OnlookerId,
    lanes: FxHashMap<Lane, BTreeMap<OnlookerId, Arc<Notify>>>,
}

/// Somebody who looks on until this is dropped.
#[derive(Debug)]
pub struct Onlooker {
    dispatch: Dispatch,
    id: OnlookerId,
    lanes: Vec<Lane>,
    notify: Arc<Notify>,
}

impl Onlooker {
    /// Completes when there is work in one of the lanes that nobody waits for. Once only.
    pub async fn sees_work(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        self.dispatch.with_onlookers(|onlookers| onlookers.remove(self.id, &self.lanes));
    }
}

impl Onlookers {
    pub(crate) fn add(&mut self, dispatch: Dispatch, lanes: Vec<Lane>) -> Onlooker {
        let (id, notify) = (self.next_id, Arc::new(Notify::new()));
        self.next_id += 1;
        for lane in &lanes {
            self.lanes.entry(lane.clone()).or_default().insert(id, notify.clone());
        }
        Onlooker { dispatch, id, lanes, notify }
    }

    fn remove(&mut self, id: OnlookerId, lanes: &[Lane]) {
        for lane in lanes {
            if let Some(all) = self.lanes.get_mut(lane) {
                all.remove(&id);
                if all.is_empty() {
                    self.lanes.remove(lane);
                }
            }
        }
    }

    /// There is work in this lane: whoever has looked on longest is told of it, and nobody else.
    pub(crate) fn tell_one(&mut self, lane: &Lane) {
        if self.lanes.is_empty() {
            return;
        }
        let any = lane.of_any_kind();
        let first = |lane| self.lanes.get(lane).and_then(|all| all.first_key_value());
        let found = first(lane).into_iter().chain(first(&any)).min_by_key(|(id, _)| **id);
        let Some((id, notify)) = found.map(|(id, notify)| (*id, notify.clone())) else { return };
        notify.notify_one();
        // Told once. Its other lanes stay until it is dropped, which is soon.
        self.remove(id, &[lane.clone(), any]);
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.keys()
    }
}
