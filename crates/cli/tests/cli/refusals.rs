//! Every failure has a message, says what to do, and has its exit code.

use crate::snapshot::Transcript;
use crate::world::{MISSING, Ran, World, flovyn};

#[test]
fn wrong_input_is_told_before_anything_is_sent() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    typed.run(&["workflow", "start", "greeting", "--input", "hello"]);
    typed.run(&["workflow", "start", "greeting", "--input", "@missing.json"]);
    typed.run(&["workflow", "start", "greeting", "--label", "ada"]);
    typed.run(&["workflow", "start", "greeting", "--at", "tomorrow"]);
    typed.run(&["workflow", "wait", MISSING, "--timeout", "5"]);
    typed.run(&["workflow", "list", "--status", "done"]);
    typed.run(&["workflow", "list", "--limit", "0"]);
    typed.run(&["workflow", "cancle", MISSING]);
    typed.run(&["workflow", "show"]);
    typed.run(&["workflow", "list", "--url", "localhost:8080", "--token", "x"]);
    typed.check("wrong_input");
    let listed = world.run(&["workflow", "list"]);
    assert_eq!(listed.out, "", "nothing was started");
}

#[test]
fn what_is_not_there_is_told_by_the_server() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    for arguments in [
        &["workflow", "show", MISSING][..],
        &["workflow", "show", "lamp"],
        &["workflow", "events", MISSING],
        &["workflow", "wait", MISSING],
        &["workflow", "retry", MISSING],
        &["workflow", "export", MISSING],
        &["task", "show", MISSING],
        &["task", "logs", "--follow", MISSING],
        &["token", "revoke", MISSING],
        &["workflow", "list", "--tenant", "acme"],
        &["workflow", "start", "greeting", "--key", "k", "--key-ttl", "365d"],
        &["workflow", "start", ""],
    ] {
        typed.run(arguments);
    }
    typed.check("not_there");
}

#[test]
fn who_may_not_is_told_where_the_token_is_from() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    typed.run(&["workflow", "list", "--token", "wrong"]);
    typed.run(&["workflow", "list", "--token", "two\nlines"]);
    typed.check("not_allowed");
    let viewer = world.token(&["default"], "viewer");
    let refused = world.run(&["workflow", "start", "greeting", "--token", &viewer]);
    assert_eq!(refused.code, 4, "{}", refused.err);
    assert!(refused.err.contains("FLV0081") && !refused.err.contains(&viewer), "{}", refused.err);
}

#[test]
fn a_server_that_is_down_is_told_with_its_address() {
    let mut world = World::new();
    world.stop_server();
    let mut typed = Transcript::new(&world);
    typed.run(&["workflow", "list"]);
    typed.run(&["task", "create", "send-email"]);
    typed.check("server_down");
}

#[test]
fn without_any_server_the_first_step_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Ran::of(flovyn(folder.path(), &["workflow", "list"]).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.starts_with("flovyn: no server is named") && ran.err.contains("`flovyn dev`"),
        "{}",
        ran.err
    );
    let arguments = ["workflow", "list", "--url", "http://127.0.0.1:1"];
    let ran = Ran::of(flovyn(folder.path(), &arguments).output().unwrap());
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(
        ran.err.contains("no token for http://127.0.0.1:1") && ran.err.contains("FLOVYN_TOKEN"),
        "{}",
        ran.err
    );
}
