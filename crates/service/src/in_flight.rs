//! Batches in flight, and the lanes in which work was left meanwhile. A claim in one batch may have searched a lane
//! just before another batch left work there. Then its poller must search again instead of waiting.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::ids::{TenantId, Text};
use flovyn_engine::state::Lane;
use rustc_hash::FxHashMap;

/// A logical time. It increases when a batch begins, when a batch leaves work, and when a queue is resumed.
type Moment = u64;

#[derive(Debug, Default)]
struct Inner {
    now: Moment,
    /// When each batch in flight began.
    began: BTreeSet<Moment>,
    last_began: Moment,
    /// When work was last left in a lane. Kept as long as a batch is in flight that began before that time.
    left: FxHashMap<Lane, Moment>,
    /// When queues were resumed. Kept for the same time as `left`.
    resumed: FxHashMap<(TenantId, Text), Moment>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct BatchesInFlight {
    inner: Arc<Mutex<Inner>>,
}

/// A batch, from its first load until its callers are answered.
#[derive(Debug)]
pub(crate) struct InFlight {
    all: BatchesInFlight,
    since: Moment,
    /// Whether another batch was in flight when this batch began.
    beside_another: bool,
}

impl Inner {
    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }
}

impl BatchesInFlight {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self) -> InFlight {
        let mut inner = self.lock();
        let (since, beside_another) = (inner.tick(), !inner.began.is_empty());
        inner.began.insert(since);
        inner.last_began = since;
        InFlight { all: self.clone(), since, beside_another }
    }

    /// A durable batch has left work in these lanes.
    pub(crate) fn leaves(&self, lanes: &[Lane]) {
        let mut inner = self.lock();
        // Only another batch can miss the work.
        if inner.began.len() > 1 && !lanes.is_empty() {
            let now = inner.tick();
            inner.left.extend(lanes.iter().map(|lane| (lane.clone(), now)));
        }
    }

    /// The work of this queue can be claimed again.
    pub(crate) fn resumes(&self, tenant_id: TenantId, queue: &Text) {
        let mut inner = self.lock();
        if inner.began.len() > 1 {
            let now = inner.tick();
            inner.resumed.insert((tenant_id, queue.clone()), now);
        }
    }
}

impl InFlight {
    /// Lanes from which a poller of `lanes` can take work, and in which another batch has left work since this batch
    /// began.
    pub(crate) fn missed(&self, lanes: &[Lane]) -> Vec<Lane> {
        let inner = self.all.lock();
        let is_later = |moment: Option<&Moment>| moment.is_some_and(|moment| *moment > self.since);
        let mut missed = Vec::new();
        for lane in lanes {
            let queue = (lane.tenant_id, lane.queue.clone());
            if is_later(inner.left.get(lane))
                || (!inner.resumed.is_empty() && is_later(inner.resumed.get(&queue)))
            {
                missed.push(lane.clone());
            }
            if lane.is_any_kind() {
                let of_kind = |(left, moment): &(&Lane, &Moment)| {
                    left.of_any_kind() == *lane && is_later(Some(*moment))
                };
                missed.extend(inner.left.iter().filter(of_kind).map(|(left, _)| left.clone()));
            }
        }
        missed
    }

    /// Whether another batch has been in flight at the same time. It may have locked rows.
    pub(crate) fn had_company(&self) -> bool {
        self.beside_another || self.all.lock().last_began > self.since
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        inner.began.remove(&self.since);
        let oldest = inner.began.first().copied().unwrap_or(Moment::MAX);
        inner.left.retain(|_, moment| *moment > oldest);
        inner.resumed.retain(|_, moment| *moment > oldest);
    }
}

#[cfg(test)]
mod tests {
    use flovyn_engine::state::WorkClass;
    use uuid::Uuid;

    use super::*;

    fn lane(kind: &str) -> Lane {
        let (tenant_id, class) = (Uuid::nil(), WorkClass::Task);
        Lane { tenant_id, class, queue: "main".into(), kind: kind.into(), version: Default::default() }
    }

    #[test]
    fn a_batch_has_missed_what_was_left_since_it_began_and_nothing_else() {
        let all = BatchesInFlight::default();
        let (early, other) = (all.begin(), all.begin());
        all.leaves(&[lane("a")]);
        let late = all.begin();
        assert_eq!(early.missed(&[lane("b"), lane("a")]), [lane("a")]);
        assert_eq!(other.missed(&[lane("a")]), [lane("a")]);
        assert_eq!(
            early.missed(&[lane("a").of_any_kind()]),
            [lane("a")],
            "a poller of any kind gets the lane itself"
        );
        assert!(early.missed(&[lane("b")]).is_empty() && late.missed(&[lane("a")]).is_empty());
        all.resumes(Uuid::nil(), &"main".into());
        assert_eq!(late.missed(&[lane("b")]), [lane("b")], "whatever is in the queue");
        all.resumes(Uuid::nil(), &"other".into());
        assert!(all.begin().missed(&[lane("b")]).is_empty());
    }

    #[test]
    fn it_is_known_who_had_company() {
        let all = BatchesInFlight::default();
        let first = all.begin();
        assert!(!first.had_company());
        let second = all.begin();
        assert!(first.had_company() && second.had_company());
        drop(second);
        assert!(first.had_company(), "meanwhile");
        drop(first);
        assert!(!all.begin().had_company());
    }

    #[test]
    fn nothing_is_remembered_that_nobody_can_have_missed() {
        let all = BatchesInFlight::default();
        let alone = all.begin();
        all.leaves(&[lane("a")]);
        assert!(all.lock().left.is_empty(), "no other batch is in flight");
        let mut last = all.begin();
        for number in 0..100 {
            // A batch is always in flight, but each time another one.
            all.leaves(&[lane(&number.to_string())]);
            last = all.begin();
        }
        assert_eq!(all.lock().left.len(), 100);
        drop(alone);
        assert!(all.lock().left.is_empty());
        drop(last);
        assert!(all.lock().began.is_empty());
    }
}
