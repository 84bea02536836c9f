//! `flovyn promise reject`

use clap::Args;
use serde_json::json;

use crate::exit::Failure;
use crate::input;
use crate::remote::Session;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn promise reject key:expense-18 --error 'too expensive'")]
pub(crate) struct Reject {
    /// The promise's id, or `key:` followed by its key.
    #[arg(value_parser = input::name)]
    promise: String,
    /// The error that the workflow receives.
    #[arg(long)]
    error: String,
}

impl Reject {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let body = json!({ "error": self.error });
        session.client.post::<()>(&["promises", &self.promise, "reject"], &body).await?;
        let done = json!({ "promise": self.promise, "rejected": true });
        session.out.done(&done, &format!("Rejected {}.", self.promise))
    }
}
