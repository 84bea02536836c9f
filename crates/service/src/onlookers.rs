//! Onlookers: they are notified of ready work that no poller takes, and do not claim it.

use std::collections::BTreeMap;
use std::sync::Arc;

use flovyn_engine::state::Lane;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::dispatch::Dispatch;

/// The number of an onlooker, in order of arrival.
type OnlookerId = u64;

#[derive(Debug, Default)]
pub(crate) struct Onlookers {
    next_id: OnlookerId,
    lanes: FxHashMap<Lane, BTreeMap<OnlookerId, Arc<Notify>>>,
}

/// Registered for notification until dropped.
#[derive(Debug)]
pub struct Onlooker {
    dispatch: Dispatch,
    id: OnlookerId,
    lanes: Vec<Lane>,
    notify: Arc<Notify>,
}

impl Onlooker {
    /// Completes when one of the lanes has work and no poller waits for it. Completes only once.
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

    /// This lane has work: notifies the onlooker that has waited longest, and no other.
    pub(crate) fn tell_one(&mut self, lane: &Lane) {
        if self.lanes.is_empty() {
            return;
        }
        let any = lane.of_any_kind();
        let first = |lane| self.lanes.get(lane).and_then(|all| all.first_key_value());
        let found = first(lane).into_iter().chain(first(&any)).min_by_key(|(id, _)| **id);
        let Some((id, notify)) = found.map(|(id, notify)| (*id, notify.clone())) else { return };
        notify.notify_one();
        // It is notified only once. Its other lanes stay registered until it is dropped, which is soon.
        self.remove(id, &[lane.clone(), any]);
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.keys()
    }
}
