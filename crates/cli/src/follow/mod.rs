//! Follows an execution live: its history and its tasks.
//!
//! - here: an execution. Its history has the start and the end of each task; the task's own stream has the events in
//!   between.
//! - `task`: a task with its progress, its log and its streamed data.
//! - `again`: reconnecting after a connection broke or a server stopped.

mod again;
mod task;

use std::collections::HashSet;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::again::Again;
pub(crate) use self::task::{TaskFollower, TaskSeen, log_page};
use crate::client::answers::{Answer, LogEvent};
use crate::client::{Client, ClientError, EventStream};

/// Maximum number of buffered items from tasks.
const BUFFER: usize = 64;
/// Maximum number of tasks whose streams are followed. For other tasks only the history is followed.
const MOST_TASKS: usize = 32;

#[derive(Debug)]
pub(crate) enum Seen {
    Event(Answer<LogEvent>),
    /// The task's id, and its news.
    Task(String, TaskSeen),
}

/// Which information about tasks is followed in addition to the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tasks {
    Nothing,
    /// Status and progress.
    State,
    /// Also logs and streamed data.
    Everything,
}

/// Follows an execution. Dropping it closes all its streams.
#[derive(Debug)]
pub(crate) struct Follower {
    client: Client,
    execution_id: String,
    events: EventStream,
    again: Again,
    /// Sequence of the last event received.
    last: i64,
    ended: bool,
    tasks: Tasks,
    /// Events up to this sequence existed at the start: a task is followed only if it is open after them.
    known: i64,
    open: HashSet<String>,
    seen: mpsc::Receiver<(String, TaskSeen)>,
    tell: mpsc::Sender<(String, TaskSeen)>,
    followers: JoinSet<()>,
}

impl Follower {
    /// Follows events after `since`. The first `known` events exist already.
    pub(crate) async fn open(
        client: &Client,
        execution_id: &str,
        tasks: Tasks,
        since: i64,
        known: i64,
    ) -> Result<Self, ClientError> {
        let path = ["workflow-executions", execution_id, "stream"];
        let events = client.follow(&path, (since > 0).then_some(since)).await?;
        let (tell, seen) = mpsc::channel(BUFFER);
        Ok(Self {
            client: client.clone(),
            execution_id: execution_id.to_owned(),
            events,
            again: Again::default(),
            last: since,
            ended: false,
            tasks,
            known,
            open: HashSet::new(),
            seen,
            tell,
            followers: JoinSet::new(),
        })
    }

    /// The next item. `None`: the execution has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Seen>, ClientError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            tokio::select! {
                event = self.events.next::<Answer<LogEvent>>(None) => match event {
                    Ok(Some(event)) => {
                        self.again = Again::default();
                        self.take(&event.value);
                        return Ok(Some(Seen::Event(event)));
                    }
                    // The execution has not ended: the server has stopped, or the connection broke.
                    Ok(None) => self.connect_again(None).await?,
                    Err(error) => self.connect_again(Some(error)).await?,
                },
                Some((id, seen)) = self.seen.recv() => return Ok(Some(Seen::Task(id, seen))),
            }
        }
    }

    async fn connect_again(&mut self, error: Option<ClientError>) -> Result<(), ClientError> {
        let path = ["workflow-executions", self.execution_id.as_str(), "stream"];
        self.events = self.again.follow(&self.client, &path, Some(self.last), error).await?;
        Ok(())
    }

    fn take(&mut self, event: &LogEvent) {
        self.last = event.sequence;
        self.ended = event.is_last();
        let task_id = event.text("taskExecutionId");
        match event.event_type.as_str() {
            "TASK_SCHEDULED" => _ = self.open.insert(task_id.into_owned()),
            "TASK_COMPLETED" | "TASK_FAILED" => _ = self.open.remove(&*task_id),
            _ => {}
        }
        if self.last >= self.known && self.tasks != Tasks::Nothing {
            for id in std::mem::take(&mut self.open) {
                self.follow_task(id);
            }
        }
    }

    fn follow_task(&mut self, id: String) {
        while self.followers.try_join_next().is_some() {}
        if self.followers.len() >= MOST_TASKS {
            return;
        }
        let (client, tell, everything) =
            (self.client.clone(), self.tell.clone(), self.tasks == Tasks::Everything);
        self.followers.spawn(async move {
            // If a task's stream fails permanently, only details are lost: the history has the outcome of the task.
            let Ok(mut follower) = TaskFollower::open(&client, &id, everything).await else { return };
            while let Ok(Some(seen)) = follower.next().await {
                if tell.send((id.clone(), seen)).await.is_err() {
                    return;
                }
            }
        });
    }
}
