//! `flovyn workflow events`

use clap::Args;

use super::history;
use crate::client::answers::Execution;
use crate::exit::Failure;
use crate::follow::{Follower, Seen, Tasks};
use crate::input;
use crate::remote::Session;
use crate::view::event::{Teller, Told};
use crate::view::note;
use crate::view::table::{Cell, Table, cut, whole};
use crate::view::words::moment;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn workflow events 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn workflow events --follow 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn workflow events -o json 01a1e259-e972-72ed-ab63-ea102818ba7e | jq '.[-1].data'")]
pub(crate) struct Events {
    /// The execution's id.
    #[arg(value_parser = input::id)]
    id: String,
    /// Only events after this one.
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    since: i64,
    /// How many at most.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, conflicts_with = "follow")]
    limit: u32,
    /// Print events as they come, until the execution has ended. As JSON, one per line.
    #[arg(long, short)]
    follow: bool,
}

impl Events {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let out = session.out;
        if self.follow {
            return self.follow(session).await;
        }
        let events = history::events(&session.client, &self.id, self.since, self.limit as usize).await?;
        if out.is_json() {
            return out.json_list(events.iter().map(|event| &*event.sent));
        }
        if events.is_empty() {
            note("No events.");
            return Ok(());
        }
        let columns = [whole("SEQ"), whole("TIME"), whole("EVENT"), cut("ABOUT"), cut("DETAILS")];
        let mut table = Table::new(columns);
        let mut teller = Teller::default();
        for event in &events {
            let event = &event.value;
            let Told { about, details, colour } = teller.tell(event);
            table.row([
                Cell::from(event.sequence.to_string()),
                Cell::from(moment(event.timestamp_ms)),
                Cell::painted(&event.event_type, colour),
                Cell::from(about),
                Cell::from(details),
            ]);
        }
        out.table(&table)?;
        if events.len() == self.limit as usize {
            let last = events.last().map_or(0, |event| event.value.sequence);
            note(&format!("There may be more: --since {last} shows the next ones."));
        }
        Ok(())
    }

    async fn follow(&self, session: &Session) -> Result<(), Failure> {
        let out = session.out;
        // One that has ended has no event after its last: nothing would come.
        let execution: Execution = session.client.get(&["workflow-executions", &self.id]).await?;
        if execution.has_ended() && self.since >= execution.last_sequence {
            return Ok(());
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
        Ok(())
    }
}
