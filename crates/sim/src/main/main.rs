//! `flovyn-sim`: long random runs, started by hand.

mod engine;
mod servers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Seeded random runs that check the promises after every step")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Random requests to the pure engine; with --store also to real databases in lockstep.
    Engine(engine::Arguments),
    /// Servers, workers and clients on one database in virtual time, with faults.
    Servers(servers::Arguments),
    /// Show that each planted bug is caught by its check.
    #[cfg(feature = "planted-bugs")]
    Planted(servers::PlantedArguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Engine(arguments) => engine::run(&arguments),
        Command::Servers(arguments) => servers::run(&arguments),
        #[cfg(feature = "planted-bugs")]
        Command::Planted(arguments) => servers::run_planted(&arguments),
    }
}
