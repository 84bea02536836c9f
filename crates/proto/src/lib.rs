//! The gRPC protocol: messages, clients and servers, generated from the files in `proto/`.
//!
//! This crate does not know the engine; the server converts between the two.

/// Package `flovyn.v1`.
#[allow(clippy::all, clippy::pedantic, missing_debug_implementations, unreachable_pub, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("flovyn.v1");
}

/// The compiled .proto files, for reflection and for completeness checks.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
