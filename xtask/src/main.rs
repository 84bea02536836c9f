//! The repository's own commands, run as `cargo xtask COMMAND`.
//!
//! This file only parses the command line. All messages go to stderr, so that the stdout of a command that is run for
//! its output (`cargo xtask postgres -- ...`) stays clean.

mod bench_compare;
mod browser;
mod chaos;
mod fuzz;
mod postgres;
mod python;
mod run;
mod signal;
mod sim;
mod test;
mod tidy;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The error says why a command failed, as a sentence for the person at the terminal.
type Outcome<T> = Result<T, String>;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "The repository's own commands")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check and every test, on a throw-away PostgreSQL cluster
    Test {
        /// Skip clippy and the documentation tests
        #[arg(long)]
        quick: bool,
    },
    /// Run the checks that are specific to this repository
    Tidy,
    /// Kill, stop and cut off real servers and workers, and check that every promise holds
    Chaos(chaos::ChaosArgs),
    /// Load a server while a transaction or a read never ends, and print latencies and the server's memory
    Soak(chaos::SoakArgs),
    /// Run the workloads of another commit and of this checkout alternately, and print the ratios of their figures
    BenchCompare(bench_compare::BenchCompareArgs),
    /// Run the simulator
    Sim(sim::SimArgs),
    /// Send generated requests and hostile request bodies to the real server
    Fuzz(fuzz::FuzzArgs),
    /// Run the Python client's tests against the real server, on both databases
    Python {
        /// Arguments of pytest, after `--`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run a command with FLOVYN_TEST_POSTGRES naming a throw-away PostgreSQL cluster
    Postgres {
        /// The command and its arguments, after `--`
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = signal::install().and_then(|()| match cli.task {
        Task::Test { quick } => test::run(quick),
        Task::Tidy => tidy::run(),
        Task::Chaos(args) => chaos::run(&args),
        Task::Soak(args) => chaos::soak(&args),
        Task::BenchCompare(args) => bench_compare::run(&args),
        Task::Sim(args) => sim::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Python { arguments } => python::run(&arguments),
        Task::Postgres { command } => postgres::run_with_cluster(&command),
    });
    // Returns instead of calling `process::exit`, so that every guard has been dropped by now.
    match outcome {
        Ok(code) => code,
        Err(why) => {
            run::say(&format!("error: {why}"));
            signal::exit_code().unwrap_or(ExitCode::FAILURE)
        }
    }
}
