//! The figures of all rounds as a table: medians, and the ratios to the quiet run of the same round.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::Kind;

/// The compared figures: a key of the JSON line, the name in the table, and whether a higher value is better.
const FIGURES: &[(&str, &str, bool)] = &[
    ("workflows_per_s", "workflows/s", true),
    ("tasks_per_s", "tasks/s", true),
    ("enqueued_per_s", "enqueued/s", true),
    ("p50_ms", "p50 ms", false),
    ("p99_ms", "p99 ms", false),
    ("fired_late_p99_ms", "timers late p99 ms", false),
    ("commits_per_workflow", "commits each", false),
    ("server_cpu_us_each", "server CPU us each", false),
    ("fsync_p50_ms", "bare fsync p50 ms", false),
];

const HEADINGS: &str = "| workload | in flight | figure | quiet | cpu | disk | cpu/quiet | worst | disk/quiet | worst |\n\
                        |---|---|---|---|---|---|---|---|---|---|";

/// One figure of one workload: by kind of noise and round.
type Rounds = BTreeMap<(&'static str, u64), f64>;

#[derive(Debug, Default)]
pub(super) struct Table {
    /// In the order of the runs.
    workloads: Vec<(String, [Rounds; FIGURES.len()])>,
}

impl Table {
    /// Adds one run.
    pub(super) fn add(&mut self, kind: Kind, round: u64, line: &Value) {
        let workload = line["workload"].as_str().unwrap_or_default();
        let in_flight = line["concurrency"].as_f64().unwrap_or(1.0);
        let name = format!("`{workload}` | {in_flight}");
        if self.workloads.last().is_none_or(|(last, _)| *last != name) {
            self.workloads.push((name, Default::default()));
        }
        let Some((_, figures)) = self.workloads.last_mut() else { return };
        for ((key, ..), rounds) in FIGURES.iter().zip(figures) {
            // A workload without tasks has a task rate of zero, so there is nothing to compare.
            if let Some(value) = line[key].as_f64().filter(|value| *value > 0.0) {
                rounds.insert((kind.name(), round), value);
            }
        }
    }

    pub(super) fn show(&self) -> String {
        let mut text = HEADINGS.to_owned();
        for (name, figures) in &self.workloads {
            for ((_, figure, more_is_better), rounds) in FIGURES.iter().zip(figures) {
                if rounds.is_empty() {
                    continue;
                }
                let _ = write!(text, "\n| {name} | {figure} |");
                for kind in Kind::ALL {
                    let _ = write!(text, " {} |", shown(median(values(rounds, kind))));
                }
                for kind in [Kind::Cpu, Kind::Disk] {
                    let ratios = ratios(rounds, kind);
                    let worst =
                        ratios.iter().copied().reduce(if *more_is_better { f64::min } else { f64::max });
                    let _ = write!(text, " {} | {} |", shown(median(ratios)), shown(worst));
                }
            }
        }
        text
    }
}

fn values(rounds: &Rounds, kind: Kind) -> Vec<f64> {
    rounds.iter().filter(|((name, _), _)| *name == kind.name()).map(|(_, value)| *value).collect()
}

/// The ratio of each run under noise to the quiet run of the same round.
fn ratios(rounds: &Rounds, kind: Kind) -> Vec<f64> {
    let against_quiet = |((name, round), value): (&(&str, u64), &f64)| {
        let quiet = rounds.get(&(Kind::Quiet.name(), *round))?;
        (*name == kind.name()).then(|| value / quiet)
    };
    rounds.iter().filter_map(against_quiet).collect()
}

/// `None` for an empty list. For an even number of values, the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

fn shown(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chain3(rate: f64, p99_ms: f64) -> Value {
        json!({ "workload": "chain3", "concurrency": 256.0, "workflows_per_s": rate, "tasks_per_s": 0.0, "p99_ms": p99_ms })
    }

    #[test]
    fn a_run_is_compared_with_the_quiet_run_of_its_round() {
        let mut table = Table::default();
        // In the second round the machine is half as fast. This changes no ratio.
        for (round, speed) in [(0, 1.0), (1, 0.5)] {
            table.add(Kind::Quiet, round, &chain3(4_000.0 * speed, 50.0));
            table.add(Kind::Cpu, round, &chain3(2_000.0 * speed, 100.0));
            table.add(Kind::Disk, round, &chain3(3_000.0 * speed, 60.0 + 40.0 * round as f64));
        }
        let rows: Vec<_> = table.show().lines().skip(2).map(str::to_owned).collect();
        assert_eq!(
            rows,
            [
                "| `chain3` | 256 | workflows/s | 3000 | 1500 | 2250 | 0.50 | 0.50 | 0.75 | 0.75 |",
                "| `chain3` | 256 | p99 ms | 50.00 | 100 | 80.00 | 2.00 | 2.00 | 1.60 | 2.00 |",
            ]
        );
    }

    #[test]
    fn the_worst_rate_is_the_lowest_and_the_worst_latency_the_highest() {
        let mut table = Table::default();
        for (round, factor) in [(0, 1.0), (1, 5.0), (2, 2.0)] {
            table.add(Kind::Quiet, round, &chain3(1_000.0, 10.0));
            table.add(Kind::Cpu, round, &chain3(1_000.0 / factor, 10.0 * factor));
        }
        let rows: Vec<_> = table.show().lines().skip(2).map(str::to_owned).collect();
        assert_eq!(
            rows,
            [
                "| `chain3` | 256 | workflows/s | 1000 | 500 | - | 0.50 | 0.20 | - | - |",
                "| `chain3` | 256 | p99 ms | 10.00 | 20.00 | - | 2.00 | 5.00 | - | - |",
            ]
        );
    }

    #[test]
    fn workloads_are_listed_in_the_order_of_the_runs() {
        let mut table = Table::default();
        for workload in ["task1", "noop"] {
            table.add(Kind::Quiet, 0, &json!({ "workload": workload, "p50_ms": 1.0 }));
        }
        let shown = table.show();
        let rows: Vec<_> = shown.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| `task1` | 1 | p50 ms | 1.00 | - | - | - | - | - | - |",
                "| `noop` | 1 | p50 ms | 1.00 | - | - | - | - | - | - |",
            ]
        );
    }

    #[test]
    fn median_of_an_empty_an_odd_and_an_even_list() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
