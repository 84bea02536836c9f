//! `flovyn task cancel`

use clap::Args;
use serde_json::json;

use crate::exit::Failure;
use crate::input;
use crate::remote::Session;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn task cancel 01a1e25a-8115-75f7-a408-22da880edbbf")]
pub(crate) struct Cancel {
    /// The task's id.
    #[arg(value_parser = input::id)]
    id: String,
}

impl Cancel {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        session.client.delete(&["tasks", &self.id]).await?;
        let done = json!({ "id": self.id, "status": "CANCELLED" });
        session.out.done(&done, &format!("Cancelled {}.", self.id))
    }
}
