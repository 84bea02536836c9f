//! `flovyn workflow terminate`

use clap::Args;
use serde_json::json;

use super::named;
use crate::client::answers::{Answer, StatusNow};
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
Cancels its open tasks; its child workflows continue. Prefer `cancel`, which lets the
workflow clean up.

Examples:
  flovyn workflow terminate 01a1e259-e972-72ed-ab63-ea102818ba7e --reason stuck")]
pub(crate) struct Terminate {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
    /// The reason, which is stored in the history.
    #[arg(long, default_value = "")]
    reason: String,
}

impl Terminate {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let path = named::action(&self.id, "terminate");
        let now: Answer<StatusNow> = session.client.post(&path, &json!({ "reason": self.reason })).await?;
        if session.out.is_json() {
            return session.out.json(&now.sent);
        }
        note(&format!("Terminated {}: it is {}.", self.id, now.value.status));
        Ok(())
    }
}
