//! `cargo xtask sim`: the simulator, built for speed, with the databases it asks for.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::Outcome;
use crate::postgres::{self, Binaries, Cluster};
use crate::run;

#[derive(Args)]
pub(crate) struct SimArgs {
    /// Simulate the engine
    // The one simulation so far; named, so that the command keeps its meaning when there are more.
    #[arg(long, required = true)]
    engine: bool,
    /// How long to go on
    #[arg(long, value_name = "N")]
    seconds: u64,
    /// Where to start, to repeat a run; the simulator chooses when it is not given
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// How many steps each run takes
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// Which stores to run on; a throw-away cluster is started when PostgreSQL is among them
    #[arg(long)]
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
    let mut command = run::cargo(["run", "--release", "-p", "flovyn-sim", "--"]);
    command.args(simulator_arguments(args));
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
    let mut arguments = Vec::new();
    if args.engine {
        arguments.push("engine".to_owned());
    }
    arguments.extend(["--seconds".to_owned(), args.seconds.to_string()]);
    if let Some(steps) = args.steps {
        arguments.extend(["--steps".to_owned(), steps.to_string()]);
    }
    if let Some(seed) = args.seed {
        arguments.extend(["--seed".to_owned(), seed.to_string()]);
    }
    if let Some(store) = args.store {
        arguments.extend(["--store".to_owned(), store.name().to_owned()]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_passed_on() {
        let args =
            SimArgs { engine: true, seconds: 5, steps: Some(9), seed: Some(7), store: Some(Store::All) };
        assert_eq!(simulator_arguments(&args).join(" "), "engine --seconds 5 --steps 9 --seed 7 --store all");
    }

    #[test]
    fn what_is_not_given_is_left_to_the_simulator() {
        let args = SimArgs { engine: true, seconds: 5, steps: None, seed: None, store: None };
        assert_eq!(simulator_arguments(&args).join(" "), "engine --seconds 5");
    }
}
