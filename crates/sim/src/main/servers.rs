//! `flovyn-sim servers`: simulates seed after seed, and shrinks and reports a seed that fails.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use flovyn_sim::servers::{self, Allowed, Fault, Figures, Plan, Run};

/// If a seed has fewer acknowledged requests or faults than these, its run proves nothing and is invalid.
const LEAST_ACKNOWLEDGED: usize = 50;
const LEAST_FAULTS: usize = 10;
/// If at least this many seeds are run, every kind of fault must have occurred.
const ALL_FAULTS_FROM: u64 = 20;
/// How many lines of a failing run's trace are shown.
const LINES: usize = 150;

#[derive(Args)]
pub(crate) struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// First seed; later runs use the following seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many operations each client requests.
    #[arg(long)]
    operations: Option<usize>,
    /// Only these faults, by name, separated by commas.
    #[arg(long, value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// At most this many faults in a run.
    #[arg(long)]
    most_faults: Option<usize>,
    /// Print the whole trace of each run on stderr.
    #[arg(long)]
    trace: bool,
}

impl Arguments {
    fn plan(&self, seed: u64) -> Result<Plan, String> {
        let mut plan = Plan::new(seed);
        plan.operations = self.operations.unwrap_or(plan.operations);
        plan.allowed.most = self.most_faults.unwrap_or(plan.allowed.most);
        if let Some(names) = &self.faults {
            let named = |name: &String| {
                let found = Fault::ALL.iter().copied().find(|fault| fault.name() == name);
                found.ok_or_else(|| {
                    let known: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
                    format!("no fault is called '{name}'; there are {}", known.join(", "))
                })
            };
            let kinds = names.iter().filter(|name| !name.is_empty()).map(named);
            plan.allowed.kinds = kinds.collect::<Result<BTreeSet<_>, _>>()?;
        }
        Ok(plan)
    }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let begin = Instant::now();
    let mut total = Figures::default();
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        let plan = match arguments.plan(seed) {
            Ok(plan) => plan,
            Err(what) => {
                eprintln!("error: {what}");
                return ExitCode::FAILURE;
            }
        };
        let run = servers::run(&plan);
        total.add(&run.figures);
        if arguments.trace {
            eprintln!("{}", run.trace.join("\n"));
        }
        if run.violation.is_some() {
            print_figures(arguments, &total, 1, true, begin);
            report(&plan, run);
            return ExitCode::FAILURE;
        }
        eprint!("\rseed {seed}, {} acknowledged, {:.0} s", total.acknowledged, begin.elapsed().as_secs_f64());
    }
    eprintln!();
    let shows = arguments.shows_something(&total);
    print_figures(arguments, &total, 0, shows.is_ok(), begin);
    match shows {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("the run is invalid: {what}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    /// A run in which too little happened is invalid.
    fn shows_something(&self, total: &Figures) -> Result<(), String> {
        if self.operations.is_some() || self.faults.is_some() || self.most_faults.is_some() {
            return Ok(());
        }
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX);
        let faults: usize = total.faults.values().sum();
        if total.acknowledged < LEAST_ACKNOWLEDGED * seeds {
            return Err(format!("only {} requests were acknowledged", total.acknowledged));
        }
        if faults < LEAST_FAULTS * seeds {
            return Err(format!("only {faults} faults occurred"));
        }
        if total.second_batches < seeds {
            return Err(format!("only {} batches began beside another", total.second_batches));
        }
        let missing: Vec<&str> = Fault::ALL
            .iter()
            .map(|fault| fault.name())
            .filter(|name| !total.faults.contains_key(name))
            .collect();
        if self.seeds >= ALL_FAULTS_FROM && !missing.is_empty() {
            return Err(format!("these faults never occurred: {}", missing.join(", ")));
        }
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "the figures are the program's output")]
fn print_figures(arguments: &Arguments, total: &Figures, violations: usize, valid: bool, begin: Instant) {
    let line = serde_json::json!({
        "test": "servers",
        "seed": arguments.seed,
        "seeds": arguments.seeds,
        "operations": total.operations,
        "acknowledged": total.acknowledged,
        "claims": total.claims,
        "commits": total.commits,
        "commits_lost_to_another_server": total.met,
        "second_batches": total.second_batches,
        "stale_reports_refused": total.stale,
        "deferred_ends": total.deferred_ends,
        "taken_early_by_another_build": total.taken_early,
        "refused": total.refused,
        "steps_with_a_success": total.continued,
        "handed_before_written": total.provisional,
        "executions": total.executions,
        "faults": total.faults,
        "violations": violations,
        "valid": valid,
        "virtual_seconds": total.virtual_ms / 1_000,
        "seconds": (begin.elapsed().as_secs_f64() * 10.0).round() / 10.0,
    });
    println!("{line}");
}

/// Prints how to repeat a failing run, shrunk as far as possible, and its trace.
fn report(plan: &Plan, run: Run) {
    eprintln!("\nseed {} failed; shrinking it", plan.seed);
    let (plan, run) = servers::shrink(plan, run);
    let from = run.trace.len().saturating_sub(LINES);
    eprintln!("{}", run.trace[from..].join("\n"));
    if let Some(violation) = &run.violation {
        eprintln!("{violation}");
    }
    let Allowed { kinds, most } = &plan.allowed;
    let kinds: Vec<&str> = kinds.iter().map(|fault| fault.name()).collect();
    let most = if *most == usize::MAX { String::new() } else { format!(" --most-faults {most}") };
    eprintln!(
        "repeat with: cargo xtask sim --seeds 1 --seed {} --operations {} --faults {}{most}",
        plan.seed,
        plan.operations,
        kinds.join(","),
    );
}

#[cfg(feature = "planted-bugs")]
#[derive(Args)]
pub(crate) struct PlantedArguments {
    /// The most seeds that are tried for each bug.
    #[arg(long, default_value_t = 80)]
    seeds: u64,
}

#[cfg(feature = "planted-bugs")]
#[expect(clippy::print_stdout, reason = "the figures are the program's output")]
pub(crate) fn run_planted(arguments: &PlantedArguments) -> ExitCode {
    use flovyn_engine::planted::Bug;
    use flovyn_sim::servers::planted::{check_for, hunt};

    let begin = Instant::now();
    let mut caught = 0;
    let mut bugs = serde_json::Map::new();
    for bug in Bug::ALL {
        let hunt = hunt(*bug, arguments.seeds);
        for (seed, violation) in hunt.others.iter().take(3) {
            eprintln!("{} on seed {seed}: {violation}", bug.name());
        }
        eprintln!("{}: {} on seed {:?}", bug.name(), check_for(*bug), hunt.caught);
        caught += usize::from(hunt.caught.is_some());
        bugs.insert(
            bug.name().to_owned(),
            serde_json::json!({ "check": check_for(*bug), "seed": hunt.caught }),
        );
    }
    let line = serde_json::json!({
        "test": "planted",
        "bugs": Bug::ALL.len(),
        "caught": caught,
        "by": bugs,
        "seconds": begin.elapsed().as_secs(),
    });
    println!("{line}");
    if caught == Bug::ALL.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
