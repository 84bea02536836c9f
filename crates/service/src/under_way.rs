//! Batches under way, and the lanes in which work was left meanwhile. A claim in one batch may have searched a lane just before
//! another batch left work there: its poller must not wait as if there were nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::state::Lane;
use rustc_hash::FxHashMap;

/// Counts on with every batch that leaves work.
type Moment = u64;

#[derive(Debug, Default)]
struct Inner {
    now: Moment,
    /// How many batches began when.
    began: BTreeMap<Moment, usize>,
    /// When work was last left in a lane, as long as a batch is under way that began before.
    left: FxHashMap<Lane, Moment>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct BatchesUnderWay {
    inner: Arc<Mutex<Inner>>,
}

/// A batch from its first load until everybody is answered.
#[derive(Debug)]
pub(crate) struct UnderWay {
    all: BatchesUnderWay,
    since: Moment,
}

impl BatchesUnderWay {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self) -> UnderWay {
        let mut inner = self.lock();
        let since = inner.now;
        *inner.began.entry(since).or_default() += 1;
        UnderWay { all: self.clone(), since }
    }

    /// A batch that is durable has made work ready in these lanes that nobody in it has taken.
    pub(crate) fn leaves(&self, lanes: &[Lane]) {
        let mut inner = self.lock();
        let others = inner.began.values().sum::<usize>() > 1;
        if !others || lanes.is_empty() {
            return;
        }
        inner.now += 1;
        let now = inner.now;
        let with_any_kind = lanes.iter().flat_map(|lane| [lane.clone(), lane.of_any_kind()]);
        inner.left.extend(with_any_kind.map(|lane| (lane, now)));
    }
}

impl UnderWay {
    /// Whether another batch has left work in one of these lanes since this one began.
    pub(crate) fn has_missed(&self, lanes: &[Lane]) -> bool {
        let left = &self.all.lock().left;
        lanes.iter().any(|lane| left.get(lane).is_some_and(|moment| *moment > self.since))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        if let Some(count) = inner.began.get_mut(&self.since) {
            *count -= 1;
            if *count == 0 {
                inner.began.remove(&self.since);
            }
        }
        let oldest = inner.began.keys().next().copied().unwrap_or(Moment::MAX);
        inner.left.retain(|_, moment| *moment > oldest);
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
        let all = BatchesUnderWay::default();
        let (early, other) = (all.begin(), all.begin());
        all.leaves(&[lane("a")]);
        let late = all.begin();
        assert!(early.has_missed(&[lane("b"), lane("a")]) && other.has_missed(&[lane("a")]));
        assert!(early.has_missed(&[lane("a").of_any_kind()]), "whoever takes any kind");
        assert!(!early.has_missed(&[lane("b")]) && !late.has_missed(&[lane("a")]));
    }

    #[test]
    fn nothing_is_remembered_that_nobody_can_have_missed() {
        let all = BatchesUnderWay::default();
        let alone = all.begin();
        all.leaves(&[lane("a")]);
        assert!(all.lock().left.is_empty(), "there is no other batch");
        let mut last = all.begin();
        for number in 0..100 {
            // There is always one under way, and never the same.
            all.leaves(&[lane(&number.to_string())]);
            last = all.begin();
        }
        assert_eq!(all.lock().left.len(), 101, "100 lanes, and those of any kind");
        drop(alone);
        assert!(all.lock().left.is_empty());
        drop(last);
        assert!(all.lock().began.is_empty());
    }
}
