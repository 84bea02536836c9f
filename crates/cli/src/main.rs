//! The `flovyn` binary: one file per command in `commands`. Data goes to stdout, all else to stderr.

// `eprintln!` panics if stderr is closed. `terminal::say` does not, so use that instead.
#![warn(clippy::print_stderr)]

mod client;
mod commands;
mod exit;
mod follow;
mod help;
mod input;
mod local;
mod memory;
mod remote;
mod terminal;
mod view;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::noun::Noun;
use crate::exit::Failure;

#[derive(Parser)]
#[command(
    name = "flovyn",
    version,
    about = "A durable workflow engine in one binary",
    after_help = "\
Examples:
  flovyn demo                         see it work
  flovyn dev                          a server on this machine; then, in another terminal there:
  flovyn workflow start KIND --wait   start a workflow and print its output
  flovyn workflow list                list executions and their outcomes

Commands that call a server take its address, tenant and token from --url, --tenant and --token,
from FLOVYN_URL, FLOVYN_TENANT and FLOVYN_TOKEN, from a profile (--profile or FLOVYN_PROFILE),
or from the `flovyn dev` of this folder. Data goes to stdout, everything else to stderr.
NO_COLOR is honoured.

Exit codes: 0 success, 1 other failure, 2 invalid arguments or input, 3 not found,
4 not authorised, 5 conflict with the current state, 6 server unavailable (retry later),
7 the execution or task failed or was cancelled, 8 timed out while waiting. The help of each
command lists the codes of --wait and --follow."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "the process creates a single value")]
enum Command {
    /// Run a demonstration: a server, a worker and one order, in about seven seconds.
    Demo(commands::demo::Demo),
    /// Run a server on this machine for development: one command, no configuration.
    Dev(commands::dev::Dev),
    /// Run a server that is configured by a file, by environment variables, or by both.
    Server(commands::server::Server),
    /// Start workflows; inspect, signal, cancel and retry executions.
    Workflow(Noun<commands::workflow::Workflow>),
    /// Create standalone tasks; inspect tasks, their attempts and logs.
    Task(Noun<commands::task::Task>),
    /// Resolve or reject promises that workflows wait for.
    Promise(Noun<commands::promise::Promise>),
    /// List queues and their pending work; pause and resume queues.
    Queue(Noun<commands::queue::Queue>),
    /// List workers.
    Worker(Noun<commands::worker::Worker>),
    /// Create and show tenants.
    Tenant(Noun<commands::tenant::Tenant>),
    /// Create, list and revoke worker tokens.
    Token(Noun<commands::token::Token>),
    /// Advance the time of a server with a virtual clock.
    Clock(Noun<commands::clock::Clock>),
    /// Create the database if it does not exist, and bring its schema up to date.
    Migrate(commands::migrate::Migrate),
    /// Check a database for integrity violations; --repair releases orphaned work.
    ///
    /// A server may use the database during the check. To repair an embedded database, stop its server first.
    ///
    /// Exit codes: 0 no findings are left, 1 findings are left, 2 the database could not be checked.
    Doctor(commands::doctor::Doctor),
    /// Copy an embedded database into a file, even while a server is using it.
    Backup(commands::backup::Backup),
    /// Restore a copy made by `flovyn backup` into a new data directory.
    Restore(commands::restore::Restore),
    /// Generate keys for programs that call the REST API.
    #[command(subcommand)]
    ApiKey(commands::api_key::ApiKey),
    /// Print a shell script that completes commands and options.
    Completions(commands::completions::Completions),
}

fn main() -> ExitCode {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    match builder.enable_all().on_thread_park(memory::thread_rests).build() {
        Ok(runtime) => runtime.block_on(run()),
        Err(error) => {
            Failure::from(format!("cannot start threads: {error}; raise the thread limit of this process"))
                .end()
        }
    }
}

async fn run() -> ExitCode {
    let matches = help::grouped(Arguments::command()).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = match arguments.command {
        Command::Demo(demo) => demo.run().await.map_err(Failure::from),
        Command::Dev(dev) => dev.run().await.map_err(Failure::from),
        Command::Server(server) => server.run().await.map_err(Failure::from),
        Command::Workflow(workflow) => workflow.run().await,
        Command::Task(task) => task.run().await,
        Command::Promise(promise) => promise.run().await,
        Command::Queue(queue) => queue.run().await,
        Command::Worker(worker) => worker.run().await,
        Command::Tenant(tenant) => tenant.run().await,
        Command::Token(token) => token.run().await,
        Command::Clock(clock) => clock.run().await,
        Command::Migrate(migrate) => migrate.run().await.map_err(Failure::from),
        Command::Doctor(doctor) => return doctor.run().await,
        Command::Backup(backup) => backup.run().await.map_err(Failure::from),
        Command::Restore(restore) => restore.run().await.map_err(Failure::from),
        Command::ApiKey(api_key) => api_key.run().map_err(Failure::from),
        Command::Completions(completions) => completions.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.end(),
    }
}
