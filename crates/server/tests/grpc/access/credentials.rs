//! Every rpc with every kind of invalid credential.

use flovyn_auth::hash_token;
use flovyn_engine::Reply;
use flovyn_engine::request::{CreateWorkerToken, RevokeWorkerToken};
use tonic::Code;
use uuid::Uuid;

use super::table::entries;
use super::wire::{call, call_with_header};
use super::world::World;
use crate::common::{TENANT, TOKEN, TestServer};

async fn create(server: &TestServer, token: &str, expires_ms: Option<i64>) -> Uuid {
    let create = CreateWorkerToken { name: "made".into(), hash: hash_token(token), expires_ms };
    match server.server.api().service().call(TENANT, create).await.unwrap() {
        Reply::WorkerToken(row) => row.id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_without_a_valid_credential() {
    let world = World::new().await;
    let server = &world.server;
    let revoked = "fwt_revoked-0123456789abcdef0123456789abcdef";
    let expired = "fwt_expired-0123456789abcdef0123456789abcdef";
    let token_id = create(server, revoked, None).await;
    create(server, expired, Some(1)).await;
    // The token was valid before, so the server must forget it on revocation.
    let entry = &entries()[0];
    let before = call(server, entry.path, (entry.frames)(&world.ids), revoked).await;
    assert_eq!(before.grpc, Code::Ok, "{}", before.message);
    let api = server.server.api();
    api.service().call(TENANT, RevokeWorkerToken { token_id }).await.unwrap();
    api.worker_tokens().forget_all();

    let headers = [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some("Bearer  ".to_owned()),
        Some("Bearer junk".to_owned()),
        Some(format!("Basic {TOKEN}")),
        Some(TOKEN.to_owned()),
        Some(format!("Bearer {TOKEN}x")),
        Some(format!("Bearer {}", &TOKEN[..TOKEN.len() - 1])),
        Some(format!("Bearer {}", TOKEN.to_uppercase())),
        Some(format!("Bearer {}", "x".repeat(4_000))),
        // No JWTs are configured, so text that looks like one is invalid too.
        Some("Bearer eyJhbGciOiJub25lIn0.e30.".to_owned()),
        Some(format!("Bearer {revoked}")),
        Some(format!("Bearer {expired}")),
    ];
    let rows = world.rows().await;
    for entry in entries() {
        for header in &headers {
            let frames = (entry.frames)(&world.ids);
            let outcome = call_with_header(server, entry.path, frames, header.as_deref()).await;
            let expected = outcome.is(Code::Unauthenticated, "FLV0080");
            assert!(expected && outcome.frames.is_empty(), "{} with {header:?}: {outcome:?}", entry.path);
            assert!(!outcome.contains("fwt_"), "{}: a credential comes back: {outcome:?}", entry.path);
        }
        assert_eq!(world.rows().await, rows, "{} changed rows without a credential", entry.path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_the_table_succeeds_for_whom_it_is_meant() {
    for entry in entries() {
        // Each entry has its own world, because an entry may finish resources that the next one names.
        let world = World::new().await;
        let outcome = call(&world.server, entry.path, (entry.frames)(&world.ids), TOKEN).await;
        assert_eq!(outcome.grpc, entry.control, "{}: {outcome:?}", entry.path);
        if outcome.grpc == Code::Ok && !outcome.frames[0].is_empty() {
            continue;
        }
        // Reads and claims must return something; otherwise the table proves nothing about invalid callers.
        let reads = ["Poll", "Get", "List", "Query", "Wait", "Subscribe", "Connect"];
        let method = entry.path.rsplit('/').next().unwrap();
        let quiet = ["GetState", "GetStateKeys", "GetVisualWorkflowDefinitionById"].contains(&method);
        assert!(quiet || !reads.iter().any(|read| method.starts_with(read)), "{} is empty", entry.path);
    }
}

/// Health needs no credential; reflection does.
#[tokio::test(flavor = "multi_thread")]
async fn reflection_needs_a_credential_and_health_does_not() {
    const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    const HEALTH: &str = "/grpc.health.v1.Health/Check";
    // `list_services`, field 7, with an empty text.
    let list_services = || vec![vec![0x3A, 0x00]];
    let server = TestServer::start(crate::common::Database::Sqlite).await;
    let stranger = call_with_header(&server, REFLECTION, list_services(), None).await;
    assert!(stranger.is(Code::Unauthenticated, "FLV0080"), "{}", stranger.message);
    let known = call(&server, REFLECTION, list_services(), TOKEN).await;
    assert!(known.contains("flovyn.v1.WorkerStream"), "{}", known.message);
    let health = call_with_header(&server, HEALTH, vec![Vec::new()], None).await;
    assert_eq!(health.grpc, Code::Ok, "{}", health.message);
}
