//! The layout of a source file: not too long, and with an introduction.

use super::source::{Finding, SourceFile};

const LINES_LIMIT: usize = 600;

/// Tests are read one by one, so a long file of tests is less of a problem.
const TEST_LINES_LIMIT: usize = 1000;

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if file.path.ends_with(".rs") || file.path.ends_with(".sql") {
            findings.extend(too_long(file));
        }
        if file.path.ends_with(".rs") {
            findings.extend(no_introduction(file));
        }
    }
    findings
}

fn too_long(file: &SourceFile) -> Option<Finding> {
    let limit = if file.is_test_file() { TEST_LINES_LIMIT } else { LINES_LIMIT };
    let lines = file.text.lines().count();
    let message =
        format!("{lines} lines, {limit} at most: a file that long holds two things, so give each its own");
    (lines > limit).then(|| Finding::in_file(&file.path, message))
}

fn no_introduction(file: &SourceFile) -> Option<Finding> {
    let opens = file.text.trim_start().starts_with("//!");
    let message = "does not open with `//!`: say what the module is for and what it must not know, for \
                   whoever comes here by a search";
    (!opens).then(|| Finding::at_line(&file.path, 1, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, lines: usize) -> usize {
        check(&[SourceFile::new(path, &"//! A.\n".repeat(lines))]).len()
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(findings("crates/x/src/a.rs", LINES_LIMIT), 0);
        assert_eq!(findings("crates/x/src/a.rs", LINES_LIMIT + 1), 1);
        assert_eq!(findings("crates/x/src/a.sql", LINES_LIMIT + 1), 1);
        assert_eq!(findings("docs/a.md", LINES_LIMIT + 1), 0);
    }

    #[test]
    fn test_files_may_be_longer() {
        assert_eq!(findings("crates/x/tests/a.rs", TEST_LINES_LIMIT), 0);
        assert_eq!(findings("crates/x/tests/a.rs", TEST_LINES_LIMIT + 1), 1);
    }

    #[test]
    fn a_module_without_introduction_is_found() {
        let bare = SourceFile::new("crates/x/src/a.rs", "use std::fmt;\n//! Late.\n");
        let found: Vec<_> = check(&[bare]).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("does not open with `//!`"));
    }
}
