//! `flovyn worker list`

use clap::Args;

use crate::client::answers::{Answer, Workers};
use crate::exit::Failure;
use crate::remote::Session;
use crate::terminal::Colour;
use crate::view::note;
use crate::view::table::{Cell, Table, cut, whole};
use crate::view::words::{age, now_ms};

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn worker list
  flovyn worker list --alive")]
pub(crate) struct List {
    /// Only those that have shown a sign of life of late.
    #[arg(long)]
    alive: bool,
}

impl List {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let found: Workers = session.client.get(&["workers"]).await?;
        let workers: Vec<_> =
            found.workers.into_iter().filter(|worker| !self.alive || worker.value.alive).collect();
        if session.out.is_json() {
            return session.out.json_list(workers.iter().map(|worker| &*worker.sent));
        }
        if workers.is_empty() {
            note("No workers. They connect by themselves, with the token of `flovyn token create`.");
            return Ok(());
        }
        let columns = [
            cut("NAME"),
            whole("STATE"),
            cut("QUEUE"),
            whole("SEEN"),
            cut("BUILD"),
            cut("WORKFLOWS"),
            cut("TASKS"),
        ];
        let mut table = Table::new(columns);
        for Answer { value, .. } in &workers {
            let (state, colour) = if value.alive { ("alive", Colour::Green) } else { ("gone", Colour::Red) };
            table.row([
                Cell::from(&value.name),
                Cell::painted(state, Some(colour)),
                Cell::from(value.task_queue.as_deref().unwrap_or_default()),
                Cell::from(age(value.last_heartbeat_ms, now_ms())),
                Cell::from(&value.build_id),
                Cell::from(value.workflows.join(", ")),
                Cell::from(value.tasks.join(", ")),
            ]);
        }
        session.out.table(&table)
    }
}
