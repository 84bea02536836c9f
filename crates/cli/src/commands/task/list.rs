//! `flovyn task list`

use clap::{Args, ValueEnum};

use super::{COLUMNS, row};
use crate::client::answers::{Task, Tasks};
use crate::commands::list::{Listing, Page};
use crate::exit::Failure;
use crate::remote::Session;

#[derive(Args)]
#[command(after_help = "\
To list the tasks of a workflow, use `flovyn workflow tasks`.

Examples:
  flovyn task list
  flovyn task list --status failed --type send-email
  flovyn task list --status failed -o json | jq -r '.[].id' | xargs -n1 flovyn task retry")]
pub(crate) struct List {
    /// Only tasks with this status.
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<Status>,
    /// Only tasks of this type.
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<String>,
    /// Only tasks of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Maximum number of tasks.
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Pending,
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl List {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let none = "No standalone tasks. Create one with: flovyn task create TYPE";
        let page = |limit, cursor| self.page(session, limit, cursor);
        Listing::new(session, COLUMNS)
            .run(self.limit, none, |one| row(one, session.client.now_ms()), page)
            .await
    }

    async fn page(
        &self,
        session: &Session,
        limit: String,
        cursor: Option<String>,
    ) -> Result<Page<Task, String>, Failure> {
        let query = [
            ("status", self.status.map(|status| format!("{status:?}").to_uppercase())),
            ("task_type", self.task_type.clone()),
            ("queue", self.queue.clone()),
            ("limit", Some(limit)),
            ("cursor", cursor),
        ];
        let page: Tasks = session.client.get_with(&["tasks"], &query).await?;
        Ok((page.tasks, page.next_cursor))
    }
}
