//! Credentials for several tenants: a call whose message names no tenant names it in the metadata. Also with API keys.

use flovyn_auth::hash_api_key;
use flovyn_proto::v1;
use flovyn_server::config::ApiKeyConfig;
use prost::Message;
use tonic::Code;

use super::wire::{Outcome, call_with_headers};
use super::world::World;
use crate::common::{Database, OTHER_TENANT, TENANT, TOKEN, TestServer};

fn key(name: &str, tenants: &[&str], role: &str) -> ApiKeyConfig {
    ApiKeyConfig {
        name: name.to_owned(),
        sha256: hash_api_key(&format!("flv_{name}")).iter().map(|byte| format!("{byte:02x}")).collect(),
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        role: role.to_owned(),
        expires_at: None,
    }
}

async fn world(database: Database) -> World {
    let server = TestServer::start_with(database, |config| {
        config.auth.api_keys = vec![
            key("one", &["one"], "operator"),
            key("both", &["one", "two"], "operator"),
            key("all", &["*"], "operator"),
            key("viewer", &["one", "two"], "viewer"),
        ];
    });
    World::on(server.await).await
}

/// Sends a call with the credential and, if given, the tenant in the metadata.
async fn get(world: &World, token: &str, tenant: Option<&str>) -> Outcome {
    let message = v1::GetExecutionRequest {
        workflow_execution_id: world.ids.execution.clone(),
        ..v1::GetExecutionRequest::default()
    };
    let bearer = format!("Bearer {token}");
    let mut headers = vec![("authorization", bearer.as_str())];
    headers.extend(tenant.map(|tenant| ("flovyn-tenant", tenant)));
    let path = "/flovyn.v1.WorkflowClient/GetExecution";
    call_with_headers(&world.server, path, vec![message.encode_to_vec()], &headers).await
}

async fn start(world: &World, org_id: &str, tenant: Option<&str>) -> Outcome {
    let message = v1::StartWorkflowRequest {
        org_id: org_id.to_owned(),
        workflow_kind: "kind".into(),
        ..v1::StartWorkflowRequest::default()
    };
    let mut headers = vec![("x-api-key", "flv_both")];
    headers.extend(tenant.map(|tenant| ("flovyn-tenant", tenant)));
    let path = "/flovyn.v1.WorkflowDispatch/StartWorkflow";
    call_with_headers(&world.server, path, vec![message.encode_to_vec()], &headers).await
}

async fn named_beside(world: World) {
    let (one, two) = (TENANT.to_string(), OTHER_TENANT.to_string());
    for key in ["flv_both", "flv_all", "flv_viewer"] {
        for tenant in ["one", one.as_str()] {
            assert_eq!(get(&world, key, Some(tenant)).await.grpc, Code::Ok, "{key} {tenant}");
        }
        // The caller's other tenant has no such execution.
        for tenant in ["two", two.as_str()] {
            assert!(get(&world, key, Some(tenant)).await.is(Code::NotFound, "FLV0031"), "{key} {tenant}");
        }
        for tenant in [None, Some(""), Some("three")] {
            let outcome = get(&world, key, tenant).await;
            assert!(outcome.is(Code::PermissionDenied, "FLV0081"), "{key} {tenant:?}: {outcome:?}");
        }
    }
    // A credential for one tenant need not name it, and cannot name another.
    for token in ["flv_one", TOKEN] {
        assert_eq!(get(&world, token, None).await.grpc, Code::Ok);
        assert_eq!(get(&world, token, Some("one")).await.grpc, Code::Ok);
        for tenant in ["two", two.as_str(), "three"] {
            let outcome = get(&world, token, Some(tenant)).await;
            assert!(outcome.is(Code::PermissionDenied, "FLV0081"), "{token} {tenant}: {outcome:?}");
        }
    }
    // A tenant that is named in both places must be the same.
    assert_eq!(start(&world, &one, Some("one")).await.grpc, Code::Ok);
    assert_eq!(start(&world, &one, None).await.grpc, Code::Ok);
    for (org_id, tenant) in [(&one, "two"), (&two, "one"), (&one, "three")] {
        let outcome = start(&world, org_id, Some(tenant)).await;
        assert!(outcome.is(Code::PermissionDenied, "FLV0081"), "{org_id} {tenant}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn named_beside_on_sqlite() {
    named_beside(world(Database::Sqlite).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn named_beside_on_postgres() {
    named_beside(world(Database::Postgres).await).await;
}
