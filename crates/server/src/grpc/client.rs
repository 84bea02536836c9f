//! The service `WorkflowClient`, for applications.

use std::time::Duration;

use flovyn_engine::ids::canonical_id;
use flovyn_engine::request::{CancelWorkflow, CreateTasks, StartWorkflows, TerminateWorkflow};
use flovyn_engine::state::{Execution, ExecutionStatus, SmallEnum};
use flovyn_engine::{Code, Reply};
use flovyn_proto::v1;
use flovyn_proto::v1::workflow_client_server::WorkflowClient;
use flovyn_store::{ExecutionFilter, Page};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use super::call::{Call, Needs};
use super::convert::{self, id, non_empty, optional_id};
use super::status::{not_read, refuse, unexpected};
use super::task_execution::create;
use super::{execute, executions, wait};
use crate::api::Api;

const DEFAULT_PAGE: i32 = 50;
const MAX_PAGE: i32 = 100;
const DEFAULT_WAIT: Duration = Duration::from_secs(60);
const MAX_WAIT_MS: i64 = 300_000;

/// Answers that may be buffered for one connection.
const OUTBOUND_FRAMES: usize = 64;

#[derive(Debug)]
pub(super) struct Client {
    api: Api,
}

impl Client {
    pub(super) fn new(api: Api) -> Self {
        Self { api }
    }

    async fn call<T>(&self, request: &Request<T>, needs: Needs, named: &str) -> Result<Call, Status> {
        Call::begin(&self.api, request, needs, named).await
    }
}

#[tonic::async_trait]
impl WorkflowClient for Client {
    async fn get_execution(
        &self,
        request: Request<v1::GetExecutionRequest>,
    ) -> Result<Response<v1::ExecutionInfo>, Status> {
        let call = self.call(&request, Needs::Viewer, "").await?;
        let message = request.into_inner();
        let row = match (message.workflow_execution_id.as_str(), message.key.as_str()) {
            (text, "") => executions::find(&call, id("workflow_execution_id", text)?).await?,
            ("", key) => executions::find_by_key(&call, key).await?,
            _ => return Err(refuse(Code::InvalidId, "give either workflow_execution_id or key, not both")),
        };
        Ok(Response::new(executions::whole(&call, row).await?))
    }

    async fn list_executions(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Result<Response<v1::ListExecutionsResponse>, Status> {
        let call = self.call(&request, Needs::Viewer, "").await?;
        let message = request.into_inner();
        let limit = match message.page_size {
            0 => DEFAULT_PAGE,
            size if (1..=MAX_PAGE).contains(&size) => size,
            _ => return Err(refuse(Code::InvalidPage, format!("page_size must be from 1 to {MAX_PAGE}"))),
        };
        let after = match message.page_token.as_str() {
            "" => None,
            token => Some(cursor(token).ok_or_else(|| {
                refuse(Code::InvalidPage, "page_token is invalid: use next_page_token of the previous page")
            })?),
        };
        let filter = filter(message)?;
        let page = Page { after, offset: 0, limit: limit.unsigned_abs() as usize };
        let store = call.api().service().store();
        let rows = store.execution_list(call.tenant_id(), &filter, page).await.map_err(not_read)?;
        let next = rows.last().filter(|_| rows.len() == page.limit);
        let next_page_token = next.map(|row| format!("{}.{}", row.created_ms, row.id)).unwrap_or_default();
        let executions = rows.iter().map(executions::listed).collect();
        Ok(Response::new(v1::ListExecutionsResponse { executions, next_page_token }))
    }

    async fn cancel_execution(
        &self,
        request: Request<v1::CancelExecutionRequest>,
    ) -> Result<Response<v1::CancelExecutionResponse>, Status> {
        let call = self.call(&request, Needs::Operator, "").await?;
        let message = request.into_inner();
        let cancel = CancelWorkflow {
            execution_id: id("workflow_execution_id", &message.workflow_execution_id)?,
            reason: message.reason.into(),
            cascade: message.cascade,
        };
        match call.run(cancel).await? {
            Reply::Cancelled { status } => {
                Ok(Response::new(v1::CancelExecutionResponse { status: status.to_string() }))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn terminate_execution(
        &self,
        request: Request<v1::TerminateExecutionRequest>,
    ) -> Result<Response<()>, Status> {
        let call = self.call(&request, Needs::Operator, "").await?;
        let message = request.into_inner();
        let execution_id = id("workflow_execution_id", &message.workflow_execution_id)?;
        call.run(TerminateWorkflow { execution_id, reason: message.reason.into() }).await?;
        Ok(Response::new(()))
    }

    async fn wait_for_result(
        &self,
        request: Request<v1::WaitForResultRequest>,
    ) -> Result<Response<v1::ExecutionInfo>, Status> {
        let call = self.call(&request, Needs::Viewer, "").await?;
        let message = request.into_inner();
        let execution_id = id("workflow_execution_id", &message.workflow_execution_id)?;
        let row: Execution = wait::finished(&call, execution_id, wait(message.timeout_ms)?).await?;
        Ok(Response::new(executions::whole(&call, row).await?))
    }

    type ExecuteStream = ReceiverStream<Result<v1::ExecuteReply, Status>>;

    async fn execute(
        &self,
        request: Request<Streaming<v1::ExecuteFrame>>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        let call = self.call(&request, Needs::Operator, "").await?;
        let (outbound, frames) = tokio::sync::mpsc::channel(OUTBOUND_FRAMES);
        let (metadata, _, inbound) = request.into_parts();
        tokio::spawn(execute::run(call, metadata.into_headers(), inbound, outbound));
        Ok(Response::new(ReceiverStream::new(frames)))
    }

    async fn start_workflows(
        &self,
        request: Request<v1::StartWorkflowsRequest>,
    ) -> Result<Response<v1::StartWorkflowsResponse>, Status> {
        let call = self.call(&request, Needs::Operator, "").await?;
        call.admit().await?;
        let mut items = Vec::with_capacity(request.get_ref().items.len());
        for item in request.into_inner().items {
            own_tenant(&call, &item.org_id)?;
            items.push(convert::start(item, call.traceparent.clone())?);
        }
        match call.run(StartWorkflows { items }).await? {
            Reply::StartedMany(started) => Ok(Response::new(v1::StartWorkflowsResponse {
                items: started.iter().map(convert::started).collect(),
            })),
            other => Err(unexpected(&other)),
        }
    }

    async fn submit_tasks(
        &self,
        request: Request<v1::SubmitTasksRequest>,
    ) -> Result<Response<v1::SubmitTasksResponse>, Status> {
        let call = self.call(&request, Needs::Operator, "").await?;
        call.admit().await?;
        let mut items = Vec::with_capacity(request.get_ref().items.len());
        for item in request.into_inner().items {
            own_tenant(&call, &item.org_id)?;
            items.push(create(item, call.traceparent.clone())?);
        }
        match call.run(CreateTasks { items }).await? {
            Reply::TasksCreated(created) => Ok(Response::new(v1::SubmitTasksResponse {
                items: created.iter().map(convert::task_created).collect(),
            })),
            other => Err(unexpected(&other)),
        }
    }

    async fn get_task(&self, request: Request<v1::GetTaskRequest>) -> Result<Response<v1::TaskInfo>, Status> {
        let call = self.call(&request, Needs::Viewer, "").await?;
        let task_id = id("task_execution_id", &request.get_ref().task_execution_id)?;
        let row = executions::find_task(&call, task_id).await?;
        Ok(Response::new(executions::task(&call, row).await?))
    }

    async fn wait_for_task(
        &self,
        request: Request<v1::WaitForTaskRequest>,
    ) -> Result<Response<v1::TaskInfo>, Status> {
        let call = self.call(&request, Needs::Viewer, "").await?;
        let message = request.into_inner();
        let task_id = id("task_execution_id", &message.task_execution_id)?;
        let row = wait::task_finished(&call, task_id, wait(message.timeout_ms)?).await?;
        Ok(Response::new(executions::task(&call, row).await?))
    }
}

fn wait(timeout_ms: i64) -> Result<Duration, Status> {
    match timeout_ms {
        0 => Ok(DEFAULT_WAIT),
        1..=MAX_WAIT_MS => Ok(Duration::from_millis(timeout_ms.unsigned_abs())),
        _ => Err(refuse(Code::InvalidDuration, format!("timeout_ms must be at most {MAX_WAIT_MS}"))),
    }
}

/// Checks the tenant of an item in a bulk request: it must be the tenant of the call, or empty.
pub(super) fn own_tenant(call: &Call, named: &str) -> Result<(), Status> {
    let same = named.is_empty() || canonical_id(named).is_some_and(|id| id == call.tenant_id());
    if same { Ok(()) } else { Err(refuse(Code::PermissionDenied, "an item names another tenant")) }
}

fn filter(message: v1::ListExecutionsRequest) -> Result<ExecutionFilter, Status> {
    let status = match message.status.as_str() {
        "" => None,
        name => {
            let found = ExecutionStatus::ALL.iter().find(|status| status.name() == name);
            let unknown = || refuse(Code::InvalidValue, format!("status {name:?} is unknown"));
            Some(*found.ok_or_else(unknown)?)
        }
    };
    let texts = [
        ("kind", &message.kind),
        ("queue", &message.queue),
        ("label_name", &message.label_name),
        ("label_value", &message.label_value),
        ("key", &message.key),
    ];
    texts.into_iter().try_for_each(|(field, text)| convert::can_be_sought(field, text))?;
    Ok(ExecutionFilter {
        status,
        kind: non_empty(&message.kind),
        queue: non_empty(&message.queue),
        label: non_empty(&message.label_name).map(|name| (name, message.label_value.into())),
        key: non_empty(&message.key),
        parent_id: optional_id("parent_id", &message.parent_id)?,
        ..ExecutionFilter::default()
    })
}

fn cursor(token: &str) -> Option<(i64, Uuid)> {
    let (created_ms, id) = token.split_once('.')?;
    Some((created_ms.parse().ok()?, Uuid::try_parse(id).ok()?))
}
