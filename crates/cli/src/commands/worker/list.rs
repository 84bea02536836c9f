//! `flovyn worker list`

use clap::Args;

use crate::client::answers::Workers;
use crate::commands::list::Listing;
use crate::exit::Failure;
use crate::remote::Session;
use crate::terminal::Colour;
use crate::view::table::{Cell, cut, whole};
use crate::view::words::{age, now_ms, short};

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn worker list
  flovyn worker list --alive")]
pub(crate) struct List {
    /// Only workers that have sent a heartbeat recently.
    #[arg(long)]
    alive: bool,
}

impl List {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let found: Workers = session.client.get(&["workers"]).await?;
        let workers: Vec<_> =
            found.workers.into_iter().filter(|worker| !self.alive || worker.value.alive).collect();
        let columns = [
            whole("ID"),
            cut("NAME"),
            cut("HOST"),
            cut("PROCESS"),
            whole("STATE"),
            cut("QUEUE"),
            whole("SEEN"),
            cut("BUILD"),
            cut("WORKFLOWS"),
            cut("TASKS"),
        ];
        let mut listing = Listing::new(session, columns);
        listing.add(&workers, |worker| {
            let (state, colour) = if worker.alive { ("alive", Colour::Green) } else { ("gone", Colour::Red) };
            [
                Cell::from(short(&worker.id)),
                Cell::from(&worker.name),
                Cell::from(&worker.host),
                Cell::from(&worker.process_id),
                Cell::painted(state, Some(colour)),
                Cell::from(worker.task_queue.as_deref().unwrap_or_default()),
                Cell::from(age(worker.last_heartbeat_ms, now_ms())),
                Cell::from(&worker.build_id),
                Cell::from(worker.workflows.join(", ")),
                Cell::from(worker.tasks.join(", ")),
            ]
        })?;
        listing.end("No workers. Start a worker with a token from `flovyn token create`.")
    }
}
