//! The engine is a pure function of its arguments: it must not reach a clock, a thread, a disk or a network, nor depend
//! on a crate that can.

use super::rust::mentions;
use super::source::{Finding, SourceFile};

const SOURCES: &str = "crates/engine/src/";

/// Crates that only compute. Before you add one, make sure that it and its dependencies do no I/O and read neither
/// clock nor random numbers.
const ALLOWED_CRATES: &[&str] = &[
    "flovyn-engine",
    "bytes",
    "itoa",
    "memchr",
    "rustc-hash",
    "ryu",
    "serde",
    "serde_core",
    "serde_json",
    "thiserror",
    "uuid",
    "zmij",
    // Run by the compiler, not by the engine:
    "serde_derive",
    "thiserror-impl",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
];

const FORBIDDEN: &[&str] = &[
    "SystemTime",
    "Instant::now",
    "std::thread",
    "std::fs",
    "std::net",
    "std::env",
    "tokio",
    "tracing::",
    "println!",
    "eprintln!",
    "print!",
    "eprint!",
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with(SOURCES)) {
        for (line, code, _) in file.code_lines() {
            for needle in FORBIDDEN.iter().filter(|needle| mentions(code, needle)) {
                let message = format!(
                    "`{needle}` in the engine: it gets time, randomness and ids as arguments and does no \
                     I/O, so that every run can be repeated"
                );
                findings.push(Finding::at_line(&file.path, line, message));
            }
        }
    }
    findings
}

/// Takes the output of `cargo tree --prefix none`: a crate's name is the first word of its line.
pub(super) fn check_dependencies(tree: &str) -> Vec<Finding> {
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !ALLOWED_CRATES.contains(name));
    let finding = |name: &&str| {
        let message = format!(
            "the engine depends on `{name}`, which is not among the crates known only to compute: the \
             engine does no I/O, not even by way of a dependency"
        );
        Finding::in_file("crates/engine/Cargo.toml", message)
    };
    names.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_the_engine_is_found() {
        let file = SourceFile::new("crates/engine/src/rules/a.rs", "//! A.\nfn f() { SystemTime::now(); }\n");
        let findings = check(&[file]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().starts_with("crates/engine/src/rules/a.rs:2: `SystemTime`"));
    }

    #[test]
    fn each_forbidden_word_is_found() {
        for needle in FORBIDDEN {
            let file = SourceFile::new("crates/engine/src/a.rs", &format!("use {needle};\n"));
            assert_eq!(check(&[file]).len(), 1, "{needle}");
        }
    }

    #[test]
    fn words_elsewhere_are_no_matter() {
        let comment = SourceFile::new("crates/engine/src/a.rs", "//! Knows no tokio.\n");
        let other_crate = SourceFile::new("crates/service/src/a.rs", "use std::thread;\n");
        assert_eq!(check(&[comment, other_crate]), []);
    }

    #[test]
    fn an_unknown_dependency_is_named() {
        let tree =
            "flovyn-engine v0.1.0 (/x)\nbytes v1.10.0\nuuid v1.0.0\ngetrandom v0.3.0\nbytes v1.10.0 (*)\n";
        let findings = check_dependencies(tree);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().contains("`getrandom`"));
    }
}
