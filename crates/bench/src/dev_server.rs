//! `flovyn dev` on free ports and in its own folder. It ends when its handle is dropped.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use tokio::process::{Child, Command};
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::e2e::beside_this_one;

pub(crate) const KIND: &str = "one-task";
const LOOK_EVERY: Duration = Duration::from_millis(1);
const START_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct DevServer {
    pub(crate) process: Child,
    pub(crate) credentials: Credentials,
    pub(crate) first_answer: Duration,
    _folder: tempfile::TempDir,
}

/// The addresses of the server and the credentials for it.
pub(crate) struct Credentials {
    pub(crate) grpc_url: String,
    pub(crate) http_url: String,
    pub(crate) tenant: String,
    pub(crate) worker_token: String,
    pub(crate) api_token: String,
}

impl DevServer {
    /// Starts the given binary. `None` means the `flovyn` binary beside this program.
    pub(crate) async fn start(binary: Option<PathBuf>) -> Result<Self, String> {
        let binary = binary.map_or_else(beside_this_one, Ok)?;
        let folder = crate::target::folder()?;
        let begin = Instant::now();
        let process = Command::new(&binary)
            .arg("dev")
            .arg("--data-dir")
            .arg(folder.path())
            .args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", binary.display()))?;
        let credentials = credentials(&folder.path().join("credentials.json"), begin).await?;
        let mut server = Self { process, credentials, first_answer: Duration::ZERO, _folder: folder };
        let mut client = server.client()?;
        client.start_workflow(server.signed(start())).await.map_err(|status| status.to_string())?;
        server.first_answer = begin.elapsed();
        Ok(server)
    }

    pub(crate) fn process_id(&self) -> Result<u32, String> {
        self.process.id().ok_or_else(|| "the server has ended".to_owned())
    }

    pub(crate) fn channel(&self) -> Result<Channel, String> {
        let endpoint =
            Endpoint::from_shared(self.credentials.grpc_url.clone()).map_err(|error| error.to_string())?;
        Ok(endpoint.connect_lazy())
    }

    pub(crate) fn client(&self) -> Result<WorkflowDispatchClient<Channel>, String> {
        Ok(WorkflowDispatchClient::new(self.channel()?))
    }

    pub(crate) fn signed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let value =
            format!("Bearer {}", self.credentials.worker_token).parse().expect("a token is plain ASCII");
        request.metadata_mut().insert("authorization", value);
        request
    }
}

pub(crate) fn start() -> v1::StartWorkflowRequest {
    v1::StartWorkflowRequest {
        workflow_kind: KIND.into(),
        input: "{}".into(),
        ..v1::StartWorkflowRequest::default()
    }
}

/// Waits for the credentials file, which the server writes as soon as it serves.
async fn credentials(file: &Path, begin: Instant) -> Result<Credentials, String> {
    while begin.elapsed() < START_WITHIN {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let values: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let value = |name: &str| values[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        if let (Some(grpc_url), Some(http_url), Some(tenant), Some(worker_token), Some(api_token)) =
            (value("grpc_url"), value("http_url"), value("tenant"), value("worker_token"), value("api_token"))
        {
            return Ok(Credentials { grpc_url, http_url, tenant, worker_token, api_token });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err("the server did not start: run it by hand with `flovyn dev` to see why".into())
}
