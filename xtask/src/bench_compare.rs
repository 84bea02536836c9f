//! `cargo xtask bench-compare BASE`: runs the workloads of two commits alternately on this machine, and prints the
//! ratios of their figures.
//!
//! A single rate says little, because machines are noisy. Each pair runs the base and this checkout one after the
//! other, in alternating order, so that noise affects both. Only the ratio within a pair counts.

mod checkout;
mod table;

use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde_json::Value;

use self::checkout::Side;
use self::table::Table;
use crate::Outcome;
use crate::chaos::Store;
use crate::postgres::{self, Binaries, Cluster};
use crate::run;

/// The default runs: a workload of `flovyn-bench e2e`, and how many workflows are in flight.
const WORKLOADS: &[(&str, usize)] =
    &[("noop", 1), ("noop", 256), ("chain3", 1), ("chain3", 256), ("fanout100", 16), ("drain10k", 1)];

/// The variable in which a server reads the names of optimisations that it does not use.
const WITHOUT: &str = "FLOVYN_TEST_WITHOUT";

#[derive(Args)]
pub(crate) struct BenchCompareArgs {
    /// The commit to compare this checkout with
    #[arg(required_unless_present = "without", conflicts_with = "without")]
    base: Option<String>,
    /// Compare this checkout with itself without these optimisations, as `first_steps,claim_turns`: the fields of
    /// `Tricks` in crates/service
    #[arg(long, value_name = "NAMES")]
    without: Option<String>,
    /// Which database to run on; both by default
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// How many times each side runs each workload
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    pairs: u32,
    /// Seconds for each run of a workload that runs for a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=120))]
    seconds: u32,
    /// Only these workloads, for example `noop:256`; by default noop and chain3 alone and with 256 in flight, fanout100
    /// and drain10k
    #[arg(long, value_delimiter = ',', value_parser = workload)]
    workload: Vec<(String, usize)>,
}

/// `noop:256`, or `noop` for one workflow in flight.
fn workload(text: &str) -> Result<(String, usize), String> {
    let (name, in_flight) = text.split_once(':').unwrap_or((text, "1"));
    let in_flight = in_flight.parse().map_err(|_| format!("`{in_flight}` is not a number of workflows"))?;
    Ok((name.to_owned(), in_flight))
}

pub(crate) fn run(args: &BenchCompareArgs) -> Outcome<ExitCode> {
    let this = Side::this();
    let base = match (&args.base, &args.without) {
        (Some(commit), _) => Side::base(commit)?,
        (None, without) => Side::this().without(without.as_deref().unwrap_or_default()),
    };
    // Checked before the builds, so that a missing PostgreSQL is reported at once.
    let stores = args.store.map_or(vec![Store::Sqlite, Store::Postgres], |store| vec![store]);
    let postgres = stores.contains(&Store::Postgres).then(Binaries::find_or_install).transpose()?;
    for side in [&base, &this] {
        run::say(&format!("\n==> build {} ({})", side.name(), side.revision()));
        side.build()?;
    }
    let cluster = postgres.map(|binaries| Cluster::start(&binaries)).transpose()?;
    let given = (!args.workload.is_empty()).then(|| args.workload.clone());
    let workloads = given.unwrap_or_else(|| {
        WORKLOADS.iter().map(|(name, in_flight)| ((*name).to_owned(), *in_flight)).collect()
    });
    let mut table = Table::default();
    for store in stores {
        for (workload, in_flight) in &workloads {
            for pair in 0..args.pairs {
                run::say(&format!(
                    "{} {workload} x {in_flight}, pair {} of {}",
                    store.name(),
                    pair + 1,
                    args.pairs
                ));
                let sides = if pair % 2 == 0 { [&base, &this] } else { [&this, &base] };
                for side in sides {
                    let wanted = Wanted { store, workload, in_flight: *in_flight, seconds: args.seconds };
                    let line = wanted.measure(side, cluster.as_ref())?;
                    table.add((&store.name(), workload, *in_flight), side.name(), &line);
                }
            }
        }
    }
    if let Some(cluster) = cluster {
        cluster.stop()?;
    }
    run::print(&format!("base {}, this {}\n\n{}", base.revision(), this.revision(), table.show()));
    Ok(ExitCode::SUCCESS)
}

/// One run of one workload.
struct Wanted<'a> {
    store: Store,
    workload: &'a str,
    in_flight: usize,
    seconds: u32,
}

impl Wanted<'_> {
    /// The figures that the bench prints, as JSON.
    fn measure(&self, side: &Side, cluster: Option<&Cluster>) -> Outcome<Value> {
        let mut command = Command::new(side.bench());
        command.env(WITHOUT, side.switched_off());
        command.args(["e2e", "--store", &self.store.name(), "--workload", self.workload, "--rest", "0"]);
        command.args(["--concurrency", &self.in_flight.to_string(), "--seconds", &self.seconds.to_string()]);
        if let Some(cluster) = cluster {
            command.env(postgres::URL_VARIABLE, cluster.url());
        }
        command.stderr(Stdio::inherit());
        let output = run::output_of(&mut command)?;
        let line = output.lines().rev().find(|line| line.starts_with('{'));
        let line = line.ok_or_else(|| format!("{} printed no figures", self.workload))?;
        serde_json::from_str(line).map_err(|error| format!("the figures of {}: {error}", self.workload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_has_a_name_and_perhaps_a_number_in_flight() {
        assert_eq!(workload("noop:256"), Ok(("noop".to_owned(), 256)));
        assert_eq!(workload("drain10k"), Ok(("drain10k".to_owned(), 1)));
        assert!(workload("noop:many").is_err());
    }
}
