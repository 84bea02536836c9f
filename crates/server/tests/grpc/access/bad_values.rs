//! Invalid numbers and enumeration values: timeouts, times to live, page sizes, levels, types.

use flovyn_proto::v1;
use prost::Message;
use tonic::Code;

use super::spoil::assert_goes_on;
use super::wire::send;
use super::world::World;
use crate::common::TOKEN;

/// A request that must be refused as an invalid argument with this code.
struct Bad {
    method: &'static str,
    what: &'static str,
    code: &'static str,
    message: Vec<u8>,
}

fn bad(method: &'static str, what: &'static str, code: &'static str, message: &impl Message) -> Bad {
    Bad { method, what, code, message: message.encode_to_vec() }
}

async fn all_refused(world: &World, cases: Vec<Bad>) {
    let rows = world.rows().await;
    let mut wrong = Vec::new();
    for Bad { method, what, code, message } in cases {
        let outcome =
            super::wire::call(&world.server, &format!("/flovyn.v1.{method}"), vec![message], TOKEN).await;
        if !outcome.is(Code::InvalidArgument, code) {
            wrong.push(format!(
                "{method} with {what}: {code} expected, got {:?} {} {}",
                outcome.grpc, outcome.flv, outcome.message
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(world.rows().await, rows, "a refused request wrote something");
    assert_goes_on(&world.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_times_of_a_start_are_refused() {
    let world = World::new().await;
    let start = |change: fn(&mut v1::StartWorkflowRequest)| {
        let mut message = v1::StartWorkflowRequest { workflow_kind: "kind".into(), ..Default::default() };
        message.idempotency_key = Some("some-key".into());
        change(&mut message);
        message
    };
    let method = "WorkflowDispatch/StartWorkflow";
    let mut cases = vec![
        bad(method, "timeout -1", "FLV0006", &start(|start| start.execution_timeout_ms = Some(-1))),
        bad(method, "timeout 0", "FLV0006", &start(|start| start.execution_timeout_ms = Some(0))),
        bad(method, "timeout max", "FLV0006", &start(|start| start.execution_timeout_ms = Some(i64::MAX))),
        bad(method, "timeout min", "FLV0006", &start(|start| start.execution_timeout_ms = Some(i64::MIN))),
        bad(method, "grace -1", "FLV0006", &start(|start| start.cancel_grace_ms = Some(-1))),
        bad(method, "grace max", "FLV0006", &start(|start| start.cancel_grace_ms = Some(i64::MAX))),
        bad(method, "schedule -1", "FLV0006", &start(|start| start.scheduled_at_ms = Some(-1))),
        bad(method, "schedule max", "FLV0006", &start(|start| start.scheduled_at_ms = Some(i64::MAX))),
        bad(method, "priority max", "FLV0006", &start(|start| start.priority_seconds = i32::MAX)),
        bad(method, "priority min", "FLV0006", &start(|start| start.priority_seconds = i32::MIN)),
    ];
    for ttl in [-1, 0, 30 * 24 * 3_600 + 1, i64::MAX, i64::MIN] {
        let mut message = start(|_| {});
        message.idempotency_key_ttl_seconds = Some(ttl);
        cases.push(bad(method, "ttl", "FLV0005", &message));
        let message = v1::SignalWithStartWorkflowRequest {
            workflow_id: "another-key".into(),
            workflow_kind: "kind".into(),
            signal_name: "signal".into(),
            idempotency_key_ttl_seconds: Some(ttl),
            ..Default::default()
        };
        cases.push(bad("WorkflowDispatch/SignalWithStartWorkflow", "ttl", "FLV0005", &message));
    }
    all_refused(&world, cases).await;
}

/// The report is refused, and the task has failed, because its worker cannot do anything else for it.
#[tokio::test(flavor = "multi_thread")]
async fn impossible_delays_before_the_next_attempt_are_refused() {
    for ms in [-1, i64::MAX, i64::MIN] {
        let world = World::new().await;
        let task_execution_id = world.ids.task.clone();
        let failed = v1::FailTaskRequest {
            task_execution_id: task_execution_id.clone(),
            claim_token: Some(world.ids.task_token),
            next_retry_delay_ms: Some(ms),
            ..Default::default()
        };
        let outcome = send(&world.server, "TaskExecution/FailTask", &failed, TOKEN).await;
        assert!(outcome.is(Code::InvalidArgument, "FLV0006"), "{ms}: {outcome:?}");
        let get = v1::GetTaskRequest { task_execution_id };
        let found = send(&world.server, "WorkflowClient/GetTask", &get, TOKEN).await;
        assert_eq!(found.reply::<v1::TaskInfo>().status, "FAILED");
        assert_goes_on(&world.server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_times_of_a_task_are_refused() {
    let world = World::new().await;
    let mut cases = Vec::new();
    let plain = || v1::SubmitTaskRequest { kind: "kind".into(), ..Default::default() };
    let method = "TaskExecution/SubmitTask";
    for ms in [-1, i64::MAX, i64::MIN] {
        let with = |change: fn(&mut v1::SubmitTaskRequest, i64)| {
            let mut message = plain();
            change(&mut message, ms);
            message
        };
        cases.extend([
            bad(method, "timeout", "FLV0006", &with(|task, ms| task.timeout_ms = ms)),
            bad(
                method,
                "schedule to start",
                "FLV0006",
                &with(|task, ms| task.schedule_to_start_ms = Some(ms)),
            ),
            bad(method, "total", "FLV0006", &with(|task, ms| task.total_timeout_ms = Some(ms))),
            bad(method, "heartbeat", "FLV0006", &with(|task, ms| task.heartbeat_timeout_ms = Some(ms))),
            bad(method, "scheduled at", "FLV0006", &with(|task, ms| task.scheduled_at_ms = Some(ms))),
        ]);
        let policy = v1::RetryPolicy { initial_ms: ms, factor: 2.0, cap_ms: 10 };
        cases.push(bad(
            method,
            "initial delay",
            "FLV0007",
            &v1::SubmitTaskRequest { retry_policy: Some(policy), ..plain() },
        ));
    }
    for factor in [f64::NAN, f64::INFINITY, 0.0, -1.0, 101.0] {
        let policy = v1::RetryPolicy { initial_ms: 1, factor, cap_ms: 10 };
        cases.push(bad(
            method,
            "factor",
            "FLV0007",
            &v1::SubmitTaskRequest { retry_policy: Some(policy), ..plain() },
        ));
    }
    for max_retries in [-1, 1_001, i32::MAX, i32::MIN] {
        cases.push(bad(method, "retries", "FLV0007", &v1::SubmitTaskRequest { max_retries, ..plain() }));
    }
    all_refused(&world, cases).await;
}

/// Each failure has a task of its own: the refusal fails the task and gives the reason.
#[tokio::test(flavor = "multi_thread")]
async fn failures_that_cannot_be_kept_fail_their_task() {
    for (failure_type, details, code) in [("A\0B", &b""[..], "FLV0002"), ("", b"{\"open\"", "FLV0001")] {
        let world = World::new().await;
        let failed = v1::FailTaskRequest {
            task_execution_id: world.ids.task.clone(),
            claim_token: Some(world.ids.task_token),
            failure_type: failure_type.into(),
            failure_details: details.into(),
            ..Default::default()
        };
        let path = "/flovyn.v1.TaskExecution/FailTask";
        let outcome = super::wire::call(&world.server, path, vec![failed.encode_to_vec()], TOKEN).await;
        assert!(outcome.is(Code::InvalidArgument, code), "{outcome:?}");
        let id = format!("id: {}", world.ids.task);
        let is_it = |row: &&String| row.starts_with("Task {") && row.contains(&id);
        let rows = world.rows().await;
        assert!(rows.iter().find(is_it).expect("the task").contains("status: Failed"), "{rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_waits_and_pages_are_refused() {
    let world = World::new().await;
    let mut cases = Vec::new();
    let execution = || world.ids.execution.clone();
    for seconds in [-1, 301, i64::MAX, i64::MIN] {
        let poll = v1::PollRequest { worker_id: "w".into(), timeout_seconds: seconds, ..Default::default() };
        cases.push(bad("WorkflowDispatch/PollWorkflow", "timeout", "FLV0006", &poll));
        let poll =
            v1::PollTaskRequest { worker_id: "w".into(), timeout_seconds: seconds, ..Default::default() };
        cases.push(bad("TaskExecution/PollTask", "timeout", "FLV0006", &poll));
    }
    for timeout_ms in [-1, 300_001, i64::MAX, i64::MIN] {
        let wait = v1::WaitForResultRequest { workflow_execution_id: execution(), timeout_ms };
        cases.push(bad("WorkflowClient/WaitForResult", "timeout", "FLV0006", &wait));
    }
    for page_size in [-1, 101, i32::MAX, i32::MIN] {
        let list = v1::ListExecutionsRequest { page_size, ..Default::default() };
        cases.push(bad("WorkflowClient/ListExecutions", "page size", "FLV0012", &list));
    }
    for page_token in ["x", ".", "1.x", "x.01900000-0000-7000-8000-000000000001", "99999999999999999999.1"] {
        let list = v1::ListExecutionsRequest { page_token: page_token.into(), ..Default::default() };
        cases.push(bad("WorkflowClient/ListExecutions", "page token", "FLV0012", &list));
    }
    for size in [-1, 0, 1_001, i32::MAX, i32::MIN] {
        let events = v1::GetEventsRequest {
            workflow_execution_id: execution(),
            page_size: Some(size),
            after_sequence: 0,
        };
        cases.push(bad("WorkflowDispatch/GetEvents", "page size", "FLV0012", &events));
    }
    all_refused(&world, cases).await;
    // A sequence number that no event has is not an error: nothing follows the largest, and everything follows a
    // negative one.
    for (after_sequence, some) in [(i64::MIN, true), (i64::MAX, false)] {
        let events =
            v1::GetEventsRequest { workflow_execution_id: execution(), page_size: Some(1), after_sequence };
        let outcome = send(&world.server, "WorkflowDispatch/GetEvents", &events, TOKEN).await;
        assert_eq!(!outcome.reply::<v1::GetEventsResponse>().events.is_empty(), some);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_outside_a_choice_are_refused() {
    let world = World::new().await;
    let task = || world.ids.task.clone();
    let mut cases = Vec::new();
    for level in ["", "FATAL", "INFO ", "1"] {
        let line = v1::LogMessageRequest {
            task_execution_id: task(),
            level: level.into(),
            message: "m".into(),
            claim_token: None,
        };
        cases.push(bad("TaskExecution/LogMessage", "level", "FLV0011", &line));
    }
    for kind in [5, 99, -1, i32::MAX] {
        let data = v1::StreamTaskDataRequest {
            task_execution_id: task(),
            r#type: kind,
            payload: "1".into(),
            ..Default::default()
        };
        cases.push(bad("TaskExecution/StreamTaskData", "type", "FLV0011", &data));
    }
    let data =
        v1::StreamTaskDataRequest { task_execution_id: task(), payload: "{".into(), ..Default::default() };
    cases.push(bad("TaskExecution/StreamTaskData", "payload", "FLV0001", &data));
    for status in ["DONE", "running", " RUNNING"] {
        let list = v1::ListExecutionsRequest { status: status.into(), ..Default::default() };
        cases.push(bad("WorkflowClient/ListExecutions", "status", "FLV0011", &list));
    }
    let labels = (0..21).map(|index| (index.to_string(), "v".to_owned())).collect();
    let start =
        v1::StartWorkflowRequest { workflow_kind: "kind".into(), metadata: labels, ..Default::default() };
    cases.push(bad("WorkflowDispatch/StartWorkflow", "labels", "FLV0021", &start));
    all_refused(&world, cases).await;
}
