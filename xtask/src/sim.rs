//! `cargo xtask sim`: builds and runs the simulator, with the databases that it needs.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::Outcome;
use crate::postgres::{self, Binaries, Cluster};
use crate::run;

/// Without `--engine` or `--planted`: servers, workers and clients in virtual time, with faults
#[derive(Args)]
pub(crate) struct SimArgs {
    /// Random requests to the engine, alone or on real databases
    #[arg(long, requires = "seconds", conflicts_with_all = ["planted", "operations", "faults", "most_faults"])]
    engine: bool,
    /// Show that each planted bug is caught by its check
    #[arg(long, conflicts_with_all = ["seed", "operations", "faults", "most_faults"])]
    planted: bool,
    /// How many seeds to run
    #[arg(long, value_name = "N", conflicts_with = "engine")]
    seeds: Option<u64>,
    /// First seed, to repeat a run; the simulator's default otherwise
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// How many operations each simulated client requests
    #[arg(long, value_name = "N")]
    operations: Option<usize>,
    /// Only these faults, separated by commas
    #[arg(long, value_name = "NAMES")]
    faults: Option<String>,
    /// At most this many faults in a run
    #[arg(long, value_name = "N")]
    most_faults: Option<usize>,
    /// How many seconds the engine's runs take in total
    #[arg(long, value_name = "N", requires = "engine")]
    seconds: Option<u64>,
    /// How many steps each run of the engine has
    #[arg(long, value_name = "N", requires = "engine")]
    steps: Option<usize>,
    /// Which stores to run the engine on; a throw-away cluster is started when PostgreSQL is among them
    #[arg(long, requires = "engine")]
    store: Option<Store>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
    All,
}

impl Store {
    fn name(self) -> &'static str {
        match self {
            Store::Sqlite => "sqlite",
            Store::Postgres => "postgres",
            Store::All => "all",
        }
    }
}

pub(crate) fn run(args: &SimArgs) -> Outcome<ExitCode> {
    // Planted bugs cannot be built for release.
    let build: &[&str] = if args.planted { &["--features", "planted-bugs"] } else { &["--release"] };
    let mut command = run::cargo(["run", "-p", "flovyn-sim"]);
    command.args(build).arg("--").args(simulator_arguments(args));
    let cluster = match args.store {
        Some(Store::Postgres | Store::All) => Some(Cluster::start(&Binaries::find_or_install()?)?),
        Some(Store::Sqlite) | None => None,
    };
    if let Some(cluster) = &cluster {
        command.env(postgres::URL_VARIABLE, cluster.url());
    }
    let status = run::run_unattended(&mut command)?;
    if let Some(cluster) = cluster {
        cluster.stop()?;
    }
    Ok(run::exit_code_of(status))
}

fn simulator_arguments(args: &SimArgs) -> Vec<String> {
    let command = match (args.engine, args.planted) {
        (true, _) => "engine",
        (_, true) => "planted",
        _ => "servers",
    };
    let number = |value: Option<usize>| value.map(|value| value.to_string());
    let flags = [
        ("--seeds", args.seeds.map(|value| value.to_string())),
        ("--seconds", args.seconds.map(|value| value.to_string())),
        ("--steps", number(args.steps)),
        ("--seed", args.seed.map(|value| value.to_string())),
        ("--operations", number(args.operations)),
        ("--faults", args.faults.clone()),
        ("--most-faults", number(args.most_faults)),
        ("--store", args.store.map(|store| store.name().to_owned())),
    ];
    let given = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
    std::iter::once(command.to_owned()).chain(given.flatten()).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SimArgs,
    }

    fn arguments(line: &str) -> Result<String, String> {
        let words = std::iter::once("sim").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(simulator_arguments(&line.args).join(" "))
    }

    #[test]
    fn arguments_are_passed_on() {
        let engine = arguments("--engine --seconds 5 --steps 9 --seed 7 --store all");
        assert_eq!(engine.as_deref(), Ok("engine --seconds 5 --steps 9 --seed 7 --store all"));
        let servers = arguments("--seeds 3 --seed 7 --operations 2 --faults delay,conflict --most-faults 4");
        let expected = "servers --seeds 3 --seed 7 --operations 2 --faults delay,conflict --most-faults 4";
        assert_eq!(servers.as_deref(), Ok(expected));
        assert_eq!(arguments("--planted --seeds 9").as_deref(), Ok("planted --seeds 9"));
    }

    #[test]
    fn what_is_not_given_is_left_to_the_simulator() {
        assert_eq!(arguments("--engine --seconds 5").as_deref(), Ok("engine --seconds 5"));
        assert_eq!(arguments("").as_deref(), Ok("servers"));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for line in ["--engine", "--engine --seconds 1 --seeds 4", "--store all", "--planted --seed 1"] {
            assert!(arguments(line).is_err(), "{line}");
        }
    }
}
