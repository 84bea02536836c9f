//! One metric with labels. A handle is created when a set of values is first seen, up to [`MAX_LABEL_SETS`].
//!
//! Users choose the names of tenants, kinds and queues. Without the limit, a client that starts workflows could fill
//! the memory of the server and of the metrics database.

use std::hash::{Hash, Hasher};
use std::sync::{PoisonError, RwLock};

use rustc_hash::{FxHashMap, FxHasher};

use super::SharedRecorder;
use super::catalog::{Handle, Metric};

/// The most sets of values that one metric keeps separate.
pub const MAX_LABEL_SETS: usize = 1_000;
/// The value that replaces users' labels in all further sets.
pub const OTHER: &str = "other";

pub struct Family<H> {
    metric: &'static Metric,
    recorder: SharedRecorder,
    /// The number of labels, from the first, whose values users choose.
    chosen: usize,
    known: RwLock<Known<H>>,
}

/// The values of all labels, in order.
type Values = Box<[Box<str>]>;

/// Keyed by a hash of the values, so that a look-up does not copy them.
struct Known<H> {
    by_hash: FxHashMap<u64, Vec<(Values, H)>>,
    len: usize,
}

impl<H: Handle> Family<H> {
    pub fn new(metric: &'static Metric, recorder: &SharedRecorder, chosen: usize) -> Self {
        let known = RwLock::new(Known { by_hash: FxHashMap::default(), len: 0 });
        Self { metric, recorder: recorder.clone(), chosen, known }
    }

    /// The handle of these values. After the limit, the handle in which users' labels are [`OTHER`].
    pub fn with(&self, values: &[&str]) -> H {
        if let Some(found) = self.find(values) {
            return found;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if self.chosen > 0 && known.len >= MAX_LABEL_SETS {
            let mut folded = values.to_vec();
            folded.iter_mut().take(self.chosen).for_each(|value| *value = OTHER);
            return self.add(&mut known, &folded);
        }
        self.add(&mut known, values)
    }

    fn find(&self, values: &[&str]) -> Option<H> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(values)
    }

    fn add(&self, known: &mut Known<H>, values: &[&str]) -> H {
        if let Some(found) = known.get(values) {
            return found;
        }
        let handle = H::registered(self.metric, &self.recorder, values);
        let owned = values.iter().map(|value| Box::from(*value)).collect();
        known.by_hash.entry(hash(values)).or_default().push((owned, handle.clone()));
        known.len += 1;
        handle
    }
}

impl<H: Handle> Known<H> {
    fn get(&self, values: &[&str]) -> Option<H> {
        let same = |own: &[Box<str>]| own.iter().map(|value| &**value).eq(values.iter().copied());
        let found = self.by_hash.get(&hash(values))?.iter().find(|(own, _)| same(own))?;
        Some(found.1.clone())
    }
}

fn hash(values: &[&str]) -> u64 {
    let mut hasher = FxHasher::default();
    values.hash(&mut hasher);
    hasher.finish()
}

impl<H> std::fmt::Debug for Family<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("metric", &self.metric.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics::{Counter, NoopRecorder};

    use super::*;
    use crate::metrics::Metric;

    static METRIC: Metric = Metric::counter_of("test_total", &["tenant_id", "status"], "for a test");

    fn sets(family: &Family<Counter>) -> usize {
        family.known.read().unwrap().len
    }

    #[test]
    fn users_cannot_make_ever_more_sets() {
        let family: Family<Counter> = Family::new(&METRIC, &(Arc::new(NoopRecorder) as SharedRecorder), 1);
        for number in 0..3 * MAX_LABEL_SETS {
            let _ = family.with(&[&number.to_string(), "created"]);
            let _ = family.with(&["again and again", "created"]);
        }
        assert_eq!(sets(&family), MAX_LABEL_SETS + 1);
        assert!(family.find(&[OTHER, "created"]).is_some());
        // Labels that users do not choose are still kept separate.
        let _ = family.with(&["one more", "existing"]);
        assert!(family.find(&[OTHER, "existing"]).is_some());
        assert_eq!(sets(&family), MAX_LABEL_SETS + 2);
    }
}
