//! Benches of the engine and the stores in one process, and of the server over sockets. Each prints one JSON line on
//! stdout; progress goes to stderr. Figures are ratios of things measured in the same run where that is possible.

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

/// As in the `flovyn` binary, so that both are measured alike.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(about = "Benches of Flovyn's engine, storage and server")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The database to run on. PostgreSQL needs FLOVYN_TEST_POSTGRES, which `cargo xtask postgres --` sets.
    #[arg(long, value_enum, default_value_t = Database::Sqlite, global = true)]
    store: Database,
}

#[derive(Subcommand)]
enum Command {
    /// One-task workflows per second at 1, 16 and 256 clients, against the same row changes through the bare driver.
    Engine {
        /// Seconds for each number of clients, and as many for the raw driver.
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
    /// The `flovyn` binary: start, idle memory, waiting polls, and how soon one is answered.
    Server {
        /// The binary to run; by default the one beside this program.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
        #[arg(long, default_value_t = 1_000)]
        polls: usize,
        /// Seconds to watch the waiting polls.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Clients that stand still while a poll is held: what idle ones cost, and how long a chain of three tasks takes in one.
    Serial {
        /// The binary to run; by default the one beside this program.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
        #[arg(long, default_value_t = 100)]
        workers: usize,
        /// Seconds before the idle ones are watched: polls are held longer while nothing happens.
        #[arg(long, default_value_t = 60)]
        settle: u64,
        /// Seconds to watch them.
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        #[arg(long, default_value_t = 20)]
        chains: usize,
    },
    /// Server, worker and load as processes of their own: whole workflows per second, and how long one takes.
    E2e(e2e::E2e),
    /// The worker of `e2e`.
    #[command(hide = true)]
    E2eWorker {
        #[arg(long)]
        url: String,
        #[arg(long)]
        token: Vec<String>,
        /// Takes nothing before it is asked for results.
        #[arg(long)]
        paused: bool,
    },
    /// The workloads of `e2e` beside a busy core and beside a busy disk, in turns with quiet runs.
    Noise(noise::Noise),
    /// The noise of `noise`.
    #[command(hide = true)]
    NoiseHog {
        #[arg(long, value_enum)]
        kind: noise::Kind,
        /// The scratch file of the noise on the disk.
        #[arg(long)]
        file: std::path::PathBuf,
    },
    /// A page of executions out of very many, by each filter.
    Listing {
        #[arg(long, default_value_t = 1_000_000)]
        executions: usize,
    },
    /// Starts over REST against starts over gRPC, on the `flovyn` binary.
    Trigger {
        /// The binary to run; by default the one beside this program.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
        /// Rounds of each, in turns.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seconds for each.
        #[arg(long, default_value_t = 3)]
        seconds: u64,
    },
    /// CPU and memory with many waiting workflows and timers.
    Idle {
        #[arg(long, default_value_t = 100_000)]
        workflows: usize,
        /// Seconds to watch.
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
            eprintln!("the bench failed: {what}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the figures are the program's output")]
fn print_line(line: &str) {
    println!("{line}");
}
