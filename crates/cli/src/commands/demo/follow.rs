//! Following an execution together with its tasks: the history says when a task is scheduled and done, the task's own stream
//! says what becomes of its attempts.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::answers::{LogEvent, Task};
use crate::client::{Client, ClientError, EventStream};

/// Changes of tasks that were seen and not taken yet.
const BUFFER: usize = 64;

#[derive(Debug)]
pub(super) enum Seen {
    Event(LogEvent),
    /// As it is now.
    Task(Task),
}

/// Ends all its streams when it is dropped.
#[derive(Debug)]
pub(super) struct Follower {
    client: Client,
    events: EventStream,
    tasks: mpsc::Receiver<Task>,
    tell: mpsc::Sender<Task>,
    followers: JoinSet<()>,
}

impl Follower {
    pub(super) async fn open(client: &Client, execution_id: &str) -> Result<Self, ClientError> {
        let events = client.follow(&["workflow-executions", execution_id, "stream"]).await?;
        let (tell, tasks) = mpsc::channel(BUFFER);
        Ok(Self { client: client.clone(), events, tasks, tell, followers: JoinSet::new() })
    }

    /// `None` when the execution has ended.
    pub(super) async fn next(&mut self) -> Result<Option<Seen>, ClientError> {
        tokio::select! {
            event = self.events.next::<LogEvent>(None) => {
                let Some(event) = event? else { return Ok(None) };
                if event.event_type == "TASK_SCHEDULED" {
                    self.follow_task(event.text("taskExecutionId").to_owned());
                }
                Ok(Some(Seen::Event(event)))
            }
            Some(task) = self.tasks.recv() => Ok(Some(Seen::Task(task))),
        }
    }

    fn follow_task(&mut self, id: String) {
        let (client, tell) = (self.client.clone(), self.tell.clone());
        self.followers.spawn(async move {
            // A stream that breaks only shows less: the history says what has become of the task.
            let Ok(mut stream) = client.follow(&["tasks", &id, "stream"]).await else { return };
            while let Ok(Some(task)) = stream.next::<Task>(Some("task")).await {
                if tell.send(task).await.is_err() {
                    return;
                }
            }
        });
    }
}
