//! The line of figures, and whether the run is valid.

use serde_json::{Map, Value, json};

use crate::check::Findings;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) acknowledged: usize,
    /// Starts without an answer.
    pub(crate) unanswered: usize,
    pub(crate) runs: usize,
    pub(crate) kills: usize,
    /// Kills that happened while work was in flight.
    pub(crate) kills_in_flight: usize,
    pub(crate) refused: u64,
    /// Outcomes that were acknowledged to workers without tokens.
    pub(crate) plain_outcomes: usize,
    pub(crate) recovery_ms: Vec<u64>,
    pub(crate) redelivery_ms: Vec<u64>,
    pub(crate) timer_late_ms: Vec<u64>,
    /// Figures that only one test has.
    pub(crate) more: Vec<(&'static str, Value)>,
}

/// If a run has less than this, it proves nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Minimum {
    pub(crate) acknowledged: usize,
    pub(crate) kills_in_flight: usize,
    pub(crate) refused: u64,
    pub(crate) plain_outcomes: usize,
}

impl Figures {
    /// What is missing for a valid run. `None`: nothing.
    pub(crate) fn shortfall(&self, minimum: Minimum) -> Option<String> {
        let pairs = [
            ("acknowledged starts", self.acknowledged as u64, minimum.acknowledged as u64),
            ("faults while work was under way", self.kills_in_flight as u64, minimum.kills_in_flight as u64),
            ("refused results of stale claims", self.refused, minimum.refused),
            (
                "outcomes acknowledged to workers without tokens",
                self.plain_outcomes as u64,
                minimum.plain_outcomes as u64,
            ),
        ];
        let short = pairs.iter().find(|(_, have, need)| have < need);
        short.map(|(what, have, need)| format!("{have} {what}, {need} are needed"))
    }

    pub(crate) fn line(&self, head: &[(&str, Value)], found: &Findings) -> String {
        let mut line: Map<String, Value> =
            head.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let body = [
            ("acknowledged", json!(self.acknowledged)),
            ("lost", json!(found.lost)),
            ("duplicated", json!(found.duplicated)),
            ("stuck", json!(found.stuck)),
            ("wrong", json!(found.wrong)),
            ("two_outcomes", json!(found.two_outcomes)),
            ("violations", json!(found.violations)),
            ("unanswered", json!(self.unanswered)),
            ("task_runs", json!(self.runs)),
            ("kills", json!(self.kills)),
            ("kills_in_flight", json!(self.kills_in_flight)),
            ("refused", json!(self.refused)),
            ("recovery_p50_ms", percentile(&self.recovery_ms, 50)),
            ("recovery_p99_ms", percentile(&self.recovery_ms, 99)),
            ("redelivery_p50_ms", percentile(&self.redelivery_ms, 50)),
            ("redelivery_p99_ms", percentile(&self.redelivery_ms, 99)),
            ("timer_late_p99_ms", percentile(&self.timer_late_ms, 99)),
        ];
        let all = body.into_iter().chain(self.more.iter().cloned());
        line.extend(all.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(line).to_string()
    }
}

/// The value that `percent` of all values do not exceed. Null: nothing was measured.
pub(crate) fn percentile(values: &[u64], percent: usize) -> Value {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).map_or(Value::Null, |value| json!(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(percentile(&values, 50), json!(100));
        assert_eq!(percentile(&values, 99), json!(198));
        assert_eq!(percentile(&[7], 99), json!(7));
        assert_eq!(percentile(&[], 99), Value::Null);
    }

    #[test]
    fn a_run_that_hit_nothing_does_not_count() {
        let minimum = Minimum { acknowledged: 10, kills_in_flight: 2, refused: 0, plain_outcomes: 0 };
        let figures = |kills_in_flight| Figures { acknowledged: 10, kills_in_flight, ..Figures::default() };
        assert_eq!(figures(2).shortfall(minimum), None);
        assert!(figures(1).shortfall(minimum).is_some());
        assert!(Figures::default().shortfall(minimum).is_some());
    }
}
