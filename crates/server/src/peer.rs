//! The network address that the current request came from: the other end of its connection.
//!
//! Behind a proxy this is the address of the proxy. Headers in which a proxy names its own callers are not trusted.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::Response;

use crate::grpc::connection::Connection;

tokio::task_local! {
    static PEER: IpAddr;
}

/// The address of the current request. `None` outside a request, or if the transport does not provide it.
pub(crate) fn current() -> Option<IpAddr> {
    PEER.try_with(|peer| *peer).ok()
}

/// Middleware that makes the address available to all code that handles the request.
pub(crate) async fn know(request: Request, next: Next) -> Response {
    match find(&request) {
        // An IPv4-mapped IPv6 address is the same machine as the IPv4 address.
        Some(address) => PEER.scope(address.ip().to_canonical(), next.run(request)).await,
        None => next.run(request).await,
    }
}

/// The HTTP server stores the address in the request itself; for gRPC, tonic stores the connection.
fn find(request: &Request) -> Option<SocketAddr> {
    let found = request.extensions();
    let http = found.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    http.or_else(|| Connection::of(found)?.address)
}
