//! A timeline: when each step of an execution waited and ran, as bars. Computed from its history and its tasks. Pure.

use std::borrow::Cow;
use std::collections::HashMap;

use super::words::{duration, printable};
use crate::client::answers::{Attempt, LogEvent};
use crate::terminal::{Colour, Paint};

/// Layout: a margin of two columns, labels, bars and durations. The total is below 80 columns unless there is more
/// room.
const LABEL: usize = 24;
const BARS: usize = 40;
const LEAST_BARS: usize = 10;
const MOST_BARS: usize = 120;
const DURATION: usize = 8;
/// Minimum distance between marks of the axis.
const MARK: i64 = 6;
/// Maximum number of steps. Of a longer history, the first and the last steps are shown, half each.
const MOST_STEPS: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Workflow,
    Attempt,
    FailedAttempt,
    Running,
    Open,
    Promise,
    Timer,
    Child,
    Moment,
}

impl Kind {
    /// Kinds also differ without colours.
    fn look(self, paint: Paint) -> (char, Colour) {
        let (unicode, ascii, colour) = match self {
            Self::Workflow => ('─', '-', Colour::Dim),
            Self::Attempt => ('█', '#', Colour::Green),
            Self::FailedAttempt => ('×', 'x', Colour::Red),
            Self::Running => ('▶', '>', Colour::Cyan),
            Self::Open => ('·', '.', Colour::Dim),
            Self::Promise => ('░', ':', Colour::Magenta),
            Self::Timer => ('▒', '~', Colour::Blue),
            Self::Child => ('▓', '=', Colour::Yellow),
            Self::Moment => ('◆', '*', Colour::Yellow),
        };
        (paint.sign(unicode, ascii), colour)
    }
}

/// One bar. It waits from `since_ms` and runs from `start_ms`.
#[derive(Debug, PartialEq, Eq)]
struct Bar {
    label: String,
    kind: Kind,
    since_ms: i64,
    start_ms: i64,
    end_ms: i64,
}

/// The attempts of a task, which are not in the history.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    /// Attempts that have ended.
    pub(crate) attempts: Vec<Attempt>,
    /// The start of the running attempt. `None`: no attempt is running.
    pub(crate) running_since_ms: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct Timeline {
    start_ms: i64,
    end_ms: i64,
    bars: Vec<Bar>,
    /// The number of hidden steps, and the index of the bar after them.
    hidden: Option<(usize, usize)>,
}

impl Timeline {
    /// Creates a timeline of a history and of the work by task id. `name` gives the display names of timers. Open
    /// steps continue until `now_ms`.
    pub(crate) fn new(
        events: &[&LogEvent],
        work: &HashMap<String, Work>,
        name: impl Fn(&str) -> String,
        now_ms: i64,
    ) -> Self {
        let start_ms = events.first().map_or(0, |event| event.timestamp_ms);
        let last = events.last();
        let end_ms = last.map_or(0, |event| match event.is_last() {
            true => event.timestamp_ms,
            // The clocks may differ, so make sure that no step ends before it begins.
            false => event.timestamp_ms.max(now_ms),
        });
        let ends = ends(events);
        let (steps, hidden) = shown(events);
        let mut bars = Vec::new();
        let mut gap = None;
        for (index, event) in steps.into_iter().enumerate() {
            if hidden > 0 && index == MOST_STEPS / 2 {
                gap = Some((bars.len(), hidden));
            }
            let since_ms = event.timestamp_ms;
            let until = |key: &str| ends.get(&event.text(key)).copied().unwrap_or(end_ms);
            let bar = |label: String, kind, end_ms| Bar { label, kind, since_ms, start_ms: since_ms, end_ms };
            match event.event_type.as_str() {
                "WORKFLOW_STARTED" => {
                    bars.push(bar(event.text("workflowKind").into_owned(), Kind::Workflow, end_ms));
                }
                "TASK_SCHEDULED" => {
                    let id = event.text("taskExecutionId");
                    let end_ms = until("taskExecutionId");
                    bars.extend(task_bars(&event.text("taskType"), since_ms, end_ms, work.get(&*id)));
                }
                "PROMISE_CREATED" => {
                    let label = format!("{} (promise)", event.text("promiseName"));
                    bars.push(bar(label, Kind::Promise, until("promiseId")));
                }
                "TIMER_STARTED" => {
                    let label = format!("{} (timer)", name(&event.text("timerId")));
                    bars.push(bar(label, Kind::Timer, until("timerId")));
                }
                "CHILD_WORKFLOW_INITIATED" => {
                    let label = format!("{} (child)", event.text("childExecutionName"));
                    bars.push(bar(label, Kind::Child, until("childExecutionId")));
                }
                "SIGNAL_RECEIVED" => {
                    bars.push(bar(format!("{} (signal)", event.text("signalName")), Kind::Moment, since_ms));
                }
                _ => {
                    bars.push(bar(format!("{} (run)", event.text("operationName")), Kind::Moment, since_ms));
                }
            }
        }
        Self { start_ms, end_ms, bars, hidden: gap }
    }

    /// Formats the timeline for a terminal of this width.
    pub(crate) fn lines(&self, paint: Paint, width: Option<usize>) -> Vec<String> {
        // If there is little room, the labels become shorter first.
        let label = width.map_or(LABEL, |width| (width / 3).clamp(LABEL / 2, LABEL));
        let columns = width.map_or(BARS, |width| width.saturating_sub(4 + label + DURATION));
        let drawing = Drawing { timeline: self, label, columns: columns.clamp(LEAST_BARS, MOST_BARS), paint };
        let mut lines = vec![paint.with(Colour::Dim, &format!("  {:label$}{}", "", drawing.axis()))];
        lines.extend(self.bars.iter().map(|bar| drawing.line(bar)));
        if let Some((before, count)) = self.hidden {
            lines.insert(before + 1, paint.with(Colour::Dim, &format!("  ... {count} more steps ...")));
        }
        lines
    }

    fn length_ms(&self) -> i64 {
        (self.end_ms - self.start_ms).max(1)
    }
}

/// The tasks that have bars. Other tasks need not be read.
pub(crate) fn shown_tasks(events: &[&LogEvent]) -> Vec<String> {
    let tasks = shown(events).0.into_iter().filter(|event| event.event_type == "TASK_SCHEDULED");
    tasks.map(|event| event.text("taskExecutionId").into_owned()).collect()
}

/// The events that begin a step, without the middle of a long history, and the number of hidden steps.
fn shown<'a>(events: &[&'a LogEvent]) -> (Vec<&'a LogEvent>, usize) {
    let begins = |event: &&LogEvent| {
        matches!(
            event.event_type.as_str(),
            "WORKFLOW_STARTED"
                | "TASK_SCHEDULED"
                | "PROMISE_CREATED"
                | "TIMER_STARTED"
                | "CHILD_WORKFLOW_INITIATED"
                | "SIGNAL_RECEIVED"
                | "OPERATION_COMPLETED"
        )
    };
    let mut steps: Vec<&LogEvent> = events.iter().copied().filter(begins).collect();
    let hidden = steps.len().saturating_sub(MOST_STEPS);
    steps.drain(MOST_STEPS.min(steps.len()) / 2..MOST_STEPS.min(steps.len()) / 2 + hidden);
    (steps, hidden)
}

/// The end times of steps, by id or name.
fn ends<'a>(events: &[&'a LogEvent]) -> HashMap<Cow<'a, str>, i64> {
    let ends = events.iter().filter_map(|event| {
        let key = match event.event_type.as_str() {
            "TASK_COMPLETED" | "TASK_FAILED" => "taskExecutionId",
            "PROMISE_RESOLVED" | "PROMISE_REJECTED" | "PROMISE_TIMEOUT" => "promiseId",
            "TIMER_FIRED" | "TIMER_CANCELLED" => "timerId",
            "CHILD_WORKFLOW_COMPLETED" | "CHILD_WORKFLOW_FAILED" => "childExecutionId",
            _ => return None,
        };
        Some((event.text(key), event.timestamp_ms))
    });
    ends.collect()
}

/// A timeline with a fixed width.
struct Drawing<'a> {
    timeline: &'a Timeline,
    label: usize,
    columns: usize,
    paint: Paint,
}

impl Drawing<'_> {
    /// The column of a time.
    fn column(&self, ms: i64) -> usize {
        let columns = i64::try_from(self.columns).unwrap_or(i64::MAX);
        let since_ms = ms.saturating_sub(self.timeline.start_ms);
        let column = since_ms.saturating_mul(columns) / self.timeline.length_ms();
        usize::try_from(column).unwrap_or(0).min(self.columns)
    }

    fn line(&self, bar: &Bar) -> String {
        let start = self.column(bar.start_ms).min(self.columns - 1);
        let since = self.column(bar.since_ms).min(start);
        let length = self.column(bar.end_ms).saturating_sub(start).max(1);
        let (fill, colour) = bar.kind.look(self.paint);
        let text = |character: char, count: usize| character.to_string().repeat(count);
        let (name, cut) = (printable(&bar.label), Some(self.paint.ellipsis()));
        let label = console::pad_str(&name, self.label - 1, console::Alignment::Left, cut);
        let took = if bar.kind == Kind::Moment { String::new() } else { duration(bar.end_ms - bar.start_ms) };
        let line = format!(
            "  {label} {}{}{}{}{took:>DURATION$}",
            text(' ', since),
            self.paint.with(Colour::Dim, &text(self.paint.sign('·', '.'), start - since)),
            self.paint.with(colour, &text(fill, length)),
            text(' ', self.columns - start - length),
        );
        line.trim_end().to_owned()
    }

    /// The axis in whole units, with as many marks as there is room for.
    fn axis(&self) -> String {
        const STEPS_S: [i64; 19] = [
            1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800,
            604_800, 2_592_000, 31_536_000,
        ];
        let length_ms = self.timeline.length_ms();
        let columns = i64::try_from(self.columns).unwrap_or(i64::MAX);
        let least = (MARK.saturating_mul(length_ms) / columns).max(1);
        let step_ms =
            STEPS_S.into_iter().map(|step| step * 1_000).find(|step| *step >= least).unwrap_or(length_ms);
        let mut axis = String::new();
        let mut ms = 0;
        while ms <= length_ms {
            let column = self.column(self.timeline.start_ms.saturating_add(ms));
            let mark = mark(ms / 1_000, step_ms / 1_000);
            if column + mark.len() <= self.columns + DURATION {
                axis.push_str(&" ".repeat(column.saturating_sub(axis.len())));
                axis.push_str(&mark);
            }
            ms += step_ms;
        }
        axis
    }
}

/// The label of a mark, in the largest unit in which all marks are whole numbers.
fn mark(seconds: i64, step: i64) -> String {
    let (unit, name) = match step {
        step if step % 86_400 == 0 => (86_400, "d"),
        step if step % 3_600 == 0 => (3_600, "h"),
        step if step % 60 == 0 => (60, "m"),
        _ => (1, "s"),
    };
    format!("{} {name}", seconds / unit)
}

fn task_bars(task_type: &str, scheduled_ms: i64, end_ms: i64, work: Option<&Work>) -> Vec<Bar> {
    let attempts = work.map(|work| work.attempts.as_slice()).unwrap_or_default();
    let mut since_ms = scheduled_ms;
    let mut bars = Vec::new();
    for attempt in attempts {
        let failed = attempt.status != "COMPLETED";
        let label = match (attempts.len(), failed) {
            (1, false) => task_type.to_owned(),
            // No attempt follows it, so its number is not useful.
            (1, true) if attempt.status == "CANCELLED" => format!("{task_type} cancelled"),
            (_, true) => format!("{task_type} #{} {}", attempt.attempt, attempt.status.to_lowercase()),
            (_, false) => format!("{task_type} #{}", attempt.attempt),
        };
        let kind = if failed { Kind::FailedAttempt } else { Kind::Attempt };
        let (start_ms, end_ms) = (attempt.started_ms, attempt.finished_ms);
        bars.push(Bar { label, kind, since_ms, start_ms, end_ms });
        since_ms = end_ms;
    }
    if let Some(start_ms) = work.and_then(|work| work.running_since_ms) {
        let label = format!("{task_type} running");
        bars.push(Bar { label, kind: Kind::Running, since_ms, start_ms, end_ms });
    } else if bars.is_empty() {
        let (label, start_ms) = (task_type.to_owned(), since_ms);
        bars.push(Bar { label, kind: Kind::Open, since_ms, start_ms, end_ms });
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(event_type: &str, timestamp_ms: i64, data: Value) -> LogEvent {
        let data = serde_json::from_value(data).unwrap();
        LogEvent { event_type: event_type.into(), timestamp_ms, data, ..LogEvent::default() }
    }

    fn attempt(attempt: i64, status: &str, started_ms: i64, finished_ms: i64) -> Attempt {
        Attempt {
            attempt,
            status: status.into(),
            started_ms,
            finished_ms,
            duration_ms: finished_ms - started_ms,
            ..Attempt::default()
        }
    }

    fn timeline(events: &[LogEvent], work: &HashMap<String, Work>, now_ms: i64) -> Timeline {
        Timeline::new(&events.iter().collect::<Vec<_>>(), work, |timer| format!("<{timer}>"), now_ms)
    }

    fn example() -> Timeline {
        let events = [
            event("WORKFLOW_STARTED", 10_000, json!({ "workflowKind": "order" })),
            event("TASK_SCHEDULED", 10_000, json!({ "taskExecutionId": "1", "taskType": "charge" })),
            event("TASK_COMPLETED", 12_000, json!({ "taskExecutionId": "1" })),
            event("PROMISE_CREATED", 12_000, json!({ "promiseId": "2", "promiseName": "approval" })),
            event("PROMISE_RESOLVED", 13_000, json!({ "promiseId": "2", "promiseName": "approval" })),
            event("TIMER_STARTED", 13_000, json!({ "timerId": "timer-1", "durationMs": 9_000 })),
            event("WORKFLOW_COMPLETED", 14_000, json!({ "output": null })),
        ];
        let attempts = vec![attempt(1, "FAILED", 10_000, 10_500), attempt(2, "COMPLETED", 11_000, 12_000)];
        let work = Work { attempts, running_since_ms: None };
        timeline(&events, &HashMap::from([("1".into(), work)]), 99_000)
    }

    #[test]
    fn every_step_has_its_bar() {
        let found = example().lines(Paint::plain(), None);
        let expected = [
            "                          0 s       1 s       2 s       3 s       4 s",
            "  order                   ──────────────────────────────────────── 4000 ms",
            "  charge #1 failed        ×××××                                     500 ms",
            "  charge #2                    ·····██████████                     1000 ms",
            "  approval (promise)                          ░░░░░░░░░░           1000 ms",
            "  <timer-1> (timer)                                     ▒▒▒▒▒▒▒▒▒▒ 1000 ms",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_only_attempt_that_was_cancelled_has_no_number() {
        let labels = |attempts| {
            let work = Work { attempts, running_since_ms: None };
            let bars = task_bars("reserve-stock", 0, 9, Some(&work)).into_iter();
            bars.map(|bar| bar.label).collect::<Vec<_>>()
        };
        assert_eq!(labels(vec![attempt(1, "CANCELLED", 0, 9)]), ["reserve-stock cancelled"]);
        assert_eq!(
            labels(vec![attempt(1, "FAILED", 0, 9)]),
            ["reserve-stock #1 failed"],
            "another may follow"
        );
    }

    #[test]
    fn a_line_fits_whatever_it_shows() {
        let long = "long".repeat(20);
        let events = [
            event("WORKFLOW_STARTED", 0, json!({ "workflowKind": long })),
            event("TIMER_STARTED", 100_000, json!({ "timerId": "timer-1" })),
        ];
        for length in [0, 1, 999, 100_000] {
            let events = events
                .clone()
                .map(|event| LogEvent { timestamp_ms: event.timestamp_ms.min(length), ..event });
            for line in timeline(&events, &HashMap::new(), length).lines(Paint::plain(), None) {
                assert!(line.chars().count() < 80, "{line}");
            }
        }
    }

    #[test]
    fn it_fits_narrow_terminals_and_those_without_unicode() {
        for width in [40, 56, 80, 200] {
            for line in example().lines(Paint::ascii(), Some(width)) {
                assert!(line.is_ascii() && line.len() <= width, "{width}: {line}");
            }
        }
        let line = &example().lines(Paint::ascii(), Some(40))[2];
        assert_eq!(line, "  charge #1... x                500 ms");
    }

    #[test]
    fn what_has_not_ended_goes_on_until_now() {
        let events = [
            event("WORKFLOW_STARTED", 0, json!({ "workflowKind": "order" })),
            event("TASK_SCHEDULED", 0, json!({ "taskExecutionId": "1", "taskType": "charge" })),
            event("TASK_SCHEDULED", 0, json!({ "taskExecutionId": "2", "taskType": "pack" })),
            event(
                "CHILD_WORKFLOW_INITIATED",
                0,
                json!({ "childExecutionId": "3", "childExecutionName": "parcel" }),
            ),
            event("SIGNAL_RECEIVED", 3_600_000, json!({ "signalName": "courier" })),
        ];
        let running = Work { attempts: Vec::new(), running_since_ms: Some(3_600_000) };
        let found = timeline(&events, &HashMap::from([("1".into(), running)]), 7_200_000);
        let expected = [
            "                          0 m       30 m      60 m      90 m      120 m",
            "  order                   ──────────────────────────────────────── 2h 00m",
            "  charge running          ····················▶▶▶▶▶▶▶▶▶▶▶▶▶▶▶▶▶▶▶▶  1h 00m",
            "  pack                    ········································  2h 00m",
            "  parcel (child)          ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  2h 00m",
            "  courier (signal)                            ◆",
        ];
        assert_eq!(found.lines(Paint::plain(), None)[2..], expected[2..]);
        assert_eq!(found.lines(Paint::plain(), None)[0], expected[0]);
    }

    #[test]
    fn of_a_long_history_the_middle_is_left_out() {
        let timer = |number: i64| event("TIMER_STARTED", number, json!({ "timerId": number.to_string() }));
        let events: Vec<LogEvent> = (0..1_000).map(timer).collect();
        let lines = timeline(&events, &HashMap::new(), 1_000).lines(Paint::plain(), Some(200));
        assert_eq!(lines.len(), MOST_STEPS + 2);
        assert_eq!(lines[MOST_STEPS / 2 + 1], "  ... 940 more steps ...");
        assert!(lines[MOST_STEPS + 1].starts_with("  <999>"), "{}", lines[MOST_STEPS + 1]);
    }
}
