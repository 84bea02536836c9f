//! The server: gRPC and HTTP in front of the service, configuration, telemetry, shutdown. No rule stands here.

pub mod api;
pub mod grpc;
