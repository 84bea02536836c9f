//! Benchmarks of the engine and the stores in one process, and of the server over sockets. Each benchmark prints one
//! JSON line on stdout; progress goes to stderr. Where possible, a figure is the ratio of two values that were measured
//! in the same run.

mod backlog;
mod dev_server;
mod e2e;
mod engine;
mod figures;
mod idle;
mod listing;
mod noise;
mod raw;
mod serial;
mod server;
mod target;
mod trigger;
mod worker;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::target::Database;

/// The same allocator as in the `flovyn` binary, so that both are measured alike.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: flovyn_allocator::Jemalloc = flovyn_allocator::Jemalloc;

#[derive(Parser)]
#[command(about = "Benchmarks of Flovyn's engine, storage and server")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The database to run on. PostgreSQL needs FLOVYN_TEST_POSTGRES, which `cargo xtask postgres --` sets.
    #[arg(long, value_enum, default_value_t = Database::Sqlite, global = true)]
    store: Database,
}

#[derive(Subcommand)]
enum Command {
    /// One-task workflows per second at 1, 16 and 256 clients, compared with writing the same row changes through the
    /// bare database driver.
    Engine {
        /// Seconds for each number of clients, and as many again for the bare driver.
        #[arg(long, default_value_t = 9)]
        seconds: u64,
        /// Numbers of concurrent clients.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256])]
        clients: Vec<usize>,
    },
    /// Claim latency with a small and with a large backlog of pending tasks.
    Backlog {
        #[arg(long, default_value_t = 1_000)]
        small: usize,
        #[arg(long, default_value_t = 1_000_000)]
        large: usize,
    },
    /// The `flovyn` binary: start-up time, idle memory, cost of waiting polls, and latency of the answer to a waiting
    /// poll.
    Server {
        /// The binary to run; by default the one beside this program.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
        #[arg(long, default_value_t = 1_000)]
        polls: usize,
        /// Seconds to measure the waiting polls.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Clients that can do nothing else while their poll is held: the CPU cost of idle clients, and the latency of a
    /// chain of three tasks.
    Serial {
        /// The binary to run; by default the one beside this program.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
        #[arg(long, default_value_t = 100)]
        workers: usize,
        /// Seconds to wait before the idle clients are measured. The server holds polls longer while nothing happens.
        #[arg(long, default_value_t = 60)]
        settle: u64,
        /// Seconds to measure the idle clients.
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        #[arg(long, default_value_t = 20)]
        chains: usize,
    },
    /// Server, worker and load as separate processes: workflows per second and latency.
    E2e(e2e::E2e),
    /// The worker of `e2e`.
    #[command(hide = true)]
    E2eWorker {
        #[arg(long)]
        url: String,
        #[arg(long)]
        token: Vec<String>,
        /// Take no task before a line with the number of wanted results arrives on standard input.
        #[arg(long)]
        paused: bool,
    },
    /// The workloads of `e2e` beside a process that keeps one core busy and beside one that keeps the disk busy,
    /// alternating with quiet runs.
    Noise(noise::Noise),
    /// The process that makes the noise for `noise`.
    #[command(hide = true)]
    NoiseHog {
        #[arg(long, value_enum)]
        kind: noise::Kind,
        /// The scratch file of the disk noise.
        #[arg(long)]
        file: std::path::PathBuf,
    },
    /// Latency of one page of executions in a very large table, for each filter.
    Listing {
        #[arg(long, default_value_t = 1_000_000)]
        executions: usize,
    },
    /// Starts over REST against starts over gRPC, on the `flovyn` binary.
    Trigger {
        /// The binary to run; by default the one beside this program.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
        /// Rounds of each, alternating.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seconds for each.
        #[arg(long, default_value_t = 3)]
        seconds: u64,
    },
    /// CPU and memory of an idle service with many waiting workflows and timers.
    Idle {
        #[arg(long, default_value_t = 100_000)]
        workflows: usize,
        /// Seconds to measure.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::E2e(options) => e2e::run(arguments.store, options).await.map(|()| None),
        Command::E2eWorker { url, token, paused } => e2e::worker(&url, &token, paused).await.map(|()| None),
        Command::Noise(options) => noise::run(arguments.store, options).await.map(|()| None),
        Command::NoiseHog { kind, file } => noise::hog(kind, &file).map(|()| None),
        Command::Engine { seconds, clients } => {
            engine::run(arguments.store, seconds, &clients).await.map(Some)
        }
        Command::Backlog { small, large } => backlog::run(arguments.store, small, large).await.map(Some),
        Command::Server { binary, polls, seconds } => server::run(binary, polls, seconds).await.map(Some),
        Command::Serial { binary, workers, settle, seconds, chains } => {
            serial::run(binary, workers, settle, seconds, chains).await.map(Some)
        }
        Command::Idle { workflows, seconds } => {
            idle::run(arguments.store, workflows, seconds).await.map(Some)
        }
        Command::Listing { executions } => listing::run(arguments.store, executions).await.map(Some),
        Command::Trigger { binary, rounds, seconds } => trigger::run(binary, rounds, seconds).await.map(Some),
    };
    match result {
        Ok(line) => {
            line.iter().for_each(|line| print_line(line));
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("the benchmark failed: {what}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the figures are the program's output")]
fn print_line(line: &str) {
    println!("{line}");
}
