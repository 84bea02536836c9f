//! The overview: the current state of the tenant, and the activity of the last 15 minutes.

use axum::response::Html;
use flovyn_rest_types::{Activity, Executions, Queues, Sample, Workers};
use maud::{Markup, html};

use super::executions;
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::plot::{Series, plot};
use crate::parts::{self, times};
use crate::visitor::Visitor;

/// The shortest time span of a plot, so that a server that just started shows something too.
const SPAN_MS: i64 = 2 * 60_000;

pub(crate) async fn get(visitor: Visitor) -> Result<Html<String>, Failure> {
    let path = visitor.api("/workflow-executions");
    let paths = [
        format!("{path}?limit=10"),
        format!("{path}?limit=5&status=FAILED"),
        visitor.api("/activity"),
        visitor.api("/queues"),
        visitor.api("/workers"),
    ];
    let rest = visitor.rest();
    let (newest, failed, activity, queues, workers) = futures::join!(
        rest.get::<Executions>(&paths[0]),
        rest.get::<Executions>(&paths[1]),
        rest.get::<Activity>(&paths[2]),
        rest.get::<Queues>(&paths[3]),
        rest.get::<Workers>(&paths[4]),
    );
    let (newest, failed, activity) = (newest?.executions, failed?.executions, activity?);
    let body = html! {
        div.head { h1 { "Overview" } span.muted { "the last 15 minutes of this server process" } }
        div data-part="tiles" data-refresh="2500" { (tiles(&visitor, &activity, &queues?, &workers?)) }
        div data-part="plots" { (plots(&activity)) }
        div data-part="lists" {
            section {
                div.head {
                    h2 { "Failed" }
                    div.head-actions { a.quiet href=(visitor.page("/executions?status=FAILED")) { "All failed" } }
                }
                @if failed.is_empty() { p.muted { "No execution has failed." } }
                @else { (executions::table(&visitor, &failed)) }
            }
            section {
                div.head {
                    h2 { "Newest" }
                    div.head-actions { a.quiet href=(visitor.page("/executions")) { "All executions" } }
                }
                @if newest.is_empty() {
                    (empty("Nothing has run yet", "Start a workflow on the Executions page (press n there), or run the order \
                            workflow of the demo:", Some("flovyn demo")))
                } @else { (executions::table(&visitor, &newest)) }
            }
        }
    };
    Ok(page(&visitor, Page { title: "Overview", place: "", body }))
}

fn sum(samples: &[Sample], count: fn(&Sample) -> i64) -> i64 {
    samples.iter().map(count).sum()
}

fn tiles(visitor: &Visitor, activity: &Activity, queues: &Queues, workers: &Workers) -> Markup {
    let samples = &activity.samples;
    let waits: i64 = queues.queues.iter().map(|queue| queue.pending_workflows + queue.pending_tasks).sum();
    let paused = queues.queues.iter().filter(|queue| queue.paused).count();
    let alive = workers.workers.iter().filter(|worker| worker.alive).count();
    let failed = sum(samples, |sample| sample.failed);
    let tile = |href: &str, name: &str, value: String, about: String, alarm: bool| {
        html! {
            a.tile href=(visitor.page(href)) data-alarm[alarm] {
                span.tile-name { (name) }
                span.tile-value.figures { (value) }
                span.muted { (about) }
            }
        }
    };
    html! {
        div.tiles {
            (tile("/executions", "Started", parts::number(sum(samples, |sample| sample.started)),
                format!("{} tasks", parts::number(sum(samples, |sample| sample.tasks_created))), false))
            (tile("/executions?status=COMPLETED", "Completed", parts::number(sum(samples, |sample| sample.completed)),
                format!("{} tasks", parts::number(sum(samples, |sample| sample.tasks_completed))), false))
            (tile("/executions?status=FAILED", "Failed", parts::number(failed),
                format!("{} tasks", parts::number(sum(samples, |sample| sample.tasks_failed))), failed > 0))
            (tile("/queues", "Waiting for a worker", parts::number(waits),
                if paused > 0 { format!("{paused} {} paused", if paused == 1 { "queue" } else { "queues" }) } else { "all queues open".to_owned() },
                waits > 0 && alive == 0))
            (tile("/workers", "Workers alive", alive.to_string(), format!("{} known", workers.workers.len()), alive == 0))
        }
    }
}

fn plots(activity: &Activity) -> Markup {
    let samples = &activity.samples;
    let interval_ms = activity.interval_ms.max(1);
    let seconds = interval_ms as f64 / 1_000.0;
    let places = usize::try_from(SPAN_MS / interval_ms).unwrap_or(0);
    let rate = |name, tone, count: fn(&Sample) -> i64| Series {
        name,
        tone,
        values: samples.iter().map(|sample| Some(count(sample) as f64 / seconds)).collect(),
    };
    let values = |name, tone, value: fn(&Sample) -> Option<f64>| Series {
        name,
        tone,
        values: samples.iter().map(value).collect(),
    };
    let since = samples.first().map(|sample| sample.time_ms);
    html! {
        div.plots {
            (plot("Executions", "per second", &[
                rate("started", "accent", |sample| sample.started),
                rate("completed", "good", |sample| sample.completed),
            ], places, per_second))
            (plot("Failures", "per second", &[
                rate("executions", "bad", |sample| sample.failed),
                rate("tasks", "warn", |sample| sample.tasks_failed),
            ], places, per_second))
            (plot("Wait for a worker", "", &[
                values("median", "busy", |sample| sample.wait_p50_ms),
                values("95 %", "warn", |sample| sample.wait_p95_ms),
            ], places, duration))
            (plot("Executions took", "", &[
                values("median", "busy", |sample| sample.took_p50_ms),
                values("95 %", "warn", |sample| sample.took_p95_ms),
            ], places, duration))
            (plot("Tasks", "per second", &[
                rate("created", "accent", |sample| sample.tasks_created),
                rate("completed", "good", |sample| sample.tasks_completed),
            ], places, per_second))
            (plot("Backlog", "waiting for a worker", &[values("now", "warn", |sample| Some(sample.backlog as f64))], places, whole))
        }
        @if let Some(since) = since { p.muted.plots-note { "First sample " (times::moment(since)) ", one every " (times::duration(interval_ms)) } }
        @else { p.muted.plots-note { "The first sample arrives within " (times::duration(interval_ms)) } }
    }
}

fn per_second(value: f64) -> String {
    if value >= 10.0 { parts::number(value.round() as i64) } else { format!("{value:.1}") }
}

fn whole(value: f64) -> String {
    if value > 0.0 && value < 1.0 { format!("{value:.1}") } else { parts::number(value.round() as i64) }
}

fn duration(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.1} ms") } else { times::duration(ms.round() as i64) }
}
