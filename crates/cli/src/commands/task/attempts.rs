//! `flovyn task attempts`

use clap::Args;

use crate::client::answers;
use crate::commands::list::Listing;
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::status_colour;
use crate::view::table::{Cell, cut, whole};
use crate::view::words::{duration, moment};

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn task attempts 01a1e25a-8115-75f7-a408-22da880edbbf")]
pub(crate) struct Attempts {
    /// The task's id; tasks of workflows are possible too.
    #[arg(value_parser = input::id)]
    id: String,
}

impl Attempts {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let found: answers::Attempts = session.client.get(&["tasks", &self.id, "attempts"]).await?;
        let columns = [
            whole("ATTEMPT"),
            whole("STATUS"),
            whole("STARTED"),
            whole("TOOK"),
            cut("WORKER"),
            cut("FAILURE"),
            cut("ERROR"),
        ];
        let mut listing = Listing::new(session, columns);
        listing.add(&found.attempts, |attempt| {
            [
                Cell::from(attempt.attempt.to_string()),
                Cell::painted(&attempt.status, status_colour(&attempt.status)),
                Cell::from(moment(attempt.started_ms)),
                Cell::from(duration(attempt.finished_ms - attempt.started_ms)),
                Cell::from(attempt.worker_id.as_deref().unwrap_or_default()),
                Cell::from(super::failure(attempt.failure_type.as_deref(), attempt.retryable)),
                Cell::from(attempt.error.as_deref().unwrap_or_default()),
            ]
        })?;
        listing.end("No attempt has ended yet.")
    }
}
