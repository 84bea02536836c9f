//! When each step of an execution waited and ran, as bars. Made of its history and of its tasks' attempts; pure.

use std::collections::HashMap;

use crate::client::answers::{Attempt, LogEvent};
use crate::terminal::{Colour, Paint};

/// Columns: two of margin, the labels, the bars, the durations; below 80 in all.
const LABEL: usize = 24;
const BARS: usize = 40;
const DURATION: usize = 8;
/// Marks of the axis are at least this far apart.
const MARK: i64 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Workflow,
    Attempt,
    FailedAttempt,
    Promise,
    Timer,
}

impl Kind {
    /// Kinds differ without colours, too.
    fn look(self) -> (char, Colour) {
        match self {
            Self::Workflow => ('─', Colour::Dim),
            Self::Attempt => ('█', Colour::Green),
            Self::FailedAttempt => ('×', Colour::Red),
            Self::Promise => ('░', Colour::Magenta),
            Self::Timer => ('▒', Colour::Blue),
        }
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

#[derive(Debug)]
pub(super) struct Timeline {
    start_ms: i64,
    end_ms: i64,
    bars: Vec<Bar>,
}

impl Timeline {
    /// Of a whole history, and of the attempts by their task's id. `name` says how timers are to be called.
    pub(super) fn new(
        events: &[LogEvent],
        attempts: &HashMap<String, Vec<Attempt>>,
        name: impl Fn(&str) -> String,
    ) -> Self {
        let time = |event: Option<&LogEvent>| event.map_or(0, |event| event.timestamp_ms);
        let (start_ms, end_ms) = (time(events.first()), time(events.last()));
        let mut bars = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let since_ms = event.timestamp_ms;
            // What has not ended goes on to the end.
            let until = |key: &str| {
                let id = event.text(key);
                let last = events[index + 1..].iter().find(|later| later.text(key) == id);
                last.map_or(end_ms, |last| last.timestamp_ms)
            };
            let bar = |label: String, kind, end_ms| Bar { label, kind, since_ms, start_ms: since_ms, end_ms };
            match event.event_type.as_str() {
                "WORKFLOW_STARTED" => {
                    bars.push(bar(event.text("workflowKind").to_owned(), Kind::Workflow, end_ms));
                }
                "TASK_SCHEDULED" => {
                    let attempts = attempts.get(event.text("taskExecutionId"));
                    let attempts = attempts.map(Vec::as_slice).unwrap_or_default();
                    bars.extend(attempt_bars(event.text("taskType"), since_ms, attempts));
                }
                "PROMISE_CREATED" => {
                    let label = format!("{} (promise)", event.text("promiseName"));
                    bars.push(bar(label, Kind::Promise, until("promiseId")));
                }
                "TIMER_STARTED" => {
                    let label = format!("{} (timer)", name(event.text("timerId")));
                    bars.push(bar(label, Kind::Timer, until("timerId")));
                }
                _ => {}
            }
        }
        Self { start_ms, end_ms, bars }
    }

    pub(super) fn lines(&self, paint: Paint) -> Vec<String> {
        let mut lines = vec![paint.with(Colour::Dim, &format!("  {:LABEL$}{}", "", self.axis()))];
        lines.extend(self.bars.iter().map(|bar| self.line(bar, paint)));
        lines
    }

    fn length_ms(&self) -> i64 {
        (self.end_ms - self.start_ms).max(1)
    }

    /// The column of a moment.
    fn column(&self, ms: i64) -> usize {
        let bars = i64::try_from(BARS).unwrap_or(i64::MAX);
        let column = (ms - self.start_ms) * bars / self.length_ms();
        usize::try_from(column).unwrap_or(0).min(BARS)
    }

    fn line(&self, bar: &Bar, paint: Paint) -> String {
        let start = self.column(bar.start_ms).min(BARS - 1);
        let since = self.column(bar.since_ms).min(start);
        let length = self.column(bar.end_ms).saturating_sub(start).max(1);
        let (fill, colour) = bar.kind.look();
        let text = |character: char, count: usize| character.to_string().repeat(count);
        let label: String = bar.label.chars().take(LABEL - 1).collect();
        format!(
            "  {label:LABEL$}{}{}{}{}{:>DURATION$}",
            text(' ', since),
            paint.with(Colour::Dim, &text('·', start - since)),
            paint.with(colour, &text(fill, length)),
            text(' ', BARS - start - length),
            format!("{} ms", bar.end_ms - bar.start_ms),
        )
    }

    /// Whole seconds, as many as there is room for.
    fn axis(&self) -> String {
        let bars = i64::try_from(BARS).unwrap_or(i64::MAX);
        let least = (MARK * self.length_ms() / bars).max(1);
        let step_s = [1, 2, 5, 10, 30, 60].into_iter().find(|step| step * 1_000 >= least);
        let step_ms = step_s.map_or(self.length_ms(), |step| step * 1_000);
        let mut axis = String::new();
        let mut ms = 0;
        while ms <= self.length_ms() {
            let column = self.column(self.start_ms + ms);
            let mark = format!("{} s", ms / 1_000);
            if column + mark.len() <= BARS + DURATION {
                axis.push_str(&" ".repeat(column.saturating_sub(axis.len())));
                axis.push_str(&mark);
            }
            ms += step_ms;
        }
        axis
    }
}

fn attempt_bars(task_type: &str, scheduled_ms: i64, attempts: &[Attempt]) -> Vec<Bar> {
    let mut since_ms = scheduled_ms;
    let bars = attempts.iter().map(|attempt| {
        let failed = attempt.status != "COMPLETED";
        let label = match (attempts.len(), failed) {
            (_, true) => format!("{task_type} #{} failed", attempt.attempt),
            (1, false) => task_type.to_owned(),
            (_, false) => format!("{task_type} #{}", attempt.attempt),
        };
        let kind = if failed { Kind::FailedAttempt } else { Kind::Attempt };
        let (start_ms, end_ms) = (attempt.started_ms, attempt.finished_ms);
        let bar = Bar { label, kind, since_ms, start_ms, end_ms };
        since_ms = end_ms;
        bar
    });
    bars.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(event_type: &str, timestamp_ms: i64, data: Value) -> LogEvent {
        LogEvent { event_type: event_type.into(), timestamp_ms, data }
    }

    fn attempt(attempt: i64, status: &str, started_ms: i64, finished_ms: i64) -> Attempt {
        Attempt { attempt, status: status.into(), started_ms, finished_ms }
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
        Timeline::new(&events, &HashMap::from([("1".into(), attempts)]), |timer| format!("<{timer}>"))
    }

    #[test]
    fn every_step_has_its_bar() {
        let found = example().lines(Paint::plain());
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
            for line in Timeline::new(&events, &HashMap::new(), str::to_owned).lines(Paint::plain()) {
                assert!(line.chars().count() < 80, "{line}");
            }
        }
    }
}
