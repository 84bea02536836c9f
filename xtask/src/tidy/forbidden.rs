//! Words that must not occur in Rust code, each with its reason.

use super::rust::mentions;
use super::source::{Finding, SourceFile};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Everywhere,
    OutsideTests,
    InTests,
}

use Where::{Everywhere, InTests, OutsideTests};

const RULES: &[(&str, Where, &str)] = &[
    (".unwrap()", OutsideTests, "return an error, or say why it cannot fail with expect(\"...\")"),
    ("todo!", Everywhere, "what is merged is finished"),
    ("unimplemented!", Everywhere, "what is merged is finished"),
    ("dbg!", Everywhere, "it is left over from debugging"),
    ("#[ignore", Everywhere, "a test that does not run proves nothing: repair or remove it"),
    ("unsafe", Everywhere, "nothing here needs it, and no reader should have to check it"),
    ("thread::sleep", InTests, SLEEP),
    ("time::sleep", InTests, SLEEP),
    ("time::sleep_until", InTests, SLEEP),
];

/// Crates that cannot do without `unsafe`. The shim stands between a process under test and its C library; no product
/// code depends on it. The allocator exports the symbol from which jemalloc reads its settings.
const UNSAFE_CRATES: &[&str] = &["crates/testkit-shim/", "crates/allocator/"];

const SLEEP: &str =
    "a test that sleeps is slow and still fails at times: wait for a signal, or move the clock";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (line, code, is_test) in file.code_lines() {
            let applies = |place: Where| match place {
                Everywhere => true,
                OutsideTests => !is_test,
                InTests => is_test,
            };
            for (needle, place, reason) in RULES {
                if *needle == "unsafe" && UNSAFE_CRATES.iter().any(|allowed| file.path.starts_with(allowed)) {
                    continue;
                }
                if applies(*place) && mentions(code, needle) {
                    findings.push(Finding::at_line(&file.path, line, format!("`{needle}`: {reason}")));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_rule_can_fail() {
        for (needle, place, reason) in RULES {
            let path = if *place == InTests { "crates/x/tests/a.rs" } else { "crates/x/src/a.rs" };
            let found = lines(path, &format!("//! A.\n{needle};\n"));
            assert_eq!(found, [format!("{path}:2: `{needle}`: {reason}")]);
        }
    }

    #[test]
    fn unwrap_is_allowed_in_tests_only() {
        let text = "//! A.\nfn f() { g().unwrap() }\n#[cfg(test)]\nmod tests {\nfn f() { g().unwrap() }\n}\n";
        let found = lines("crates/x/src/a.rs", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/x/src/a.rs:2:"));
        assert!(lines("crates/x/tests/a.rs", text).is_empty());
    }

    #[test]
    fn sleep_is_forbidden_in_tests_only() {
        let text = "//! A.\nfn f() { tokio::time::sleep(d) }\n#[cfg(test)]\nmod tests {\nfn f() { std::thread::sleep(d) }\n}\n";
        let found = lines("crates/x/src/a.rs", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/x/src/a.rs:5:"));
    }

    #[test]
    fn comments_and_literals_are_free() {
        assert!(
            lines("crates/x/src/a.rs", "//! No unsafe, no todo!.\nconst A: &str = \"dbg!\";\n").is_empty()
        );
    }
}
