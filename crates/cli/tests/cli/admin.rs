//! Promises, queues, workers, tenants, tokens and the clock.

use std::process::Command;

use serde_json::json;

use crate::snapshot::Transcript;
use crate::world::{Ran, World};

#[test]
fn promises_are_answered() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    let asks = |number: u32| {
        let input = format!(r#"{{"number": {number}, "cents": 100}}"#);
        let id = world.run(&["workflow", "start", "expense", "--input", &input]).id();
        world.until_status("workflow", &id, "WAITING");
        id
    };
    let first = asks(17);
    typed.run(&["workflow", "show", &first, "--no-timeline"]);
    typed.run(&["promise", "resolve", "key:expense-17", "--value", r#"{"by": "Grace"}"#]);
    typed.run(&["workflow", "wait", &first]);
    let second = asks(18);
    typed.run(&["promise", "reject", "key:expense-18", "--error", "too expensive", "-o", "json"]);
    typed.run(&["workflow", "wait", &second]);
    typed.run(&["promise", "resolve", "key:expense-18"]);
    typed.run(&["promise", "resolve", "key:expense-99"]);
    typed.check("promise");
}

#[test]
fn queues_workers_and_tokens() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    typed.run(&["worker", "list", "--alive"]);
    typed.run(&["queue", "list"]);
    typed.run(&["queue", "pause", "default"]);
    let id = world.run(&["workflow", "start", "greeting", "-i", r#"{"name": "Ada"}"#]).id();
    typed.run(&["queue", "list"]);
    typed.run(&["workflow", "show", &id, "--no-timeline"]);
    typed.run(&["queue", "resume", "default", "-o", "json"]);
    typed.run(&["workflow", "wait", &id]);

    let token = typed.run(&["token", "create", "production", "--expires-in", "20d"]);
    assert!(token.out.starts_with("fwt_") && !token.err.contains("fwt_"), "{}{}", token.out, token.err);
    let tokens = typed.run(&["token", "list", "-o", "json"]).json();
    let id =
        tokens.as_array().unwrap().iter().find(|token| token["name"] == "production").unwrap()["id"].clone();
    typed.run(&["token", "revoke", id.as_str().unwrap()]);
    typed.run(&["token", "list"]);
    typed.check("queues_workers_tokens");
}

#[test]
fn a_tenant_is_made_by_who_runs_the_server() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    typed.run(&["tenant", "create", "acme"]);
    typed.check("tenant_refused");
    let as_admin = |arguments: &[&str]| {
        let mut command: Command = world.command(arguments);
        Ran::of(command.env("FLOVYN_TOKEN", world.token(&["*"], "server-admin")).output().unwrap())
    };
    let made =
        as_admin(&["tenant", "create", "acme", "--name", "Acme Inc.", "--retention", "30d", "-o", "json"]);
    let tenant = made.json();
    assert_eq!((&tenant["slug"], &tenant["retentionMs"]), (&json!("acme"), &json!(2_592_000_000_i64)));
    let shown = as_admin(&["tenant", "show", "--tenant", "acme"]).out;
    for told in ["acme", tenant["id"].as_str().unwrap(), "Acme Inc.", "30d"] {
        assert!(shown.contains(told), "{shown}");
    }
    assert_eq!(as_admin(&["tenant", "show", "--tenant", "acme", "-o", "json"]).json(), tenant);
    let second = as_admin(&["tenant", "create", "other"]).id();
    let listed = as_admin(&["workflow", "list", "--tenant", &second]);
    assert_eq!((listed.code, listed.out.as_str()), (0, ""), "{}", listed.err);
    let taken = as_admin(&["tenant", "create", "acme"]);
    assert_eq!(taken.code, 5, "{}", taken.err);
}

#[test]
fn the_clock_goes_on_when_told() {
    let world = World::with(&["--virtual-clock"]);
    let mut typed = Transcript::new(&world);
    let id = world.run(&["workflow", "start", "monthly"]).id();
    world.until_status("workflow", &id, "WAITING");
    typed.run(&["clock", "advance", "30d"]);
    typed.run(&["workflow", "wait", &id]);
    typed.run(&["clock", "advance", "soon"]);
    typed.check("clock");
    let shown = world.run(&["workflow", "show", &id, "--no-timeline"]).out;
    let created = shown.lines().find(|line| line.trim_start().starts_with("Created")).unwrap();
    assert!(created.ends_with("(30d ago)"), "{shown}");
    let workers = world.run(&["worker", "list"]).out;
    assert!(!workers.contains("30d ago"), "signs of life are of the real time: {workers}");
    let now = world.run(&["clock", "advance", "1h30m", "-o", "json"]).json();
    assert!(now["nowMs"].is_i64(), "{now}");
}

#[test]
fn most_servers_have_no_clock_to_move() {
    let world = World::new();
    let ran = world.run(&["clock", "advance", "30d"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let todo = "Check the address.\n  Only the clock of `flovyn dev --virtual-clock` can be advanced.";
    assert_eq!(ran.err, format!("flovyn: there is nothing at /_/clock/advance (FLV0082)\n  {todo}\n"));
}
