//! Invalid message bytes, and messages that are too large.

use tonic::Code;

use super::spoil::assert_goes_on;
use super::table::entries;
use super::wire::{CONNECT, call};
use super::world::World;
use crate::common::{Database, TOKEN, TestServer};

/// Field 1 as text with a length beyond the end; a group that never ends; a truncated key.
const GARBAGE: [&[u8]; 3] = [&[0x0A, 0x7F, 0x01], &[0x0B], &[0xFF; 11]];

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_the_call_and_nothing_else() {
    let world = World::new().await;
    let rows = world.rows().await;
    for entry in entries() {
        for bytes in GARBAGE {
            let outcome = call(&world.server, entry.path, vec![bytes.to_vec()], TOKEN).await;
            // tonic refuses these before Flovyn's code runs, so there is no Flovyn code.
            assert!(outcome.is(Code::Internal, ""), "{} with {bytes:?}: {outcome:?}", entry.path);
        }
    }
    assert_eq!(world.rows().await, rows);
    assert_goes_on(&world.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_over_four_mebibytes_is_out_of_range() {
    let server = TestServer::start(Database::Sqlite).await;
    // An unknown field with number 1000, so that only the size is invalid.
    let of = |size: usize| {
        let mut bytes = Vec::with_capacity(size);
        prost::encoding::encode_varint(1_000 << 3 | 2, &mut bytes);
        prost::encoding::encode_varint((size - 6) as u64, &mut bytes);
        bytes.resize(size, b'x');
        bytes
    };
    let path = "/flovyn.v1.WorkflowClient/ListExecutions";
    let outcome = call(&server, path, vec![of(4 << 20)], TOKEN).await;
    assert_eq!(outcome.grpc, Code::Ok, "{outcome:?}");
    for path in [path, CONNECT] {
        let outcome = call(&server, path, vec![of((4 << 20) + 1)], TOKEN).await;
        assert!(outcome.is(Code::OutOfRange, ""), "{path}: {outcome:?}");
    }
    assert_goes_on(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_does_not_exist_is_unimplemented() {
    let server = TestServer::start(Database::Sqlite).await;
    for path in ["/flovyn.v1.WorkflowClient/Nothing", "/flovyn.v1.Nothing/Nothing"] {
        let outcome = call(&server, path, vec![Vec::new()], TOKEN).await;
        assert_eq!(outcome.grpc, Code::Unimplemented, "{path}: {outcome:?}");
    }
    assert_goes_on(&server).await;
}
