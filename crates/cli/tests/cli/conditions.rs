//! Bad conditions: broken files, invalid input, readers that close the pipe, limited terminals.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::snapshot::Transcript;
use crate::terminal::{Shown, plain};
use crate::world::{MISSING, Ran, World};

const LAMP: &str = r#"{"item": "lamp", "cents": 2500}"#;

/// An order that waits for its courier signal.
fn waiting(world: &World) -> String {
    let id = world.run(&["workflow", "start", "order", "-i", LAMP]).id();
    world.until(&["workflow", "show", &id, "-o", "json"], |found| found["lastSequence"] == 7);
    id
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    let folder = world.folder();
    let profiles = folder.join(".config/flovyn/config.toml");
    std::fs::create_dir_all(profiles.parent().unwrap()).unwrap();
    for content in [&b"default = ["[..], b"\xff", b"default = \"gone\"\n[profiles.here]\nurl = \"x\"\n"] {
        std::fs::write(&profiles, content).unwrap();
        typed.run(&["workflow", "list"]);
    }
    let text = "[profiles.here]\nurl = \"http://127.0.0.1:1\"\ntoken_file = \"token\"\n";
    std::fs::write(&profiles, text).unwrap();
    typed.run(&["workflow", "list", "--profile", "here"]);
    std::fs::remove_file(&profiles).unwrap();
    std::fs::create_dir(&profiles).unwrap();
    typed.run(&["workflow", "list"]);
    std::fs::remove_dir(&profiles).unwrap();

    let credentials = folder.join(".flovyn/credentials.json");
    for content in [&b"{"[..], b"{}", b"\xff"] {
        std::fs::write(&credentials, content).unwrap();
        typed.run(&["workflow", "list"]);
    }
    typed.check("broken_files");
}

#[test]
fn input_that_is_none_is_told() {
    let world = World::new();
    std::fs::write(world.folder().join("latin.json"), b"\"\xe9\"").unwrap();
    std::fs::write(world.folder().join("empty.json"), b"\n").unwrap();
    let mut typed = Transcript::new(&world);
    for input in ["{\"a\":", "", "-", "@latin.json", "@empty.json", "@.flovyn"] {
        typed.run(&["workflow", "start", "greeting", "--input", input]);
    }
    typed.run(&["workflow", "show", "01a1e259"]);
    typed.run(&["token", "revoke", "production"]);
    typed.check("no_input");
    let mut command = world.command(&["workflow", "show"]);
    let ran = Ran::of(command.arg(OsStr::from_bytes(b"\xff\xfe")).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("invalid UTF-8"), "{}", ran.err);
}

#[test]
fn input_comes_from_stdin() {
    let world = World::new();
    for from in ["-", "@-"] {
        let mut command = world.command(&["workflow", "start", "greeting", "--input", from, "--wait"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"{\"name\": \"Ada\"}\n").unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.out.as_str()), (0, "\"Hello, Ada!\"\n"), "{}", ran.err);
    }
}

#[test]
fn a_token_that_has_expired_says_so() {
    let world = World::new();
    let secret = world.folder().join(".flovyn/jwt.secret");
    let jwt = flovyn_server::config::Jwt::with_secret_file(secret, "flovyn-dev", "flovyn");
    let expired = jwt.verifier().unwrap().sign("ada", &["default"], "admin", 1, 1_736_937_000).unwrap();
    let ran = Ran::of(world.command(&["workflow", "list"]).env("FLOVYN_TOKEN", expired).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    let said = "The token is from --token or FLOVYN_TOKEN, and it expired at 2025-01-15T10:30:00.000Z.";
    assert!(ran.err.contains(said), "{}", ran.err);
}

#[test]
fn readers_that_go_away_are_no_failure() {
    let world = World::new();
    let id = waiting(&world);
    for arguments in [
        &["workflow", "list"][..],
        &["workflow", "list", "-o", "json"],
        &["workflow", "events", &id],
        &["workflow", "events", "--follow", &id],
        &["workflow", "show", &id],
        &["workflow", "export", &id],
        &["workflow", "tasks", &id],
        &["worker", "list"],
        &["completions", "zsh"],
        &["doctor"],
        &["--help"],
    ] {
        let mut child = world.command(arguments).spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        assert!(
            !ran.err.contains("panicked") && !ran.err.contains("roken pipe"),
            "{arguments:?}: {}",
            ran.err
        );
    }
    // With stderr closed too, the exit code does not change.
    for (arguments, code) in
        [(&["workflow", "show", MISSING][..], 3), (&["workflow", "cancel", &id], 0), (&["doctor"], 0)]
    {
        let mut child = world.command(arguments).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_terminal_without_unicode_gets_ascii() {
    let world = World::new();
    let id = waiting(&world);
    for arguments in [&["workflow", "show", &id][..], &["workflow", "list"], &["workflow", "events", &id]] {
        for columns in [40, 80, 200] {
            let shown = Shown::start(world.command(arguments), columns, &[("LC_ALL", "C")]).end();
            assert!(shown.is_ascii() && shown.contains("order"), "{arguments:?} {columns}: {shown}");
        }
    }
}

#[test]
fn a_narrow_terminal_has_room_for_the_timeline() {
    let world = World::new();
    let id = waiting(&world);
    for columns in [40, 200] {
        let shown = plain(&Shown::start(world.command(&["workflow", "show", &id]), columns, &[]).end());
        let (_, timeline) = shown.split_once("\r\n\r\n").unwrap();
        let fits = timeline.lines().all(|line| line.trim_end().chars().count() <= usize::from(columns));
        assert!(fits && timeline.contains("parcel"), "{columns}: {shown}");
    }
}

#[test]
fn ctrl_c_ends_the_waiting_and_not_the_execution() {
    let world = World::new();
    let id = waiting(&world);
    for arguments in [&["workflow", "events", "--follow", &id][..], &["workflow", "show", "--follow", &id]] {
        let mut following = world.follow(arguments);
        following.until("STATE_SET");
        let status = following.interrupt();
        assert_eq!(status.signal(), Some(2), "{arguments:?}");
    }
    let mut shown = Shown::start(world.command(&["workflow", "wait", &id]), 100, &[]);
    shown.until("order [");
    assert_eq!(shown.interrupt().signal(), Some(2));
    assert_eq!(world.run(&["workflow", "show", &id, "-o", "json"]).json()["status"], "WAITING");
}

/// Runs the command like a shell.
pub(crate) fn interrupt(process: u32) {
    let sent = Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn what_is_listed_is_what_is_shown() {
    let world = World::new();
    let id = waiting(&world);
    world.run(&["task", "create", "nobody", "--queue", "empty"]).id();
    let keys =
        |value: &serde_json::Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    for (noun, list) in [("workflow", &["workflow", "list"][..]), ("task", &["task", "list"])] {
        let items = world.run(&[list, &["-o", "json"]].concat()).json();
        let first = &items[0];
        let shown = world.run(&[noun, "show", first["id"].as_str().unwrap(), "-o", "json"]).json();
        for key in keys(first) {
            assert_eq!(shown[&key], first[&key], "{noun} {key}");
        }
    }
    for arguments in [
        &["workflow", "tasks", &id][..],
        &["workflow", "events", &id],
        &["queue", "list"],
        &["worker", "list"],
        &["token", "list"],
    ] {
        let items = world.run(&[arguments, &["-o", "json"]].concat()).json();
        let items = items.as_array().unwrap();
        assert!(!items.is_empty() && items.iter().all(|item| item.is_object()), "{arguments:?}: {items:?}");
    }
}
