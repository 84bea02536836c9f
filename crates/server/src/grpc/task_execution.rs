//! The service `TaskExecution`.

use flovyn_engine::ids::TaskId;
use flovyn_engine::reply::TaskDelivery;
use flovyn_engine::request::{
    AppendLogLine, CancelTask, ClearAllTaskState, ClearTaskState, CompleteTask, CreateTask, FailTask,
    GetTaskState, HeartbeatTask, ListTaskState, ReportProgress, SetTaskState,
};
use flovyn_engine::state::{LogLevel, SmallEnum, WorkClass};
use flovyn_engine::{Code, Op, Reply};
use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_server::TaskExecution;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status};

use super::call::{Call, Needs};
use super::convert::{self, id, narrow, optional_id, payload};
use super::executions;
use super::poll::{self, Poll};
use super::status::{refuse, refused, unexpected};
use crate::api::{Api, now_ms};

/// The response metadata of a heartbeat that asks the task to stop.
const CANCEL_REQUESTED: &str = "flovyn-cancel-requested";
/// The largest datum that a task may stream.
const MAX_DATUM_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Tasks {
    api: Api,
}

impl Tasks {
    pub(super) fn new(api: Api) -> Self {
        Self { api }
    }

    async fn worker<T>(&self, request: &Request<T>) -> Result<Call, Status> {
        Call::begin(&self.api, request, Needs::Worker, "").await
    }

    /// Acknowledges a report before it is written, after checking what can be checked now.
    async fn report(
        &self,
        call: &Call,
        task_id: TaskId,
        token: Option<i64>,
        op: impl Into<Op>,
    ) -> Result<Response<()>, Status> {
        may_report(call, task_id, token).await?;
        call.api().service().report(call.reporter(WorkClass::Task), op).map_err(refused)?;
        Ok(Response::new(()))
    }
}

#[tonic::async_trait]
impl TaskExecution for Tasks {
    async fn submit_task(
        &self,
        request: Request<v1::SubmitTaskRequest>,
    ) -> Result<Response<v1::SubmitTaskResponse>, Status> {
        let call = Call::begin(&self.api, &request, Needs::Operator, &request.get_ref().org_id).await?;
        let create = create(request.into_inner(), call.traceparent.clone())?;
        if let Some(execution_id) = create.execution_id {
            tracing::warn!(%execution_id, "SubmitTask for a workflow's task is deprecated: schedule it by command");
        } else {
            call.admit().await?;
        }
        match call.run(create).await? {
            Reply::TaskCreated(created) => Ok(Response::new(convert::task_created(&created))),
            other => Err(unexpected(&other)),
        }
    }

    async fn poll_task(
        &self,
        request: Request<v1::PollTaskRequest>,
    ) -> Result<Response<v1::PollTaskResponse>, Status> {
        let call = Call::begin(&self.api, &request, Needs::Worker, &request.get_ref().org_id).await?;
        let message = request.into_inner();
        let poll = Poll {
            class: WorkClass::Task,
            worker: &message.worker_id,
            queue: &message.queue,
            kinds: &message.task_types,
            timeout_seconds: message.timeout_seconds,
        };
        let delivery = poll::wait(&call, poll).await?;
        let claimed = delivery.sent();
        Ok(Response::new(v1::PollTaskResponse { task: claimed.tasks.first().map(info) }))
    }

    async fn complete_task(&self, request: Request<v1::CompleteTaskRequest>) -> Result<Response<()>, Status> {
        let call = self.worker(&request).await?;
        let completion = completion(request.into_inner())?;
        call.ends(completion.task_id);
        call.result(WorkClass::Task, completion).await?;
        Ok(Response::new(()))
    }

    async fn fail_task(&self, request: Request<v1::FailTaskRequest>) -> Result<Response<()>, Status> {
        let call = self.worker(&request).await?;
        let failure = failure(request.into_inner())?;
        call.ends(failure.task_id);
        call.result(WorkClass::Task, failure).await?;
        Ok(Response::new(()))
    }

    async fn report_progress(
        &self,
        request: Request<v1::ReportProgressRequest>,
    ) -> Result<Response<()>, Status> {
        let call = self.worker(&request).await?;
        let message = request.into_inner();
        let task_id = id("task_execution_id", &message.task_execution_id)?;
        let details = convert::non_empty(&message.details);
        let token = message.claim_token;
        let report = ReportProgress { task_id, token, progress: message.progress, details };
        self.report(&call, task_id, token, report).await
    }

    async fn heartbeat(&self, request: Request<v1::HeartbeatRequest>) -> Result<Response<()>, Status> {
        let call = self.worker(&request).await?;
        let message = request.into_inner();
        let heartbeat = HeartbeatTask {
            task_id: id("task_execution_id", &message.task_execution_id)?,
            token: message.claim_token,
            details: message.details,
        };
        let service = call.api().service();
        let cancel = service.heartbeat(call.reporter(WorkClass::Task), heartbeat).await.map_err(refused)?;
        let mut response = Response::new(());
        if cancel {
            response.metadata_mut().insert(CANCEL_REQUESTED, MetadataValue::from_static("true"));
        }
        Ok(response)
    }

    async fn cancel_task(&self, request: Request<v1::CancelTaskRequest>) -> Result<Response<()>, Status> {
        let call = Call::begin(&self.api, &request, Needs::Operator, "").await?;
        let task_id = id("task_execution_id", &request.get_ref().task_execution_id)?;
        call.run(CancelTask { task_id, cooperative: true }).await?;
        Ok(Response::new(()))
    }

    async fn log_message(&self, request: Request<v1::LogMessageRequest>) -> Result<Response<()>, Status> {
        let call = self.worker(&request).await?;
        let message = request.into_inner();
        let task_id = id("task_execution_id", &message.task_execution_id)?;
        let level = LogLevel::ALL.iter().find(|level| level.name().eq_ignore_ascii_case(&message.level));
        let unknown = || refuse(Code::InvalidValue, "level is DEBUG, INFO, WARN or ERROR");
        let level = *level.ok_or_else(unknown)?;
        let token = message.claim_token;
        let line = AppendLogLine { task_id, token, level, message: message.message.into() };
        self.report(&call, task_id, token, line).await
    }

    async fn get_state(
        &self,
        request: Request<v1::GetStateRequest>,
    ) -> Result<Response<v1::GetStateResponse>, Status> {
        let call = self.worker(&request).await?;
        let message = request.into_inner();
        let task_id = id("task_execution_id", &message.task_execution_id)?;
        match call.run(GetTaskState { task_id, name: message.key.into() }).await? {
            Reply::TaskState { value } => Ok(Response::new(v1::GetStateResponse {
                found: value.is_some(),
                value: value.unwrap_or_default(),
            })),
            other => Err(unexpected(&other)),
        }
    }

    async fn set_state(&self, request: Request<v1::SetStateRequest>) -> Result<Response<()>, Status> {
        let call = self.worker(&request).await?;
        let message = request.into_inner();
        let task_id = id("task_execution_id", &message.task_execution_id)?;
        let (token, name) = (message.claim_token, message.key.into());
        let set = SetTaskState { task_id, token, name, value: payload(message.value) };
        call.report(WorkClass::Task, set).await?;
        Ok(Response::new(()))
    }

    async fn clear_state(&self, request: Request<v1::ClearStateRequest>) -> Result<Response<()>, Status> {
        let call = self.worker(&request).await?;
        let message = request.into_inner();
        let task_id = id("task_execution_id", &message.task_execution_id)?;
        let clear = ClearTaskState { task_id, token: message.claim_token, name: message.key.into() };
        call.report(WorkClass::Task, clear).await?;
        Ok(Response::new(()))
    }

    async fn clear_all_state(
        &self,
        request: Request<v1::ClearAllStateRequest>,
    ) -> Result<Response<()>, Status> {
        let call = self.worker(&request).await?;
        let task_id = id("task_execution_id", &request.get_ref().task_execution_id)?;
        let token = request.get_ref().claim_token;
        call.report(WorkClass::Task, ClearAllTaskState { task_id, token }).await?;
        Ok(Response::new(()))
    }

    async fn get_state_keys(
        &self,
        request: Request<v1::GetStateKeysRequest>,
    ) -> Result<Response<v1::GetStateKeysResponse>, Status> {
        let call = self.worker(&request).await?;
        let task_id = id("task_execution_id", &request.get_ref().task_execution_id)?;
        match call.run(ListTaskState { task_id }).await? {
            Reply::TaskStateKeys { names } => {
                let keys = names.iter().map(ToString::to_string).collect();
                Ok(Response::new(v1::GetStateKeysResponse { keys }))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn stream_task_data(
        &self,
        request: Request<v1::StreamTaskDataRequest>,
    ) -> Result<Response<v1::StreamTaskDataResponse>, Status> {
        let call = self.worker(&request).await?;
        let message = request.into_inner();
        let task_id = id("task_execution_id", &message.task_execution_id)?;
        optional_id("workflow_execution_id", &message.workflow_execution_id)?;
        if v1::StreamEventType::try_from(message.r#type).is_err() {
            return Err(refuse(Code::InvalidValue, format!("type {} is unknown", message.r#type)));
        }
        if message.payload.len() > MAX_DATUM_BYTES {
            let text = format!("a datum may have at most {MAX_DATUM_BYTES} bytes");
            return Err(refuse(Code::PayloadTooLarge, text));
        }
        if serde_json::from_str::<serde::de::IgnoredAny>(&message.payload).is_err() {
            return Err(refuse(Code::InvalidPayload, "payload is not JSON"));
        }
        may_report(&call, task_id, message.claim_token).await?;
        call.api().live().publish(call.tenant_id(), task_id, message);
        Ok(Response::new(v1::StreamTaskDataResponse { acknowledged: true }))
    }
}

/// Refuses a report from a worker that does not hold the task's claim. Reports with the token of a claim that has just
/// ended are accepted: late log lines are kept, and other reports have no effect.
async fn may_report(call: &Call, task_id: TaskId, token: Option<i64>) -> Result<(), Status> {
    let task = executions::find_task(call, task_id).await?;
    // The rule checks again when the report is written. For this check, the machine's clock is precise enough.
    flovyn_engine::may_report(&task, token, &call.peer(WorkClass::Task), now_ms()).map_err(refused)
}

pub(super) fn create(
    message: v1::SubmitTaskRequest,
    traceparent: Option<flovyn_engine::ids::Text>,
) -> Result<CreateTask, Status> {
    let execution_id = optional_id("workflow_execution_id", &message.workflow_execution_id)?;
    let scheduled_ms = message.scheduled_at_ms;
    Ok(CreateTask { spec: convert::submitted_task(message), execution_id, scheduled_ms, traceparent })
}

pub(super) fn completion(message: v1::CompleteTaskRequest) -> Result<CompleteTask, Status> {
    Ok(CompleteTask {
        task_id: id("task_execution_id", &message.task_execution_id)?,
        token: message.claim_token,
        output: payload(message.output),
        next: None,
    })
}

pub(super) fn failure(message: v1::FailTaskRequest) -> Result<FailTask, Status> {
    Ok(FailTask {
        task_id: id("task_execution_id", &message.task_execution_id)?,
        token: message.claim_token,
        error: message.error.into(),
        failure: convert::failure(&message.failure_type, message.failure_details),
        non_retryable: message.non_retryable,
        next_delay_ms: message.next_retry_delay_ms,
    })
}

pub(super) fn info(delivery: &TaskDelivery) -> v1::TaskExecutionInfo {
    let task = &delivery.task;
    v1::TaskExecutionInfo {
        task_execution_id: task.id.to_string(),
        kind: task.task_type.to_string(),
        input: task.input.clone(),
        workflow_execution_id: task.execution_id.map(|id| id.to_string()).unwrap_or_default(),
        execution_count: narrow(task.execution_count),
        queue: task.queue.to_string(),
        worker_pool_id: None,
        traceparent: task.traceparent.as_deref().unwrap_or_default().to_owned(),
        claim_token: delivery.token,
        timeout_ms: task.start_to_close_ms,
        deadline_ms: task.lease_until_ms,
        heartbeat_details: task.heartbeat_details.clone(),
        attempt_chain_key: task.id.to_string(),
        heartbeat_timeout_ms: task.heartbeat_ms,
    }
}
