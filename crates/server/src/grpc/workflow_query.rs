//! The service `WorkflowQuery`. It answers from the recorded state, because workers cannot be queried.

use bytes::Bytes;
use flovyn_proto::v1;
use flovyn_proto::v1::workflow_query_server::WorkflowQuery;
use serde_json::json;
use tonic::{Request, Response, Status};

use super::call::{Call, Needs};
use super::convert::id;
use super::executions;
use super::status::not_read;
use crate::api::Api;
use crate::waiting;

#[derive(Debug)]
pub(super) struct Queries {
    api: Api,
}

impl Queries {
    pub(super) fn new(api: Api) -> Self {
        Self { api }
    }
}

#[tonic::async_trait]
impl WorkflowQuery for Queries {
    async fn query_workflow(
        &self,
        request: Request<v1::QueryWorkflowRequest>,
    ) -> Result<Response<v1::QueryWorkflowResponse>, Status> {
        let call = Call::begin(&self.api, &request, Needs::Viewer, "").await?;
        let message = request.into_inner();
        let execution_id = id("workflow_execution_id", &message.workflow_execution_id)?;
        let service = call.api().service();
        let (store, tenant_id) = (service.store(), call.tenant_id());
        let row = executions::find(&call, execution_id).await?;
        let json = |value: serde_json::Value| Ok(Bytes::from(value.to_string()));
        let result = match message.query_name.as_str() {
            "__status" => json(json!({
                "status": row.status.to_string(),
                "cancelRequested": row.cancel_requested_ms.is_some(),
                "lastSequence": row.last_sequence,
            })),
            "__waiting" => {
                let waiting = service.why_execution(tenant_id, execution_id).await.map_err(not_read)?;
                let items = waiting.unwrap_or_default();
                json(json!(items.iter().map(waiting::describe).collect::<Vec<_>>()))
            }
            name => {
                let states = store.execution_states(tenant_id, execution_id).await.map_err(not_read)?;
                let entry = states.iter().find(|entry| &*entry.name == name);
                match entry {
                    None => Err(format!("no state has the key {name:?}")),
                    Some(entry) => {
                        let page = store.event_page(tenant_id, execution_id, entry.sequence - 1, 1);
                        let event = page.await.map_err(not_read)?.into_iter().next();
                        Ok(event.and_then(|logged| logged.event.payload).unwrap_or_default())
                    }
                }
            }
        };
        Ok(Response::new(match result {
            Ok(result) => v1::QueryWorkflowResponse { result, error: None },
            Err(error) => v1::QueryWorkflowResponse { result: Bytes::new(), error: Some(error) },
        }))
    }
}
