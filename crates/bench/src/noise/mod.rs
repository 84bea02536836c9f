//! How much of its speed each workload keeps when something else uses the machine. Quiet runs alternate with runs
//! beside a program that keeps one core busy, and with runs beside a program that keeps the disk busy.
//!
//! A rate under noise means little by itself, because the load of the machine varies anyway. Compare its ratio to the
//! quiet run of the same round.

mod hog;
mod table;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use self::hog::Hog;
pub(crate) use self::hog::run as hog;
use self::table::Table;
use crate::e2e::{self, E2e, Workload};
use crate::figures::Line;
use crate::target::Database;

#[derive(Debug, Args)]
pub(crate) struct Noise {
    /// Workloads to run; all by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Rounds of each workload. A round is one quiet run and one beside each kind of noise.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Seconds for each run of a workload that runs for a time.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=120))]
    seconds: u64,
    /// The server to run; by default the one beside this program.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// What runs beside a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Nothing.
    Quiet,
    /// A process that keeps one core busy.
    Cpu,
    /// A process that writes and fsyncs.
    Disk,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Quiet, Kind::Cpu, Kind::Disk];

    fn name(self) -> &'static str {
        match self {
            Kind::Quiet => "quiet",
            Kind::Cpu => "cpu",
            Kind::Disk => "disk",
        }
    }

    /// The order of the runs in a round. Each round begins with another kind, so that no kind always runs first.
    fn order(round: u64) -> [Kind; 3] {
        let mut order = Kind::ALL;
        order.rotate_left(usize::try_from(round % 3).unwrap_or_default());
        order
    }
}

pub(crate) async fn run(store: Database, options: Noise) -> Result<(), String> {
    let bar = e2e::progress_bar()?;
    let mut table = Table::default();
    let chosen = |one: &Workload| options.workload.is_empty() || options.workload.contains(one);
    for (workload, concurrency) in e2e::runs().into_iter().filter(|(one, _)| chosen(one)) {
        let load = E2e::short(options.binary.clone(), options.seconds);
        for round in 0..options.rounds {
            for kind in Kind::order(round) {
                bar.reset();
                let name = workload.name();
                bar.set_message(format!("{name} x {concurrency} {} {}", kind.name(), round + 1));
                let line = Line::new("noise").text("noise", kind.name()).number("round", (round + 1) as f64);
                let mut hog = Hog::start(kind).await?;
                let line = e2e::one(store, &load, (workload, concurrency), line, &bar).await?;
                let line = hog.stop(line).await?.finish();
                bar.suspend(|| crate::print_line(&line));
                let line: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
                table.add(kind, round, &line);
            }
        }
    }
    bar.finish_and_clear();
    crate::print_line(&table.show());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_runs_every_kind_and_the_first_kind_rotates() {
        for round in 0..6 {
            let order = Kind::order(round);
            assert!(Kind::ALL.iter().all(|kind| order.contains(kind)), "{order:?}");
        }
        assert_eq!(
            [0, 1, 2, 3].map(|round| Kind::order(round)[0]),
            [Kind::Quiet, Kind::Cpu, Kind::Disk, Kind::Quiet]
        );
    }
}
