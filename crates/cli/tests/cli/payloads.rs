//! Payloads are returned unchanged, whatever they contain.

use crate::terminal::{Shown, plain};
use crate::world::World;

/// Deeper than the recursion limit of JSON parsers.
fn deep() -> String {
    format!("{}\"bottom\"{}", "[".repeat(1_000), "]".repeat(1_000))
}

/// White space, key order, digits and escapes that a parser would normalise.
const ODD: &str = "{ \"b\" : 1.500,\t\"a\":[ ],\n \"\\u0041\": 12345678901234567890.0, \"x\": \"\u{202e}\" }";

fn execution(world: &World) -> String {
    std::fs::write(world.folder().join("deep.json"), deep()).unwrap();
    let id = world.run(&["workflow", "start", "nobody", "--queue", "empty", "-i", "@deep.json"]).id();
    for value in ["@deep.json", ODD] {
        let signalled = world.run(&["workflow", "signal", &id, "courier", "--value", value]);
        assert_eq!(signalled.code, 0, "{}", signalled.err);
    }
    let ended = world.run(&["workflow", "terminate", &id]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    id
}

#[test]
fn what_is_nested_deeply_is_shown() {
    let world = World::new();
    let id = execution(&world);
    for arguments in [
        &["workflow", "events", &id][..],
        &["workflow", "events", &id, "-o", "json"],
        &["workflow", "events", "--follow", &id],
        &["workflow", "events", "--follow", &id, "-o", "json"],
        &["workflow", "show", &id],
        &["workflow", "show", &id, "-o", "json"],
        &["workflow", "show", "--follow", &id],
    ] {
        let ran = world.run(arguments);
        // It was terminated, so followers see its end.
        assert!(matches!(ran.code, 0 | 7), "{arguments:?}: {}", ran.err);
        // Equal except for white space, if the output is formatted.
        let text: String = ran.out.split_whitespace().collect();
        assert!(text.contains(&deep()), "{arguments:?}: {}", ran.out);
    }
    let task = world.run(&["task", "create", "nobody", "--queue", "empty", "-i", "@deep.json"]).id();
    for arguments in [&["task", "show", &task][..], &["task", "show", &task, "-o", "json"]] {
        let ran = world.run(arguments);
        let text: String = ran.out.split_whitespace().collect();
        assert!(ran.code == 0 && text.contains(&deep()), "{arguments:?}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn an_export_has_them_to_the_byte() {
    let world = World::new();
    let id = execution(&world);
    let exported = world.run(&["workflow", "export", &id]);
    assert_eq!((exported.code, exported.err.as_str()), (0, ""));
    assert!(exported.out.contains(&format!("\"input\":{}", deep())), "{}", exported.out);
    assert!(exported.out.contains(&format!("\"signalValue\":{ODD}")), "{}", exported.out);
    // The character would turn the rest of the line around in a terminal.
    let shown = Shown::start(world.command(&["workflow", "export", &id]), 100, &[]).end();
    assert!(plain(&shown).contains("\\u202e") && !shown.contains('\u{202e}'), "{shown}");
}
