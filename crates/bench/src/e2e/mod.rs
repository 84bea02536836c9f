//! The whole product end to end: the real server in one process, a worker in another, and the load from this process.
//!
//! Everything goes through public interfaces: the worker and the client of the load are those of the SDK.

mod load;
mod process;
mod programs;
mod report;
mod single;
mod timers;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use self::process::ServerProcess;
pub(crate) use self::process::beside_this_one;
pub(crate) use self::programs::worker;
pub(crate) use self::report::runs;
use crate::figures::Line;
use crate::target::Database;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// A workflow that does nothing.
    Noop,
    /// One task.
    Task1,
    /// Three tasks, one after the other.
    Chain3,
    /// Three recorded steps inside the worker.
    Run3,
    /// A hundred concurrent tasks.
    Fanout100,
    /// A timer of 100 ms.
    Timer100ms,
    /// 10,000 standalone tasks, enqueued in bulk and then drained.
    Drain10k,
    /// The time from adding a standalone task to its start, on an idle server.
    Addstart,
    /// Replay of a workflow with 10,000 events on a worker that has not run it before.
    Replay10k,
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Task1 => "task1",
            Self::Chain3 => "chain3",
            Self::Run3 => "run3",
            Self::Fanout100 => "fanout100",
            Self::Timer100ms => "timer100ms",
            Self::Drain10k => "drain10k",
            Self::Addstart => "addstart",
            Self::Replay10k => "replay10k",
        }
    }

    /// Tasks of one workflow.
    fn tasks(self) -> usize {
        match self {
            Self::Task1 => 1,
            Self::Chain3 => 3,
            Self::Fanout100 => 100,
            _ => 0,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct E2e {
    /// Workloads to run; all by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Workflows in flight.
    #[arg(long, default_value_t = 256)]
    concurrency: usize,
    /// Seconds for each workload that runs for a time.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Finished executions in the database before anything is measured.
    #[arg(long, default_value_t = 0)]
    finished: usize,
    /// Bytes of input of each workflow. The workflow returns its input as its output.
    #[arg(long, default_value_t = 16)]
    payload: usize,
    /// Number of tenants. The workflows in flight are distributed among them, and each tenant has its own worker.
    #[arg(long, default_value_t = 1)]
    tenants: usize,
    /// Events of the replayed history.
    #[arg(long, default_value_t = 10_000)]
    events: usize,
    /// Seconds between the end of the load and the last measurement of the server's memory. The server releases unused
    /// memory after a while.
    #[arg(long, default_value_t = 15)]
    rest: u64,
    /// Run every workload, alone and with many in flight; print a table and write a plot to docs/images.
    #[arg(long)]
    all: bool,
    /// The server to run; by default the one beside this program.
    #[arg(long)]
    binary: Option<PathBuf>,
}

impl E2e {
    /// The default options, but without the pause after the load.
    pub(crate) fn short(binary: Option<PathBuf>, seconds: u64) -> Self {
        Self {
            workload: Vec::new(),
            concurrency: 1,
            seconds,
            finished: 0,
            payload: 16,
            tenants: 1,
            events: 10_000,
            rest: 0,
            all: false,
            binary,
        }
    }
}

pub(crate) fn progress_bar() -> Result<ProgressBar, String> {
    let style = ProgressStyle::with_template("{msg:<28} {bar:40} {pos}/{len} s");
    Ok(ProgressBar::new(0).with_style(style.map_err(|error| error.to_string())?))
}

pub(crate) async fn run(store: Database, options: E2e) -> Result<(), String> {
    let bar = progress_bar()?;
    let runs: Vec<(Workload, usize)> = match (options.all, options.workload.is_empty()) {
        (true, _) => report::runs(),
        (false, true) => Workload::value_variants().iter().map(|one| (*one, options.concurrency)).collect(),
        (false, false) => options.workload.iter().map(|one| (*one, options.concurrency)).collect(),
    };
    let mut lines = Vec::new();
    for (workload, concurrency) in runs {
        bar.reset();
        bar.set_message(format!("{} x {concurrency}", workload.name()));
        let line = one(store, &options, (workload, concurrency), Line::new("e2e"), &bar).await?.finish();
        bar.suspend(|| crate::print_line(&line));
        lines.push(line);
    }
    bar.finish_and_clear();
    if options.all { report::write(store, &lines) } else { Ok(()) }
}

/// Runs one workload on a fresh server, so that no run inherits the memory or the database of another. Adds the figures
/// to the line.
pub(crate) async fn one(
    store: Database,
    options: &E2e,
    (workload, concurrency): (Workload, usize),
    line: Line,
    bar: &ProgressBar,
) -> Result<Line, String> {
    let binary = options.binary.clone().map_or_else(beside_this_one, Ok)?;
    let fsync = process::bare_fsync()?;
    let server = ServerProcess::start(&binary, store, options.tenants).await?;
    let idle_mb = server.resident_mb();
    load::fill(&server, options.finished, bar).await?;
    let line = line.text("workload", workload.name()).text("store", store.name());
    let line = line.number("fsync_p50_ms", fsync.percentile_ms(50.0));
    let load = load::Load { workload, concurrency, seconds: options.seconds, payload: options.payload };
    let line = match workload {
        Workload::Drain10k => single::drain(&server, line).await?,
        Workload::Addstart => single::add_to_start(&server, line).await?,
        Workload::Replay10k => single::replay(&server, options.events, line).await?,
        _ => load::run(&server, load, line, bar).await?,
    };
    tokio::time::sleep(Duration::from_secs(options.rest)).await;
    let line = line.number("idle_rss_mb", idle_mb).number("after_rss_mb", server.resident_mb());
    server.stop().await?;
    Ok(line)
}
