//! `flovyn workflow events`

use clap::Args;

use super::history;
use super::named;
use crate::client::answers::{Execution, LogEvent};
use crate::commands::list::Listing;
use crate::commands::outcome;
use crate::exit::Failure;
use crate::follow::{Follower, Seen, Tasks};
use crate::input;
use crate::remote::Session;
use crate::view::event::{EventText, Teller};
use crate::view::note;
use crate::view::table::{Cell, cut, whole};
use crate::view::words::moment;

#[derive(Args)]
#[command(after_help = "\
Exit codes with --follow: 0 if the execution completed, 7 if it failed or was cancelled.

Examples:
  flovyn workflow events 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn workflow events --follow 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn workflow events -o json 01a1e259-e972-72ed-ab63-ea102818ba7e | jq '.[-1].data'")]
pub(crate) struct Events {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
    /// Only events after this sequence number.
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    since: i64,
    /// Maximum number of events.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with = "follow")]
    limit: u32,
    /// Print events as they arrive, until the execution has ended. With JSON, one per line.
    #[arg(long, short)]
    follow: bool,
}

impl Events {
    pub(crate) async fn run(mut self, session: &Session) -> Result<(), Failure> {
        self.id = named::id(session, self.id).await?;
        if self.follow {
            return self.follow(session).await;
        }
        let columns = [whole("SEQ"), whole("TIME"), whole("EVENT"), cut("ABOUT"), cut("DETAILS")];
        let mut listing = Listing::new(session, columns);
        let mut teller = Teller::default();
        let row = |event: &LogEvent| {
            let EventText { about, details, colour } = teller.tell(event);
            [
                Cell::from(event.sequence.to_string()),
                Cell::from(moment(event.timestamp_ms)),
                Cell::painted(&event.event_type, colour),
                Cell::from(about),
                Cell::from(details),
            ]
        };
        let page = async |most, since: Option<i64>| {
            let since = since.unwrap_or(self.since);
            let page = history::events_page(&session.client, &self.id, since, most).await?;
            Ok((page.events, page.next_since_sequence))
        };
        let next = listing.add_pages(self.limit, row, page).await?;
        listing.end("No events.")?;
        if let Some(last) = next {
            note(&format!("There are more. Show the next ones with --since {last}."));
        }
        Ok(())
    }

    async fn follow(&self, session: &Session) -> Result<(), Failure> {
        let out = session.out;
        // An execution that has ended has no further events, so following it would wait forever.
        let execution: Execution = session.client.get(&["workflow-executions", &self.id]).await?;
        if execution.has_ended() && self.since >= execution.last_sequence {
            return outcome::of_execution(&execution);
        }
        let mut teller = Teller::default();
        let mut follower = Follower::open(&session.client, &self.id, Tasks::Nothing, self.since, 0).await?;
        while let Some(seen) = follower.next().await? {
            match seen {
                Seen::Event(event) if out.is_json() => out.json_line(&event.sent)?,
                Seen::Event(event) => out.line(&teller.line(&event.value, out.paint))?,
                Seen::Task(..) => {}
            }
        }
        outcome::of_execution(&session.client.get(&["workflow-executions", &self.id]).await?)
    }
}
