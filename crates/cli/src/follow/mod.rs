//! Following live: an execution's history, and what becomes of its tasks.
//!
//! - here: an execution. Its history says when a task is scheduled and done; the task's own stream says what happens between.
//! - `task`: a task with its progress, its log and what it streams.
//! - `again`: connecting again after a connection broke or a server stopped.

mod again;
mod task;

use std::collections::HashSet;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::again::Again;
pub(crate) use self::task::{TaskFollower, TaskSeen, log_page};
use crate::client::answers::{Answer, LogEvent};
use crate::client::{Client, ClientError, EventStream};

/// What was seen of tasks and not taken yet.
const BUFFER: usize = 64;
/// Of more tasks at a time only the history is followed.
const MOST_TASKS: usize = 32;

#[derive(Debug)]
pub(crate) enum Seen {
    Event(Answer<LogEvent>),
    /// The task's id, and what was seen of it.
    Task(String, TaskSeen),
}

/// What is followed beside the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tasks {
    Nothing,
    /// Their state and progress.
    State,
    /// Also what they log and stream.
    Everything,
}

/// Ends all its streams when it is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    client: Client,
    execution_id: String,
    events: EventStream,
    again: Again,
    /// Number of the last event seen.
    last: i64,
    ended: bool,
    tasks: Tasks,
    /// Up to this event the history is old: tasks are followed only if they are open at its end.
    known: i64,
    open: HashSet<String>,
    seen: mpsc::Receiver<(String, TaskSeen)>,
    tell: mpsc::Sender<(String, TaskSeen)>,
    followers: JoinSet<()>,
}

impl Follower {
    /// Behind event `since`; the first `known` events are there already.
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

    /// `None` when the execution has ended.
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
                    // It has not ended: the server has stopped, or the connection is broken.
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
            // A stream that breaks for good only shows less: the history says what has become of the task.
            let Ok(mut follower) = TaskFollower::open(&client, &id, everything).await else { return };
            while let Ok(Some(seen)) = follower.next().await {
                if tell.send((id.clone(), seen)).await.is_err() {
                    return;
                }
            }
        });
    }
}
