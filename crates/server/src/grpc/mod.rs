//! gRPC: one file per service. Messages in, requests to the engine, messages out.

use crate::api::Api;

/// All services, for the server that carries them.
pub fn routes(_api: Api) -> tonic::service::Routes {
    tonic::service::Routes::default()
}
