//! The service `WorkerStream`: one connection per worker. The server sends work, the worker sends results.
//!
//! - `sessions`: the claims that each session holds, across reconnects.
//! - `strays`: claims of a session that this process does not know of.
//! - `session`: one connection: hello, then frames until it ends.
//! - `feed`: claims work, up to the credit, and pushes it.
//! - `results`: executes the results that arrive and acknowledges them.

mod feed;
mod hello;
mod pulse;
mod results;
mod session;
mod sessions;
mod strays;

use std::pin::Pin;
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use flovyn_proto::v1;
use flovyn_proto::v1::worker_stream_server::WorkerStream;
use futures::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::call::{Call, Needs};
use crate::api::Api;
use sessions::Sessions;

/// Frames that may be buffered for the connection. At the limit, nothing more is claimed for this worker.
const OUTBOUND_FRAMES: usize = 16;

pub(super) struct Streams {
    api: Api,
    sessions: Arc<Sessions>,
}

impl Streams {
    pub(super) fn new(api: Api) -> Self {
        Self { api, sessions: Arc::default() }
    }
}

#[tonic::async_trait]
impl WorkerStream for Streams {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<v1::ServerFrame, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::WorkerFrame>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let call = Call::begin(&self.api, &request, Needs::Worker, "").await?;
        let (outbound, frames) = tokio::sync::mpsc::channel(OUTBOUND_FRAMES);
        let (metadata, _, inbound) = request.into_parts();
        let credential = metadata.as_ref().get(AUTHORIZATION).cloned();
        tokio::spawn(session::run(call, credential, self.sessions.clone(), inbound, outbound));
        Ok(Response::new(Box::pin(ReceiverStream::new(frames))))
    }
}
