//! Outcomes that were acknowledged to workers. Each worker writes a line per outcome into its own file, outside the
//! database. Exactly one outcome of each task may be acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::{Task, TaskStatus};
use serde_json::Value;
use tonic::Status;
use uuid::Uuid;

use crate::check::Findings;
use crate::plain::Dialect;
use crate::programs;

/// The content of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    Success,
    /// The failure of one attempt: another attempt follows.
    Failure,
}

/// Writes the outcomes of one worker.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(Arc<File>);

impl Recorder {
    pub(crate) fn create(folder: &Path) -> Result<Self, String> {
        Ok(Self(append(folder, "outcomes")?))
    }

    pub(crate) fn record(&self, task: Uuid, token: i64, content: Content) -> std::io::Result<()> {
        // One write per line, so that a killed process leaves complete lines.
        (&*self.0).write_all(format!("{task} {token} {content:?}\n").as_bytes())
    }
}

/// Writes refusals that the worker did not expect.
#[derive(Debug)]
pub(crate) struct Unexpected(Arc<File>);

impl Unexpected {
    pub(crate) fn create(folder: &Path) -> Result<Self, String> {
        Ok(Self(append(folder, "unexpected")?))
    }

    pub(crate) fn record(&self, what: &str, status: &Status) {
        let text = status.message().replace('\n', " ");
        // The line is written at once, like an outcome.
        let _ = (&*self.0).write_all(format!("{what}: {:?} {text}\n", status.code()).as_bytes());
    }
}

/// Writes reports that were sent once and not answered.
#[derive(Debug)]
pub(crate) struct Lost(Arc<File>);

impl Lost {
    pub(crate) fn create(folder: &Path) -> Result<Self, String> {
        Ok(Self(append(folder, "lost")?))
    }

    pub(crate) fn record(&self, what: &str) {
        let _ = (&*self.0).write_all(format!("{what}\n").as_bytes());
    }
}

fn append(folder: &Path, extension: &str) -> Result<Arc<File>, String> {
    let path = folder.join(format!("{}.{extension}", std::process::id()));
    let file = File::options().create(true).append(true).open(&path);
    Ok(Arc::new(file.map_err(|error| format!("{}: {error}", path.display()))?))
}

/// An acknowledged outcome. A worker reports each of its claims with one content, so these fields identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acknowledged {
    /// The process id of the worker.
    pub(crate) worker: u32,
    pub(crate) token: i64,
    pub(crate) content: Content,
}

/// All acknowledged outcomes, by task. Repeats are stored once.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) of: BTreeMap<Uuid, BTreeSet<Acknowledged>>,
    /// Process ids of workers without tokens.
    pub(crate) plain: BTreeMap<u32, Dialect>,
    /// Reports that were sent once and not answered. Their work may run again.
    pub(crate) lost_reports: usize,
    unexpected: Vec<String>,
}

impl Outcomes {
    /// `plain`: process ids of the workers without tokens, also of dead ones.
    pub(crate) fn read(folder: &Path, plain: BTreeMap<u32, Dialect>) -> Result<Self, String> {
        let mut outcomes = Self { plain, ..Self::default() };
        for file in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
            let path = file.map_err(|error| error.to_string())?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some((worker, extension)) = name.split_once('.') else { continue };
            if !["outcomes", "unexpected", "lost"].contains(&extension) {
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            for line in text.lines() {
                match extension {
                    "unexpected" => outcomes.unexpected.push(line.to_owned()),
                    "lost" => outcomes.lost_reports += 1,
                    _ => {
                        let read = worker.parse().ok().and_then(|worker| outcomes.read_line(worker, line));
                        read.ok_or_else(|| format!("{}: '{line}' is no outcome", path.display()))?;
                    }
                }
            }
        }
        Ok(outcomes)
    }

    fn read_line(&mut self, worker: u32, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let (task, token) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let content = match words.next()? {
            "Success" => Content::Success,
            "Failure" => Content::Failure,
            _ => return None,
        };
        self.of.entry(task).or_default().insert(Acknowledged { worker, token, content });
        Some(())
    }

    pub(crate) fn count(&self) -> usize {
        self.of.values().map(BTreeSet::len).sum()
    }

    /// The number of outcomes that were acknowledged to workers without tokens.
    pub(crate) fn count_plain(&self) -> usize {
        let all = self.of.values().flatten();
        all.filter(|outcome| self.plain.contains_key(&outcome.worker)).count()
    }

    /// Tasks with more than one acknowledged success, or with two acknowledged outcomes of one claim, failures included.
    fn contested(&self) -> impl Iterator<Item = (Uuid, Vec<Acknowledged>)> {
        self.of.iter().filter_map(|(task, outcomes)| {
            let among_others = |one: &&Acknowledged| {
                outcomes.iter().any(|other| {
                    let both = one.content == Content::Success && other.content == Content::Success;
                    other != *one && (both || other.token == one.token)
                })
            };
            let contested: Vec<Acknowledged> = outcomes.iter().filter(among_others).copied().collect();
            (!contested.is_empty()).then_some((*task, contested))
        })
    }

    /// Checks that one outcome of each task was acknowledged, and that it is the stored one.
    pub(crate) fn check(&self, found: &mut Findings, snapshot: &Snapshot) {
        for (task, outcomes) in self.contested() {
            found.two_outcomes(format!("several outcomes of task {task} were acknowledged: {outcomes:?}"));
        }
        let tasks: BTreeMap<Uuid, &Task> = snapshot.tasks.iter().map(|row| (row.id, row)).collect();
        for (id, outcomes) in &self.of {
            let Some(task) = tasks.get(id) else {
                found.lost(format!("an outcome of task {id} was acknowledged, but the task does not exist"));
                continue;
            };
            for outcome in outcomes {
                let stored = match outcome.content {
                    Content::Success => author(task) == Some((outcome.worker, outcome.token)),
                    Content::Failure => has_failed(snapshot, task, *outcome),
                };
                if !stored {
                    let (status, output) = (task.status, author(task));
                    found.lost(format!(
                        "task {id}: {outcome:?} was acknowledged; stored is {status:?} {output:?}"
                    ));
                }
            }
        }
        for what in &self.unexpected {
            found.wrong(format!("a worker without tokens was refused {what}"));
        }
    }
}

/// The worker and the claim whose output is stored. `None`: the task has not completed.
pub(crate) fn author(task: &Task) -> Option<(u32, i64)> {
    let output: Value = serde_json::from_slice(task.output.as_deref()?).ok()?;
    let worker = u32::try_from(output["worker"].as_u64()?).ok()?;
    (task.status == TaskStatus::Completed).then_some((worker, output["token"].as_i64()?))
}

fn has_failed(snapshot: &Snapshot, task: &Task, outcome: Acknowledged) -> bool {
    let text = programs::failure(outcome.worker, outcome.token);
    let attempts = snapshot.attempts.iter().filter(|attempt| attempt.task_id == task.id);
    attempts.filter_map(|attempt| attempt.error.as_deref()).any(|error| error.contains(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(lines: &[(u32, &str)]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (worker, line) in lines {
            let line = format!("{} {line}", Uuid::nil());
            assert!(outcomes.read_line(*worker, &line).is_some(), "{line}");
        }
        outcomes
    }

    #[test]
    fn one_outcome_and_its_repeats_are_one() {
        let one = outcomes(&[(1, "1 Failure"), (2, "2 Failure"), (1, "3 Success"), (1, "3 Success")]);
        assert_eq!((one.contested().count(), one.count()), (0, 3));
    }

    #[test]
    fn outcomes_of_two_claims_or_of_two_workers_are_two() {
        for lines in [
            [(1, "1 Success"), (1, "2 Success")],
            [(1, "1 Success"), (2, "1 Success")],
            [(1, "1 Failure"), (1, "1 Success")],
            [(1, "1 Failure"), (2, "1 Failure")],
        ] {
            assert_eq!(outcomes(&lines).contested().count(), 1, "{lines:?}");
        }
    }
}
