//! The actions of an application: start, wait, cancel; and commands as workers send them.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use flovyn_proto::v1::workflow_command::CommandData;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use tonic::transport::Channel;
use uuid::Uuid;

use super::worker::{KIND, PATIENCE, TASK, signed};
use crate::common::TestServer;

pub(crate) struct App {
    pub(crate) dispatch: WorkflowDispatchClient<Channel>,
    pub(crate) client: WorkflowClientClient<Channel>,
}

impl App {
    pub(crate) fn of(server: &TestServer) -> Self {
        Self {
            dispatch: WorkflowDispatchClient::new(server.channel()),
            client: WorkflowClientClient::new(server.channel()),
        }
    }

    pub(crate) async fn start(&mut self) -> String {
        let start = v1::StartWorkflowRequest {
            workflow_kind: KIND.into(),
            input: r#"{"order":1}"#.into(),
            ..v1::StartWorkflowRequest::default()
        };
        self.dispatch.start_workflow(signed(start)).await.unwrap().into_inner().workflow_execution_id
    }

    pub(crate) async fn signal(&mut self, id: &str, name: &str, value: &str) {
        let signal = v1::SignalWorkflowRequest {
            workflow_execution_id: id.into(),
            signal_name: name.into(),
            signal_value: value.to_owned().into(),
            ..v1::SignalWorkflowRequest::default()
        };
        self.dispatch.signal_workflow(signed(signal)).await.unwrap();
    }

    pub(crate) async fn get(&mut self, id: &str) -> v1::ExecutionInfo {
        let get = v1::GetExecutionRequest {
            workflow_execution_id: id.into(),
            ..v1::GetExecutionRequest::default()
        };
        self.client.get_execution(signed(get)).await.unwrap().into_inner()
    }

    pub(crate) async fn cancel(&mut self, id: &str) -> String {
        let cancel = v1::CancelExecutionRequest {
            workflow_execution_id: id.into(),
            reason: "no longer needed".into(),
            cascade: false,
        };
        self.client.cancel_execution(signed(cancel)).await.unwrap().into_inner().status
    }

    /// Waits until the execution has finished.
    pub(crate) async fn result(&mut self, id: &str) -> v1::ExecutionInfo {
        let timeout_ms = i64::try_from(PATIENCE.as_millis()).unwrap();
        let wait = v1::WaitForResultRequest { workflow_execution_id: id.into(), timeout_ms };
        self.client.wait_for_result(signed(wait)).await.unwrap().into_inner()
    }

    /// Event types of the whole history, in order.
    pub(crate) async fn history(&mut self, id: &str) -> Vec<String> {
        self.events(id).await.into_iter().map(|event| event.event_type).collect()
    }

    pub(crate) async fn events(&mut self, id: &str) -> Vec<v1::WorkflowEvent> {
        let mut events = Vec::new();
        let mut after_sequence = 0;
        loop {
            let get = v1::GetEventsRequest {
                workflow_execution_id: id.into(),
                after_sequence,
                page_size: Some(1_000),
            };
            let page = self.dispatch.get_events(signed(get)).await.unwrap().into_inner();
            events.extend(page.events);
            after_sequence = page.next_sequence;
            if after_sequence == 0 {
                break;
            }
        }
        let numbers: Vec<i32> = events.iter().map(|event| event.sequence_number).collect();
        assert_eq!(numbers, (1..=numbers.len() as i32).collect::<Vec<_>>(), "a history has no gaps");
        events
    }
}

pub(crate) fn command(kind: v1::CommandType, data: CommandData) -> v1::WorkflowCommand {
    v1::WorkflowCommand { command_type: kind.into(), sequence_number: 0, command_data: Some(data) }
}

pub(crate) fn schedule_task(id: Uuid, max_retries: i32) -> v1::WorkflowCommand {
    let data = v1::ScheduleTaskCommand {
        kind: TASK.into(),
        input: "7".into(),
        task_execution_id: id.to_string(),
        max_retries: Some(max_retries),
        ..v1::ScheduleTaskCommand::default()
    };
    command(v1::CommandType::ScheduleTask, CommandData::ScheduleTask(data))
}

pub(crate) fn complete(output: &str) -> v1::WorkflowCommand {
    let data = v1::CompleteWorkflowCommand { output: output.to_owned().into() };
    command(v1::CommandType::CompleteWorkflow, CommandData::CompleteWorkflow(data))
}

/// The data of an event, as JSON.
pub(crate) fn data(event: &v1::WorkflowEvent) -> serde_json::Value {
    serde_json::from_slice(&event.event_data).unwrap()
}
