//! `flovyn clock advance`

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::client::answers::Answer;
use crate::exit::Failure;
use crate::input::Span;
use crate::remote::Session;
use crate::view::words::moment;

#[derive(Args)]
#[command(after_help = "\
The clock goes from one due moment to the next, and work that was handed out finishes in
between. Prints the time it is then.

Examples:
  flovyn clock advance 30d
  flovyn clock advance 1h30m")]
pub(crate) struct Advance {
    /// By how much, such as 30d.
    duration: Span,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Now {
    now_ms: i64,
}

impl Advance {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Span(ms) = self.duration;
        let now: Answer<Now> =
            session.client.post_to_root(&["_", "clock", "advance"], &json!({ "ms": ms })).await?;
        if session.out.is_json() {
            session.out.json(&now.sent)
        } else {
            session.out.line(&moment(now.value.now_ms))
        }
    }
}
