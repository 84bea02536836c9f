//! People and programs with a JWT: what each role may do, and which tokens are invalid.

use flovyn_auth::{JwtKey, JwtSettings, JwtVerifier};
use flovyn_proto::v1;
use flovyn_server::config::Jwt;
use tempfile::TempDir;
use tonic::Code;

use super::table::entries;
use super::wire::{Outcome, call, send};
use super::world::World;
use crate::common::{Database, OTHER_TENANT, TENANT, TestServer};

const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
const FAR: i64 = 4_000_000_000;

fn signer(issuer: &str, audience: &str, secret: &[u8]) -> JwtVerifier {
    JwtVerifier::new(JwtSettings {
        key: JwtKey::Secret(secret.to_vec()),
        issuer: issuer.into(),
        audience: audience.into(),
        tenants_claim: "tenants".into(),
        role_claim: "role".into(),
    })
    .unwrap()
}

fn token(tenants: &[&str], role: &str) -> String {
    signer("issuer", "audience", SECRET).sign("somebody", tenants, role, 1, FAR).unwrap()
}

async fn world() -> (World, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, SECRET).unwrap();
    let jwt = Jwt::with_secret_file(path, "issuer", "audience");
    let server = TestServer::start_with(Database::Sqlite, |config| config.auth.jwt = Some(jwt)).await;
    (World::on(server).await, folder)
}

async fn get(world: &World, token: &str) -> Outcome {
    let message = v1::GetExecutionRequest {
        workflow_execution_id: world.ids.execution.clone(),
        ..v1::GetExecutionRequest::default()
    };
    send(&world.server, "WorkflowClient/GetExecution", &message, token).await
}

async fn cancel(world: &World, token: &str) -> Outcome {
    let message = v1::CancelExecutionRequest {
        workflow_execution_id: world.ids.execution.clone(),
        ..v1::CancelExecutionRequest::default()
    };
    send(&world.server, "WorkflowClient/CancelExecution", &message, token).await
}

fn is_forbidden(outcome: &Outcome) -> bool {
    outcome.is(Code::PermissionDenied, "FLV0081")
}

/// The methods that a viewer may call. All others need a higher role.
const READS: &[&str] = &[
    "GetVisualWorkflowDefinitionById",
    "GetEvents",
    "QueryWorkflow",
    "GetExecution",
    "ListExecutions",
    "WaitForResult",
    "GetTask",
    "WaitForTask",
];
/// The methods that only a worker may call, whatever the role.
const WORKERS: &[&str] = &[
    "PollWorkflow",
    "SubscribeToNotifications",
    "SubmitWorkflowCommands",
    "ReportExecutionSpans",
    "PollTask",
    "CompleteTask",
    "FailTask",
    "ReportProgress",
    "Heartbeat",
    "LogMessage",
    "StreamTaskData",
    "GetState",
    "SetState",
    "ClearState",
    "ClearAllState",
    "GetStateKeys",
    "RegisterWorker",
    "SendHeartbeat",
    "Connect",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_reads_and_does_nothing_else() {
    let (world, _folder) = world().await;
    let viewer = token(&["one"], "viewer");
    let rows = world.rows().await;
    for entry in entries() {
        let outcome = call(&world.server, entry.path, (entry.frames)(&world.ids), &viewer).await;
        let method = entry.path.rsplit('/').next().unwrap();
        if READS.contains(&method) {
            assert_eq!(outcome.grpc, entry.control, "{}: {outcome:?}", entry.path);
        } else {
            assert!(is_forbidden(&outcome) && outcome.frames.is_empty(), "{}: {outcome:?}", entry.path);
        }
        assert_eq!(world.rows().await, rows, "{} changed rows for a viewer", entry.path);
    }
    assert!(is_forbidden(&cancel(&world, &viewer).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jwt_is_no_worker_whatever_its_role() {
    let (world, _folder) = world().await;
    for role in ["operator", "admin", "server-admin"] {
        let token = token(&["one"], role);
        for entry in entries() {
            let method = entry.path.rsplit('/').next().unwrap();
            if WORKERS.contains(&method) {
                let outcome = call(&world.server, entry.path, (entry.frames)(&world.ids), &token).await;
                assert!(is_forbidden(&outcome), "{} as {role}: {outcome:?}", entry.path);
            }
        }
        assert_eq!(get(&world, &token).await.grpc, Code::Ok);
    }
    let operator = token(&["one"], "operator");
    let cancelled = cancel(&world, &operator).await;
    assert_eq!(cancelled.grpc, Code::Ok, "{cancelled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jwt_acts_for_its_own_tenants_only() {
    let (world, _folder) = world().await;
    let rows = world.rows().await;
    let (one, two) = (TENANT.to_string(), OTHER_TENANT.to_string());
    // By slug and by id.
    for own in ["one", &one] {
        assert_eq!(get(&world, &token(&[own], "viewer")).await.grpc, Code::Ok);
    }
    for other in ["two", &two] {
        let outcome = get(&world, &token(&[other], "admin")).await;
        assert!(outcome.is(Code::NotFound, "FLV0031"), "{outcome:?}");
        let start = v1::StartWorkflowRequest {
            org_id: one.clone(),
            workflow_kind: "kind".into(),
            ..v1::StartWorkflowRequest::default()
        };
        let token = token(&[other], "admin");
        let outcome = send(&world.server, "WorkflowDispatch/StartWorkflow", &start, &token).await;
        assert!(is_forbidden(&outcome), "{outcome:?}");
    }
    // No tenant; a tenant that does not exist; several tenants and none named.
    for tenants in [&[][..], &["three"], &[""], &["one", "two"], &["*"]] {
        let outcome = get(&world, &token(tenants, "admin")).await;
        assert!(is_forbidden(&outcome), "{tenants:?}: {outcome:?}");
    }
    assert_eq!(world.rows().await, rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_not_as_configured_are_refused() {
    let (world, _folder) = world().await;
    let good = signer("issuer", "audience", SECRET);
    let sign = |signer: &JwtVerifier| signer.sign("somebody", &["one"], "admin", 1, FAR).unwrap();
    let signed = sign(&good);
    let parts: Vec<&str> = signed.split('.').collect();
    // {"alg":"none","typ":"JWT"}
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    let body = good.sign("somebody", &["two"], "admin", 1, FAR).unwrap();
    let bad = [
        ("issuer", sign(&signer("other", "audience", SECRET))),
        ("audience", sign(&signer("issuer", "other", SECRET))),
        ("secret", sign(&signer("issuer", "audience", &[7; 32]))),
        ("expired", good.sign("somebody", &["one"], "admin", 1, 1_000).unwrap()),
        ("role", good.sign("somebody", &["one"], "king", 1, FAR).unwrap()),
        ("alg none", format!("{none}.{}.", parts[1])),
        ("alg none, signed", format!("{none}.{}.{}", parts[1], parts[2])),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("another body", format!("{}.{}.{}", parts[0], body.split('.').nth(1).unwrap(), parts[2])),
        ("dots", "..".to_owned()),
    ];
    for (what, token) in bad {
        let outcome = get(&world, &token).await;
        assert!(outcome.is(Code::Unauthenticated, "FLV0080"), "{what}: {outcome:?}");
        assert!(outcome.frames.is_empty());
    }
    assert_eq!(get(&world, &signed).await.grpc, Code::Ok);
}
