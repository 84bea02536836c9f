//! Starts workflows and waits for their results over one stream. The starts of concurrent callers share frames, and
//! so do the results.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flovyn_proto::v1;
use flovyn_proto::v1::execute_item::What;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use uuid::Uuid;

use super::wait::Ending;
use crate::error::{Error, Result};
use crate::wire::{Channel, MAX_FRAME_BYTES, failure, refused};

/// Maximum number of items in one frame, and of frames that wait for the connection.
const MAX_ITEMS: usize = 200;
const OUTBOUND_FRAMES: usize = 16;

/// The outcome of one start.
#[derive(Debug)]
pub(super) enum Executed {
    Ended(Ending),
    /// The execution runs, but the connection broke: wait for the result in another way.
    Runs(Uuid),
}

type ResultSender = oneshot::Sender<Result<Executed>>;
type Asked = (v1::StartWorkflowRequest, ResultSender);

/// The execute stream of a client. It is opened on first use, and reopened after it has ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Executor {
    asks: Arc<Mutex<Option<mpsc::UnboundedSender<Asked>>>>,
}

impl Executor {
    /// Starts an execution and waits for its result.
    pub(super) async fn execute(
        &self,
        channel: &Channel,
        start: v1::StartWorkflowRequest,
    ) -> Result<Executed> {
        // A message that is too large would end the stream for all callers.
        if start.encoded_len() > MAX_FRAME_BYTES {
            let message = format!(
                "the start request has {} bytes, which exceeds the message limit: store the data elsewhere and pass a reference",
                start.encoded_len()
            );
            return Err(Error::Server { code: "FLV0020".into(), message });
        }
        let (result_sender, result) = oneshot::channel();
        self.ask(channel, start, result_sender);
        result.await.unwrap_or_else(|_| Err(unknown("the connection ended")))
    }

    fn ask(&self, channel: &Channel, start: v1::StartWorkflowRequest, result_sender: ResultSender) {
        let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut item = (start, result_sender);
        if let Some(open) = asks.as_ref() {
            match open.send(item) {
                Ok(()) => return,
                // The stream has ended: open a new one.
                Err(back) => item = back.0,
            }
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        // The receiver is still here, so the send cannot fail.
        let _ = sender.send(item);
        tokio::spawn(run(channel.clone(), receiver));
        *asks = Some(sender);
    }
}

/// A start that has been sent and whose result has not arrived.
#[derive(Debug)]
struct Open {
    result_sender: ResultSender,
    execution_id: Option<Uuid>,
}

/// Runs one stream from its first item to its end. Then all open starts receive the reason.
async fn run(channel: Channel, mut asks: mpsc::UnboundedReceiver<Asked>) {
    let mut open: HashMap<u64, Open> = HashMap::new();
    let reason = match connect(&channel).await {
        Ok((outbound, inbound)) => serve(&mut asks, &mut open, outbound, inbound).await,
        Err(status) => status,
    };
    // No more starts can be added. Starts that were not sent have not started an execution.
    asks.close();
    while let Ok((_, result_sender)) = asks.try_recv() {
        // The caller may be gone.
        let _ = result_sender.send(Err(refused(reason.clone())));
    }
    for (_, Open { result_sender, execution_id }) in open {
        let result = match execution_id {
            Some(id) => Ok(Executed::Runs(id)),
            None => Err(unknown(reason.message())),
        };
        let _ = result_sender.send(result);
    }
}

fn unknown(why: &str) -> Error {
    let message = format!(
        "it is not known whether the workflow was started ({why}): use an idempotency key to start it again safely"
    );
    Error::Server { code: "OUTCOME_UNKNOWN".into(), message }
}

type Connected = (mpsc::Sender<v1::ExecuteFrame>, Streaming<v1::ExecuteReply>);

async fn connect(channel: &Channel) -> std::result::Result<Connected, Status> {
    let (outbound, frames) = mpsc::channel(OUTBOUND_FRAMES);
    let mut client = WorkflowClientClient::new(channel.transport());
    let stream = client.execute(channel.signed(ReceiverStream::new(frames))).await?;
    Ok((outbound, stream.into_inner()))
}

async fn serve(
    asks: &mut mpsc::UnboundedReceiver<Asked>,
    open: &mut HashMap<u64, Open>,
    outbound: mpsc::Sender<v1::ExecuteFrame>,
    mut inbound: Streaming<v1::ExecuteReply>,
) -> Status {
    let mut next_ref = 0_u64;
    let mut asked = Vec::with_capacity(MAX_ITEMS);
    loop {
        tokio::select! {
            // Wait until a frame can be sent, so that a slow server is not sent more.
            permit = async {
                if asked.is_empty() {
                    asks.recv_many(&mut asked, MAX_ITEMS).await;
                }
                outbound.reserve().await
            } => {
                let Ok(permit) = permit else { return Status::unavailable("the server closed the stream") };
                if asked.is_empty() {
                    // The client was dropped, and all its callers are gone.
                    return Status::cancelled("the client was dropped");
                }
                let fitting = fitting(&asked);
                let mut items = Vec::with_capacity(fitting);
                for (start, result_sender) in asked.drain(..fitting) {
                    next_ref += 1;
                    open.insert(next_ref, Open { result_sender, execution_id: None });
                    items.push(v1::ExecuteItem { r#ref: next_ref, what: Some(What::Start(start)) });
                }
                permit.send(v1::ExecuteFrame { items });
            }
            reply = inbound.message() => match reply {
                Ok(Some(reply)) => take_in(open, reply),
                Ok(None) => return Status::unavailable("the server closed the stream"),
                Err(status) => return status,
            },
        }
    }
}

/// How many of the starts fit into one frame, at least 1. The others go into the next frame.
fn fitting(asked: &[Asked]) -> usize {
    let mut bytes = 0;
    let fits = |(start, _): &&Asked| {
        bytes += start.encoded_len();
        bytes <= MAX_FRAME_BYTES
    };
    asked.iter().take_while(fits).count().max(1)
}

fn take_in(open: &mut HashMap<u64, Open>, reply: v1::ExecuteReply) {
    for started in reply.started {
        if let Some(item) = open.get_mut(&started.r#ref) {
            item.execution_id = Uuid::try_parse(&started.workflow_execution_id).ok();
        }
    }
    let tell = |open: &mut HashMap<u64, Open>, number, result| {
        if let Some(item) = open.remove(&number) {
            // The caller may be gone.
            let _ = item.result_sender.send(result);
        }
    };
    for v1::ExecuteEnded { r#ref, status, output, error, failure_type, failure_details } in reply.ended {
        let failure = failure(failure_type, &failure_details);
        tell(open, r#ref, Ok(Executed::Ended(Ending { status, output, error, failure, task_type: None })));
    }
    for v1::ExecuteRefused { r#ref, code, message, .. } in reply.refused {
        tell(open, r#ref, Err(Error::Server { code, message }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_no_more_than_fits_and_at_least_one() {
        let ask = |bytes: usize| {
            let input = vec![b'1'; bytes].into();
            (v1::StartWorkflowRequest { input, ..v1::StartWorkflowRequest::default() }, oneshot::channel().0)
        };
        let quarter = MAX_FRAME_BYTES / 4;
        let mut asked: Vec<Asked> = (0..7).map(|_| ask(quarter)).collect();
        assert_eq!(fitting(&asked), 3, "each is a little more than its input");
        asked.insert(0, ask(2 * MAX_FRAME_BYTES));
        assert_eq!(fitting(&asked), 1);
        assert_eq!(fitting(&asked[1..2]), 1);
        let small: Vec<Asked> = (0..MAX_ITEMS).map(|_| ask(10)).collect();
        assert_eq!(fitting(&small), MAX_ITEMS);
    }
}
