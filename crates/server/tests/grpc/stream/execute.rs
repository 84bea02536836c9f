//! Starts and results of an application on one stream.

use std::collections::BTreeMap;

use flovyn_proto::v1;
use flovyn_proto::v1::WorkflowStatus::{Completed, Failed};
use flovyn_proto::v1::execute_item::What;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use flovyn_proto::v1::workflow_command::CommandData;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::app::{App, command, complete};
use super::worker::{KIND, PATIENCE, TASK, Worker, signed};
use crate::common::{Database, TestServer, on_both};

on_both!(
    each_start_is_answered_and_then_its_end,
    a_bad_item_hurts_no_other,
    an_execution_that_exists_can_be_followed,
    what_has_ended_is_told_at_once,
    the_stream_ends_when_all_was_said_and_done,
    waiting_for_a_task,
);

struct Connection {
    outbound: mpsc::Sender<v1::ExecuteFrame>,
    inbound: Streaming<v1::ExecuteReply>,
    started: BTreeMap<u64, String>,
    ended: BTreeMap<u64, v1::ExecuteEnded>,
    refused: BTreeMap<u64, v1::ExecuteRefused>,
}

impl Connection {
    async fn open(server: &TestServer) -> Self {
        let (outbound, frames) = mpsc::channel(16);
        let mut client = WorkflowClientClient::new(server.channel());
        let inbound = client.execute(signed(ReceiverStream::new(frames))).await.unwrap().into_inner();
        Self { outbound, inbound, started: BTreeMap::new(), ended: BTreeMap::new(), refused: BTreeMap::new() }
    }

    async fn ask(&self, items: Vec<(u64, What)>) {
        let item = |(number, what)| v1::ExecuteItem { r#ref: number, what: Some(what) };
        let items = items.into_iter().map(item).collect();
        self.outbound.send(v1::ExecuteFrame { items }).await.unwrap();
    }

    /// Reads one frame. `false`: the stream has ended.
    async fn read(&mut self) -> bool {
        let frame = tokio::time::timeout(PATIENCE, self.inbound.message()).await.expect("a frame in time");
        let Some(frame) = frame.unwrap() else { return false };
        for started in frame.started {
            assert!(self.started.insert(started.r#ref, started.workflow_execution_id).is_none());
        }
        for ended in frame.ended {
            assert!(self.ended.insert(ended.r#ref, ended).is_none(), "an end is reported once");
        }
        for refused in frame.refused {
            assert!(self.refused.insert(refused.r#ref, refused).is_none());
        }
        true
    }

    async fn end(&mut self, number: u64) -> v1::ExecuteEnded {
        while !self.ended.contains_key(&number) {
            assert!(self.read().await, "the stream ended before {number} did");
        }
        self.ended[&number].clone()
    }

    async fn refusal(&mut self, number: u64) -> v1::ExecuteRefused {
        while !self.refused.contains_key(&number) {
            assert!(self.read().await, "the stream ended before {number} was refused");
        }
        self.refused[&number].clone()
    }
}

fn start(kind: &str) -> What {
    What::Start(v1::StartWorkflowRequest {
        workflow_kind: kind.into(),
        ..v1::StartWorkflowRequest::default()
    })
}

fn fail(error: &str) -> v1::WorkflowCommand {
    let data = v1::FailWorkflowCommand { error: error.into(), ..v1::FailWorkflowCommand::default() };
    command(v1::CommandType::FailWorkflow, CommandData::FailWorkflow(data))
}

async fn each_start_is_answered_and_then_its_end(server: TestServer) {
    let (mut worker, mut connection) = (Worker::connect(&server).await, Connection::open(&server).await);
    connection.ask(vec![(7, start(KIND)), (8, start(KIND))]).await;
    let (first, second) = (worker.activation().await, worker.activation().await);
    worker.submit(&first, vec![complete("\"done\"")], Completed).await;
    worker.submit(&second, vec![fail("out of stock")], Failed).await;
    let (seven, eight) = (connection.end(7).await, connection.end(8).await);
    let completed = if connection.started[&7] == first.id { &seven } else { &eight };
    let failed = if connection.started[&7] == first.id { &eight } else { &seven };
    assert_eq!(
        (completed.status.as_str(), completed.output.as_deref()),
        ("COMPLETED", Some(&b"\"done\""[..]))
    );
    assert_eq!((failed.status.as_str(), failed.error.as_deref()), ("FAILED", Some("out of stock")));
}

async fn a_bad_item_hurts_no_other(server: TestServer) {
    let (mut worker, mut connection) = (Worker::connect(&server).await, Connection::open(&server).await);
    let unknown = What::WorkflowExecutionId(uuid::Uuid::new_v4().to_string());
    connection.ask(vec![(1, start("")), (2, start(KIND)), (3, unknown)]).await;
    assert_eq!(connection.refusal(1).await.code, "FLV0003");
    assert_eq!(connection.refusal(3).await.code, "FLV0031");
    let activation = worker.activation().await;
    worker.submit(&activation, vec![complete("1")], Completed).await;
    assert_eq!(connection.end(2).await.status, "COMPLETED");
}

async fn an_execution_that_exists_can_be_followed(server: TestServer) {
    let (mut worker, mut connection) = (Worker::connect(&server).await, Connection::open(&server).await);
    let id = App::of(&server).start().await;
    connection.ask(vec![(5, What::WorkflowExecutionId(id.clone()))]).await;
    let activation = worker.activation().await;
    worker.submit(&activation, vec![complete("1")], Completed).await;
    assert_eq!(connection.end(5).await.status, "COMPLETED");
    assert!(connection.started.is_empty(), "nothing was started here");
}

async fn what_has_ended_is_told_at_once(server: TestServer) {
    let (mut worker, mut connection) = (Worker::connect(&server).await, Connection::open(&server).await);
    let keyed = || {
        What::Start(v1::StartWorkflowRequest {
            workflow_kind: KIND.into(),
            idempotency_key: Some("once".into()),
            ..v1::StartWorkflowRequest::default()
        })
    };
    connection.ask(vec![(1, keyed())]).await;
    let activation = worker.activation().await;
    worker.submit(&activation, vec![complete("1")], Completed).await;
    connection.end(1).await;
    connection.ask(vec![(2, keyed()), (3, What::WorkflowExecutionId(activation.id.clone()))]).await;
    assert_eq!(connection.end(2).await.output.as_deref(), Some(&b"1"[..]));
    assert_eq!(connection.end(3).await.output.as_deref(), Some(&b"1"[..]));
    assert_eq!(connection.started[&2], activation.id);
}

async fn the_stream_ends_when_all_was_said_and_done(server: TestServer) {
    let (mut worker, connection) = (Worker::connect(&server).await, Connection::open(&server).await);
    connection.ask(vec![(1, start(KIND))]).await;
    let Connection { outbound, inbound, started, ended, refused } = connection;
    drop(outbound);
    let (closed, _) = mpsc::channel(1);
    let mut connection = Connection { outbound: closed, inbound, started, ended, refused };
    let activation = worker.activation().await;
    worker.submit(&activation, vec![complete("1")], Completed).await;
    assert_eq!(connection.end(1).await.status, "COMPLETED");
    assert!(!connection.read().await);
}

async fn waiting_for_a_task(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let submit = v1::SubmitTasksRequest {
        items: vec![v1::SubmitTaskRequest { kind: TASK.into(), ..v1::SubmitTaskRequest::default() }],
    };
    let made = app.client.submit_tasks(signed(submit)).await.unwrap().into_inner();
    let task_execution_id = made.items[0].task_execution_id.clone();
    let wait =
        |timeout_ms| v1::WaitForTaskRequest { task_execution_id: task_execution_id.clone(), timeout_ms };
    let open = app.client.wait_for_task(signed(wait(1))).await.unwrap().into_inner();
    assert!(["PENDING", "RUNNING"].contains(&open.status.as_str()), "{}", open.status);
    let mut waits = app.client.clone();
    let waits = tokio::spawn({
        let wait = wait(30_000);
        async move { waits.wait_for_task(signed(wait)).await.unwrap().into_inner() }
    });
    let task = worker.task().await;
    worker.complete_task(&task, "42").await;
    let done = waits.await.unwrap();
    assert_eq!((done.status.as_str(), done.output.as_deref()), ("COMPLETED", Some(&b"42"[..])));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_on_another_server_is_told_as_well() {
    let here = TestServer::start(Database::Postgres).await;
    let there = here.beside().await;
    let (mut worker, mut connection) = (Worker::connect(&there).await, Connection::open(&here).await);
    // Together larger than one message.
    let outputs = (0..6).map(|number| format!("\"{}\"", number.to_string().repeat(1_000_000)));
    let outputs: Vec<String> = outputs.collect();
    connection.ask((0..6).map(|number| (number, start(KIND))).collect()).await;
    for output in &outputs {
        let activation = worker.activation().await;
        worker.submit(&activation, vec![complete(output)], Completed).await;
    }
    let mut told = Vec::new();
    for number in 0..6 {
        told.push(String::from_utf8(connection.end(number).await.output.unwrap().to_vec()).unwrap());
    }
    told.sort_unstable();
    assert!(told == outputs, "each result once");
}
