//! Runs of tasks: each worker writes a line into its own file, outside the database, before the work begins.
//!
//! The operating system has the line before the task continues, so the line survives the worker's death.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// Writes the runs of one worker.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(Arc<File>);

impl Recorder {
    pub(crate) fn create(folder: &Path) -> Result<Self, String> {
        let path = folder.join(format!("{}.runs", std::process::id()));
        let file = File::options().create(true).append(true).open(&path);
        Ok(Self(Arc::new(file.map_err(|error| format!("{}: {error}", path.display()))?)))
    }

    pub(crate) fn record(&self, task: Uuid, token: i64) -> std::io::Result<()> {
        // One write per line, so that a killed process leaves complete lines.
        (&*self.0).write_all(format!("{task} {token}\n").as_bytes())
    }
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How often each claim was run. More than once means that a claim was handed out twice.
#[derive(Debug, Default)]
pub(crate) struct Runs(pub(crate) BTreeMap<(Uuid, i64), usize>);

impl Runs {
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let mut runs = Self::default();
        let files = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
        for file in files {
            let path = file.map_err(|error| error.to_string())?.path();
            if path.extension().is_none_or(|extension| extension != "runs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            for line in text.lines() {
                let read = runs.read_line(line);
                read.ok_or_else(|| format!("{}: '{line}' is no run", path.display()))?;
            }
        }
        Ok(runs)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let claim = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        *self.0.entry(claim).or_default() += 1;
        Some(())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.values().sum()
    }
}
