//! `flovyn task attempts`

use clap::Args;

use crate::client::answers::{self, Answer};
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::table::{Cell, Table, cut, whole};
use crate::view::words::{duration, moment};
use crate::view::{note, status_colour};

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn task attempts 01a1e25a-8115-75f7-a408-22da880edbbf")]
pub(crate) struct Attempts {
    /// The task's id; also of a task of a workflow.
    #[arg(value_parser = input::id)]
    id: String,
}

impl Attempts {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let found: answers::Attempts = session.client.get(&["tasks", &self.id, "attempts"]).await?;
        if session.out.is_json() {
            return session.out.json_list(found.attempts.iter().map(|attempt| &*attempt.sent));
        }
        if found.attempts.is_empty() {
            note("No attempt has ended yet.");
            return Ok(());
        }
        let columns =
            [whole("ATTEMPT"), whole("STATUS"), whole("STARTED"), whole("TOOK"), cut("WORKER"), cut("ERROR")];
        let mut table = Table::new(columns);
        for Answer { value, .. } in &found.attempts {
            table.row([
                Cell::from(value.attempt.to_string()),
                Cell::painted(&value.status, status_colour(&value.status)),
                Cell::from(moment(value.started_ms)),
                Cell::from(duration(value.finished_ms - value.started_ms)),
                Cell::from(value.worker_id.as_deref().unwrap_or_default()),
                Cell::from(value.error.as_deref().unwrap_or_default()),
            ]);
        }
        session.out.table(&table)
    }
}
