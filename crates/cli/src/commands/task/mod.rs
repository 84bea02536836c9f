//! `flovyn task`: standalone tasks, and reading the tasks of workflows.

mod attempts;
mod cancel;
mod create;
mod list;
mod logs;
mod retry;
mod show;

use clap::Subcommand;

use crate::client::answers::Task as TaskAnswer;
use crate::commands::noun::Verbs;
use crate::exit::Failure;
use crate::remote::Session;
use crate::view::status_colour;
use crate::view::table::{Cell, Column, cut, whole};
use crate::view::words::age;

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "the process creates a single value")]
pub(crate) enum Task {
    /// Create a standalone task and print its id.
    Create(create::Create),
    /// List standalone tasks, newest first.
    List(list::List),
    /// Show a task: its status, its progress, what it waits for.
    Show(show::Show),
    /// List the finished attempts of a task.
    Attempts(attempts::Attempts),
    /// Print the log of a task.
    Logs(logs::Logs),
    /// Cancel a standalone task that has not started.
    Cancel(cancel::Cancel),
    /// Retry a failed standalone task.
    Retry(retry::Retry),
}

/// The failure type and retryability in a few words. Empty if neither is known.
pub(super) fn failure(failure_type: Option<&str>, retryable: Option<bool>) -> String {
    match (failure_type, retryable) {
        (Some(name), Some(false)) => format!("{name}, not retryable"),
        (Some(name), _) => name.to_owned(),
        (None, Some(false)) => "not retryable".to_owned(),
        (None, _) => String::new(),
    }
}

impl Verbs for Task {
    const IF_MISSING: &'static str =
        "`flovyn task list` lists standalone tasks, `flovyn workflow tasks` lists the tasks of an execution.";

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(session).await,
            Self::List(list) => list.run(session).await,
            Self::Show(show) => show.run(session).await,
            Self::Attempts(attempts) => attempts.run(session).await,
            Self::Logs(logs) => logs.run(session).await,
            Self::Cancel(cancel) => cancel.run(session).await,
            Self::Retry(retry) => retry.run(session).await,
        }
    }
}

/// The number of attempts and their maximum. After a manual retry there may be more attempts than the maximum.
fn attempts(task: &TaskAnswer, of: &str) -> String {
    let (count, most) = (task.execution_count, task.max_retries.max(1));
    if count > most { count.to_string() } else { format!("{count}{of}{most}") }
}

/// The columns of tables of tasks.
pub(super) const COLUMNS: [Column; 6] =
    [whole("ID"), cut("TYPE"), whole("STATUS"), whole("ATTEMPT"), whole("CREATED"), cut("DETAILS")];

pub(super) fn row(task: &TaskAnswer, now_ms: i64) -> [Cell; 6] {
    let progress = task.progress_details.as_deref().filter(|_| task.status == "RUNNING");
    [
        Cell::from(&task.id),
        Cell::from(&task.task_type),
        Cell::painted(&task.status, status_colour(&task.status)),
        Cell::from(attempts(task, "/")),
        Cell::from(age(task.created_ms, now_ms)),
        Cell::from(task.error.as_deref().or(progress).unwrap_or_default()),
    ]
}
