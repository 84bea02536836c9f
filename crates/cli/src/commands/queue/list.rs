//! `flovyn queue list`

use clap::Args;

use crate::client::answers::{Answer, Queues};
use crate::exit::Failure;
use crate::remote::Session;
use crate::terminal::Colour;
use crate::view::note;
use crate::view::table::{Cell, Table, cut, whole};
use crate::view::words::{age, now_ms};

#[derive(Args)]
#[command(after_help = "\
Numbers are exact up to 10,000. OLDEST is since when the first one in line has been ready.

Examples:
  flovyn queue list")]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let found: Queues = session.client.get(&["queues"]).await?;
        if session.out.is_json() {
            return session.out.json_list(found.queues.iter().map(|queue| &*queue.sent));
        }
        if found.queues.is_empty() {
            note("Nothing waits, and no queue is paused.");
            return Ok(());
        }
        let columns = [cut("QUEUE"), whole("STATE"), whole("WORKFLOWS"), whole("TASKS"), whole("OLDEST")];
        let mut table = Table::new(columns);
        for Answer { value, .. } in &found.queues {
            let state = if value.paused { "paused" } else { "active" };
            let oldest = value.oldest_ms.map(|ms| age(ms, now_ms()));
            table.row([
                Cell::from(&value.name),
                Cell::painted(state, value.paused.then_some(Colour::Yellow)),
                Cell::from(value.pending_workflows.to_string()),
                Cell::from(value.pending_tasks.to_string()),
                Cell::from(oldest.unwrap_or_default()),
            ]);
        }
        session.out.table(&table)
    }
}
