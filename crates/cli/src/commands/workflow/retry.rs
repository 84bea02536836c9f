//! `flovyn workflow retry`

use clap::Args;
use serde_json::json;

use super::named;
use crate::client::answers::{Answer, Retried};
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn workflow retry 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn workflow list --status failed -o json | jq -r '.[].id' |
    xargs -n1 flovyn workflow retry")]
pub(crate) struct Retry {
    /// Id of the failed or cancelled execution, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
}

impl Retry {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let id = named::id(session, self.id).await?;
        let path = ["workflow-executions", id.as_str(), "retry"];
        let started: Answer<Retried> = session.client.post(&path, &json!({})).await?;
        if session.out.is_json() {
            return session.out.json(&started.sent);
        }
        let id = &started.value.workflow_execution_id;
        session.out.line(id)?;
        note(&format!("Follow it with: flovyn workflow show --follow {id}"));
        Ok(())
    }
}
