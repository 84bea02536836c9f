//! `flovyn queue pause`

use clap::Args;
use serde_json::json;

use crate::exit::Failure;
use crate::input;
use crate::remote::Session;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn queue pause default")]
pub(crate) struct Pause {
    /// The queue's name.
    #[arg(value_parser = input::name)]
    queue: String,
}

impl Pause {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        session.client.post::<()>(&["queues", &self.queue, "pause"], &json!({})).await?;
        let done = json!({ "queue": self.queue, "paused": true });
        session
            .out
            .done(&done, &format!("Queue {0} is paused. Resume it with: flovyn queue resume {0}", self.queue))
    }
}
