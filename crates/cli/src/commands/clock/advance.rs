//! `flovyn clock advance`

use std::pin::pin;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, interval_at};

use crate::client::answers::Answer;
use crate::exit::Failure;
use crate::input::Span;
use crate::remote::Session;
use crate::view::note;
use crate::view::words::moment;

/// How often the progress is printed.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Args)]
#[command(after_help = "\
The clock jumps from one due time to the next. In between, work that was handed out finishes.
Prints the new time. Progress goes to stderr.

Examples:
  flovyn clock advance 30d
  flovyn clock advance 1h30m")]
pub(crate) struct Advance {
    /// By how much to advance, such as 30d.
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
        let body = json!({ "ms": ms });
        let mut advanced = pin!(session.client.post_to_root_patiently(&["_", "clock", "advance"], &body));
        let mut look = interval_at(Instant::now() + LOOK, LOOK);
        let mut told_ms = 0;
        // Work that starts on the way takes real time, so there is no time limit while the server is alive.
        let now: Answer<Now> = loop {
            tokio::select! {
                biased;
                now = &mut advanced => break now?,
                _ = look.tick() => {
                    let _: serde_json::Value = session.client.get_from_root(&["_", "health", "live"]).await?;
                    let now_ms = session.client.now_ms();
                    if told_ms != 0 && told_ms != now_ms {
                        note(&format!("the clock has reached {}", moment(now_ms)));
                    }
                    told_ms = now_ms;
                }
            }
        };
        if session.out.is_json() {
            session.out.json(&now.sent)
        } else {
            session.out.line(&moment(now.value.now_ms))
        }
    }
}
