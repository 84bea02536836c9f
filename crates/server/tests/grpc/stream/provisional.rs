//! Executions that a worker receives before their start is written.

use flovyn_proto::v1;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::app::{App, complete};
use super::silence::claims_wait;
use super::worker::{Worker, hello};
use crate::common::{Database, TestServer};

async fn worker(server: &TestServer, provisional: bool) -> Worker {
    let hello = v1::StreamHello { provisional, ..hello(Uuid::new_v4()) };
    let worker = Worker::with(server, hello, 10, 10).await.unwrap();
    // Per class, as many claims as a session has feeds.
    claims_wait(server, 2 * (server.server.api().service().batches_at_once() + 1)).await;
    worker
}

fn start(server: &TestServer) -> JoinHandle<String> {
    let mut app = App::of(server);
    tokio::spawn(async move { app.start().await })
}

async fn end(worker: &mut Worker, activation: &v1::WorkflowExecution) {
    let ack = worker.submit(activation, vec![complete("2")], v1::WorkflowStatus::Completed).await;
    assert_eq!(ack.code, "", "{}", ack.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_acknowledged_once_it_is_written() {
    let server = TestServer::start(Database::Sqlite).await;
    let mut worker = worker(&server, true).await;
    let starting = start(&server);
    let activation = worker.activation().await;
    assert!(activation.provisional);
    end(&mut worker, &activation).await;
    assert_eq!(starting.await.unwrap(), activation.id);
    let info = App::of(&server).get(&activation.id).await;
    assert_eq!(info.status, "COMPLETED");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again_when_it_is_written() {
    let server = TestServer::start(Database::Sqlite).await;
    let mut worker = worker(&server, true).await;
    let starting = start(&server);
    let first = worker.activation().await;
    assert!(first.provisional);
    let ack = worker.give_back("no id", first.claim_token).await;
    assert_eq!(ack.code, "FLV0004", "{}", ack.message);
    let ack = worker.give_back(&first.id, first.claim_token).await;
    assert_eq!(ack.code, "", "{}", ack.message);
    let again = worker.activation().await;
    assert_eq!((&again.id, again.claim_token, again.provisional), (&first.id, first.claim_token + 1, false));
    assert_eq!(starting.await.unwrap(), first.id);
    end(&mut worker, &again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_know_of_it_gets_what_is_written() {
    let server = TestServer::start(Database::Sqlite).await;
    let mut worker = worker(&server, false).await;
    let starting = start(&server);
    let activation = worker.activation().await;
    assert!(!activation.provisional);
    assert_eq!(starting.await.unwrap(), activation.id);
    end(&mut worker, &activation).await;
}
