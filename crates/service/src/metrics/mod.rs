//! The metrics of the service. This module counts; the given recorder decides who reads the metrics.
//!
//! Handles are created once and kept. Counting is an addition in memory, with a look-up first if users choose the
//! label.

pub mod catalog;
mod family;

use std::sync::Arc;

use flovyn_engine::state::{DueClass, SmallEnum};
use flovyn_engine::{Note, Noted};
use metrics::{Counter, Histogram};
use uuid::fmt::Hyphenated;

pub use catalog::{Kind, Metric};
pub use family::{Family, MAX_LABEL_SETS, OTHER};

/// Receives the metrics.
pub type SharedRecorder = Arc<dyn metrics::Recorder + Send + Sync>;

pub(crate) struct Meters {
    key_hits: Family<Counter>,
    key_misses: Family<Counter>,
    key_cleared: Family<Counter>,
    pub(crate) keys_expired: Counter,
    task_submitted: Family<Counter>,
    workflow_started: Family<Counter>,
    ends_deferred: Family<Counter>,
    reports_refused: Family<Counter>,
    late_results: Family<Counter>,
    signals_unread: Family<Counter>,
    finished: Family<Counter>,
    took: Family<Histogram>,
    schedule_to_start: Family<Histogram>,
    lateness: Family<Histogram>,
    pub(crate) batch_requests: Histogram,
    pub(crate) commit: Histogram,
    pub(crate) orphans: Counter,
    pub(crate) orphans_checked: Counter,
}

impl Meters {
    pub(crate) fn new(recorder: &SharedRecorder) -> Self {
        for metric in catalog::ALL {
            metric.describe(recorder);
        }
        Self {
            key_hits: Family::new(&catalog::KEY_HITS, recorder, 1),
            key_misses: Family::new(&catalog::KEY_MISSES, recorder, 1),
            key_cleared: Family::new(&catalog::KEY_CLEARED, recorder, 1),
            keys_expired: catalog::KEYS_EXPIRED.counter(recorder),
            task_submitted: Family::new(&catalog::TASK_SUBMITTED, recorder, 3),
            workflow_started: Family::new(&catalog::WORKFLOW_STARTED, recorder, 1),
            ends_deferred: Family::new(&catalog::ENDS_DEFERRED, recorder, 1),
            reports_refused: Family::new(&catalog::REPORTS_REFUSED, recorder, 1),
            late_results: Family::new(&catalog::LATE_RESULTS, recorder, 1),
            signals_unread: Family::new(&catalog::SIGNALS_UNREAD, recorder, 1),
            finished: Family::new(&catalog::FINISHED, recorder, 1),
            took: Family::new(&catalog::TOOK, recorder, 1),
            schedule_to_start: Family::new(&catalog::SCHEDULE_TO_START, recorder, 2),
            lateness: Family::new(&catalog::TIMER_LATENESS, recorder, 0),
            batch_requests: catalog::BATCH_REQUESTS.histogram(recorder),
            commit: catalog::COMMIT.histogram(recorder),
            orphans: catalog::ORPHANS.counter(recorder),
            orphans_checked: catalog::ORPHANS_CHECKED.counter(recorder),
        }
    }

    /// Counts the effects of a durable batch.
    pub(crate) fn count(&self, notes: &[Note]) {
        let (mut submitted, mut finished, mut handed) = (Last::default(), Last::default(), Last::default());
        let mut buffer = [0; Hyphenated::LENGTH];
        for Note { tenant_id, what } in notes {
            let tenant = &*tenant_id.hyphenated().encode_lower(&mut buffer);
            match what {
                Noted::KeyHit => self.key_hits.with(&[tenant]).increment(1),
                Noted::KeyTaken => self.key_misses.with(&[tenant]).increment(1),
                Noted::KeyCleared => self.key_cleared.with(&[tenant]).increment(1),
                Noted::TaskSubmitted { task_type, queue } => {
                    let counter = submitted.or((tenant_id, task_type, queue), || {
                        self.task_submitted.with(&[tenant, task_type, queue])
                    });
                    counter.increment(1);
                }
                Noted::LateResult => self.late_results.with(&[tenant]).increment(1),
                Noted::EndDeferred => self.ends_deferred.with(&[tenant]).increment(1),
                Noted::ReportRefused { class, code } => {
                    self.reports_refused.with(&[tenant, class.name(), &code.to_string()]).increment(1);
                }
                Noted::SignalsUnread { count } => {
                    self.signals_unread.with(&[tenant]).increment(count.unsigned_abs());
                }
                Noted::WorkflowStarted => self.workflow_started.with(&[tenant]).increment(1),
                Noted::Finished { class, status, took_ms } => {
                    let (counter, histogram) = finished.or((tenant_id, class, status), || {
                        let counter = self.finished.with(&[tenant, class.name(), status]);
                        (counter, self.took.with(&[tenant, class.name()]))
                    });
                    counter.increment(1);
                    histogram.record(*took_ms as f64 / 1_000.0);
                }
                Noted::Handed { class, queue, waited_ms } => {
                    let histogram = handed.or((tenant_id, class, queue), || {
                        self.schedule_to_start.with(&[tenant, queue, class.name()])
                    });
                    histogram.record(*waited_ms as f64 / 1_000.0);
                }
            }
        }
    }

    pub(crate) fn fired(&self, class: DueClass, late_ms: i64) {
        self.lateness.with(&[class.name()]).record(late_ms as f64 / 1_000.0);
    }
}

/// The handle that was looked up last. The effects of a batch mostly have the same labels.
struct Last<K, H> {
    found: Option<(K, H)>,
}

impl<K, H> Default for Last<K, H> {
    fn default() -> Self {
        Self { found: None }
    }
}

impl<K: PartialEq, H> Last<K, H> {
    fn or(&mut self, key: K, look_up: impl FnOnce() -> H) -> &H {
        let found = self.found.take().filter(|(last, _)| *last == key);
        &self.found.insert(found.unwrap_or_else(|| (key, look_up()))).1
    }
}
