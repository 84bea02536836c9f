//! `flovyn demo`: a server, a worker and one order in one process.
//!
//! - `order`: the workflow and its tasks, written like any user's. `workers`: the workers that run them.
//! - `walk`: starts an order and prints what happens. `screen`: how the output looks.

mod order;
mod screen;
mod walk;
mod workers;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use flovyn_server::config::Telemetry;
use flovyn_server::telemetry;
use serde_json::value::RawValue;
use tempfile::TempDir;

use self::order::{Purchase, approval_key};
use self::screen::Screen;
use self::walk::{Story, Walk, timer_name};
use self::workers::Workers;
use super::serving::{self, End};
use crate::client::Client;
use crate::local::{self, LocalServer, TENANT, write_secret};
use crate::terminal::{Paint, say};
use crate::view::pretty;
use crate::view::timeline::Timeline;

/// Much longer than an order takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// For `curl -H @FILE`: a token is long, and must not appear in the process list.
const AUTHORIZATION: &str = "auth";

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn demo
  flovyn demo --exit   # exits after the order; only its result goes to stdout")]
pub(crate) struct Demo {
    /// Directory for the database and the credentials. Default: a temporary directory that is deleted on exit.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Local address for HTTP. If the port is in use, a free port is used.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// Local address for gRPC. If the port is in use, a free port is used.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    grpc: SocketAddr,
    /// Exit after the order instead of keeping the server running.
    #[arg(long)]
    exit: bool,
}

impl Demo {
    pub(crate) async fn run(self) -> Result<(), String> {
        let log = Telemetry { log_filter: Some("error".to_owned()), ..Telemetry::default() };
        let telemetry = telemetry::install(&log).map_err(|error| error.to_string())?;
        let mut signals = serving::Signals::new()?;
        let home = Home::open(self.data_dir.as_deref())?;
        let options = local::Options { http: self.http, grpc: self.grpc, virtual_clock: false };
        let (local, in_use) = LocalServer::start_anywhere(home.path(), options).await?;
        let screen = Screen::new(Paint::for_stderr());
        introduce(&screen, &local, &home, &in_use);

        let mut workers = Workers::start(&local.credentials).map_err(|error| error.to_string())?;
        let shown = tokio::select! {
            shown = self.show(&local, &home, &screen, &mut workers) => shown.map(|()| None),
            end = serving::until_end(&local.server, &mut signals) => Ok(Some(end)),
        };
        let (end, outcome) = match shown {
            Ok(None) if self.exit => (End::Done, Ok(())),
            Ok(None) => (serving::until_end(&local.server, &mut signals).await, Ok(())),
            Ok(Some(end)) => (end, Err("interrupted before the order was completed".to_owned())),
            Err(what) => (End::Done, Err(what)),
        };
        workers.stop().await;
        serving::stop(local.server, telemetry, signals, end).await?;
        outcome
    }

    /// Runs one order and prints what happens.
    async fn show(
        &self,
        local: &LocalServer,
        home: &Home,
        screen: &Screen,
        workers: &mut Workers,
    ) -> Result<(), String> {
        let credentials = &local.credentials;
        let client = Client::new(&credentials.http_url, TENANT, &credentials.api_token)?;
        let walk = Walk { client: &client, screen, workers, purchase: purchase() };
        let late = |_| format!("the order has not ended within {PATIENCE:?}: is this machine very busy?");
        let story = tokio::time::timeout(PATIENCE, walk.run()).await.map_err(late)??;
        screen.heading("Timeline");
        let events: Vec<_> = story.events.iter().collect();
        for line in Timeline::new(&events, &story.work, timer_name, 0).lines(screen.paint, None) {
            say(&line);
        }
        screen.heading("Result");
        print(story.output.as_deref()).map_err(|error| format!("cannot write the result: {error}"))?;
        if !self.exit {
            look_around(screen, &client, local, home, &story)?;
        }
        Ok(())
    }
}

/// The directory for the data of the demo.
enum Home {
    Given(PathBuf),
    Temporary(TempDir),
}

impl Home {
    fn open(given: Option<&Path>) -> Result<Self, String> {
        match given {
            Some(path) => Ok(Self::Given(path.to_owned())),
            None => tempfile::Builder::new().prefix("flovyn-demo-").tempdir().map(Self::Temporary).map_err(
                |error| format!("cannot create a temporary directory: {error}; choose one with --data-dir"),
            ),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

fn introduce(screen: &Screen, local: &LocalServer, home: &Home, in_use: &[SocketAddr]) {
    let credentials = &local.credentials;
    let kept = match home {
        Home::Given(_) => "kept",
        Home::Temporary(_) => "removed at the end",
    };
    screen.heading("flovyn demo: one order, from the card to the parcel");
    screen.plain(&format!("Web UI  {}/ (signed in)", credentials.http_url));
    screen.plain(&format!("REST    {}/api/tenants/{TENANT}", credentials.http_url));
    screen.plain(&format!("gRPC    {}, for the worker in this process", credentials.grpc_url));
    for address in in_use {
        screen.plain(&format!("        ({address} is in use, so a free port was chosen)"));
    }
    screen.plain(&format!("Data    {}, {kept}", home.path().display()));
    say("");
}

fn purchase() -> Purchase {
    // Unique, also in a directory that is kept: only one demo at a time uses the directory, and it takes more than a
    // second.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Purchase { id: format!("order-{now}"), item: "espresso machine".into(), price: 749 }
}

/// Only the result is data, so nothing else goes to stdout.
fn print(value: Option<&RawValue>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", pretty::indented(value.map_or("null", RawValue::get)))?;
    out.flush()
}

/// Commands to try while the server runs, ready to copy.
fn look_around(
    screen: &Screen,
    client: &Client,
    local: &LocalServer,
    home: &Home,
    story: &Story,
) -> Result<(), String> {
    let credentials = &local.credentials;
    let file = home.path().join(AUTHORIZATION);
    write_secret(&file, format!("Authorization: Bearer {}\n", credentials.api_token).as_bytes())?;
    let file = std::path::absolute(&file).unwrap_or(file);
    // Commands find the default folder without an option.
    let named = match home.path() == Path::new(".flovyn") {
        true => String::new(),
        false => format!(" --data-dir {}", home.path().display()),
    };
    // No comments after the commands, because an interactive zsh takes them for arguments.
    screen.heading(&format!(
        "Server and worker keep running. To explore them, open in a browser: {}/",
        credentials.http_url
    ));
    say(&format!(
        "  In another terminal, start an order of your own. It waits until you approve it:\n\n    \
         flovyn workflow show{named} {id}\n    \
         flovyn workflow start{named} order \\\n      \
         --input '{{\"id\": \"mine\", \"item\": \"lamp\", \"price\": 40}}'\n    \
         flovyn promise resolve{named} key:{key} --value '{{\"by\": \"me\"}}'\n    \
         flovyn workflow list{named}\n\n  \
         The same over HTTP:\n\n    \
         API={api}\n    \
         AUTH=@{file}\n    \
         ID={id}\n    \
         curl -H $AUTH $API/workflow-executions/$ID\n    \
         curl -H $AUTH $API/workflow-executions/$ID/events\n    \
         curl {url}/_/metrics\n\n  \
         Press Ctrl-C to stop.\n",
        api = client.base(),
        url = credentials.http_url,
        file = file.display(),
        id = story.execution_id,
        key = approval_key("mine"),
    ));
    Ok(())
}
