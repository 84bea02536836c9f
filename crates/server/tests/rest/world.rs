//! A server with JWTs configured, and a client that calls it.

use flovyn_auth::JwtVerifier;
use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use flovyn_server::config::Jwt;
use flovyn_server::{Config, Server, ServerOptions};
use serde_json::Value;
use tempfile::TempDir;

use crate::app::{command, complete};
use crate::common::{Database, TestServer};
use crate::http::{Answer, Http};
use crate::worker::Worker;

const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
/// A time in the year 2096.
pub(crate) const FAR: i64 = 4_000_000_000;

pub(crate) struct World {
    pub(crate) server: TestServer,
    pub(crate) http: Http,
    pub(crate) admin: String,
    pub(crate) jwt: JwtVerifier,
    _secret: TempDir,
}

impl World {
    pub(crate) async fn start(database: Database) -> Self {
        Self::start_with(database, |_| {}).await
    }

    /// Starts with a changed configuration.
    pub(crate) async fn start_with(database: Database, change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, SECRET).unwrap();
        let config = Jwt::with_secret_file(path, "issuer", "audience");
        let jwt = config.verifier().unwrap();
        let set_up = |whole: &mut Config| {
            whole.auth.jwt = Some(config);
            change(whole);
        };
        let server = TestServer::start_with(database, set_up).await;
        let http = Http::new(server.server.http_addr());
        let admin = jwt.sign("somebody", &["one"], "admin", 1, FAR).unwrap();
        Self { server, http, admin, jwt, _secret: folder }
    }

    /// Another server on the same database.
    pub(crate) async fn second_server(&self) -> Server {
        Server::start(ServerOptions::new(self.server.config.clone())).await.unwrap()
    }

    pub(crate) fn token(&self, tenants: &[&str], role: &str) -> String {
        self.jwt.sign("somebody", tenants, role, 1, FAR).unwrap()
    }

    /// Calls any path with any credential.
    pub(crate) async fn call(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.http.send(method, path, &[("authorization", &bearer)], body.to_owned()).await
    }

    async fn own(&self, method: &str, path: &str, body: &str) -> Answer {
        self.call(&self.admin, method, &format!("/api/tenants/one{path}"), body).await
    }

    /// Reads a path below tenant one, as its administrator.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.own("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.own("POST", path, &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.own("DELETE", path, "").await
    }

    /// Sets the limits of tenant one.
    pub(crate) async fn limit(&self, limits: &Value) -> Value {
        let root = self.token(&["*"], "server-admin");
        self.call(&root, "PUT", "/api/tenants/one/quota", &limits.to_string()).await.ok(200)
    }

    /// Starts an execution of the kind that the worker supports.
    pub(crate) async fn start_order(&self) -> String {
        let body = self.own("POST", "/workflows/order/trigger", r#"{"input":{"order":1}}"#).await.ok(201);
        text(&body["workflowExecutionId"])
    }

    pub(crate) async fn executions(&self) -> usize {
        let body = self.get("/workflow-executions?limit=100").await.ok(200);
        body["executions"].as_array().unwrap().len()
    }
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// A time in a year, without fractions of a second.
pub(crate) fn in_a_year() -> String {
    let seconds = jiff::Timestamp::now().as_second() + 365 * 86_400;
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

/// The names of an object's fields, sorted.
pub(crate) fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Fails the next execution in its next activation.
pub(crate) async fn fail_next(worker: &mut Worker) {
    let data = v1::FailWorkflowCommand { error: "broken".into(), ..v1::FailWorkflowCommand::default() };
    let fail = command(v1::CommandType::FailWorkflow, CommandData::FailWorkflow(data));
    end_next(worker, fail, v1::WorkflowStatus::Failed).await;
}

pub(crate) async fn complete_next(worker: &mut Worker, output: &str) {
    end_next(worker, complete(output), v1::WorkflowStatus::Completed).await;
}

/// Ends the next execution, however many signals arrive in between.
async fn end_next(worker: &mut Worker, end: v1::WorkflowCommand, status: v1::WorkflowStatus) {
    loop {
        let activation = worker.activation().await;
        let ack = worker.submit(&activation, vec![end.clone()], status).await;
        match ack.code.as_str() {
            "" => return,
            "FLV0063" => {}
            code => panic!("{code}: {}", ack.message),
        }
    }
}

/// Runs each test on both databases.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::world::World::start($crate::common::Database::Sqlite).await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::world::World::start($crate::common::Database::Postgres).await).await;
            })*
        }
    };
}
pub(crate) use on_both;
