//! Where the request that is being handled came from: the address at the other end of its connection.
//!
//! A proxy in front of the server is that other end: what it says about its own callers is not believed.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::Response;

use crate::grpc::connection::Connection;

tokio::task_local! {
    static PEER: IpAddr;
}

/// `None` outside of a request, and where the transport does not say.
pub(crate) fn current() -> Option<IpAddr> {
    PEER.try_with(|peer| *peer).ok()
}

/// Makes the address known to everything that handles the request.
pub(crate) async fn know(request: Request, next: Next) -> Response {
    match find(&request) {
        // An IPv4 address in IPv6 clothes is the same machine.
        Some(address) => PEER.scope(address.ip().to_canonical(), next.run(request)).await,
        None => next.run(request).await,
    }
}

/// HTTP has put it there itself, gRPC lets tonic do it.
fn find(request: &Request) -> Option<SocketAddr> {
    let found = request.extensions();
    let http = found.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    http.or_else(|| Connection::of(found)?.address)
}
