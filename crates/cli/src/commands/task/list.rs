//! `flovyn task list`

use clap::{Args, ValueEnum};

use super::table;
use crate::client::answers::{Answer, Task, Tasks};
use crate::exit::Failure;
use crate::remote::Session;
use crate::view::note;

/// Of one page.
const MOST: usize = 100;

#[derive(Args)]
#[command(after_help = "\
Tasks of workflows are listed by `flovyn workflow tasks`.

Examples:
  flovyn task list
  flovyn task list --status failed --type send-email
  flovyn task list --status failed -o json | jq -r '.[].id' | xargs -n1 flovyn task retry")]
pub(crate) struct List {
    /// Only those in this status.
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<Status>,
    /// Only those of this type.
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<String>,
    /// Only those of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// How many at most.
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
        let (tasks, more) = self.fetch(session).await?;
        if session.out.is_json() {
            session.out.json_list(tasks.iter().map(|task| &*task.sent))?;
        } else if tasks.is_empty() {
            note("No standalone tasks. Create one with: flovyn task create TYPE");
        } else {
            session.out.table(&table(&tasks))?;
        }
        if more {
            note(&format!("There are more: --limit {} shows more of them.", self.limit.saturating_mul(2)));
        }
        Ok(())
    }

    /// As many pages as it takes. Also says whether there are more.
    async fn fetch(&self, session: &Session) -> Result<(Vec<Answer<Task>>, bool), Failure> {
        let wanted = self.limit as usize;
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let limit = (wanted - found.len()).min(MOST);
            let query = [
                ("status", self.status.map(|status| format!("{status:?}").to_uppercase())),
                ("task_type", self.task_type.clone()),
                ("queue", self.queue.clone()),
                ("limit", Some(limit.to_string())),
                ("cursor", cursor),
            ];
            let page: Tasks = session.client.get_with(&["tasks"], &query).await?;
            found.extend(page.tasks);
            cursor = page.next_cursor;
            if cursor.is_none() || found.len() >= wanted {
                return Ok((found, cursor.is_some()));
            }
        }
    }
}
