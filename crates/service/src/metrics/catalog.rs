//! Every metric of the service, once: name, type, labels, meaning. A handle can only be made from an entry.

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

    /// Sets a gauge to what was found at this moment.
    pub fn set(&self, recorder: &dyn Recorder, values: &[&str], value: f64) {
        recorder.register_gauge(&self.key(values), &METADATA).set(value);
    }

    /// Sets a counter that is kept elsewhere.
    pub fn set_total(&self, recorder: &dyn Recorder, total: u64) {
        recorder.register_counter(&self.key(&[]), &METADATA).absolute(total);
    }
}

/// What counts.
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

        /// Every metric of the service but [`TOTALS`].
        pub const ALL: &[&Metric] = &[$(&$constant,)*];
    };
}

catalog! {
    KEY_HITS = counter_of("flovyn_idempotency_hits_total", ["tenant_id"],
        "Requests answered with the work that their idempotency key already had");
    KEY_MISSES = counter_of("flovyn_idempotency_misses_total", ["tenant_id"], "Idempotency keys newly taken");
    KEY_CLEARED = counter_of("flovyn_idempotency_cleared_total", ["tenant_id"],
        "Idempotency keys freed because their work failed or was cancelled");
    KEYS_EXPIRED = counter_of("flovyn_idempotency_expired_total", [], "Expired idempotency keys removed");
    TASK_SUBMITTED = counter_of("flovyn_task_submitted_total", ["tenant_id", "task_type", "queue"],
        "Tasks created, by workflows and standalone");
    WORKFLOW_STARTED = counter_of("flovyn_workflow_started_total", ["tenant_id"],
        "Executions made, also children and retries");
    LATE_RESULTS = counter_of("flovyn_late_results_total", ["tenant_id"],
        "Successes of tasks that were accepted after their claim was lost, since nobody had claimed the task");
    ENDS_DEFERRED = counter_of("flovyn_ends_deferred_total", ["tenant_id"],
        "Ends of executions that were deferred, because a signal had come that the workflow had not seen");
    REPORTS_REFUSED = counter_of("flovyn_reports_refused_total", ["tenant_id", "class", "code"],
        "Activations and task results that were refused to the holder of the claim, and have failed by that");
    SIGNALS_UNREAD = counter_of("flovyn_signals_unread_total", ["tenant_id"],
        "Signals that were delivered to executions and not read by the time they ended");
    FINISHED = counter_of("flovyn_finished_total", ["tenant_id", "class", "status"],
        "Executions and tasks that have ended, by their last status");
    TOOK = histogram_of("flovyn_took_seconds", ["tenant_id", "class"],
        "From when an execution or a task was made, or was to begin, to its end");
    QUEUE_DEPTH = gauge_of("flovyn_queue_depth", ["tenant_id", "queue", "class"],
        "Work that waits for a worker, counted up to 10000");
    SCHEDULE_TO_START = histogram_of("flovyn_schedule_to_start_seconds", ["tenant_id", "queue", "class"],
        "From when work could begin to when a worker got it");
    BATCH_REQUESTS = histogram_of("flovyn_batch_requests", [], "Requests decided in one transaction");
    COMMIT = histogram_of("flovyn_commit_duration_seconds", [],
        "From handing a batch's changes to the database to its being durable");
    TIMER_LATENESS = histogram_of("flovyn_timer_lateness_seconds", ["class"],
        "How long after their time timers, timeouts and other due rows acted");
    ORPHANS = counter_of("flovyn_orphans_found_total", [], "Open work found that nothing would ever go on with");
    ORPHANS_CHECKED = counter_of("flovyn_orphans_checked_total", [], "Open work looked at in search of orphans");
}

macro_rules! totals {
    ($($figure:ident = ($name:literal, $help:literal);)*) => {
        /// Counters of the batch loop: one for each of its figures.
        pub const TOTALS: &[(&Metric, fn(&crate::Figures) -> u64)] =
            &[$((&Metric::counter_of($name, &[], $help), |figures| figures.$figure),)*];

        // Taken apart by name, so that a figure that is added must be named here too.
        const _: fn(crate::Figures) = |crate::Figures { $($figure: _,)* }| {};
    };
}

totals! {
    commits = ("flovyn_store_commits_total", "Transactions that wrote something");
    rows = ("flovyn_store_rows_written_total", "Row changes in them");
    requests = ("flovyn_requests_decided_total", "Requests decided");
    second_batches = ("flovyn_second_batches_total", "Batches that began while another one was under way");
    deferred = ("flovyn_requests_deferred_total", "Requests put off because a row was locked elsewhere");
    conflicts = ("flovyn_batch_conflicts_total", "Batches decided again because another writer was faster");
    bisections = ("flovyn_batch_bisections_total", "Batches split to find a request that the database refuses");
    given_back = ("flovyn_claims_given_back_total", "Claims given back because the poller had gone");
    stale_claims = ("flovyn_stale_claims_refused_total", "Requests refused because their claim had ended");
    repeated_reports = ("flovyn_repeated_reports_total", "Reports acknowledged again, without effect");
    fired = ("flovyn_due_fired_total", "Due rows that did what they were for");
    stale = ("flovyn_due_stale_total", "Due rows that another process had handled");
    dropped_reports = ("flovyn_reports_dropped_total", "Progress reports and log lines dropped because too many waited");
}
