//! `flovyn task`: standalone tasks, and looking at those of workflows.

mod attempts;
mod cancel;
mod create;
mod list;
mod logs;
mod retry;
mod show;

use clap::{Args, Subcommand};

use crate::client::answers::{Answer, Task as TaskAnswer};
use crate::exit::Failure;
use crate::remote::Remote;
use crate::view::status_colour;
use crate::view::table::{Cell, Table, cut, whole};
use crate::view::words::{age, now_ms};

#[derive(Args)]
pub(crate) struct Task {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it is made once")]
enum Command {
    /// Create a standalone task and print its id.
    Create(create::Create),
    /// List standalone tasks, the newest first.
    List(list::List),
    /// Show a task: its state, its progress, what it waits for.
    Show(show::Show),
    /// List the attempts of a task that have ended.
    Attempts(attempts::Attempts),
    /// Print what a task has logged.
    Logs(logs::Logs),
    /// Cancel a standalone task that has not begun.
    Cancel(cancel::Cancel),
    /// Send a failed standalone task on its way again.
    Retry(retry::Retry),
}

impl Task {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.remote.connect()?;
        let done = match self.command {
            Command::Create(create) => create.run(&session).await,
            Command::List(list) => list.run(&session).await,
            Command::Show(show) => show.run(&session).await,
            Command::Attempts(attempts) => attempts.run(&session).await,
            Command::Logs(logs) => logs.run(&session).await,
            Command::Cancel(cancel) => cancel.run(&session).await,
            Command::Retry(retry) => retry.run(&session).await,
        };
        let todo =
            "`flovyn task list` shows standalone tasks, `flovyn workflow tasks` those of an execution.";
        done.map_err(|failure| session.explain(failure).advise_if_missing(todo))
    }
}

/// How many there were of how many. After a retry by hand there may be more than those.
fn attempts(task: &TaskAnswer, of: &str) -> String {
    let (count, most) = (task.execution_count, task.max_retries.max(1));
    if count > most { count.to_string() } else { format!("{count}{of}{most}") }
}

pub(super) fn table(tasks: &[Answer<TaskAnswer>]) -> Table {
    let columns =
        [whole("ID"), cut("TYPE"), whole("STATUS"), whole("ATTEMPT"), whole("CREATED"), cut("DETAILS")];
    let mut table = Table::new(columns);
    for Answer { value, .. } in tasks {
        let progress = value.progress_details.as_deref().filter(|_| value.status == "RUNNING");
        table.row([
            Cell::from(&value.id),
            Cell::from(&value.task_type),
            Cell::painted(&value.status, status_colour(&value.status)),
            Cell::from(attempts(value, "/")),
            Cell::from(age(value.created_ms, now_ms())),
            Cell::from(value.error.as_deref().or(progress).unwrap_or_default()),
        ]);
    }
    table
}
