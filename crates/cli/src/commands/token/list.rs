//! `flovyn token list`

use clap::Args;

use crate::client::answers::{WorkerToken, WorkerTokens};
use crate::commands::list::Listing;
use crate::exit::Failure;
use crate::remote::Session;
use crate::terminal::Colour;
use crate::view::table::{Cell, cut, whole};
use crate::view::words::age;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn token list")]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let found: WorkerTokens = session.client.get(&["worker-tokens"]).await?;
        let now_ms = session.client.now_ms();
        let columns = [whole("ID"), cut("NAME"), whole("STATE"), whole("CREATED"), whole("EXPIRES")];
        let mut listing = Listing::new(session, columns);
        listing.add(&found.worker_tokens, |token| {
            let (state, colour) = state(token, now_ms);
            [
                Cell::from(&token.id),
                Cell::from(&token.name),
                Cell::painted(state, Some(colour)),
                Cell::from(age(token.created_ms, now_ms)),
                Cell::from(token.expires_ms.map(|ms| age(ms, now_ms)).unwrap_or_default()),
            ]
        })?;
        listing.end("No worker tokens. Create one with: flovyn token create NAME")
    }
}

fn state(token: &WorkerToken, now_ms: i64) -> (&'static str, Colour) {
    if token.revoked_ms.is_some() {
        ("revoked", Colour::Red)
    } else if token.expires_ms.is_some_and(|ms| ms <= now_ms) {
        ("expired", Colour::Yellow)
    } else {
        ("valid", Colour::Green)
    }
}
