//! Latencies, and the CPU, memory and disk writes of a process.

use std::fmt::Write;
use std::time::Duration;

/// Latencies in microseconds, unsorted.
#[derive(Debug, Default, Clone)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    pub(crate) fn add(&mut self, elapsed: Duration) {
        self.0.push(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: Latencies) {
        self.0.extend(other.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The latency in milliseconds that `percent` of all values do not exceed. Zero if there are no values.
    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let index = ((sorted.len() as f64 * percent / 100.0) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(index).map_or(0.0, |micros| *micros as f64 / 1_000.0)
    }
}

/// A JSON object on one line, built key by key.
#[derive(Debug)]
pub(crate) struct Line(String);

impl Line {
    pub(crate) fn new(bench: &str) -> Self {
        Self(format!("{{\"bench\":\"{bench}\""))
    }

    pub(crate) fn text(mut self, key: &str, value: &str) -> Self {
        let _ = write!(self.0, ",\"{key}\":\"{value}\"");
        self
    }

    pub(crate) fn number(mut self, key: &str, value: f64) -> Self {
        let _ = write!(self.0, ",\"{key}\":{}", (value * 1_000.0).round() / 1_000.0);
        self
    }

    pub(crate) fn finish(self) -> String {
        self.0 + "}"
    }
}

/// Seconds of CPU that this process has used.
pub(crate) fn cpu_seconds() -> f64 {
    cpu_seconds_of(std::process::id())
}

/// Seconds of CPU that a process has used.
pub(crate) fn cpu_seconds_of(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The command's name may contain spaces; the fields after it do not.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    const TICKS_PER_SECOND: f64 = 100.0;
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

/// Resident memory of this process.
pub(crate) fn resident_mb() -> f64 {
    resident_mb_of(std::process::id())
}

/// Resident memory of a process.
pub(crate) fn resident_mb_of(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("");
    let kilobytes = line.split_whitespace().nth(1).and_then(|field| field.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1_024.0
}

/// Bytes that the system has written to disk for a process.
pub(crate) fn written_bytes_of(process: u32) -> f64 {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0.0)
}
