//! `flovyn workflow cancel`

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
Examples:
  flovyn workflow cancel 01a1e259-e972-72ed-ab63-ea102818ba7e --reason 'changed my mind'")]
pub(crate) struct Cancel {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
    /// The reason, which is stored in the history.
    #[arg(long, default_value = "")]
    reason: String,
    /// Do not cancel its child workflows.
    #[arg(long)]
    no_cascade: bool,
}

impl Cancel {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let body = json!({ "reason": self.reason, "cascade": !self.no_cascade });
        let path = named::action(&self.id, "cancel");
        let now: Answer<StatusNow> = session.client.post(&path, &body).await?;
        if session.out.is_json() {
            return session.out.json(&now.sent);
        }
        match now.value.status.as_str() {
            "CANCELLED" => note(&format!("Cancelled {}.", self.id)),
            status => note(&format!(
                "Requested cancellation of {}; it is {status} and may clean up first. Wait for its end with `flovyn workflow wait`.",
                self.id
            )),
        }
        Ok(())
    }
}
