//! `flovyn workflow tasks`

use clap::Args;

use super::history;
use crate::commands::task;
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn workflow tasks 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn task attempts TASK_ID        # every attempt of one of them
  flovyn task logs --follow TASK_ID   # what it logs")]
pub(crate) struct Tasks {
    /// The execution's id.
    #[arg(value_parser = input::name)]
    id: String,
    /// How many at most.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

impl Tasks {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let (tasks, more) = history::tasks(&session.client, &self.id, self.limit as usize).await?;
        if session.out.is_json() {
            session.out.json_list(tasks.iter().map(|task| &*task.sent))?;
        } else if tasks.is_empty() {
            note("It has scheduled no tasks.");
        } else {
            session.out.table(&task::table(&tasks))?;
        }
        if more {
            note(&format!("There are more: --limit {} shows more of them.", self.limit.saturating_mul(2)));
        }
        Ok(())
    }
}
