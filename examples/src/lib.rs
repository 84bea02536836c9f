//! The common part of all examples: the connection to the server of `flovyn dev`, and an exit code. Also the
//! [`patterns`].
//!
//! The server and the token come from `FLOVYN_GRPC_URL` and `FLOVYN_WORKER_TOKEN`, or else from
//! `.flovyn/credentials.json` in the current directory, which `flovyn dev` writes.

pub mod patterns;
pub mod shop;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{Client, Error, Result, Worker, WorkflowHandle};
use serde::Deserialize;

const CREDENTIALS: &str = ".flovyn/credentials.json";
/// Longer than any example takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The address and the credentials of the server.
#[derive(Debug, Clone, Deserialize)]
pub struct Connection {
    grpc_url: String,
    worker_token: String,
    #[serde(flatten)]
    rest: Option<Rest>,
}

/// The address and the token for REST.
#[derive(Debug, Clone, Deserialize)]
pub struct Rest {
    http_url: String,
    api_token: String,
    tenant: String,
}

impl Connection {
    fn find() -> Result<Self> {
        let variable = |name| std::env::var(name).ok();
        if let (Some(grpc_url), Some(worker_token)) =
            (variable("FLOVYN_GRPC_URL"), variable("FLOVYN_WORKER_TOKEN"))
        {
            return Ok(Self { grpc_url, worker_token, rest: None });
        }
        let text = std::fs::read_to_string(CREDENTIALS)
            .map_err(|error| Error::failed(format!("cannot read {CREDENTIALS}: {error}")))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// A client, which starts workflows and communicates with them.
    ///
    /// # Errors
    /// Fails if the URL or the token is not valid.
    pub fn client(&self) -> Result<Client> {
        Client::new(&self.grpc_url, &self.worker_token)
    }

    /// The settings for REST.
    ///
    /// # Errors
    /// Fails if there are none: only `credentials.json` has them.
    pub fn rest(&self) -> Result<&Rest> {
        self.rest.as_ref().ok_or_else(|| Error::failed(format!("{CREDENTIALS} is needed for REST")))
    }

    /// A builder for a worker.
    pub fn worker(&self) -> WorkerBuilder {
        Worker::builder(&self.grpc_url, &self.worker_token)
    }
}

/// Runs an example against the server.
pub fn run<F, R>(example: F) -> ExitCode
where
    F: FnOnce(Connection) -> R,
    R: Future<Output = Result<()>>,
{
    let run = || {
        let connection = Connection::find()?;
        tokio::runtime::Runtime::new()?.block_on(example(connection))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}\n\nIs the server running? In another terminal, in this directory:\n");
            eprintln!("    cargo run --release -- dev\n");
            ExitCode::FAILURE
        }
    }
}

/// Waits until `key` of the workflow's state has the value `value`.
///
/// # Errors
/// Fails if it takes longer than [`PATIENCE`], or the server cannot be reached.
pub async fn until_state<T>(workflow: &WorkflowHandle<T>, key: &str, value: &str) -> Result<()> {
    let reached = async {
        while workflow.query::<String>(key).await?.as_deref() != Some(value) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    let late = |_| Error::failed(format!("{key} has not become {value:?}"));
    tokio::time::timeout(PATIENCE, reached).await.map_err(late)?
}
