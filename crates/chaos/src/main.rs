//! Chaos tests: real servers and workers as processes, random work, and faults: processes are killed, stopped and cut
//! off. Then the database is compared with the answers that clients received. One JSON line on stdout, progress on
//! stderr; any broken promise is a failure.

mod booted_together;
mod check;
mod disturb;
mod entities;
mod faults;
mod flood;
mod load;
mod measured;
mod outcomes;
mod plain;
mod poison;
mod power_loss;
mod programs;
mod received;
mod reconnect;
mod report;
mod runs;
mod soak;
mod test;
mod worker;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use futures::future::LocalBoxFuture;
use serde_json::json;

use crate::check::Findings;
use crate::plain::Dialect;
use crate::report::{Figures, Minimum};
use crate::test::{Database, Test, WORKER_LEASE_MS};

#[derive(Parser)]
#[command(about = "Kills, stops and cuts off Flovyn's processes, and checks that every promise holds")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Cause faults for a while, then check.
    Run(Options),
    /// Run a worker of a run.
    #[command(hide = true)]
    Worker {
        #[arg(long)]
        url: String,
        #[arg(long)]
        token: String,
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        slots: u32,
        /// Speak the public protocol, in this dialect.
        #[arg(long, value_enum)]
        plain: Option<Dialect>,
    },
}

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long, value_enum)]
    test: Test,
    /// PostgreSQL needs FLOVYN_TEST_POSTGRES, which `cargo xtask chaos` sets.
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    store: Database,
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Repeats the choices of an earlier run: shapes, pauses, victims. Which request meets which fault still depends on
    /// timing.
    #[arg(long)]
    seed: Option<u64>,
    /// How many pieces of work are in flight at once.
    #[arg(long, default_value_t = 48)]
    in_flight: usize,
    /// Tasks of dead workers, for `booted-together`.
    #[arg(long, default_value_t = 10_000)]
    tasks: usize,
    /// Workers that come back, for `reconnect`.
    #[arg(long, default_value_t = 1_000)]
    pollers: usize,
    /// How many of the workers speak the public protocol, which sends no tokens. By default half of them in
    /// `kill-server`,
    /// `kill-worker`, `many-servers`, `postgres-restart` and `kill-all`, and none elsewhere.
    #[arg(long, value_name = "PERCENT")]
    plain_workers: Option<usize>,
    /// The server to run; by default the `flovyn` next to this program.
    #[arg(long)]
    binary: Option<PathBuf>,
}

impl Options {
    pub(crate) fn plain_percent(&self) -> usize {
        self.plain_workers.unwrap_or(self.test.plain_percent())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Worker { url, token, folder, slots, plain: None } => {
            worker::run(&url, &token, &folder, slots).await
        }
        Command::Worker { url, token, folder, plain: Some(dialect), .. } => {
            plain::run(&url, &token, &folder, dialect).await
        }
        Command::Run(options) => run(options).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), String> {
    let test = options.test;
    if !test.fits(options.store) {
        return Err(format!("{} cannot run on {:?}: choose another --store", test.name(), options.store));
    }
    if options.plain_percent() > 100 || options.plain_percent() > 0 && !test.takes_plain_workers() {
        return Err(format!("{} has no workers of the public protocol", test.name()));
    }
    let binary = options.binary.clone().map_or_else(beside_this_one, Ok)?;
    let seed = options.seed.unwrap_or_else(runs::now_ms);
    eprintln!("{} on {:?} for {} s, seed {seed}", test.name(), options.store, options.seconds);
    let run: LocalBoxFuture<'_, Result<(Figures, Findings), String>> = match test {
        Test::BootedTogether => Box::pin(booted_together::run(&options, &binary)),
        Test::PowerLoss => Box::pin(power_loss::run(&options, &binary, seed, power_loss::Disk::Honest)),
        Test::PowerLossProof => Box::pin(power_loss::run(&options, &binary, seed, power_loss::Disk::Lies)),
        Test::Entities => Box::pin(entities::run(&options, &binary, seed)),
        Test::Poison => Box::pin(poison::run(&options, &binary)),
        Test::Reconnect => Box::pin(reconnect::run(&options, &binary)),
        Test::Flood => Box::pin(flood::run(&options, &binary)),
        Test::Soak => Box::pin(soak::run(&options, &binary)),
        _ => Box::pin(disturb::run(&options, &binary, seed)),
    };
    let (figures, found) = run.await?;
    let head = [
        ("chaos", json!(test.name())),
        ("store", json!(format!("{:?}", options.store).to_lowercase())),
        ("seconds", json!(options.seconds)),
        ("seed", json!(seed)),
    ];
    print_line(&figures.line(&head, &found));
    found.messages.iter().for_each(|message| eprintln!("{message}"));
    if test == Test::PowerLossProof {
        // Here it is a failure if the loss is not found.
        return if found.lost > 0 {
            Ok(())
        } else {
            Err("the disk dropped writes, but no loss was found".into())
        };
    }
    match (found.count(), figures.shortfall(minimum(&options))) {
        (0, None) => Ok(()),
        (0, Some(short)) => Err(format!("the run does not count: {short}")),
        (count, _) => Err(format!("{count} broken promises; run it again with --seed {seed}")),
    }
}

fn minimum(options: &Options) -> Minimum {
    let one = Minimum { acknowledged: 1, kills_in_flight: 0, refused: 0, plain_outcomes: 0 };
    match options.test {
        Test::BootedTogether => Minimum { acknowledged: options.tasks, kills_in_flight: 2, ..one },
        Test::PowerLoss => Minimum { acknowledged: 20, kills_in_flight: 20, ..one },
        Test::Poison => Minimum { kills_in_flight: 3, ..one },
        Test::Reconnect => Minimum { acknowledged: options.pollers, kills_in_flight: 1, ..one },
        Test::Flood | Test::Soak => Minimum { acknowledged: 100, ..one },
        test => {
            let minimum = test.minimum(options.seconds);
            // A tenth of the expected share of these workers.
            let plain_outcomes = minimum.acknowledged * options.plain_percent() / 1_000;
            Minimum { plain_outcomes, ..minimum }
        }
    }
}

fn beside_this_one() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = own.with_file_name("flovyn");
    let missing = || format!("{} is not there: run `cargo build` first", binary.display());
    if binary.exists() { Ok(binary) } else { Err(missing()) }
}

#[expect(clippy::print_stdout, reason = "the figures are the program's output")]
fn print_line(line: &str) {
    println!("{line}");
}
