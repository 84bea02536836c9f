//! `flovyn workflow export`

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::history;
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::pretty;

#[derive(Args)]
#[command(after_help = "\
For a bug report, or to keep what retention is going to delete. Always JSON: `execution`,
`events`, `tasks` and `state`, each as the API has them.

Examples:
  flovyn workflow export 01a1e259-e972-72ed-ab63-ea102818ba7e > order.json")]
pub(crate) struct Export {
    /// The execution's id.
    #[arg(value_parser = input::name)]
    id: String,
}

#[derive(Serialize)]
struct Document<'a> {
    execution: &'a RawValue,
    events: Vec<&'a RawValue>,
    tasks: Vec<&'a RawValue>,
    state: &'a RawValue,
}

impl Export {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let (client, id) = (&session.client, self.id.as_str());
        let execution: Box<RawValue> = client.get(&["workflow-executions", id]).await?;
        let events = history::events(client, id, 0, usize::MAX).await?;
        let (tasks, _) = history::tasks(client, id, usize::MAX).await?;
        let state: Box<RawValue> = client.get(&["workflow-executions", id, "state"]).await?;
        let document = Document {
            execution: &execution,
            events: events.iter().map(|event| &*event.sent).collect(),
            tasks: tasks.iter().map(|task| &*task.sent).collect(),
            state: &state,
        };
        let text = serde_json::to_string(&document).map_err(|error| error.to_string())?;
        session.out.line(&pretty::indented(&text))
    }
}
