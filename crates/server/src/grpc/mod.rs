//! gRPC: one file per service. It turns messages into requests to the engine, and replies into messages. It contains no
//! rules.

mod activations;
mod call;
mod client;
mod commands;
pub(crate) mod connection;
mod convert;
mod events;
mod execute;
mod executions;
pub(crate) mod greeting;
mod health;
mod holds;
mod notifications;
mod poll;
mod reflection_guard;
pub(crate) mod request_metrics;
pub(crate) mod slow;
mod status;
mod stream;
mod task_execution;
mod vouched;
mod wait;
mod worker_lifecycle;
mod workflow_dispatch;
mod workflow_query;

use flovyn_proto::v1;
use tonic::service::Routes;

pub use slow::CLIENT_STREAMS;

use crate::api::Api;

/// The largest message in either direction. Clients of the public protocol accept no larger ones.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Sets the message size limits, which all services share.
macro_rules! limited {
    ($server:expr) => {
        $server.max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES)
    };
}

/// All services, with health checks and reflection.
pub fn routes(api: Api) -> Routes {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(flovyn_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the compiled descriptors are complete");
    let dispatch = workflow_dispatch::Dispatch::new(api.clone());
    let tasks = task_execution::Tasks::new(api.clone());
    let workers = worker_lifecycle::Workers::new(api.clone());
    let queries = workflow_query::Queries::new(api.clone());
    let stream = stream::Streams::new(api.clone());
    let client = client::Client::new(api.clone());
    let known_only = axum::middleware::from_fn_with_state(api.clone(), reflection_guard::known_only);
    Routes::new(health::server(api))
        .add_service(reflection)
        .add_service(limited!(v1::workflow_dispatch_server::WorkflowDispatchServer::new(dispatch)))
        .add_service(limited!(v1::task_execution_server::TaskExecutionServer::new(tasks)))
        .add_service(limited!(v1::worker_lifecycle_server::WorkerLifecycleServer::new(workers)))
        .add_service(limited!(v1::workflow_query_server::WorkflowQueryServer::new(queries)))
        .add_service(limited!(v1::worker_stream_server::WorkerStreamServer::new(stream)))
        .add_service(limited!(v1::workflow_client_server::WorkflowClientServer::new(client)))
        .into_axum_router()
        .layer(known_only)
        .into()
}
