//! Following executions and tasks live.

use crate::snapshot::normalised;
use crate::world::{World, gate};

#[test]
fn a_task_tells_of_itself() {
    let world = World::new();
    let id = world.run(&["task", "create", "paint", "--input", r#""a tree""#]).id();
    let mut shown = world.follow(&["task", "show", "--follow", &id]);
    let mut logged = world.follow(&["task", "logs", "--follow", &id, "-o", "json"]);
    shown.until("RUNNING");
    gate("a tree").add_permits(1);
    shown.until("attempt 1  50 %  half of it");
    shown.until(r#"{"data":{"dot":[1,2]},"type":"data"}"#);
    shown.until("WARN   the red is \\u{1b}[31mgone");
    logged.until(r#""message":"the red is \u001b[31mgone""#);
    gate("a tree").add_permits(1);
    let ran = shown.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        ran.out.contains("\nCOMPLETED\n") && ran.out.contains("  Output     \"a picture of a tree\"\n"),
        "{}",
        ran.out
    );
    let ran = logged.end();
    assert_eq!((ran.code, ran.out.lines().count()), (0, 1), "{}{}", ran.out, ran.err);
}

#[test]
fn an_execution_and_its_tasks_are_followed_to_the_end() {
    let world = World::new();
    let id = world.run(&["workflow", "start", "gallery", "--input", r#""a house""#]).id();
    world.until(&["workflow", "tasks", &id, "-o", "json"], |tasks| tasks[0]["status"] == "RUNNING");
    let running = world.run(&["workflow", "show", &id]);
    assert!(running.out.contains("\n  paint running"), "{}", running.out);
    let mut shown = world.follow(&["workflow", "show", "-f", &id]);
    shown.until("TASK_SCHEDULED");
    let mut waiting = world.follow(&["workflow", "wait", &id]);
    // Streamed data is not stored, so the follower must be connected to the task first.
    shown.until("paint  RUNNING  attempt 1  0 %");
    gate("a house").add_permits(1);
    shown.until("paint  RUNNING  attempt 1  50 %  half of it");
    shown.until(r#"paint  {"data":{"dot":[1,2]},"type":"data"}"#);
    shown.until("WARN   the red is");
    gate("a house").add_permits(1);
    let ran = shown.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let text = normalised(&ran.out, world.folder());
    assert!(
        text.contains("4  TIME  WORKFLOW_COMPLETED  \"a picture of a house\"\n\ngallery  COMPLETED\n"),
        "{text}"
    );
    assert!(text.contains("\n  paint  █  TOOK\n"), "{text}");
    waiting.until("a picture of a house");
    let ran = waiting.end();
    // A progress bar is only for terminals.
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "\"a picture of a house\"\n", ""));
}

#[test]
fn following_outlives_the_server() {
    let mut world = World::new();
    let id = world.run(&["workflow", "start", "order", "-i", r#"{"item": "lamp", "cents": 5}"#]).id();
    world.until(&["workflow", "show", &id, "-o", "json"], |found| found["lastSequence"] == 7);
    let mut events = world.follow(&["workflow", "events", "--follow", &id, "-o", "json"]);
    events.until("\"sequence\":7,");
    world.restart_server();
    assert_eq!(world.run(&["workflow", "signal", &id, "courier", "-v", "\"Grace\""]).code, 0);
    let ran = events.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let sequences: Vec<i64> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["sequence"].as_i64().unwrap())
        .collect();
    assert_eq!(sequences, (1..=9).collect::<Vec<_>>(), "each once, in order");
}

#[test]
fn who_follows_learns_what_it_has_come_to() {
    let world = World::new();
    let nothing = r#"{"item": "air", "cents": 0}"#;
    let id = world.run(&["workflow", "start", "order", "-i", nothing]).id();
    for arguments in [
        &["workflow", "show", "--follow", &id][..],
        &["workflow", "show", "--follow", &id, "-o", "json"],
        &["workflow", "events", "--follow", &id],
        &["workflow", "events", "--follow", "--since", "99", &id],
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 7, "{arguments:?}: {}", ran.err);
        let said = format!("flovyn: order {id} is FAILED: nothing costs nothing\n");
        assert!(ran.err.starts_with(&said), "{arguments:?}: {}", ran.err);
    }
    let input = r#"{"to": "full@example.com", "subject": "Hello"}"#;
    let id = world.run(&["task", "create", "send-email", "-i", input, "--max-retries", "1"]).id();
    for verb in ["show", "logs"] {
        let ran = world.run(&["task", verb, "--follow", &id]);
        assert_eq!(ran.code, 7, "{verb}: {}", ran.err);
        assert!(ran.err.contains(&format!("flovyn task retry {id}")), "{verb}: {}", ran.err);
    }
}

#[test]
fn what_has_ended_is_followed_to_its_end_at_once() {
    let world = World::new();
    let id = world.run(&["workflow", "start", "greeting", "-i", r#"{"name": "Ada"}"#]).id();
    world.until_status("workflow", &id, "COMPLETED");
    let all = world.run(&["workflow", "events", "-f", &id]);
    assert_eq!((all.code, all.out.lines().count()), (0, 2), "{}{}", all.out, all.err);
    let none = world.run(&["workflow", "events", "-f", "--since", "2", &id]);
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{}", none.err);
}
