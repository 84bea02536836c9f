//! The help, and the page of the reference that is generated from it.

use std::path::PathBuf;

use tempfile::tempdir;

use crate::world::{Ran, flovyn};

fn run(arguments: &[&str]) -> Ran {
    let folder = tempdir().unwrap();
    Ran::of(flovyn(folder.path(), arguments).env("COLUMNS", "100").output().unwrap())
}

/// The subcommands in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let before = help.split("\nOptions:\n").next().unwrap_or_default();
    let lines = before.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help" && name.starts_with(|first: char| first.is_ascii_lowercase()))
        .map(str::to_owned)
        .collect()
}

/// Help of a command and of all its subcommands.
fn pages(command: &[String], out: &mut Vec<(Vec<String>, String)>) {
    let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    arguments.push("--help");
    let ran = run(&arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    out.push((command.to_vec(), ran.out.clone()));
    for name in subcommands(&ran.out) {
        pages(&[command, &[name]].concat(), out);
    }
}

#[test]
fn every_command_has_examples_or_commands() {
    let mut all = Vec::new();
    pages(&[], &mut all);
    assert!(all.len() > 40, "{} commands", all.len());
    for (command, text) in &all {
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{command:?}: {text}");
        let shows = text.contains("Examples:") || text.contains("\nCommands:\n");
        assert!(shows, "{command:?}: {text}");
    }
}

#[test]
fn help_fits_the_terminal() {
    let folder = tempdir().unwrap();
    for columns in ["60", "80"] {
        for command in [&["workflow", "start", "--help"][..], &["doctor", "--help"]] {
            let ran = Ran::of(flovyn(folder.path(), command).env("COLUMNS", columns).output().unwrap());
            let width: usize = columns.parse().unwrap();
            assert!(ran.out.lines().all(|line| line.chars().count() <= width), "{columns}: {}", ran.out);
        }
    }
}

#[test]
fn the_reference_is_what_help_says() {
    let mut all = Vec::new();
    pages(&[], &mut all);
    let mut found = String::new();
    for (command, text) in all {
        let name = [&["flovyn".to_owned()][..], &command].concat().join(" ");
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        found.push_str(&format!("### {name}\n\n```text\n{}\n```\n\n", lines.join("\n").trim_end()));
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (before, now) = page.split_once("## Commands\n\n").unwrap();
    if std::env::var_os("FLOVYN_TEST_UPDATE").is_some() {
        std::fs::write(&file, format!("{before}## Commands\n\n{}\n", found.trim_end())).unwrap();
        return;
    }
    let differs = now.lines().zip(found.lines()).find(|(now, found)| now != found);
    assert!(
        now.trim_end() == found.trim_end(),
        "docs/reference/cli.md is old; the first difference: {differs:?}"
    );
}

#[test]
fn completions_are_there_for_each_shell() {
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef flovyn"), ("fish", "complete -c flovyn")]
    {
        let ran = run(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
        assert!(ran.out.contains(part) && ran.out.contains("terminate"), "{shell}");
    }
    let ran = run(&["completions", "basic"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
}

#[test]
fn bash_takes_its_completions() {
    let folder = tempdir().unwrap();
    let script = run(&["completions", "bash"]).out;
    std::fs::write(folder.path().join("flovyn.bash"), script).unwrap();
    let asks = ". ./flovyn.bash; COMP_WORDS=(flovyn workflow ter); COMP_CWORD=2; _flovyn flovyn ter workflow; echo ${COMPREPLY[@]}";
    let output = std::process::Command::new("bash")
        .args(["--noprofile", "--norc", "-c", asks])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "terminate\n");
}
