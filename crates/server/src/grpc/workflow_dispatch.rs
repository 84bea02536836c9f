//! The service `WorkflowDispatch`.

use std::pin::Pin;

use flovyn_engine::request::{
    Answer, AnswerPromise, Parent, PromiseRef, SignalWithStart, SignalWorkflow, StartWorkflow,
};
use flovyn_engine::state::WorkClass;
use flovyn_engine::{Code, Op, Reply};
use flovyn_proto::v1;
use flovyn_proto::v1::start_child_workflow_request::WorkflowExecutionIdentifier;
use flovyn_proto::v1::workflow_dispatch_server::WorkflowDispatch;
use futures::Stream;
use tonic::{Request, Response, Status};

use super::call::{Call, Needs};
use super::commands::submission;
use super::convert::{self, id, payload, queue};
use super::poll::{self, Poll};
use super::status::{not_read, refuse, unexpected};
use super::{activations, events, executions, notifications};
use crate::api::Api;

/// The most promises of an execution that are searched for a name.
const MAX_PROMISES: usize = 10_000;

#[derive(Debug)]
pub(super) struct Dispatch {
    api: Api,
}

impl Dispatch {
    pub(super) fn new(api: Api) -> Self {
        Self { api }
    }

    async fn call<T>(&self, request: &Request<T>, needs: Needs, named: &str) -> Result<Call, Status> {
        Call::begin(&self.api, request, needs, named).await
    }

    async fn answer(&self, call: &Call, promise: &str, answer: Answer) -> Result<Response<()>, Status> {
        let promise = match promise.split_once('/') {
            // A key may itself contain a slash.
            Some((execution, name)) if !promise.starts_with("key:") => by_name(call, execution, name).await?,
            _ => convert::promise(promise)?,
        };
        call.run(AnswerPromise { promise, answer }).await?;
        Ok(Response::new(()))
    }
}

#[tonic::async_trait]
impl WorkflowDispatch for Dispatch {
    async fn poll_workflow(
        &self,
        request: Request<v1::PollRequest>,
    ) -> Result<Response<v1::PollResponse>, Status> {
        let call = self.call(&request, Needs::Worker, &request.get_ref().org_id).await?;
        let message = request.into_inner();
        let poll = Poll {
            class: WorkClass::Workflow,
            worker: &message.worker_id,
            queue: &message.queue,
            kinds: &message.workflow_capabilities,
            timeout_seconds: message.timeout_seconds,
        };
        let delivery = poll::wait(&call, poll).await?;
        let Some(activation) = delivery.claimed().workflows.first() else {
            return Ok(Response::new(v1::PollResponse::default()));
        };
        let input = activations::input(&call, activation).await?;
        let response = v1::PollResponse {
            traceparent: activation.execution.traceparent.as_deref().unwrap_or_default().to_owned(),
            workflow_execution: Some(activations::execution(activation, input)),
        };
        drop(delivery.sent());
        Ok(Response::new(response))
    }

    type SubscribeToNotificationsStream =
        Pin<Box<dyn Stream<Item = Result<v1::WorkAvailableEvent, Status>> + Send>>;

    async fn subscribe_to_notifications(
        &self,
        request: Request<v1::SubscriptionRequest>,
    ) -> Result<Response<Self::SubscribeToNotificationsStream>, Status> {
        let call = self.call(&request, Needs::Worker, &request.get_ref().org_id).await?;
        convert::can_be_sought("queue", &request.get_ref().queue)?;
        let queue = queue(&request.get_ref().queue);
        Ok(Response::new(Box::pin(notifications::of_queue(call, queue))))
    }

    async fn start_workflow(
        &self,
        request: Request<v1::StartWorkflowRequest>,
    ) -> Result<Response<v1::StartWorkflowResponse>, Status> {
        let call = self.call(&request, Needs::Operator, &request.get_ref().org_id).await?;
        call.admit().await?;
        let start = convert::start(request.into_inner(), call.traceparent.clone())?;
        match call.run(start).await? {
            Reply::Started(started) => Ok(Response::new(convert::started(&started))),
            other => Err(unexpected(&other)),
        }
    }

    async fn get_visual_workflow_definition_by_id(
        &self,
        request: Request<v1::GetVisualWorkflowDefinitionByIdRequest>,
    ) -> Result<Response<v1::GetVisualWorkflowDefinitionByIdResponse>, Status> {
        self.call(&request, Needs::Viewer, "").await?;
        Err(refuse(Code::NotOffered, "there are no visual workflow definitions"))
    }

    async fn start_child_workflow(
        &self,
        request: Request<v1::StartChildWorkflowRequest>,
    ) -> Result<Response<v1::StartChildWorkflowResponse>, Status> {
        let call = self.call(&request, Needs::Operator, &request.get_ref().org_id).await?;
        let message = request.into_inner();
        let parent_id = id("parent_workflow_execution_id", &message.parent_workflow_execution_id)?;
        let kind = match message.workflow_execution_identifier {
            Some(WorkflowExecutionIdentifier::WorkflowKind(kind)) => kind,
            _ => return Err(refuse(Code::InvalidName, "workflow_kind is missing")),
        };
        let queue = match convert::non_empty(&message.queue) {
            Some(queue) => queue,
            None => executions::find(&call, parent_id).await?.queue,
        };
        let start = StartWorkflow {
            priority_seconds: message.priority_seconds.into(),
            parent: Some(Parent { id: parent_id, name: message.child_execution_name.into() }),
            traceparent: call.traceparent.clone(),
            ..StartWorkflow::new(kind, queue, payload(message.input))
        };
        match call.run(start).await? {
            Reply::Started(started) => Ok(Response::new(v1::StartChildWorkflowResponse {
                child_workflow_execution_id: started.execution_id.to_string(),
            })),
            other => Err(unexpected(&other)),
        }
    }

    async fn resolve_promise(
        &self,
        request: Request<v1::ResolvePromiseRequest>,
    ) -> Result<Response<()>, Status> {
        let call = self.call(&request, Needs::Operator, "").await?;
        let message = request.into_inner();
        self.answer(&call, &message.promise_id, Answer::Resolve(payload(message.value))).await
    }

    async fn reject_promise(
        &self,
        request: Request<v1::RejectPromiseRequest>,
    ) -> Result<Response<()>, Status> {
        let call = self.call(&request, Needs::Operator, "").await?;
        let message = request.into_inner();
        self.answer(&call, &message.promise_id, Answer::Reject(message.error.into())).await
    }

    async fn signal_with_start_workflow(
        &self,
        request: Request<v1::SignalWithStartWorkflowRequest>,
    ) -> Result<Response<v1::SignalWithStartWorkflowResponse>, Status> {
        let call = self.call(&request, Needs::Operator, &request.get_ref().org_id).await?;
        call.admit().await?;
        let message = request.into_inner();
        let start = StartWorkflow {
            priority_seconds: message.priority_seconds.into(),
            workflow_version: message.workflow_version.as_deref().and_then(convert::non_empty),
            labels: convert::labels(message.metadata),
            key: convert::key(Some(message.workflow_id), message.idempotency_key_ttl_seconds),
            cancel_grace_ms: message.cancel_grace_ms,
            scheduled_ms: message.scheduled_at_ms,
            execution_timeout_ms: message.execution_timeout_ms,
            traceparent: call.traceparent.clone(),
            ..StartWorkflow::new(
                message.workflow_kind,
                queue(&message.queue),
                payload(message.workflow_input),
            )
        };
        let (name, value) = (message.signal_name.into(), payload(message.signal_value));
        match call.run(SignalWithStart { start, name, value }).await? {
            Reply::Signalled { execution_id, sequence, created } => {
                Ok(Response::new(v1::SignalWithStartWorkflowResponse {
                    workflow_execution_id: execution_id.to_string(),
                    workflow_created: created,
                    signal_event_sequence: sequence,
                }))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn signal_workflow(
        &self,
        request: Request<v1::SignalWorkflowRequest>,
    ) -> Result<Response<v1::SignalWorkflowResponse>, Status> {
        let call = self.call(&request, Needs::Operator, &request.get_ref().org_id).await?;
        let message = request.into_inner();
        let signal = SignalWorkflow {
            execution_id: id("workflow_execution_id", &message.workflow_execution_id)?,
            name: message.signal_name.into(),
            value: payload(message.signal_value),
        };
        match call.run(signal).await? {
            Reply::Signalled { sequence, .. } => {
                Ok(Response::new(v1::SignalWorkflowResponse { signal_event_sequence: sequence }))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn get_events(
        &self,
        request: Request<v1::GetEventsRequest>,
    ) -> Result<Response<v1::GetEventsResponse>, Status> {
        let call = self.call(&request, Needs::Viewer, "").await?;
        let message = request.into_inner();
        let execution_id = id("workflow_execution_id", &message.workflow_execution_id)?;
        let (events, more) = match message.page_size {
            None => (events::all(&call, execution_id).await?, false),
            Some(size) if (1..=events::MAX_PAGE).contains(&size) => {
                let size = size.unsigned_abs() as usize;
                events::page(&call, execution_id, message.after_sequence.max(0), size, events::message)
                    .await?
            }
            Some(_) => {
                let message = format!("page_size must be from 1 to {}", events::MAX_PAGE);
                return Err(refuse(Code::InvalidPage, message));
            }
        };
        if events.is_empty() {
            // A page is empty at the end of a history and for an unknown execution; the row shows the difference.
            executions::find(&call, execution_id).await?;
        }
        let next_sequence = events.last().filter(|_| more).map_or(0, |event| event.sequence_number.into());
        Ok(Response::new(v1::GetEventsResponse { events, next_sequence }))
    }

    async fn submit_workflow_commands(
        &self,
        request: Request<v1::SubmitWorkflowCommandsRequest>,
    ) -> Result<Response<()>, Status> {
        let call = self.call(&request, Needs::Worker, "").await?;
        // An unreadable submission is refused in the engine, which then decides what moves on.
        let report = submission(request.into_inner()).map(Op::from);
        let report = report.or_else(|unread| unread.about().map(|(_, _, op)| op))?;
        call.result(WorkClass::Workflow, report).await?;
        Ok(Response::new(()))
    }

    async fn report_execution_spans(
        &self,
        request: Request<v1::ReportExecutionSpansRequest>,
    ) -> Result<Response<v1::ReportExecutionSpansResponse>, Status> {
        self.call(&request, Needs::Worker, "").await?;
        let spans = request.into_inner().spans;
        for span in &spans {
            let (workflow, kind) = (&span.workflow_id, &span.span_type);
            tracing::debug!(workflow, kind, span.span_id, span.is_error, "a worker's span");
        }
        let accepted_count = i32::try_from(spans.len()).unwrap_or(i32::MAX);
        Ok(Response::new(v1::ReportExecutionSpansResponse { accepted_count, rejected_count: 0 }))
    }
}

/// Finds a promise of one execution by its name. If several have the name, it is the newest.
async fn by_name(call: &Call, execution: &str, name: &str) -> Result<PromiseRef, Status> {
    let execution_id = id("workflow_execution_id", execution)?;
    let store = call.api().service().store();
    let promises = store.promise_list(call.tenant_id(), execution_id, false, MAX_PROMISES);
    let promises = promises.await.map_err(not_read)?;
    let found = promises.iter().filter(|row| &*row.name == name).max_by_key(|row| (row.created_ms, row.id));
    let missing = || refuse(Code::PromiseNotFound, format!("no promise {name:?} in {execution_id}"));
    found.map(|row| PromiseRef::Id(row.id)).ok_or_else(missing)
}
