//! `flovyn workflow export`

use clap::Args;
use serde_json::value::RawValue;

use super::history;
use super::named;
use crate::client::answers::Answer;
use crate::exit::Failure;
use crate::input;
use crate::remote::Session;
use crate::view::Out;

#[derive(Args)]
#[command(after_help = "\
For a bug report, a replay test, or to keep data that retention will delete. Always JSON, with
the fields `execution`, `events`, `tasks` and `state` in the format of the API. Payloads are
exactly the bytes that were sent.

Examples:
  flovyn workflow export 01a1e259-e972-72ed-ab63-ea102818ba7e > order.json")]
pub(crate) struct Export {
    /// The execution's id, or `key:` followed by its key.
    #[arg(value_parser = input::execution)]
    id: String,
}

impl Export {
    /// Printed page by page, because a history may be long.
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let id = named::id(session, self.id).await?;
        let (client, out, id) = (&session.client, session.out, id.as_str());
        let execution: Box<RawValue> = client.get(&["workflow-executions", id]).await?;
        let one = |value: &RawValue| out.verbatim(std::iter::once(value));
        out.text(&format!("{{\n\"execution\": {},\n\"events\": [", one(&execution)))?;
        let mut since = Some(0);
        let mut separator = "\n";
        while let Some(last) = since {
            let page = history::events_page(client, id, last, usize::MAX).await?;
            since = page.next_since_sequence;
            print(out, &page.events, &mut separator)?;
        }
        out.text("\n],\n\"tasks\": [")?;
        separator = "\n";
        let mut cursor = None;
        loop {
            let (tasks, next) = history::tasks_page(client, id, history::TASKS.to_owned(), cursor).await?;
            print(out, &tasks, &mut separator)?;
            if next.is_none() {
                break;
            }
            cursor = next;
        }
        let state: Box<RawValue> = client.get(&["workflow-executions", id, "state"]).await?;
        out.line(&format!("\n],\n\"state\": {}\n}}", one(&state)))
    }
}

/// Prints more items of an array.
fn print<T>(out: Out, items: &[Answer<T>], separator: &mut &str) -> Result<(), Failure> {
    if items.is_empty() {
        return Ok(());
    }
    out.text(&format!("{separator}{}", out.verbatim(items.iter().map(|item| &*item.sent))))?;
    *separator = ",\n";
    Ok(())
}
