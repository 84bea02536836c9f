//! Calls any method with bytes: one function for unary and streaming methods.

use std::time::Duration;

use bytes::{Buf, BufMut};
use flovyn_proto::v1;
use futures::{StreamExt, stream};
use prost::Message;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

use crate::common::TestServer;

/// A stream that was silent for this long is assumed to send nothing more.
const SILENCE: Duration = Duration::from_millis(400);
pub(super) const CONNECT: &str = "/flovyn.v1.WorkerStream/Connect";
pub(super) const EXECUTE: &str = "/flovyn.v1.WorkflowClient/Execute";

#[derive(Debug, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}

/// How a call ended, and its answers.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) grpc: Code,
    /// The code from the metadata `flovyn-error-code`. On a stream, it may be that of the first refused item.
    pub(super) flv: String,
    pub(super) message: String,
    pub(super) frames: Vec<Vec<u8>>,
}

impl Outcome {
    fn new(frames: Vec<Vec<u8>>, end: Result<(), Status>) -> Self {
        let status = end.err().unwrap_or_else(|| Status::ok(""));
        let flv = status.metadata().get("flovyn-error-code").and_then(|value| value.to_str().ok());
        let (flv, message) = (flv.unwrap_or_default().to_owned(), status.message().to_owned());
        Self { grpc: status.code(), flv, message, frames }
    }

    pub(super) fn is(&self, grpc: Code, flv: &str) -> bool {
        self.grpc == grpc && self.flv == flv
    }

    /// The single message of a reply.
    pub(super) fn reply<M: Message + Default>(&self) -> M {
        assert_eq!(self.grpc, Code::Ok, "{}", self.message);
        M::decode(&self.frames[0][..]).unwrap()
    }

    pub(super) fn contains(&self, text: &str) -> bool {
        let found = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        found(self.message.as_bytes()) || self.frames.iter().any(|frame| found(frame))
    }
}

/// Calls a method with these frames. The header is sent unchanged.
pub(super) async fn call_with_header(
    server: &TestServer,
    path: &str,
    frames: Vec<Vec<u8>>,
    header: Option<&str>,
) -> Outcome {
    let headers: Vec<_> = header.iter().map(|value| ("authorization", *value)).collect();
    call_with_headers(server, path, frames, &headers).await
}

pub(super) async fn call_with_headers(
    server: &TestServer,
    path: &str,
    frames: Vec<Vec<u8>>,
    headers: &[(&'static str, &str)],
) -> Outcome {
    // A worker's connection stays open; a unary request must end.
    let open = path == CONNECT;
    let rest = if open { stream::pending().left_stream() } else { stream::empty().right_stream() };
    let mut request = Request::new(stream::iter(frames).chain(rest));
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    let mut grpc = tonic::client::Grpc::new(server.channel());
    grpc.ready().await.unwrap();
    let response = grpc.streaming(request, path.parse::<PathAndQuery>().unwrap(), Raw).await;
    let mut inbound = match response {
        Ok(response) => response.into_inner(),
        Err(status) => return Outcome::new(Vec::new(), Err(status)),
    };
    let streams = open || path == EXECUTE || path.ends_with("/SubscribeToNotifications");
    let patience = if streams { SILENCE } else { Duration::from_secs(20) };
    let mut received = Vec::new();
    let end = loop {
        match tokio::time::timeout(patience, inbound.message()).await {
            Ok(Ok(Some(frame))) => received.push(frame),
            Ok(Ok(None)) => break Ok(()),
            Ok(Err(status)) => break Err(status),
            Err(_) if streams => break Ok(()),
            Err(_) => panic!("{path} did not answer"),
        }
    };
    let mut outcome = Outcome::new(received, end);
    if open && outcome.flv.is_empty() {
        let frames = outcome.frames.iter().map(|frame| v1::ServerFrame::decode(&frame[..]).unwrap());
        let refused = frames.flat_map(|frame| frame.acks).find(|ack| !ack.code.is_empty());
        outcome.flv = refused.map(|ack| ack.code).unwrap_or_default();
    }
    if path == EXECUTE && outcome.flv.is_empty() {
        let frames = outcome.frames.iter().map(|frame| v1::ExecuteReply::decode(&frame[..]).unwrap());
        let refused = frames.flat_map(|frame| frame.refused).next();
        outcome.flv = refused.map(|refused| refused.code).unwrap_or_default();
    }
    outcome
}

pub(super) async fn call(server: &TestServer, path: &str, frames: Vec<Vec<u8>>, token: &str) -> Outcome {
    call_with_header(server, path, frames, Some(&format!("Bearer {token}"))).await
}

/// A unary call of `service/method` with a message.
pub(super) async fn send(server: &TestServer, method: &str, message: &impl Message, token: &str) -> Outcome {
    call(server, &format!("/flovyn.v1.{method}"), vec![message.encode_to_vec()], token).await
}
