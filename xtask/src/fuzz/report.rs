//! The findings of a run, as text and as one line of JSON.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::Outcome;

pub(super) struct Report {
    seed: u64,
    /// The report of schemathesis.
    requests: Value,
    /// The report of `bodies.py`.
    bodies: Value,
    rss_before_kib: u64,
    rss_peak_kib: u64,
    /// How the server ended. `None`: it is still running.
    ended: Option<String>,
}

impl Report {
    pub(super) fn read(
        seed: u64,
        requests: &Path,
        bodies: &Path,
        (rss_before_kib, rss_peak_kib): (u64, u64),
        ended: Option<String>,
    ) -> Outcome<Self> {
        let (requests, bodies) = (read(requests)?, read(bodies)?);
        Ok(Self { seed, requests, bodies, rss_before_kib, rss_peak_kib, ended })
    }

    /// An incomplete part counts as a finding.
    pub(super) fn is_clean(&self) -> bool {
        self.findings().is_empty()
    }

    fn findings(&self) -> Vec<String> {
        let mut found: Vec<String> = self.ended.iter().cloned().collect();
        if self.requests["complete"] != true || number(&self.requests, "/test_cases/generated") == 0 {
            found.push("schemathesis did not complete".to_owned());
        }
        for one in ["failures", "errors"].iter().flat_map(|part| list(&self.requests, part)) {
            let operations = list(one, "operations").iter().filter_map(Value::as_str).collect::<Vec<_>>();
            found.push(format!("{} x{} {}", text(one, "title"), one["count"], operations.join(", ")));
        }
        if number(&self.bodies, "/sent") == 0 {
            found.push("no bodies were sent".to_owned());
        }
        found.extend(list(&self.bodies, "wrong").iter().filter_map(Value::as_str).map(str::to_owned));
        found
    }

    pub(super) fn summary(&self) -> String {
        let count = |pointer| number(&self.requests, pointer);
        let mut lines = format!(
            "generated requests: {} of {} operations, {} cases\nhostile bodies: {} operations, {} bodies\nmemory of the server: \
             {} MiB before, {} MiB at most\n",
            count("/operations/tested"),
            count("/operations/selected"),
            count("/test_cases/generated"),
            number(&self.bodies, "/operations"),
            number(&self.bodies, "/sent"),
            self.rss_before_kib / 1_024,
            self.rss_peak_kib / 1_024,
        );
        for finding in self.findings() {
            lines += &format!("FOUND: {finding}\n");
        }
        lines
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "seed": self.seed,
            "operations": number(&self.requests, "/operations/tested"),
            "cases": number(&self.requests, "/test_cases/generated"),
            "bodies": number(&self.bodies, "/sent"),
            "rssBeforeKib": self.rss_before_kib,
            "rssPeakKib": self.rss_peak_kib,
            "findings": self.findings(),
        })
    }
}

fn read(path: &Path) -> Outcome<Value> {
    let wrong = |error: &dyn std::fmt::Display| format!("no report in {}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| wrong(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(&error))
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(requests: Value, bodies: Value, ended: Option<&str>) -> Report {
        Report {
            seed: 7,
            requests,
            bodies,
            rss_before_kib: 1,
            rss_peak_kib: 2,
            ended: ended.map(str::to_owned),
        }
    }

    fn whole() -> Value {
        json!({ "complete": true, "test_cases": { "generated": 5 }, "failures": [], "errors": [] })
    }

    #[test]
    fn whatever_went_wrong_is_a_finding() {
        let fine = json!({ "sent": 3, "wrong": [] });
        assert!(report(whole(), fine.clone(), None).is_clean());
        let mut failed = whole();
        failed["failures"] = json!([{ "title": "Server error", "count": 2, "operations": ["GET /a"] }]);
        assert_eq!(report(failed, fine.clone(), None).findings(), ["Server error x2 GET /a"]);
        let mut broken = whole();
        broken["errors"] = json!([{ "title": "Network Error", "count": 1 }]);
        assert!(!report(broken, fine.clone(), None).is_clean());
        let mut cut = whole();
        cut["complete"] = json!(false);
        assert!(!report(cut, fine.clone(), None).is_clean());
        assert!(!report(whole(), json!({ "sent": 3, "wrong": ["POST /a: 500"] }), None).is_clean());
        assert!(!report(whole(), json!({ "sent": 0, "wrong": [] }), None).is_clean());
        assert!(!report(whole(), fine, Some("the server has ended")).is_clean());
    }
}
