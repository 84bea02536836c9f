//! Reads whole histories, and the attempts of their tasks.

use std::collections::HashMap;

use tokio::task::JoinSet;

use crate::client::answers::{Answer, Attempts, Events, ExecutionTasks, LogEvent, Task};
use crate::client::{Client, ClientError};
use crate::view::timeline::{Work, shown_tasks};

/// Page size for events.
const PAGE: usize = 1_000;
/// Page size for tasks.
pub(super) const TASKS: &str = "100";
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 8;

/// The events after the given one, at most `most`.
pub(super) async fn events(
    client: &Client,
    execution_id: &str,
    since: i64,
    most: usize,
) -> Result<Vec<Answer<LogEvent>>, ClientError> {
    let mut events = Vec::new();
    let mut since = Some(since);
    while let Some(last) = since.filter(|_| events.len() < most) {
        let page = events_page(client, execution_id, last, most - events.len()).await?;
        since = page.next_since_sequence;
        events.extend(page.events);
    }
    Ok(events)
}

/// One page of events, and the sequence to continue from. `None`: there are no more.
pub(super) async fn events_page(
    client: &Client,
    execution_id: &str,
    since: i64,
    most: usize,
) -> Result<Events, ClientError> {
    let query = [("sinceSequence", Some(since.to_string())), ("limit", Some(PAGE.min(most).to_string()))];
    let mut page: Events = client.get_with(&["workflow-executions", execution_id, "events"], &query).await?;
    if page.events.is_empty() {
        // The last page has no next sequence, whatever the answer says.
        page.next_since_sequence = None;
    }
    Ok(page)
}

/// One page of an execution's tasks, and the cursor of the next page.
pub(super) async fn tasks_page(
    client: &Client,
    execution_id: &str,
    limit: String,
    cursor: Option<String>,
) -> Result<(Vec<Answer<Task>>, Option<String>), ClientError> {
    let query = [("limit", Some(limit)), ("cursor", cursor)];
    let page: ExecutionTasks =
        client.get_with(&["workflow-executions", execution_id, "tasks"], &query).await?;
    Ok((page.tasks, page.next_cursor))
}

/// The data that a timeline needs about tasks, by their ids.
pub(super) async fn work(
    client: &Client,
    execution_id: &str,
    events: &[&LogEvent],
) -> Result<HashMap<String, Work>, ClientError> {
    let mut wanted = shown_tasks(events);
    let mut work: HashMap<String, Work> = HashMap::new();
    if wanted.is_empty() {
        return Ok(work);
    }
    let (tasks, _) = tasks_page(client, execution_id, TASKS.to_owned(), None).await?;
    for Answer { value: task, .. } in tasks {
        let running_since_ms = task.started_ms.filter(|_| task.status == "RUNNING");
        work.insert(task.id, Work { attempts: Vec::new(), running_since_ms });
    }
    let mut asked = JoinSet::new();
    while !wanted.is_empty() || !asked.is_empty() {
        while asked.len() < AT_ONCE
            && let Some(id) = wanted.pop()
        {
            let client = client.clone();
            asked.spawn(async move {
                let attempts: Attempts = client.get(&["tasks", &id, "attempts"]).await?;
                Ok::<_, ClientError>((id, attempts))
            });
        }
        let Some(Ok(answer)) = asked.join_next().await else { continue };
        let (id, attempts) = answer?;
        work.entry(id).or_default().attempts =
            attempts.attempts.into_iter().map(|attempt| attempt.value).collect();
    }
    Ok(work)
}
