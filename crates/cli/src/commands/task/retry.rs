//! `flovyn task retry`

use clap::Args;
use serde_json::json;
use serde_json::value::RawValue;

use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
The task gets its full number of attempts again.

Examples:
  flovyn task retry 01a1e25a-8115-75f7-a408-22da880edbbf")]
pub(crate) struct Retry {
    /// The task's id.
    #[arg(value_parser = input::id)]
    id: String,
}

impl Retry {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let task: Box<RawValue> = session.client.post(&["tasks", &self.id, "retry"], &json!({})).await?;
        if session.out.is_json() {
            return session.out.json(&task);
        }
        note(&format!("{0} is queued again. Follow it with: flovyn task show --follow {0}", self.id));
        Ok(())
    }
}
