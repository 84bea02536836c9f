//! `flovyn workflow show`

use std::collections::HashMap;

use clap::Args;

use super::history;
use super::named;
use crate::client::answers::{Answer, Execution, LogEvent};
use crate::commands::outcome;
use crate::exit::Failure;
use crate::follow::{Follower, Seen, TaskSeen, Tasks};
use crate::input;
use crate::remote::Session;
use crate::terminal::Paint;
use crate::view::event::Teller;
use crate::view::facts::{Facts, log_line, state_line};
use crate::view::pretty;
use crate::view::status_colour;
use crate::view::timeline::Timeline;
use crate::view::words::{age, duration, moment};

#[derive(Args)]
#[command(after_help = "\
Exit codes with --follow: 0 if the execution completed, 7 if it failed or was cancelled.

Examples:
  flovyn workflow show 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn workflow show --follow 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn workflow show -o json 01a1e259-e972-72ed-ab63-ea102818ba7e | jq .waitingOn")]
pub(crate) struct Show {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
    /// Show events, task progress and logs live, until the execution has ended.
    #[arg(long, short)]
    follow: bool,
    /// Omit the timeline.
    #[arg(long)]
    no_timeline: bool,
}

impl Show {
    pub(crate) async fn run(mut self, session: &Session) -> Result<(), Failure> {
        self.id = named::id(session, self.id).await?;
        let execution = self.fetch(session).await?;
        if self.follow {
            self.follow(session, &execution.value).await?;
            let ended = self.fetch(session).await?.value;
            if !session.out.is_json() {
                session.out.line("")?;
                self.show(session, &ended).await?;
            }
            return outcome::of_execution(&ended);
        }
        if session.out.is_json() {
            return session.out.json(&execution.sent);
        }
        self.show(session, &execution.value).await
    }

    async fn fetch(&self, session: &Session) -> Result<Answer<Execution>, Failure> {
        Ok(session.client.get(&["workflow-executions", &self.id]).await?)
    }

    async fn show(&self, session: &Session, execution: &Execution) -> Result<(), Failure> {
        let out = session.out;
        out.lines(&facts(execution, session.client.now_ms()).lines(out.paint))?;
        if self.no_timeline {
            return Ok(());
        }
        let events = history::events(&session.client, &execution.id, 0, usize::MAX).await?;
        let events: Vec<&LogEvent> = events.iter().map(|event| &event.value).collect();
        let work = history::work(&session.client, &execution.id, &events).await?;
        let timeline = Timeline::new(&events, &work, str::to_owned, session.client.now_ms());
        out.line("")?;
        out.lines(&timeline.lines(out.paint, out.width))
    }

    async fn follow(&self, session: &Session, execution: &Execution) -> Result<(), Failure> {
        let out = session.out;
        let mut teller = Teller::default();
        let tasks = if out.is_json() { Tasks::Nothing } else { Tasks::Everything };
        let known = execution.last_sequence;
        let mut follower = Follower::open(&session.client, &execution.id, tasks, 0, known).await?;
        let mut shown = HashMap::new();
        while let Some(seen) = follower.next().await? {
            let line = match seen {
                Seen::Event(event) if out.is_json() => {
                    out.json_line(&event.sent)?;
                    continue;
                }
                Seen::Event(event) => teller.line(&event.value, out.paint),
                Seen::Task(id, seen) => {
                    let Some(what) = task_line(&seen, out.paint) else { continue };
                    let line = format!("       {}  {what}", teller.task_type(&id).unwrap_or_default());
                    // Some changes of a task do not change the displayed line.
                    if shown.insert(id, line.clone()).as_ref() == Some(&line) {
                        continue;
                    }
                    line
                }
            };
            out.line(&line)?;
        }
        Ok(())
    }
}

/// The line for a task between two events of the history.
fn task_line(seen: &TaskSeen, paint: Paint) -> Option<String> {
    match seen {
        // The history has an event for the end of the task.
        TaskSeen::State(task) if task.value.has_ended() => None,
        TaskSeen::State(task) => Some(state_line(&task.value)),
        TaskSeen::Line(line) => Some(log_line(&line.value, paint)),
        TaskSeen::Data(data) => Some(pretty::one_line(data.get())),
    }
}

fn facts(execution: &Execution, now_ms: i64) -> Facts {
    let mut facts = Facts::new(&execution.kind, &execution.status, status_colour(&execution.status));
    let at = |ms: i64| format!("{} ({})", moment(ms), age(ms, now_ms));
    facts.add("ID", &execution.id);
    facts.add("Queue", &execution.task_queue);
    facts.add_some("Version", execution.version.as_deref());
    facts.add("Created", &at(execution.created_ms));
    facts.add_some("Not before", execution.scheduled_ms.map(at).as_deref());
    facts.add_some("Started", execution.started_ms.map(at).as_deref());
    facts.add_some("Finished", execution.finished_ms.map(at).as_deref());
    let took = execution.finished_ms.map(|end| duration(end - execution.created_ms));
    facts.add_some("Took", took.as_deref());
    let labels = execution.labels.iter().flatten();
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    facts.add_some("Labels", Some(labels.join(", ")).as_deref());
    facts.add_some("Key", execution.idempotency_key.as_deref());
    facts.add_some("Parent", execution.parent_id.as_deref());
    facts.add_some("Retry of", execution.retry_of.as_deref());
    facts.add("Events", &execution.last_sequence.to_string());
    if execution.cancel_requested && !execution.has_ended() {
        facts.add("Cancel", "requested");
    }
    facts.add_json("Input", execution.input.as_deref());
    facts.add_json("Output", execution.output.as_deref());
    let error = if execution.status == "CANCELLED" { "Reason" } else { "Error" };
    facts.add_some(error, execution.error.as_deref());
    facts.add_some("Failure", execution.failure_type.as_deref());
    facts.add_json("Details", execution.failure_details.as_deref());
    if execution.unread_signals > 0 {
        let count = execution.unread_signals;
        facts.add("Not read", &format!("{count} {}", if count == 1 { "signal" } else { "signals" }));
    }
    facts.add_waiting(execution.waiting_on.iter().flatten(), &execution.id, now_ms);
    if matches!(execution.status.as_str(), "FAILED" | "CANCELLED") {
        let id = &execution.id;
        facts.add("Next", &format!("start it again as a new execution: flovyn workflow retry {id}"));
    }
    facts
}
