//! Properties that hold for every program with every sequence of outside events.

use flovyn_sdk::Error;
use flovyn_sdk::testing::{Replay, recorded_commands};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::interpreter::workflow;
use crate::program::{Outside, Program, Start, Step, outside, program, step};
use crate::runs::{KIND, block_on, environment, replay_strictly, run, seen};

/// Recorded, serialized and parsed, like a history from a server.
async fn record(program: &Program, outside: &[Outside], seed: u64) -> (Value, Option<Value>) {
    let run = run(&environment(seed), program, outside).await;
    let text = run.recording().to_string();
    let ended = run.output().cloned().or_else(|| run.error().map(|error| json!(error.to_string())));
    (serde_json::from_str(&text).unwrap(), ended)
}

fn ended(replay: &Replay) -> Option<Value> {
    replay.ended().map(|result| result.unwrap_or_else(|error| json!(error.to_string())))
}

/// The commands after the first `count` events.
fn commands_after(history: &Value, count: usize) -> Vec<String> {
    let rows = recorded_commands(history).unwrap().into_iter();
    rows.filter(|(sequence, _)| *sequence > i64::try_from(count).unwrap()).map(|(_, row)| row).collect()
}

fn is_deferral(event: &Value) -> bool {
    event["eventType"] == "WORKFLOW_SUSPENDED"
}

/// The number of events up to the last deferred end.
fn last_deferral(history: &Value) -> usize {
    let events = history["events"].as_array().unwrap();
    events.iter().rposition(is_deferral).map_or(0, |place| place + 1)
}

/// To run more cases: `PROPTEST_CASES=10000 cargo test -p flovyn-sdk --test replay`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(500, |count| count.parse().expect("a number of cases"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_changes_nothing(program in program(), outside in outside(), seed: u64) {
        block_on(async {
            let kept = run(&environment(seed), &program, &outside).await;
            let evicted = run(&environment(seed).evict_always(), &program, &outside).await;
            prop_assert_eq!(seen(&kept), seen(&evicted));
            Ok(())
        })?;
    }

    #[test]
    fn going_ahead_of_the_log_changes_nothing(program in program(), outside in outside(), seed: u64) {
        block_on(async {
            let behind = run(&environment(seed), &program, &outside).await;
            let ahead = run(&environment(seed).go_ahead(), &program, &outside).await;
            prop_assert_eq!(seen(&behind), seen(&ahead));
            Ok(())
        })?;
    }

    #[test]
    fn a_history_cut_anywhere_goes_on_as_it_did(program in program(), outside in outside(), seed: u64) {
        block_on(async {
            let (history, end) = record(&program, &outside, seed).await;
            replay_strictly(KIND, workflow(&program), &history).await.unwrap();
            let length = history["events"].as_array().unwrap().len();
            for cut in 1..=length {
                let mut replay = Replay::new(KIND, workflow(&program), &history).unwrap().strict();
                let new = replay.feed(cut).await.unwrap();
                let after = commands_after(&history, cut);
                // A deferred end discards the commands of its activation.
                let void = replay.ended().is_some() && cut < last_deferral(&history);
                prop_assert!(void || after.starts_with(&new), "cut at {}: {:?} is no beginning of {:?}", cut, new, after);
                let again = replay.feed(length).await.unwrap();
                prop_assert_eq!(again, Vec::<String>::new());
                prop_assert_eq!(ended(&replay), end.clone());
            }
            Ok(())
        })?;
    }

    #[test]
    fn one_event_at_a_time_is_the_same_as_all_at_once(program in program(), outside in outside(), seed: u64) {
        block_on(async {
            let (history, end) = record(&program, &outside, seed).await;
            let length = history["events"].as_array().unwrap().len();
            let mut replay = Replay::new(KIND, workflow(&program), &history).unwrap().strict();
            let mut commands = Vec::new();
            while replay.left() > 0 {
                let asked = replay.feed(1).await.unwrap();
                let fed = length - replay.left();
                if is_deferral(&history["events"][fed - 1]) {
                    // Commands since the last accepted step were discarded and are emitted again.
                    let rows = recorded_commands(&history).unwrap().into_iter();
                    let accepted = rows.filter(|(sequence, _)| usize::try_from(*sequence).unwrap() <= fed);
                    commands = accepted.map(|(_, row)| row).collect();
                }
                commands.extend(asked);
            }
            prop_assert_eq!(commands, commands_after(&history, 0));
            prop_assert_eq!(ended(&replay), end);
            Ok(())
        })?;
    }

    #[test]
    fn another_program_is_named_or_unaffected(
        program in program(), outside in outside(), seed: u64, place: prop::sample::Index, other: prop::sample::Index, new in step(), how in 0..4,
    ) {
        let mut changed = without_promises(&program);
        let program = changed.clone();
        let place = place.index(changed.steps.len());
        match how {
            0 => changed.steps[place] = new,
            1 => changed.steps.insert(place, new),
            2 => {
                let step = changed.steps.remove(place);
                let other = other.index(changed.steps.len() + 1);
                changed.steps.insert(other, step);
            }
            _ => drop(changed.steps.remove(place)),
        }
        let changed = without_promises(&changed);
        block_on(async {
            let (history, _) = record(&program, &outside, seed).await;
            let fits = fits(&changed, &history).await;
            match replay_strictly(KIND, workflow(&changed), &history).await {
                Ok(()) => prop_assert!(fits.is_ok(), "not noticed: {:?}", fits),
                Err(Error::DeterminismViolation(message)) => {
                    prop_assert!(fits.is_err(), "it fits, but: {}", message);
                    prop_assert!(message.starts_with("DETERMINISM_VIOLATION"), "{}", message);
                }
                Err(error) => prop_assert!(false, "{:?}", error),
            }
            Ok(())
        })?;
    }
}

/// Answers of promises contain ids that only the server generates. The check below has no rows, so it cannot resolve
/// them.
fn without_promises(program: &Program) -> Program {
    fn clean(steps: &[Step]) -> Vec<Step> {
        let steps = steps.iter().map(|step| match step {
            Step::Start(Start::Promise(n, _), shielded) => Step::Start(Start::Task(*n), *shielded),
            Step::Branch(a, b) => Step::Branch(clean(a), clean(b)),
            other => other.clone(),
        });
        steps.collect()
    }
    Program { steps: clean(&program.steps), obeys: program.obeys }
}

/// Checks a program against its history in a second, independent way. The program receives only the external events,
/// and its commands are compared with the rows, kind by kind.
async fn fits(program: &Program, history: &Value) -> Result<(), String> {
    let all = history["events"].as_array().unwrap();
    let mut bare = history.clone();
    bare["events"] = all.iter().filter(|event| event["origin"] == "EXTERNAL").cloned().collect();
    let rows = recorded_commands(history).unwrap();
    let mut replay = Replay::new(KIND, workflow(program), &bare).unwrap().strict();
    let mut asked = Vec::new();
    for event in bare["events"].as_array().unwrap() {
        let sequence = event["sequence"].as_i64().unwrap();
        if replay.ended().is_none() {
            covers(&asked, &rows, sequence)?;
        }
        let new = replay.feed(1).await.map_err(|error| error.to_string())?;
        if is_deferral(event) {
            // The workflow was replayed from the beginning.
            asked.clear();
        }
        asked.extend(new);
    }
    covers(&asked, &rows, i64::MAX)?;
    let last = all.last().unwrap();
    let expected = match last["eventType"].as_str().unwrap() {
        "WORKFLOW_COMPLETED" => &last["data"]["output"],
        "WORKFLOW_EXECUTION_FAILED" => &last["data"]["error"],
        "WORKFLOW_CANCELLED" => &json!(format!("cancelled: {}", last["data"]["reason"].as_str().unwrap())),
        _ => return Ok(()),
    };
    if asked.len() != rows.len() {
        return Err("it asks for more than the history has".into());
    }
    if ended(&replay).as_ref() != Some(expected) {
        return Err(format!("it ended with {:?}, not with {expected:?}", ended(&replay)));
    }
    Ok(())
}

/// Every row before a sequence has its command, and the commands match the rows.
fn covers(asked: &[String], rows: &[(i64, String)], before: i64) -> Result<(), String> {
    for kind in [
        "operation",
        "state",
        "task",
        "cancel of task",
        "timer",
        "cancel of timer",
        "child",
        "cancel of child",
    ] {
        let of_kind = |text: &&String| kind_of(text) == kind;
        let asked: Vec<&String> = asked.iter().filter(of_kind).collect();
        let all: Vec<&(i64, String)> = rows.iter().filter(|(_, row)| of_kind(&row)).collect();
        if let Some((asked, row)) = asked.iter().zip(&all).find(|(asked, row)| ***asked != row.1) {
            return Err(format!("it asks for {asked}, not for {row:?}"));
        }
        if let Some(row) = all.get(asked.len()).filter(|row| row.0 < before) {
            return Err(format!("before {before} it does not ask for {row:?}"));
        }
    }
    Ok(())
}

fn kind_of(command: &str) -> &str {
    match command.split([' ']).collect::<Vec<_>>()[..] {
        ["set" | "clear", "state", ..] => "state",
        ["cancel", "of", "task", ..] => "cancel of task",
        ["cancel", "of", "timer", ..] => "cancel of timer",
        ["cancel", "of", "child", ..] => "cancel of child",
        [first, ..] => first,
        [] => "",
    }
}
