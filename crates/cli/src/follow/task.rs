//! Follows a task: its state after each change, its streamed data, and its log.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::again::Again;
use crate::client::answers::{Answer, LogLine, Logs, Task};
use crate::client::{Client, ClientError, EventStream};

/// How often the log is polled. The stream does not include it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Log lines may arrive a little after the task has ended.
const LATE_LINES: Duration = Duration::from_millis(400);
/// Page size for log lines.
const PAGE: usize = 1_000;

#[derive(Debug)]
pub(crate) enum TaskSeen {
    /// The current state of the task.
    State(Box<Answer<Task>>),
    /// Data that the task streams.
    Data(Box<RawValue>),
    Line(Answer<LogLine>),
}

#[derive(Debug)]
pub(crate) struct TaskFollower {
    client: Client,
    id: String,
    events: EventStream,
    again: Again,
    /// Received but not yet returned items.
    seen: VecDeque<TaskSeen>,
    ended: bool,
    log: Option<LogReader>,
}

#[derive(Debug)]
struct LogReader {
    last_line: i64,
    look: Interval,
}

impl TaskFollower {
    pub(crate) async fn open(client: &Client, id: &str, log: bool) -> Result<Self, ClientError> {
        let events = client.follow(&["tasks", id, "stream"], None).await?;
        let log = log.then(|| {
            let mut look = interval(LOOK_EVERY);
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            LogReader { last_line: 0, look }
        });
        Ok(Self {
            client: client.clone(),
            id: id.to_owned(),
            events,
            again: Again::default(),
            seen: VecDeque::new(),
            ended: false,
            log,
        })
    }

    /// The next item. `None`: the task has ended and all items were returned.
    pub(crate) async fn next(&mut self) -> Result<Option<TaskSeen>, ClientError> {
        loop {
            if let Some(seen) = self.seen.pop_front() {
                return Ok(Some(seen));
            }
            if self.ended {
                if self.log.is_none() {
                    return Ok(None);
                }
                tokio::time::sleep(LATE_LINES).await;
                self.read_log().await?;
                self.log = None;
                continue;
            }
            tokio::select! {
                event = self.events.next_event() => match event {
                    Ok(Some(event)) => {
                        self.again = Again::default();
                        match event.kind.as_str() {
                            "task" => self.take(event.read()?).await?,
                            "data" => self.seen.push_back(TaskSeen::Data(event.read()?)),
                            _ => {}
                        }
                    }
                    Ok(None) => self.connect_again(None).await?,
                    Err(error) => self.connect_again(Some(error)).await?,
                },
                () = tick(&mut self.log) => self.read_log().await?,
            }
        }
    }

    async fn connect_again(&mut self, error: Option<ClientError>) -> Result<(), ClientError> {
        let path = ["tasks", self.id.as_str(), "stream"];
        self.events = self.again.follow(&self.client, &path, None, error).await?;
        Ok(())
    }

    /// Returns log lines first, because they were written before the task reached this state.
    async fn take(&mut self, task: Answer<Task>) -> Result<(), ClientError> {
        self.read_log().await?;
        self.ended = task.value.has_ended();
        self.seen.push_back(TaskSeen::State(Box::new(task)));
        Ok(())
    }

    async fn read_log(&mut self) -> Result<(), ClientError> {
        let Some(reader) = &mut self.log else { return Ok(()) };
        loop {
            let lines = log_page(&self.client, &self.id, reader.last_line, PAGE).await?;
            let more = lines.len() == PAGE;
            for line in lines {
                reader.last_line = line.value.line;
                self.seen.push_back(TaskSeen::Line(line));
            }
            if !more {
                return Ok(());
            }
        }
    }
}

async fn tick(log: &mut Option<LogReader>) {
    match log {
        Some(reader) => _ = reader.look.tick().await,
        None => std::future::pending().await,
    }
}

/// The lines of a task's log after the given one.
pub(crate) async fn log_page(
    client: &Client,
    task_id: &str,
    after_line: i64,
    limit: usize,
) -> Result<Vec<Answer<LogLine>>, ClientError> {
    let query = [("after_line", Some(after_line.to_string())), ("limit", Some(limit.to_string()))];
    let log: Logs = client.get_with(&["tasks", task_id, "logs"], &query).await?;
    Ok(log.lines)
}
