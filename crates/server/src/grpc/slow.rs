//! Refuses gRPC calls whose message arrives too slowly. Client streams may be silent for any time between messages: their
//! own rules notice lost clients. A message that has begun must arrive in time there too.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use flovyn_engine::Code;

use super::status::refuse;
use crate::slow::{Patience, Progress};

/// Methods with a client stream.
pub const CLIENT_STREAMS: &[&str] = &[
    "/flovyn.v1.WorkerStream/Connect",
    "/flovyn.v1.WorkflowClient/Execute",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];
/// The longest wait for work or for a result.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

pub(crate) async fn check(State(patience): State<Patience>, request: Request, next: Next) -> Response {
    if CLIENT_STREAMS.contains(&request.uri().path()) {
        return next.run(Progress::of_stream(request, patience)).await;
    }
    let (request, progress) = Progress::of(request, patience);
    let answer = progress.answered(LONGEST_WAIT, next.run(request)).await;
    match answer {
        Ok(_) if progress.was_cut() => {
            refuse(Code::RequestTooSlow, "the message arrived too slowly").into_http()
        }
        Ok(response) => response,
        Err(_) => refuse(Code::OutcomeUnknown, "the call was not answered in time").into_http(),
    }
}
