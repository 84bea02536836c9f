//! `flovyn workflow tasks`

use clap::Args;

use super::history;
use super::named;
use crate::commands::list::Listing;
use crate::commands::task;
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn workflow tasks 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn task attempts TASK_ID        # the attempts of a task
  flovyn task logs --follow TASK_ID   # the log of a task")]
pub(crate) struct Tasks {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
    /// Maximum number of tasks.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

impl Tasks {
    pub(crate) async fn run(mut self, session: &Session) -> Result<(), Failure> {
        self.id = named::id(session, self.id).await?;
        let page =
            async |limit, cursor| Ok(history::tasks_page(&session.client, &self.id, limit, cursor).await?);
        let listing = Listing::new(session, task::COLUMNS);
        listing
            .run(
                self.limit,
                "The execution has scheduled no tasks.",
                |one| task::row(one, session.client.now_ms()),
                page,
            )
            .await
    }
}
