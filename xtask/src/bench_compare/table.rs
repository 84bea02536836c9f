//! The figures of all pairs as a table: medians, and the ratio of this checkout to the base within each pair.

use std::fmt::Write;

use serde_json::Value;

/// The compared figures: a key of the JSON line, its name, and whether more is better.
const FIGURES: &[(&str, &str, bool)] = &[
    ("workflows_per_s", "workflows/s", true),
    ("tasks_per_s", "tasks/s", true),
    ("enqueued_per_s", "enqueued/s", true),
    ("p50_ms", "p50 ms", false),
];

/// One figure of one workload: the base's values and this checkout's, by pair.
#[derive(Debug, Default)]
struct Pairs {
    base: Vec<f64>,
    this: Vec<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// In the order in which they were run.
    workloads: Vec<(String, [Pairs; FIGURES.len()])>,
}

impl Table {
    /// Adds one run. `side` is `base` or `this`.
    pub(super) fn add(
        &mut self,
        (store, workload, in_flight): (&str, &str, usize),
        side: &str,
        line: &Value,
    ) {
        let name = format!("{store} | `{workload}` | {in_flight}");
        if self.workloads.last().is_none_or(|(last, _)| *last != name) {
            self.workloads.push((name, Default::default()));
        }
        let Some((_, figures)) = self.workloads.last_mut() else { return };
        for ((key, ..), pairs) in FIGURES.iter().zip(figures) {
            // A workload without tasks has a rate of zero, which is not compared.
            if let Some(value) = line[key].as_f64().filter(|value| *value > 0.0) {
                if side == "base" { pairs.base.push(value) } else { pairs.this.push(value) }
            }
        }
    }

    /// The table as Markdown. A ratio above 1 means that this checkout is better, for every figure.
    pub(super) fn show(&self) -> String {
        let mut text = String::from(
            "| store | workload | in flight | figure | base | this | ratio | lowest | highest |\n|---|---|---|---|---|---|---|---|---|",
        );
        for (name, figures) in &self.workloads {
            for ((_, figure, more_is_better), pairs) in FIGURES.iter().zip(figures) {
                if pairs.base.is_empty() {
                    continue;
                }
                let ratios = pairs.ratios(*more_is_better);
                let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let highest = ratios.iter().copied().fold(0.0, f64::max);
                let _ = write!(
                    text,
                    "\n| {name} | {figure} | {} | {} | {:.2} | {lowest:.2} | {highest:.2} |",
                    shown(median(&pairs.base)),
                    shown(median(&pairs.this)),
                    median(&ratios),
                );
            }
        }
        text
    }
}

impl Pairs {
    fn ratios(&self, more_is_better: bool) -> Vec<f64> {
        let ratio = |(base, this): (&f64, &f64)| if more_is_better { this / base } else { base / this };
        self.base.iter().zip(&self.this).map(ratio).collect()
    }
}

fn shown(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// For an even number of values, the mean of the middle two. 0 if there are no values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len(), sorted.len() % 2) {
        (0, _) => 0.0,
        (_, 1) => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ratio_above_one_is_better_for_rates_and_for_times() {
        let mut table = Table::default();
        for (rate, time) in [(100.0, 4.0), (200.0, 8.0), (400.0, 2.0)] {
            table.add(("sqlite", "noop", 256), "base", &json!({"workflows_per_s": rate, "p50_ms": time}));
            let faster = json!({"workflows_per_s": rate * 1.5, "p50_ms": time / 2.0, "tasks_per_s": 0.0});
            table.add(("sqlite", "noop", 256), "this", &faster);
        }
        let shown = table.show();
        let rows: Vec<&str> = shown.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| sqlite | `noop` | 256 | workflows/s | 200 | 300 | 1.50 | 1.50 | 1.50 |",
                "| sqlite | `noop` | 256 | p50 ms | 4.00 | 2.00 | 2.00 | 2.00 | 2.00 |",
            ]
        );
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }
}
