//! Bytes that are no message, and messages that are too large.

use tonic::Code;

use super::spoil::assert_goes_on;
use super::table::entries;
use super::wire::{CONNECT, call};
use super::world::World;
use crate::common::{Database, TOKEN, TestServer};

/// Field 1 as text that is longer than what follows; a group that never ends; a key cut short.
const GARBAGE: [&[u8]; 3] = [&[0x0A, 0x7F, 0x01], &[0x0B], &[0xFF; 11]];

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_the_call_and_nothing_else() {
    let world = World::new().await;
    let rows = world.rows().await;
    for entry in entries() {
        for bytes in GARBAGE {
            let outcome = call(&world.server, entry.path, vec![bytes.to_vec()], TOKEN).await;
            // tonic says so before anything of ours is asked: there is no code of ours.
            assert!(outcome.is(Code::Internal, ""), "{} with {bytes:?}: {outcome:?}", entry.path);
        }
    }
    assert_eq!(world.rows().await, rows);
    assert_goes_on(&world.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_over_four_mebibytes_is_out_of_range() {
    let server = TestServer::start(Database::Sqlite).await;
    // An unknown field, so that only the size is wrong: number 1000, with this many bytes.
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
