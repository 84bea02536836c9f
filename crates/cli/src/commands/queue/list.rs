//! `flovyn queue list`

use clap::Args;

use crate::client::answers::Queues;
use crate::commands::list::Listing;
use crate::exit::Failure;
use crate::remote::Session;
use crate::terminal::Colour;
use crate::view::table::{Cell, cut, whole};
use crate::view::words::age;

#[derive(Args)]
#[command(after_help = "\
Numbers are exact up to 10,000. OLDEST is the age of the oldest ready item.

Examples:
  flovyn queue list")]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let found: Queues = session.client.get(&["queues"]).await?;
        let columns = [cut("QUEUE"), whole("STATE"), whole("WORKFLOWS"), whole("TASKS"), whole("OLDEST")];
        let mut listing = Listing::new(session, columns);
        listing.add(&found.queues, |queue| {
            let state = if queue.paused { "paused" } else { "active" };
            let oldest = queue.oldest_ms.map(|ms| age(ms, session.client.now_ms()));
            [
                Cell::from(&queue.name),
                Cell::painted(state, queue.paused.then_some(Colour::Yellow)),
                Cell::from(queue.pending_workflows.to_string()),
                Cell::from(queue.pending_tasks.to_string()),
                Cell::from(oldest.unwrap_or_default()),
            ]
        })?;
        listing.end("No work is queued, and no queue is paused.")
    }
}
