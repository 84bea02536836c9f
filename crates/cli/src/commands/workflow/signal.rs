//! `flovyn workflow signal`

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::named;
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
A signal is buffered until the workflow waits for it, so it cannot be sent too early.

Examples:
  flovyn workflow signal 01a1e259-e972-72ed-ab63-ea102818ba7e courier --value '\"Grace\"'
  flovyn workflow signal key:cart-ada add --value '{\"item\": \"tea\"}'")]
pub(crate) struct Signal {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
    /// The signal's name, as in the workflow's code.
    #[arg(value_parser = input::name)]
    name: String,
    /// Value as JSON, @FILE, or - for stdin. Default: null.
    #[arg(long, short, value_name = "JSON", value_parser = input::json)]
    value: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Body<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
}

impl Signal {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let body = Body { name: &self.name, value: self.value.as_deref() };
        let path = named::action(&self.id, "signal");
        let answer: Box<RawValue> = session.client.post(&path, &body).await?;
        if session.out.is_json() {
            return session.out.json(&answer);
        }
        note(&format!("Signal {} is in the history of {}.", self.name, self.id));
        Ok(())
    }
}
