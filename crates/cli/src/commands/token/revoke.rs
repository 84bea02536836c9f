//! `flovyn token revoke`

use clap::Args;
use serde_json::json;

use crate::exit::Failure;
use crate::input;
use crate::remote::Session;

#[derive(Args)]
#[command(after_help = "\
Workers with this token are disconnected, and their work is reassigned to other workers.

Examples:
  flovyn token revoke 01a1e25a-8e40-746b-b8bb-d32f6fa94d75")]
pub(crate) struct Revoke {
    /// The token's id, from `flovyn token list`. Not the token itself.
    #[arg(value_parser = input::id)]
    id: String,
}

impl Revoke {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        session.client.delete(&["worker-tokens", &self.id]).await?;
        session.out.done(&json!({ "id": self.id, "revoked": true }), &format!("Revoked {}.", self.id))
    }
}
