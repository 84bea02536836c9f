//! `flovyn task logs`

use clap::Args;

use crate::client::answers::{Answer, LogLine};
use crate::exit::Failure;
use crate::follow::{TaskFollower, TaskSeen, log_page};
use crate::input;
use crate::remote::Session;
use crate::view::facts::log_line;
use crate::view::note;

/// Lines asked for at a time.
const PAGE: usize = 1_000;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn task logs 01a1e25a-8115-75f7-a408-22da880edbbf
  flovyn task logs --follow 01a1e25a-8115-75f7-a408-22da880edbbf")]
pub(crate) struct Logs {
    /// The task's id; also of a task of a workflow.
    #[arg(value_parser = input::id)]
    id: String,
    /// Print lines as they come, until the task has ended. As JSON, one per line.
    #[arg(long, short)]
    follow: bool,
}

impl Logs {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let out = session.out;
        if self.follow {
            let mut follower = TaskFollower::open(&session.client, &self.id, true).await?;
            while let Some(seen) = follower.next().await? {
                match seen {
                    TaskSeen::Line(line) if out.is_json() => out.json_line(&line.sent)?,
                    TaskSeen::Line(line) => out.line(&log_line(&line.value, out.paint))?,
                    TaskSeen::State(_) | TaskSeen::Data(_) => {}
                }
            }
            return Ok(());
        }
        let lines = self.fetch(session).await?;
        if out.is_json() {
            return out.json_list(lines.iter().map(|line| &*line.sent));
        }
        if lines.is_empty() {
            note("It has logged nothing.");
        }
        out.lines(&lines.iter().map(|line| log_line(&line.value, out.paint)).collect::<Vec<_>>())
    }

    async fn fetch(&self, session: &Session) -> Result<Vec<Answer<LogLine>>, Failure> {
        let mut lines: Vec<Answer<LogLine>> = Vec::new();
        loop {
            let last = lines.last().map_or(0, |line| line.value.line);
            let page = log_page(&session.client, &self.id, last, PAGE).await?;
            let more = page.len() == PAGE;
            lines.extend(page);
            if !more {
                return Ok(lines);
            }
        }
    }
}
