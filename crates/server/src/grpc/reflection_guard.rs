//! Requires a credential for reflection. Reflection shows only public descriptors, but health is the only service
//! without a credential.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::status::not_allowed;
use crate::api::Api;

const REFLECTION: &str = "/grpc.reflection.";

pub(super) async fn known_only(State(api): State<Api>, request: Request, next: Next) -> Response {
    if request.uri().path().starts_with(REFLECTION)
        && let Err(error) = api.authenticate(request.headers()).await
    {
        return not_allowed(error).into_http();
    }
    next.run(request).await
}
