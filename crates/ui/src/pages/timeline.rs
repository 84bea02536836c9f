//! The timeline of an execution, from its events: a bar for anything with a beginning and an end, a mark for a single
//! moment.

use std::collections::HashMap;

use flovyn_rest_types::{Event, Events, Execution, Task};
use maud::{Markup, html};
use serde::Deserialize;

use crate::parts::{self, document, times};

/// The most bars that are shown: the newest.
const MOST: usize = 60;

/// The fields of events that identify what they are about. Fields that an event type does not have are `None`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Facts {
    pub(super) task_execution_id: Option<String>,
    pub(super) task_type: Option<String>,
    pub(super) timer_id: Option<String>,
    pub(super) duration_ms: Option<i64>,
    pub(super) promise_id: Option<String>,
    pub(super) promise_name: Option<String>,
    pub(super) child_execution_id: Option<String>,
    pub(super) child_execution_name: Option<String>,
    pub(super) child_workflow_kind: Option<String>,
    pub(super) signal_name: Option<String>,
    pub(super) operation_name: Option<String>,
    pub(super) key: Option<String>,
    pub(super) workflow_kind: Option<String>,
    pub(super) error: Option<String>,
    /// The type of a failure. `None`: nothing failed, or the failure has no type.
    pub(super) failure_type: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) cancelled: bool,
}

impl Facts {
    pub(super) fn of(event: &Event) -> Self {
        let data = event.data.as_ref().map_or("{}", |data| data.get());
        serde_json::from_str(data).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Task,
    Timer,
    Promise,
    Child,
    Mark,
}

#[derive(Debug, PartialEq, Eq)]
struct Bar {
    sort: Sort,
    name: String,
    /// The id of the task or child.
    id: String,
    begin_ms: i64,
    /// `None`: still open.
    end_ms: Option<i64>,
    /// The outcome, as a status.
    outcome: &'static str,
    sequence: i64,
}

/// The bars, ordered by their beginning.
fn bars(events: &[Event]) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    let mut open: HashMap<String, usize> = HashMap::new();
    for event in events {
        let facts = Facts::of(event);
        let id = facts
            .task_execution_id
            .or(facts.child_execution_id)
            .or(facts.promise_id)
            .or(facts.timer_id.clone());
        let id = id.unwrap_or_default();
        let mut begin = |sort, name: Option<String>| {
            open.insert(id.clone(), bars.len());
            let name = name.unwrap_or_default();
            let (begin_ms, sequence) = (event.timestamp_ms, event.sequence);
            bars.push(Bar {
                sort,
                name,
                id: id.clone(),
                begin_ms,
                end_ms: None,
                outcome: "RUNNING",
                sequence,
            });
        };
        match event.event_type.as_str() {
            "TASK_SCHEDULED" => begin(Sort::Task, facts.task_type),
            "TIMER_STARTED" => begin(Sort::Timer, facts.timer_id),
            "PROMISE_CREATED" => begin(Sort::Promise, facts.promise_name),
            "CHILD_WORKFLOW_INITIATED" => begin(Sort::Child, facts.child_execution_name),
            "SIGNAL_RECEIVED" => begin(Sort::Mark, facts.signal_name.map(|name| format!("signal {name}"))),
            "OPERATION_COMPLETED" => {
                begin(Sort::Mark, facts.operation_name.map(|name| format!("run {name}")))
            }
            "CANCELLATION_REQUESTED" => begin(Sort::Mark, Some("cancel requested".to_owned())),
            _ => {}
        }
        let end = match event.event_type.as_str() {
            "SIGNAL_RECEIVED"
            | "OPERATION_COMPLETED"
            | "TASK_COMPLETED"
            | "TIMER_FIRED"
            | "PROMISE_RESOLVED"
            | "CHILD_WORKFLOW_COMPLETED" => "COMPLETED",
            "TASK_FAILED" | "CHILD_WORKFLOW_FAILED" if facts.cancelled => "CANCELLED",
            "TASK_FAILED" | "PROMISE_REJECTED" | "PROMISE_TIMEOUT" | "CHILD_WORKFLOW_FAILED" => "FAILED",
            "TIMER_CANCELLED" | "CANCELLATION_REQUESTED" => "CANCELLED",
            _ => continue,
        };
        // An item that began before these events is not shown.
        if let Some(bar) = open.remove(&id).and_then(|place| bars.get_mut(place)) {
            (bar.end_ms, bar.outcome) = (Some(event.timestamp_ms), end);
        }
    }
    bars
}

pub(super) fn section(row: &Execution, events: &Events, tasks: &[Task], own: &str) -> Markup {
    let mut bars = bars(&events.events);
    if bars.is_empty() {
        return html! {};
    }
    let left_out = bars.len().saturating_sub(MOST);
    bars.drain(..left_out);
    let earlier = left_out > 0 || events.events.first().is_some_and(|first| first.sequence > 1);
    let begin_ms = if earlier { bars[0].begin_ms } else { events.created_at_ms };
    // An open bar ends now; if the execution has ended, its open bars end with it.
    let end_ms = row.finished_ms.unwrap_or_else(times::now_ms).max(begin_ms + 1);
    let scale = Scale { begin_ms, span_ms: end_ms - begin_ms };
    let tasks: HashMap<&str, &Task> = tasks.iter().map(|task| (task.id.as_str(), task)).collect();
    html! {
        section.timeline aria-labelledby="timeline-title" {
            h2 #timeline-title { "Timeline" @if earlier { span.muted { " the newest " (bars.len()) } } }
            div.gantt {
                div.gantt-row.gantt-scale aria-hidden="true" {
                    span {}
                    svg.lane height="16" { (scale.ticks()) }
                    span {}
                }
                @for bar in &bars { (bar_row(row, bar, &scale, tasks.get(bar.id.as_str()).copied(), own)) }
            }
        }
    }
}

struct Scale {
    begin_ms: i64,
    span_ms: i64,
}

impl Scale {
    /// The position as a share of the width.
    fn at(&self, ms: i64) -> f64 {
        ((ms - self.begin_ms) as f64 / self.span_ms as f64 * 100.0).clamp(0.0, 100.0)
    }

    fn ticks(&self) -> Markup {
        html! {
            @for quarter in 0..=4_i64 {
                @let x = quarter * 25;
                text x=(percent(x as f64)) y="11" text-anchor=(match quarter { 0 => "start", 4 => "end", _ => "middle" }) {
                    (times::duration(self.span_ms * quarter / 4))
                }
            }
        }
    }
}

fn percent(share: f64) -> String {
    format!("{share:.3}%")
}

fn bar_row(row: &Execution, bar: &Bar, scale: &Scale, task: Option<&Task>, own: &str) -> Markup {
    let end_ms = bar.end_ms.unwrap_or(scale.begin_ms + scale.span_ms);
    let outcome = if bar.end_ms.is_none() && row.has_ended() { "CANCELLED" } else { bar.outcome };
    let (from, to) = (scale.at(bar.begin_ms), scale.at(end_ms));
    let took = times::duration((end_ms - bar.begin_ms).max(0));
    let href = match bar.sort {
        Sort::Task => format!("{own}/tasks/{}", bar.id),
        Sort::Child => format!("{}/{}", own.rsplit_once('/').map_or("", |(above, _)| above), bar.id),
        _ => format!("{own}/events/{}", bar.sequence),
    };
    // A task first waits for a worker.
    let started = task.and_then(|task| task.started_ms).filter(|at| *at > bar.begin_ms);
    let started = started.map(|at| scale.at(at).clamp(from, to));
    let again = task.filter(|task| task.execution_count > 1).map(|task| task.execution_count);
    html! {
        div.gantt-row {
            a.gantt-name href=(href) title=(document::flat(&bar.name)) {
                span.sort data-sort=(sort_name(bar.sort)) { (sort_name(bar.sort)) } (document::inline(&bar.name, 60))
                @if let Some(attempts) = again { span.tag { (attempts) " attempts" } }
            }
            svg.lane height="20" role="img" aria-label=(format!("{} {}: {}, {took}", sort_name(bar.sort), document::flat(&bar.name), parts::words(outcome))) {
                title { (document::flat(&bar.name)) ": " (parts::words(outcome)) ", " (took) }
                @if bar.sort == Sort::Mark {
                    circle.bar data-status=(outcome) cx=(percent(from)) cy="10" r="4" {}
                } @else if let Some(started) = started {
                    rect.bar.queued data-status=(outcome) x=(percent(from)) y="8" width=(percent(started - from)) height="4" {}
                    rect.bar data-status=(outcome) x=(percent(started)) y="4" width=(percent((to - started).max(0.4))) height="12" rx="3" {}
                } @else {
                    rect.bar data-status=(outcome) x=(percent(from)) y="4" width=(percent((to - from).max(0.4))) height="12" rx="3" {}
                }
            }
            span.gantt-took.figures { @if bar.sort != Sort::Mark { (took) } }
        }
    }
}

fn sort_name(sort: Sort) -> &'static str {
    match sort {
        Sort::Task => "task",
        Sort::Timer => "timer",
        Sort::Promise => "promise",
        Sort::Child => "child",
        Sort::Mark => "event",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(sequence: i64, kind: &str, data: serde_json::Value) -> Event {
        serde_json::from_value(json!({
            "sequence": sequence, "eventType": kind, "timestamp": "", "timestampMs": sequence * 10, "origin": "COMMAND",
            "data": data,
        }))
        .unwrap()
    }

    #[test]
    fn what_begins_and_ends_is_one_bar() {
        let events = [
            event(1, "WORKFLOW_STARTED", json!({ "workflowKind": "order" })),
            event(2, "TASK_SCHEDULED", json!({ "taskExecutionId": "a", "taskType": "charge" })),
            event(3, "TIMER_STARTED", json!({ "timerId": "t1", "durationMs": 5 })),
            event(4, "SIGNAL_RECEIVED", json!({ "signalName": "go", "signalValue": { "deep": [1] } })),
            event(5, "TASK_FAILED", json!({ "taskExecutionId": "a", "error": "no", "cancelled": true })),
            event(6, "TIMER_FIRED", json!({ "timerId": "t1" })),
            // It began before the events that were read.
            event(7, "PROMISE_RESOLVED", json!({ "promiseId": "p", "promiseName": "x" })),
            event(8, "PROMISE_CREATED", json!({ "promiseId": "q", "promiseName": "approval" })),
        ];
        let bars = bars(&events);
        let seen: Vec<_> =
            bars.iter().map(|bar| (bar.name.as_str(), bar.begin_ms, bar.end_ms, bar.outcome)).collect();
        let expected = [
            ("charge", 20, Some(50), "CANCELLED"),
            ("t1", 30, Some(60), "COMPLETED"),
            ("signal go", 40, Some(40), "COMPLETED"),
            ("approval", 80, None, "RUNNING"),
        ];
        assert_eq!(seen, expected);
    }
}
