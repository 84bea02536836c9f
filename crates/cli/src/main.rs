//! The `flovyn` binary: one file per command in `commands`. Data goes to stdout, all else to stderr.

// Whoever has closed stderr makes these panic: `terminal::say` does not.
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
  flovyn workflow list                what runs, and what became of it

Commands that call a server take it from --url, --tenant and --token, from FLOVYN_URL,
FLOVYN_TENANT and FLOVYN_TOKEN, from a profile (--profile or FLOVYN_PROFILE), or from the
`flovyn dev` of this folder. Data goes to stdout, all else to stderr; NO_COLOR is honoured.

Exit codes: 0 done, 1 failed, 2 wrong arguments or input, 3 not found, 4 not allowed,
5 the state does not allow it, 6 no answer or try later, 7 it ended without completing,
8 it did not end in time. Those of --wait and --follow are with their commands."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it is made once")]
enum Command {
    /// See it work: a server, a worker and one order, in about seven seconds.
    Demo(commands::demo::Demo),
    /// Run a server on this machine for development: one command, no configuration.
    Dev(commands::dev::Dev),
    /// Run a server with a configuration.
    Server(commands::server::Server),
    /// Start workflows, look at executions and act on them.
    Workflow(Noun<commands::workflow::Workflow>),
    /// Create standalone tasks; look at tasks, their attempts and logs.
    Task(Noun<commands::task::Task>),
    /// Answer what a workflow waits for.
    Promise(Noun<commands::promise::Promise>),
    /// See what waits in queues; pause and resume them.
    Queue(Noun<commands::queue::Queue>),
    /// See who works.
    Worker(Noun<commands::worker::Worker>),
    /// Make and show tenants.
    Tenant(Noun<commands::tenant::Tenant>),
    /// Make, list and revoke credentials of workers.
    Token(Noun<commands::token::Token>),
    /// Move the time of a server with a virtual clock.
    Clock(Noun<commands::clock::Clock>),
    /// Create the database if need be and bring its schema up to date.
    Migrate(commands::migrate::Migrate),
    /// Check a database for what must never be; --repair gives lost work its cause back.
    ///
    /// A server may be using it, unless it is to be repaired and embedded.
    ///
    /// Ends with 0 if all is well, 1 if something was found, 2 if the database could not be checked.
    Doctor(commands::doctor::Doctor),
    /// Copy an embedded database into a file, also while a server runs on it.
    Backup(commands::backup::Backup),
    /// Put a copy made by `flovyn backup` into a new data directory.
    Restore(commands::restore::Restore),
    /// Keys for programs that call the REST API.
    #[command(subcommand)]
    ApiKey(commands::api_key::ApiKey),
    /// Print a script that completes commands and options in a shell.
    Completions(commands::completions::Completions),
}

fn main() -> ExitCode {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    match builder.enable_all().on_thread_park(memory::thread_rests).build() {
        Ok(runtime) => runtime.block_on(run()),
        Err(error) => Failure::from(format!(
            "no thread to run on: {error}; raise the limit of threads for this process"
        ))
        .end(),
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
