//! `flovyn workflow release`

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
An execution is held back after an activation failed on its worker: the code does not match
the history, it panicked, or the kind is unknown. A worker of another build can take it at
once. The build that failed waits for the delay that `flovyn workflow show` displays.

Examples:
  flovyn workflow release 01a1e259-e972-72ed-ab63-ea102818ba7e")]
pub(crate) struct Release {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
}

impl Release {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let id = named::id(session, self.id).await?;
        let path = ["workflow-executions", id.as_str(), "release"];
        let now: Answer<StatusNow> = session.client.post(&path, &json!({})).await?;
        if session.out.is_json() {
            return session.out.json(&now.sent);
        }
        note(&format!("Released {id}: it is {}.", now.value.status));
        Ok(())
    }
}
