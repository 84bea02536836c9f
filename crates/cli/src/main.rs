//! The `flovyn` binary: one file per command in `commands`. Data goes to stdout, all else to stderr.

mod client;
mod commands;
mod local;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Requests are made on one thread and freed on another, which the system's allocator does slowly; and what is free goes back
/// to the system when the load is over.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(name = "flovyn", version, about = "A durable workflow engine in one binary")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// See it work: a server, a worker and one order, in about seven seconds.
    Demo(commands::demo::Demo),
    /// Run a server on this machine for development: one command, no configuration.
    Dev(commands::dev::Dev),
    /// Run a server with a configuration.
    Server(commands::server::Server),
    /// Create the database if need be and bring its schema up to date.
    Migrate(commands::migrate::Migrate),
    /// Check a database, in use or not, for what must never be; --repair gives lost work its cause back.
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
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(demo) => demo.run().await,
        Command::Dev(dev) => dev.run().await,
        Command::Server(server) => server.run().await,
        Command::Migrate(migrate) => migrate.run().await,
        Command::Doctor(doctor) => return doctor.run().await,
        Command::Backup(backup) => backup.run().await,
        Command::Restore(restore) => restore.run().await,
        Command::ApiKey(api_key) => api_key.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("flovyn: {what}");
            ExitCode::FAILURE
        }
    }
}
