//! The metrics page and the dashboard describe exactly the metrics that a server exports.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flovyn_server::metrics::catalog;
use flovyn_service::metrics::{Kind, Metric};
use serde_json::Value;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The name, type and labels, as in the tables of the page.
fn line(metric: &Metric) -> String {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
    let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(", ") };
    format!("| `{}` | {kind} | {labels} |", metric.name)
}

#[test]
fn every_metric_is_on_its_page_and_no_other() {
    let page = std::fs::read_to_string(docs().join("reference/metrics.md")).unwrap();
    let rows = page.lines().filter(|row| row.starts_with("| `flovyn_"));
    let columns = |row: &str| {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        assert!(
            columns.len() >= 7 && !columns[4].is_empty() && !columns[5].is_empty(),
            "{row} is incomplete"
        );
        format!("| {} | {} | {} |", columns[1], columns[2], columns[3])
    };
    let described: Vec<String> = rows.map(columns).collect();
    let exported: BTreeSet<String> = catalog::all().map(line).collect();
    assert_eq!(described.iter().cloned().collect::<BTreeSet<_>>(), exported);
    assert_eq!(described.len(), exported.len(), "a metric is listed twice");
}

/// Every value of this key, at any depth.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| all(value, key, found));
        }
        Value::Array(items) => items.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

fn names(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("flovyn_"))
}

/// The series that a scraper stores for a metric.
fn series(metric: &Metric) -> Vec<String> {
    match metric.kind {
        Kind::Histogram => ["bucket", "sum", "count"].map(|part| format!("{}_{part}", metric.name)).to_vec(),
        Kind::Counter | Kind::Gauge => vec![metric.name.to_owned()],
    }
}

#[test]
fn the_dashboard_shows_what_there_is() {
    let text = std::fs::read_to_string(docs().join("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let exported: BTreeSet<String> = catalog::all().flat_map(series).collect();
    let mut queries = Vec::new();
    all(&dashboard, "expr", &mut queries);
    let panels = dashboard["panels"].as_array().unwrap();
    let of_figures = panels.iter().filter(|panel| panel["type"] != "row").count();
    assert!(of_figures > 0 && queries.len() >= of_figures, "a panel has no query");
    all(&dashboard, "query", &mut queries);
    for query in queries.iter().filter(|query| **query != "prometheus") {
        assert!(names(query).next().is_some(), "{query} names no metric");
        for name in names(query) {
            assert!(exported.contains(name), "{name} in {query} is not exported");
        }
    }
}
