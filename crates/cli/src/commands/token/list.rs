//! `flovyn token list`

use clap::Args;

use crate::client::answers::{Answer, WorkerToken, WorkerTokens};
use crate::exit::Failure;
use crate::remote::Session;
use crate::terminal::Colour;
use crate::view::note;
use crate::view::table::{Cell, Table, cut, whole};
use crate::view::words::{age, now_ms};

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn token list")]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let found: WorkerTokens = session.client.get(&["worker-tokens"]).await?;
        if session.out.is_json() {
            return session.out.json_list(found.worker_tokens.iter().map(|token| &*token.sent));
        }
        if found.worker_tokens.is_empty() {
            note("No worker tokens. Make one with: flovyn token create NAME");
            return Ok(());
        }
        let now_ms = now_ms();
        let mut table =
            Table::new([whole("ID"), cut("NAME"), whole("STATE"), whole("CREATED"), whole("EXPIRES")]);
        for Answer { value, .. } in &found.worker_tokens {
            let (state, colour) = state(value, now_ms);
            table.row([
                Cell::from(&value.id),
                Cell::from(&value.name),
                Cell::painted(state, Some(colour)),
                Cell::from(age(value.created_ms, now_ms)),
                Cell::from(value.expires_ms.map(|ms| age(ms, now_ms)).unwrap_or_default()),
            ]);
        }
        session.out.table(&table)
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
