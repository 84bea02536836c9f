//! `flovyn task logs`

use clap::Args;

use crate::commands::list::Listing;
use crate::commands::outcome;
use crate::exit::Failure;
use crate::follow::{TaskFollower, TaskSeen, log_page};
use crate::input;
use crate::remote::Session;
use crate::view::facts::log_line;

/// Page size for log lines.
const PAGE: usize = 1_000;

#[derive(Args)]
#[command(after_help = "\
Exit codes with --follow: 0 if the task completed, 7 if it failed or was cancelled.

Examples:
  flovyn task logs 01a1e25a-8115-75f7-a408-22da880edbbf
  flovyn task logs --follow 01a1e25a-8115-75f7-a408-22da880edbbf")]
pub(crate) struct Logs {
    /// The task's id; tasks of workflows are possible too.
    #[arg(value_parser = input::id)]
    id: String,
    /// Print lines as they arrive, until the task has ended. With JSON, one per line.
    #[arg(long, short)]
    follow: bool,
}

impl Logs {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let out = session.out;
        if self.follow {
            let mut follower = TaskFollower::open(&session.client, &self.id, true).await?;
            let mut task = None;
            while let Some(seen) = follower.next().await? {
                match seen {
                    TaskSeen::Line(line) if out.is_json() => out.json_line(&line.sent)?,
                    TaskSeen::Line(line) => out.line(&log_line(&line.value, out.paint))?,
                    TaskSeen::State(now) => task = Some(now),
                    TaskSeen::Data(_) => {}
                }
            }
            return task.map_or(Ok(()), |task| outcome::of_task(&task.value));
        }
        let mut listing = Listing::new(session, []);
        let mut last = 0;
        loop {
            let page = log_page(&session.client, &self.id, last, PAGE).await?;
            last = page.last().map_or(last, |line| line.value.line);
            let more = page.len() == PAGE;
            listing.add_lines(&page, |line| log_line(line, out.paint))?;
            if !more {
                return listing.end("The task has no log.");
            }
        }
    }
}
