//! Hints between processes: "there is work in this queue". Hints may be lost, repeated or late. Without them, polling
//! finds the work.
//!
//! NOTIFY takes a lock of the whole server while it commits, so it is never part of a batch's transaction. One
//! connection sends the hints that were collected since its last transaction.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use flovyn_engine::ids::Text;
use flovyn_engine::state::{Lane, SmallEnum, WorkClass};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client};
use uuid::Uuid;

use crate::port::{Hint, StoreError, StoreResult};
use crate::postgres::backoff::{Backoff, random};
use crate::postgres::connect::{Connector, Purpose, spawn};
use crate::postgres::error;
use crate::postgres::lanes::Starts;

const SEND: &str = "SELECT pg_notify('flovyn_ready', hint) FROM unnest($1::text[]) hint";
const LISTEN: &str = "LISTEN flovyn_ready";
/// The most hints that wait to be sent or received; further hints are dropped.
const HINTS_LIMIT: usize = 10_000;

/// `PROCESS TENANT CLASS QUEUE`. The queue is last because it may contain spaces.
fn encode(hint: &Hint, process: &str) -> String {
    format!("{process} {} {} {}", hint.tenant_id.simple(), hint.class.number(), hint.queue)
}

/// `None` for hints of this process, and for messages of a newer version that this version does not know.
fn decode(text: &str, own_process: &str) -> Option<Hint> {
    let mut parts = text.splitn(4, ' ');
    let from_another = parts.next()? != own_process;
    let tenant_id = Uuid::try_parse(parts.next()?).ok()?;
    let class = WorkClass::from_number(parts.next()?.parse().ok()?)?;
    let queue = Text::from(parts.next()?);
    from_another.then_some(Hint { tenant_id, class, queue })
}

/// Sends hints from a separate task, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Notifier {
    process: Arc<str>,
    waiting: Arc<Mutex<BTreeSet<Hint>>>,
    wake: mpsc::Sender<()>,
}

impl Notifier {
    pub(super) fn start(connector: Arc<Connector>) -> Self {
        let process: Arc<str> = format!("{:016x}", random()).into();
        let waiting = Arc::default();
        // One wake-up in the channel is enough for any number of hints.
        let (wake, woken) = mpsc::channel(1);
        tokio::spawn(send_all(connector, Arc::clone(&process), Arc::clone(&waiting), woken));
        Self { process, waiting, wake }
    }

    pub(super) fn notify(&self, lanes: &[Lane]) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes {
            if waiting.len() >= HINTS_LIMIT {
                break;
            }
            let queue = Text::clone(&lane.queue);
            waiting.insert(Hint { tenant_id: lane.tenant_id, class: lane.class, queue });
        }
        drop(waiting);
        // If the channel is full, the task has been woken already. If it is closed, the process is shutting down.
        let _ = self.wake.try_send(());
    }

    /// Receives hints of other processes until the receiver is dropped.
    pub(super) fn listen(&self, connector: Arc<Connector>, starts: Arc<Starts>) -> mpsc::Receiver<Hint> {
        let (sender, receiver) = mpsc::channel(HINTS_LIMIT);
        let process = Arc::clone(&self.process);
        tokio::spawn(async move {
            let mut backoff = Backoff::default();
            loop {
                let problem = tokio::select! {
                    () = sender.closed() => return,
                    problem = listen_once(&connector, &process, &starts, &sender, &mut backoff) => problem,
                };
                tracing::debug!(%problem, "lost the connection for hints; polling finds the work meanwhile");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        });
        receiver
    }
}

async fn send_all(
    connector: Arc<Connector>,
    process: Arc<str>,
    waiting: Arc<Mutex<BTreeSet<Hint>>>,
    mut woken: mpsc::Receiver<()>,
) {
    let mut client: Option<Client> = None;
    let mut backoff = Backoff::default();
    while woken.recv().await.is_some() {
        let hints = std::mem::take(&mut *waiting.lock().unwrap_or_else(PoisonError::into_inner));
        match send(&connector, &mut client, &process, &hints).await {
            Ok(()) => backoff = Backoff::default(),
            Err(problem) => {
                tracing::debug!(%problem, "cannot send hints; polling finds the work");
                client = None;
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}

async fn send(
    connector: &Connector,
    client: &mut Option<Client>,
    process: &str,
    hints: &BTreeSet<Hint>,
) -> StoreResult<()> {
    if hints.is_empty() {
        return Ok(());
    }
    let client = match client {
        Some(client) => client,
        None => {
            let (opened, connection) = connector.open(Purpose::Hints).await?;
            spawn(connection);
            client.insert(opened)
        }
    };
    let texts: Vec<String> = hints.iter().map(|hint| encode(hint, process)).collect();
    let sent = client.execute(SEND, &[&texts]).await;
    sent.map(|_| ()).map_err(|error| error::unavailable(&error, "send hints"))
}

/// Listens until the connection ends.
async fn listen_once(
    connector: &Connector,
    process: &str,
    starts: &Starts,
    sender: &mpsc::Sender<Hint>,
    backoff: &mut Backoff,
) -> StoreError {
    let (client, mut connection) = match connector.open(Purpose::Hints).await {
        Ok(opened) => opened,
        Err(error) => return error,
    };
    let mut listening = pin!(client.batch_execute(LISTEN));
    let mut confirmed = false;
    poll_fn(|context| {
        if !confirmed && let Poll::Ready(answer) = listening.as_mut().poll(context) {
            confirmed = true;
            if let Err(error) = answer {
                return Poll::Ready(error::unavailable(&error, "listen"));
            }
        }
        while let Poll::Ready(message) = Pin::new(&mut connection).poll_message(context) {
            match message {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    *backoff = Backoff::default();
                    if let Some(hint) = decode(notification.payload(), process) {
                        starts.hinted(hint.tenant_id, hint.class, &hint.queue);
                        // A receiver that has so many unread hints does not need more.
                        let _ = sender.try_send(hint);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(error::unavailable(&error, "listen")),
                None => {
                    let closed = "the listening connection was closed".to_owned();
                    return Poll::Ready(StoreError::Unavailable(closed));
                }
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_survive_the_wire_and_own_ones_are_left_out() {
        let hint =
            Hint { tenant_id: Uuid::from_u128(7), class: WorkClass::Task, queue: "a queue\n é".into() };
        let text = encode(&hint, "me");
        assert_eq!(decode(&text, "another"), Some(hint));
        assert_eq!(decode(&text, "me"), None);
        assert_eq!(decode("from a later version", "me"), None);
    }
}
