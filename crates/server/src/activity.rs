//! Recent activity of each tenant: the server's own metrics, sampled every few seconds into a ring in memory. It is
//! for people who have no system that scrapes the metrics. Each process reports its own activity only, since its
//! start.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flovyn_engine::ids::TenantId;
use flovyn_service::metrics::catalog::{FINISHED, SCHEDULE_TO_START, TASK_SUBMITTED, TOOK, WORKFLOW_STARTED};
use uuid::Uuid;

use crate::api::Api;
use crate::metrics::SECONDS;

pub(crate) const EVERY: Duration = Duration::from_secs(5);
/// Samples for a quarter of an hour, plus the sample before it, from which the first difference is computed.
const KEPT: usize = 181;
/// The most tenants that are counted separately. Further tenants are not sampled.
const TENANTS: usize = 200;

/// Cumulative histogram: for each bound, the number of durations that were at most as long. The last entry counts all
/// durations.
type Buckets = [f64; SECONDS.len() + 1];

/// Counts since the start.
#[derive(Debug, Clone, Default)]
struct Totals {
    started: f64,
    completed: f64,
    failed: f64,
    cancelled: f64,
    tasks_created: f64,
    tasks_completed: f64,
    tasks_failed: f64,
    wait: Buckets,
    took: Buckets,
    /// Not a count: the amount of work that waits at the time of the sample.
    backlog: i64,
}

/// What happened between two samples.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) time_ms: i64,
    pub(crate) started: i64,
    pub(crate) completed: i64,
    pub(crate) failed: i64,
    pub(crate) cancelled: i64,
    pub(crate) tasks_created: i64,
    pub(crate) tasks_completed: i64,
    pub(crate) tasks_failed: i64,
    pub(crate) backlog: i64,
    /// The time from when work could begin to when a worker received it: the median and the 95th percentile. `None`
    /// if no work was handed out between the samples.
    pub(crate) wait_ms: Option<(f64, f64)>,
    /// The duration of executions from start to end: the median and the 95th percentile. `None` if none ended between
    /// the samples.
    pub(crate) took_ms: Option<(f64, f64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Activity {
    taken: Mutex<VecDeque<(i64, HashMap<TenantId, Totals>)>>,
}

/// Takes samples until it is dropped.
pub(crate) async fn keep_sampling(api: Api) {
    loop {
        let depths = api.metrics().depths.read(api.service().store().as_ref()).await.unwrap_or_default();
        let mut backlog: HashMap<TenantId, i64> = HashMap::new();
        for (tenant_id, depth) in depths {
            *backlog.entry(tenant_id).or_default() += depth.ready;
        }
        let now_ms = jiff::Timestamp::now().as_millisecond();
        api.metrics().activity.take(now_ms, &api.metrics().render(), &backlog);
        tokio::time::sleep(EVERY).await;
    }
}

impl Activity {
    /// Adds a sample of the metrics as they are shown to scrapers.
    fn take(&self, now_ms: i64, text: &str, backlog: &HashMap<TenantId, i64>) {
        let mut tenants = read(text);
        for (tenant_id, ready) in backlog {
            if tenants.len() < TENANTS || tenants.contains_key(tenant_id) {
                tenants.entry(*tenant_id).or_default().backlog = *ready;
            }
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.push_back((now_ms, tenants));
        if taken.len() > KEPT {
            taken.pop_front();
        }
    }

    /// The samples of one tenant, oldest first.
    pub(crate) fn of(&self, tenant_id: TenantId) -> Vec<Sample> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = Totals::default();
        let of =
            |tenants: &HashMap<TenantId, Totals>| tenants.get(&tenant_id).cloned().unwrap_or(nothing.clone());
        let pairs = taken.iter().zip(taken.iter().skip(1));
        pairs.map(|((_, before), (time_ms, now))| between(*time_ms, &of(before), &of(now))).collect()
    }
}

fn between(time_ms: i64, before: &Totals, now: &Totals) -> Sample {
    let more = |count: fn(&Totals) -> f64| (count(now) - count(before)).max(0.0) as i64;
    Sample {
        time_ms,
        started: more(|totals| totals.started),
        completed: more(|totals| totals.completed),
        failed: more(|totals| totals.failed),
        cancelled: more(|totals| totals.cancelled),
        tasks_created: more(|totals| totals.tasks_created),
        tasks_completed: more(|totals| totals.tasks_completed),
        tasks_failed: more(|totals| totals.tasks_failed),
        backlog: now.backlog,
        wait_ms: quantiles(&before.wait, &now.wait),
        took_ms: quantiles(&before.took, &now.took),
    }
}

/// The median and the 95th percentile of the durations added between two samples. `None` if there were none.
fn quantiles(before: &Buckets, now: &Buckets) -> Option<(f64, f64)> {
    let mut added = [0.0; SECONDS.len() + 1];
    for (added, (now, before)) in added.iter_mut().zip(now.iter().zip(before)) {
        *added = (now - before).max(0.0);
    }
    let all = added.last().copied().filter(|all| *all > 0.0)?;
    Some((quantile(&added, all * 0.5), quantile(&added, all * 0.95)))
}

/// The duration at this rank in milliseconds, assuming that durations are spread evenly within their bucket. If the
/// rank lies above all bounds, this is the largest bound.
fn quantile(added: &Buckets, rank: f64) -> f64 {
    let place = added.iter().position(|count| *count >= rank).unwrap_or(SECONDS.len());
    let longest = SECONDS.last().copied().unwrap_or_default();
    let Some(upper) = SECONDS.get(place) else { return longest * 1_000.0 };
    let (lower, below) = match place {
        0 => (0.0, 0.0),
        _ => (SECONDS[place - 1], added[place - 1]),
    };
    let within = (added[place] - below).max(f64::MIN_POSITIVE);
    (lower + (upper - lower) * ((rank - below) / within).clamp(0.0, 1.0)) * 1_000.0
}

/// Reads the totals of each tenant from the text format of Prometheus.
fn read(text: &str) -> HashMap<TenantId, Totals> {
    let mut tenants: HashMap<TenantId, Totals> = HashMap::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once('{') else { continue };
        let Some(tenant_id) = label(rest, "tenant_id").and_then(|id| Uuid::try_parse(id).ok()) else {
            continue;
        };
        let Some(value) = rest.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()) else {
            continue;
        };
        if tenants.len() >= TENANTS && !tenants.contains_key(&tenant_id) {
            continue;
        }
        let totals = tenants.entry(tenant_id).or_default();
        let class = label(rest, "class").unwrap_or("");
        if name == WORKFLOW_STARTED.name {
            totals.started += value;
        } else if name == TASK_SUBMITTED.name {
            totals.tasks_created += value;
        } else if name == FINISHED.name {
            match (class, label(rest, "status").unwrap_or("")) {
                ("WORKFLOW", "COMPLETED") => totals.completed += value,
                ("WORKFLOW", "FAILED") => totals.failed += value,
                ("WORKFLOW", "CANCELLED") => totals.cancelled += value,
                ("TASK", "COMPLETED") => totals.tasks_completed += value,
                ("TASK", "FAILED") => totals.tasks_failed += value,
                _ => {}
            }
        } else if name.strip_suffix("_bucket") == Some(SCHEDULE_TO_START.name) {
            add(&mut totals.wait, rest, value);
        } else if name.strip_suffix("_bucket") == Some(TOOK.name) && class == "WORKFLOW" {
            add(&mut totals.took, rest, value);
        }
    }
    tenants
}

fn add(buckets: &mut Buckets, labels: &str, value: f64) {
    let Some(bound) = label(labels, "le") else { return };
    let place = match bound.parse::<f64>() {
        Ok(bound) if bound.is_finite() => SECONDS.iter().position(|known| *known == bound),
        _ => Some(SECONDS.len()),
    };
    if let Some(bucket) = place.and_then(|place| buckets.get_mut(place)) {
        *bucket += value;
    }
}

/// The value of a label. Quotes within values are escaped, so text in a value that looks like a label is not taken
/// for one.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut places =
        labels.match_indices(name).filter(|(at, _)| *at == 0 || labels.as_bytes()[at - 1] == b',');
    places.find_map(|(at, _)| labels[at + name.len()..].strip_prefix("=\"")?.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: Uuid = Uuid::from_u128(7);

    /// Metrics with `count` starts, ends and waits of 1 to 2 ms each, for a queue whose name looks like labels.
    fn text(count: u32) -> String {
        let tenant = format!("tenant_id=\"{TENANT}\"");
        let queue = r#"queue="a,class=\"X\",le=\"1\"} 9 ""#;
        let wait = |le: &str, count: u32| {
            format!(
                "flovyn_schedule_to_start_seconds_bucket{{{tenant},{queue},class=\"TASK\",le=\"{le}\"}} {count}\n"
            )
        };
        format!(
            "# HELP x\nflovyn_workflow_started_total{{{tenant}}} {count}\n\
             flovyn_finished_total{{{tenant},class=\"WORKFLOW\",status=\"FAILED\"}} {count}\n\
             flovyn_finished_total{{tenant_id=\"other\",class=\"WORKFLOW\",status=\"FAILED\"}} 99\n\
             flovyn_uptime_seconds 3\n{}{}{}",
            wait("0.001", 0),
            wait("0.002", count),
            wait("+Inf", count)
        )
    }

    #[test]
    fn samples_contain_the_difference_between_two_readings() {
        let activity = Activity::default();
        activity.take(1_000, &text(2), &HashMap::new());
        activity.take(6_000, &text(12), &HashMap::from([(TENANT, 5)]));
        let samples = activity.of(TENANT);
        assert_eq!(samples.len(), 1);
        let sample = &samples[0];
        assert_eq!((sample.time_ms, sample.started, sample.failed, sample.completed), (6_000, 10, 10, 0));
        assert_eq!(sample.backlog, 5);
        let (median, high) = sample.wait_ms.unwrap();
        assert!((median - 1.5).abs() < 1e-9 && (high - 1.95).abs() < 1e-9, "{median} {high}");
        assert_eq!(sample.took_ms, None);
        let stranger = activity.of(Uuid::from_u128(8));
        assert_eq!((stranger.len(), stranger[0].started, stranger[0].backlog), (1, 0, 0));
    }

    #[test]
    fn the_ring_stays_small() {
        let activity = Activity::default();
        for time in 0..2 * KEPT {
            activity.take(time as i64, "", &HashMap::new());
        }
        assert_eq!(activity.of(TENANT).len(), KEPT - 1);
    }

    #[test]
    fn durations_above_all_bounds_count_as_the_largest_bound() {
        let mut now = [0.0; SECONDS.len() + 1];
        now[SECONDS.len()] = 4.0;
        assert_eq!(quantiles(&[0.0; SECONDS.len() + 1], &now), Some((3_600_000.0, 3_600_000.0)));
    }
}
