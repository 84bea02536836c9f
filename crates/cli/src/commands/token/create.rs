//! `flovyn token create`

use clap::Args;
use serde::Serialize;

use crate::client::answers::{Answer, WorkerToken};
use crate::exit::Failure;
use crate::input::{self, Span};
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn token create production
  flovyn token create trial --expires-in 7d > worker.token")]
pub(crate) struct Create {
    /// The token's name.
    #[arg(value_parser = input::name)]
    name: String,
    /// When the token expires, such as 2027-01-31T09:00:00Z. Default: never.
    #[arg(long, value_name = "TIME", value_parser = input::moment)]
    expires_at: Option<String>,
    /// Lifetime of the token, such as 90d.
    #[arg(long, value_name = "DURATION", conflicts_with = "expires_at")]
    expires_in: Option<Span>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl Create {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let later = self.expires_in.map(|Span(ms)| input::from_now(ms)).transpose();
        let expires_at = self.expires_at.clone().or(later.map_err(Failure::usage)?);
        let made: Answer<WorkerToken> =
            session.client.post(&["worker-tokens"], &Body { name: &self.name, expires_at }).await?;
        if session.out.is_json() {
            return session.out.json(&made.sent);
        }
        let token = made.value.token.ok_or_else(|| "the server's answer contains no token".to_owned())?;
        session.out.line(&token)?;
        note(&format!(
            "Store the token now: it is not shown again. Revoke it with: flovyn token revoke {}",
            made.value.id
        ));
        Ok(())
    }
}
