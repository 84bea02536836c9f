//! All metrics of the service: name, type, labels, meaning. A handle can only be created from an entry of this list.

use metrics::{Counter, Histogram, Key, Label, Level, Metadata, Recorder};

use super::SharedRecorder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

impl Metric {
    pub const fn counter_of(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, labels, help }
    }

    pub const fn gauge_of(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, labels, help }
    }

    pub const fn histogram_of(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Histogram, labels, help }
    }

    pub fn describe(&self, recorder: &dyn Recorder) {
        let (name, help) = (self.name.into(), self.help.into());
        match self.kind {
            Kind::Counter => recorder.describe_counter(name, None, help),
            Kind::Gauge => recorder.describe_gauge(name, None, help),
            Kind::Histogram => recorder.describe_histogram(name, None, help),
        }
    }

    fn key(&self, values: &[&str]) -> Key {
        let labels = self.labels.iter().zip(values);
        Key::from_parts(
            self.name,
            labels.map(|(name, value)| Label::new(*name, (*value).to_owned())).collect::<Vec<_>>(),
        )
    }

    pub fn counter(&self, recorder: &SharedRecorder) -> Counter {
        Counter::registered(self, recorder, &[])
    }

    pub fn histogram(&self, recorder: &SharedRecorder) -> Histogram {
        Histogram::registered(self, recorder, &[])
    }

    /// Sets a gauge to its current value.
    pub fn set(&self, recorder: &dyn Recorder, values: &[&str], value: f64) {
        recorder.register_gauge(&self.key(values), &METADATA).set(value);
    }

    /// Sets a counter to a total that is counted elsewhere.
    pub fn set_total(&self, recorder: &dyn Recorder, total: u64) {
        recorder.register_counter(&self.key(&[]), &METADATA).absolute(total);
    }
}

/// A handle that counts or measures.
pub trait Handle: Clone {
    fn registered(metric: &Metric, recorder: &SharedRecorder, values: &[&str]) -> Self;
}

impl Handle for Counter {
    fn registered(metric: &Metric, recorder: &SharedRecorder, values: &[&str]) -> Self {
        recorder.register_counter(&metric.key(values), &METADATA)
    }
}

impl Handle for Histogram {
    fn registered(metric: &Metric, recorder: &SharedRecorder, values: &[&str]) -> Self {
        recorder.register_histogram(&metric.key(values), &METADATA)
    }
}

macro_rules! catalog {
    ($($constant:ident = $kind:ident($name:literal, [$($label:literal),*], $help:literal);)*) => {
        $(pub const $constant: Metric = Metric::$kind($name, &[$($label),*], $help);)*

        /// Every metric of the service except [`TOTALS`].
        pub const ALL: &[&Metric] = &[$(&$constant,)*];
    };
}

catalog! {
    KEY_HITS = counter_of("flovyn_idempotency_hits_total", ["tenant_id"],
        "Requests answered with the existing work of their idempotency key");
    KEY_MISSES = counter_of("flovyn_idempotency_misses_total", ["tenant_id"], "Idempotency keys taken for new work");
    KEY_CLEARED = counter_of("flovyn_idempotency_cleared_total", ["tenant_id"],
        "Idempotency keys freed because their work failed or was cancelled");
    KEYS_EXPIRED = counter_of("flovyn_idempotency_expired_total", [], "Expired idempotency keys removed");
    TASK_SUBMITTED = counter_of("flovyn_task_submitted_total", ["tenant_id", "task_type", "queue"],
        "Tasks created, by workflows and standalone");
    WORKFLOW_STARTED = counter_of("flovyn_workflow_started_total", ["tenant_id"],
        "Executions created, including children and retries");
    LATE_RESULTS = counter_of("flovyn_late_results_total", ["tenant_id"],
        "Task successes accepted after the claim was lost, because no other worker had claimed the task");
    ENDS_DEFERRED = counter_of("flovyn_ends_deferred_total", ["tenant_id"],
        "Ends of executions deferred because a signal had arrived that the workflow had not seen");
    REPORTS_REFUSED = counter_of("flovyn_reports_refused_total", ["tenant_id", "class", "code"],
        "Activations and task results that were refused to the claim holder and therefore failed");
    SIGNALS_UNREAD = counter_of("flovyn_signals_unread_total", ["tenant_id"],
        "Delivered signals that had not been read when their execution ended");
    FINISHED = counter_of("flovyn_finished_total", ["tenant_id", "class", "status"],
        "Ended executions and tasks, by their final status");
    TOOK = histogram_of("flovyn_took_seconds", ["tenant_id", "class"],
        "Time from the creation or scheduled start of an execution or task to its end");
    QUEUE_DEPTH = gauge_of("flovyn_queue_depth", ["tenant_id", "queue", "class"],
        "Work that waits for a worker, counted up to 10000");
    SCHEDULE_TO_START = histogram_of("flovyn_schedule_to_start_seconds", ["tenant_id", "queue", "class"],
        "Time from when work was ready to when a worker received it");
    BATCH_REQUESTS = histogram_of("flovyn_batch_requests", [], "Requests decided in one transaction");
    COMMIT = histogram_of("flovyn_commit_duration_seconds", [],
        "Time from passing a batch's changes to the database until they are durable");
    TIMER_LATENESS = histogram_of("flovyn_timer_lateness_seconds", ["class"],
        "How late timers, timeouts and other due rows fired");
    ORPHANS = counter_of("flovyn_orphans_found_total", [], "Orphans found: open work that nothing would ever continue");
    ORPHANS_CHECKED = counter_of("flovyn_orphans_checked_total", [], "Open work checked in the search for orphans");
}

macro_rules! totals {
    ($($figure:ident = ($name:literal, $help:literal);)*) => {
        /// Counters of the batch loop: one for each field of [`Figures`](crate::Figures).
        pub const TOTALS: &[(&Metric, fn(&crate::Figures) -> u64)] =
            &[$((&Metric::counter_of($name, &[], $help), |figures| figures.$figure),)*];

        // The destructuring names every field, so that the compiler reports a field that is missing here.
        const _: fn(crate::Figures) = |crate::Figures { $($figure: _,)* }| {};
    };
}

totals! {
    commits = ("flovyn_store_commits_total", "Transactions that wrote something");
    rows = ("flovyn_store_rows_written_total", "Row changes in these transactions");
    requests = ("flovyn_requests_decided_total", "Requests decided");
    second_batches = ("flovyn_second_batches_total", "Batches that began while another batch was in flight");
    deferred = ("flovyn_requests_deferred_total", "Requests deferred because a row was locked by another transaction");
    conflicts = ("flovyn_batch_conflicts_total", "Batches decided again because another writer changed a row first");
    bisections = ("flovyn_batch_bisections_total", "Batches split to find a request that the database refuses");
    given_back = ("flovyn_claims_given_back_total", "Claims released because the poller had gone");
    stale_claims = ("flovyn_stale_claims_refused_total", "Requests refused because their claim had ended");
    repeated_reports = ("flovyn_repeated_reports_total", "Reports acknowledged again, without effect");
    fired = ("flovyn_due_fired_total", "Due rows that had their effect");
    stale = ("flovyn_due_stale_total", "Due rows without effect, because another process had handled them");
    dropped_reports = ("flovyn_reports_dropped_total", "Reports and log lines dropped because too many were waiting");
}
