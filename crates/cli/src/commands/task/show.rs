//! `flovyn task show`

use clap::Args;

use crate::client::answers::{Answer, Task};
use crate::client::{Client, ClientError};
use crate::commands::outcome;
use crate::exit::Failure;
use crate::follow::{TaskFollower, TaskSeen};
use crate::input;
use crate::remote::Session;
use crate::view::facts::{Facts, log_line, state_line};
use crate::view::words::{age, duration, moment};
use crate::view::{pretty, status_colour};

#[derive(Args)]
#[command(after_help = "\
Exit codes with --follow: 0 if the task completed, 7 if it failed or was cancelled.

Examples:
  flovyn task show 01a1e25a-8115-75f7-a408-22da880edbbf
  flovyn task show --follow 01a1e25a-8115-75f7-a408-22da880edbbf")]
pub(crate) struct Show {
    /// The task's id; tasks of workflows are possible too.
    #[arg(value_parser = input::id)]
    id: String,
    /// Show progress, log and streamed data live, until the task has ended. With JSON, one value per line.
    #[arg(long, short)]
    follow: bool,
}

impl Show {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let out = session.out;
        if self.follow {
            self.follow(session).await?;
        }
        let task = fetch(&session.client, &self.id).await?;
        match (out.is_json(), self.follow) {
            (true, false) => out.json(&task.sent)?,
            // The follower already returned the task's final state.
            (true, true) => {}
            (false, follow) => {
                let lines = facts(&task.value, session.client.now_ms()).lines(out.paint);
                out.text(if follow { "\n" } else { "" })?;
                out.lines(&lines)?;
            }
        }
        if self.follow { outcome::of_task(&task.value) } else { Ok(()) }
    }

    async fn follow(&self, session: &Session) -> Result<(), Failure> {
        let out = session.out;
        let mut follower = TaskFollower::open(&session.client, &self.id, true).await?;
        let mut shown = String::new();
        while let Some(seen) = follower.next().await? {
            match seen {
                TaskSeen::State(task) if out.is_json() => out.json_line(&task.sent)?,
                TaskSeen::State(task) => {
                    let line = state_line(&task.value);
                    if line != shown {
                        out.line(&line)?;
                        shown = line;
                    }
                }
                TaskSeen::Line(line) if out.is_json() => out.json_line(&line.sent)?,
                TaskSeen::Line(line) => out.line(&log_line(&line.value, out.paint))?,
                TaskSeen::Data(data) => out.line(&pretty::one_line(data.get()))?,
            }
        }
        Ok(())
    }
}

/// A workflow's task cannot be read by its id alone, but its stream begins with the task.
async fn fetch(client: &Client, id: &str) -> Result<Answer<Task>, ClientError> {
    match client.get(&["tasks", id]).await {
        Err(refused @ ClientError::Refused { status: 404, .. }) => {
            let Ok(mut stream) = client.follow(&["tasks", id, "stream"], None).await else {
                return Err(refused);
            };
            stream.next(Some("task")).await?.ok_or(refused)
        }
        found => found,
    }
}

fn facts(task: &Task, now_ms: i64) -> Facts {
    let mut facts = Facts::new(&task.task_type, &task.status, status_colour(&task.status));
    let at = |ms: i64| format!("{} ({})", moment(ms), age(ms, now_ms));
    facts.add("ID", &task.id);
    facts.add_some("Workflow", task.workflow_execution_id.as_deref());
    facts.add("Queue", &task.queue);
    facts.add("Attempts", &super::attempts(task, " of "));
    facts.add("Created", &at(task.created_ms));
    facts.add_some("Not before", task.scheduled_ms.map(at).as_deref());
    facts.add_some("Started", task.started_ms.map(at).as_deref());
    facts.add_some("Finished", task.completed_ms.map(at).as_deref());
    let took = task.completed_ms.zip(task.started_ms).map(|(end, start)| duration(end - start));
    facts.add_some("Took", took.as_deref());
    let progress =
        format!("{:.0} % {}", task.progress * 100.0, task.progress_details.as_deref().unwrap_or_default());
    facts.add_some("Progress", (task.progress > 0.0 && !task.has_ended()).then_some(progress.trim_end()));
    facts.add_some("Worker", task.worker_id.as_deref());
    facts.add_some("Key", task.idempotency_key.as_deref());
    facts.add_json("Input", task.input.as_deref());
    facts.add_json("Output", task.output.as_deref());
    facts.add_some("Error", task.error.as_deref());
    let failure = super::failure(task.failure_type.as_deref(), task.retryable);
    facts.add_some("Failure", Some(&failure));
    facts.add_json("Details", task.failure_details.as_deref());
    facts.add_waiting(&task.waiting_on, &task.id, now_ms);
    if task.status == "FAILED" && task.workflow_execution_id.is_none() {
        facts.add("Next", &format!("retry it with: flovyn task retry {}", task.id));
    }
    facts
}
