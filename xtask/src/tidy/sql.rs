//! SQL may only be written in the store, so that all statements that use a table are in one place.

use super::source::{Finding, SourceFile};

const STATEMENTS: [&str; 4] = ["SELECT", "INSERT INTO", "UPDATE", "DELETE FROM"];

/// The store, and the bench's baseline, which measures what the bare drivers can do.
const HOMES: [&str; 2] = ["crates/store/", "crates/bench/src/raw/"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !may_hold_sql(file)) {
        for literal in file.rust.iter().flat_map(|rust| &rust.literals) {
            if let Some(statement) = statement(&literal.text) {
                let message = format!(
                    "a {statement} statement outside the store: put it in crates/store, so that all \
                     statements are in one place"
                );
                findings.push(Finding::at_line(&file.path, literal.line, message));
            }
        }
    }
    findings
}

fn may_hold_sql(file: &SourceFile) -> bool {
    file.is_in_tests_directory() || HOMES.iter().any(|home| file.path.starts_with(home))
}

/// Upper case only, because a sentence may begin with "Select".
fn statement(text: &str) -> Option<&'static str> {
    let begins = |statement: &&&str| {
        let rest = text.trim_start().strip_prefix(**statement);
        rest.is_some_and(|rest| rest.starts_with(char::is_whitespace))
    };
    STATEMENTS.iter().find(begins).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, literal: &str) -> usize {
        check(&[SourceFile::new(path, &format!("//! A.\nconst Q: &str = {literal};\n"))]).len()
    }

    #[test]
    fn each_statement_is_found() {
        for statement in STATEMENTS {
            assert_eq!(findings("crates/service/src/a.rs", &format!("\"{statement} x\"")), 1, "{statement}");
        }
        assert_eq!(findings("crates/service/src/a.rs", "\"\\\n    SELECT 1\""), 1);
        assert_eq!(findings("crates/service/src/a.rs", "r#\"\n  SELECT\n 1\"#"), 1);
    }

    #[test]
    fn sql_in_its_homes_is_right() {
        for path in
            ["crates/store/src/sqlite/a.rs", "crates/bench/src/raw/sqlite.rs", "crates/server/tests/a.rs"]
        {
            assert_eq!(findings(path, "\"SELECT 1\""), 0, "{path}");
        }
    }

    #[test]
    fn sentences_are_not_sql() {
        assert_eq!(findings("crates/cli/src/a.rs", "\"Select a queue\""), 0);
        assert_eq!(findings("crates/cli/src/a.rs", "\"UPDATED\""), 0);
    }
}
