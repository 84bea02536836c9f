//! The protocol on the wire: messages, clients and servers, generated from the files in `proto/`.
//!
//! Knows nothing of the engine; the server maps between the two.

/// Package `flovyn.v1`.
#[allow(clippy::all, clippy::pedantic, missing_debug_implementations, unreachable_pub, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("flovyn.v1");
}

/// The compiled .proto files, for reflection and for checks that nothing is missing.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
