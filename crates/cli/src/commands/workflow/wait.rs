//! `flovyn workflow wait`

use clap::Args;

use super::named;
use crate::client::ClientError;
use crate::client::answers::{Answer, Execution};
use crate::commands::outcome;
use crate::exit::{Exit, Failure};
use crate::follow::{Follower, Seen, TaskSeen, Tasks};
use crate::input::{self, Span};
use crate::remote::Session;
use crate::view::bar::WaitingBar;
use crate::view::event::Teller;

#[derive(Args)]
#[command(after_help = "\
The output goes to stdout as JSON. If stderr is a terminal, it shows a progress bar. Ctrl-C
stops waiting; the execution continues.

Exit codes: 0 if the execution completed, 7 if it failed or was cancelled, 8 if the timeout
expired, 6 if the server cannot be reached (after a lost connection: within half a minute).

Examples:
  flovyn workflow wait 01a1e259-e972-72ed-ab63-ea102818ba7e
  flovyn workflow wait --timeout 5m 01a1e259-e972-72ed-ab63-ea102818ba7e || echo it did not complete")]
pub(crate) struct Wait {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
    /// Stop waiting after this time. The execution continues.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
}

impl Wait {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let id = named::id(session, self.id).await?;
        until_end(session, &id, self.timeout).await
    }
}

/// Waits, prints the output, and fails unless the execution has completed.
pub(super) async fn until_end(session: &Session, id: &str, timeout: Option<Span>) -> Result<(), Failure> {
    let watching = watch(session, id);
    match timeout {
        None => watching.await?,
        Some(limit) => tokio::time::timeout(limit.std(), watching).await.map_err(|_| {
            Failure::new(Exit::TimedOut, format!("{id} has not ended within {:?}", limit.std())).advise(
                "The execution continues: wait again, or see what it waits for with `flovyn workflow show`.",
            )
        })??,
    }
    let execution: Answer<Execution> = session.client.get(&["workflow-executions", id]).await?;
    if session.out.is_json() {
        session.out.json(&execution.sent)?;
    }
    let execution = execution.value;
    outcome::of_execution(&execution)
        .map_err(|failure| failure.advise(format!("See what happened with: flovyn workflow show {id}")))?;
    match (session.out.is_json(), execution.output) {
        (true, _) => Ok(()),
        (false, Some(output)) => session.out.json(&output),
        (false, None) => session.out.line("null"),
    }
}

/// Returns when the execution has ended.
async fn watch(session: &Session, id: &str) -> Result<(), ClientError> {
    let execution: Execution = session.client.get(&["workflow-executions", id]).await?;
    if execution.has_ended() {
        return Ok(());
    }
    let mut bar = WaitingBar::new(&execution.kind);
    let mut teller = Teller::default();
    let known = execution.last_sequence;
    let mut follower = Follower::open(&session.client, id, Tasks::State, 0, known).await?;
    while let Some(seen) = follower.next().await? {
        match seen {
            Seen::Event(event) => {
                let words = event.value.event_type.to_lowercase().replace('_', " ");
                let told = teller.tell(&event.value);
                bar.event(&event.value, &format!("{words} {}", told.about));
            }
            Seen::Task(_, TaskSeen::State(task)) => bar.task(&task.value),
            Seen::Task(..) => {}
        }
    }
    Ok(())
}
