//! The checked files, and the findings.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::rust::Scanned;
use crate::Outcome;

/// One finding. Line 0 means the whole file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    pub(super) fn in_file(path: &str, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line: 0, message: message.into() }
    }

    pub(super) fn at_line(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// A file, with its path from the root of the repository. If it is not UTF-8, its text is empty.
pub(super) struct SourceFile {
    pub(super) path: String,
    pub(super) text: String,
    /// `None`: not a Rust file.
    pub(super) rust: Option<Scanned>,
}

impl SourceFile {
    pub(super) fn new(path: &str, text: &str) -> SourceFile {
        let rust = path.ends_with(".rs").then(|| Scanned::new(text));
        SourceFile { path: path.to_owned(), text: text.to_owned(), rust }
    }

    /// Whether the whole file is test code.
    pub(super) fn is_test_file(&self) -> bool {
        self.is_in_tests_directory() || self.path.ends_with("/tests.rs")
    }

    pub(super) fn is_in_tests_directory(&self) -> bool {
        self.path.starts_with("tests/") || self.path.contains("/tests/")
    }

    /// The lines of Rust code, counted from 1, without comments and the text of literals. The flag says whether the
    /// line is test code: in a test file, or from the file's test module to its end.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let lines = self.rust.as_ref().map_or(&[][..], |rust| &rust.code);
        let tests_from = if self.is_test_file() { 0 } else { test_module_start(lines) };
        lines.iter().enumerate().map(move |(index, line)| (index + 1, line.as_str(), index >= tests_from))
    }
}

/// The index of the line that opens an inline test module. `#[cfg(test)]` on other items, such as `mod tests;`, does
/// not make the rest of the file test code.
fn test_module_start(lines: &[String]) -> usize {
    let opens_module = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"mod") && words.last() == Some(&"{")
    };
    let is_test_attribute =
        |line: &str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
    let found = lines.windows(2).position(|pair| is_test_attribute(&pair[0]) && opens_module(&pair[1]));
    found.unwrap_or(lines.len())
}

/// Every file that git tracks, or would track.
pub(super) fn load(repository: &Path) -> Outcome<Vec<SourceFile>> {
    let mut git = Command::new("git");
    git.current_dir(repository).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = super::capture(&mut git)?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    // A file with a merge conflict is listed once per version.
    paths.sort_unstable();
    paths.dedup();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let place = repository.join(path);
        // Tracked files that have been removed are still listed.
        if !place.is_file() {
            continue;
        }
        let bytes = fs::read(&place).map_err(|error| format!("cannot read {path}: {error}"))?;
        files.push(SourceFile::new(path, &String::from_utf8(bytes).unwrap_or_default()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_lines(path: &str, text: &str) -> Vec<usize> {
        let file = SourceFile::new(path, text);
        file.code_lines().filter(|(_, _, is_test)| *is_test).map(|(line, _, _)| line).collect()
    }

    #[test]
    fn an_inline_test_module_is_test_code_to_the_end() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(test_lines("crates/x/src/a.rs", text), [2, 3, 4]);
    }

    #[test]
    fn a_test_module_elsewhere_does_not_hide_the_rest() {
        assert!(test_lines("crates/x/src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n").is_empty());
        assert!(test_lines("crates/x/src/a.rs", "// #[cfg(test)]\nmod a {\n}\n").is_empty());
    }

    #[test]
    fn test_files_are_test_code() {
        assert_eq!(test_lines("crates/x/tests/a.rs", "fn a() {}\n"), [1]);
        assert_eq!(test_lines("crates/x/src/rules/tests.rs", "fn a() {}\n"), [1]);
        assert!(test_lines("crates/x/src/test.rs", "fn a() {}\n").is_empty());
    }

    #[test]
    fn a_finding_names_its_place() {
        assert_eq!(Finding::at_line("a.rs", 3, "bad").to_string(), "a.rs:3: bad");
        assert_eq!(Finding::in_file("a.rs", "bad").to_string(), "a.rs: bad");
    }
}
