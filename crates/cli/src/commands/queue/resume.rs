//! `flovyn queue resume`

use clap::Args;
use serde_json::json;

use crate::exit::Failure;
use crate::input;
use crate::remote::Session;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn queue resume default")]
pub(crate) struct Resume {
    /// The queue's name.
    #[arg(value_parser = input::name)]
    queue: String,
}

impl Resume {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        session.client.post::<()>(&["queues", &self.queue, "resume"], &json!({})).await?;
        let done = json!({ "queue": self.queue, "paused": false });
        session.out.done(&done, &format!("Queue {} is resumed.", self.queue))
    }
}
