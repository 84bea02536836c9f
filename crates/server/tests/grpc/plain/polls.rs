//! How long polls without work are held: until their timeout, or until the server is about to stop.

use serde_json::json;
use tonic::Code;

use super::client::{DEADLINE, Plain, QUEUE, WORKER};
use super::messages::{PollRequest, PollResponse};
use crate::common::{TENANT, TestServer, on_both};

on_both!(a_poll_ends_at_its_timeout, a_drain_ends_long_polls, a_poll_waits_for_work, a_timeout_has_limits);

async fn a_poll_ends_at_its_timeout(server: TestServer) {
    let client = Plain::of(&server);
    client.register("flows", &["order"], &[]).await;
    // Unregistered; registered; registered for nothing of this class.
    for worker in [WORKER, "flows"] {
        let (workflow, task) = tokio::join!(
            client.poll_workflow_once(worker, QUEUE, 1),
            client.poll_task_once(worker, QUEUE, 1),
        );
        assert!(workflow.is_none() && task.is_none());
    }
}

async fn a_drain_ends_long_polls(server: TestServer) {
    let client = Plain::of(&server);
    client.register("flows", &["order"], &[]).await;
    let polls = [WORKER, "flows"].map(|worker| {
        let client = client.clone();
        // Longer than the test may take: only the drain can end these polls.
        tokio::spawn(async move {
            tokio::join!(
                client.poll_workflow_once(worker, QUEUE, 300),
                client.poll_task_once(worker, QUEUE, 300)
            )
        })
    });
    // The fourth poll is for tasks of a worker that has none, so it waits outside the dispatcher.
    let waiting = async {
        while server.server.api().service().pollers() < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
    server.server.drain();
    for poll in polls {
        let (workflow, task) = poll.await.unwrap();
        assert!(workflow.is_none() && task.is_none());
    }
    server.server.stop().await;
}

async fn a_poll_waits_for_work(server: TestServer) {
    let client = Plain::of(&server);
    let polls: Vec<_> = (0..5)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.poll_workflow().await.id })
        })
        .collect();
    let mut started = Vec::new();
    for number in 0..5 {
        started.push(client.start("order", json!(number)).await);
    }
    let mut claimed = Vec::new();
    for poll in polls {
        claimed.push(poll.await.unwrap());
    }
    claimed.sort();
    started.sort();
    assert_eq!(claimed, started);
}

async fn a_timeout_has_limits(server: TestServer) {
    let client = Plain::of(&server);
    for timeout_seconds in [-1, 301, i64::MAX] {
        let request = PollRequest {
            worker_id: WORKER.into(),
            org_id: TENANT.to_string(),
            timeout_seconds,
            ..PollRequest::default()
        };
        let refused = client.call::<_, PollResponse>("WorkflowDispatch/PollWorkflow", request).await;
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    }
}
