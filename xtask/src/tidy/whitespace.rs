//! White space that is invisible but appears in diffs.

use super::source::{Finding, SourceFile};

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    // Snapshots contain the exact output of a program.
    files.iter().filter(|file| !file.path.ends_with(".snap")).flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_rust = file.path.ends_with(".rs");
    for (index, line) in file.text.split('\n').enumerate() {
        if line.ends_with(char::is_whitespace) {
            let message = "white space at the end of the line: it makes noise in every later diff";
            findings.push(Finding::at_line(&file.path, index + 1, message));
        }
        if is_rust && line.contains('\t') {
            let message = "a tab: it looks different to everyone; write `\\t` in a literal, else spaces";
            findings.push(Finding::at_line(&file.path, index + 1, message));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        let message = "no line break at the end: the next addition would change the last line too";
        findings.push(Finding::in_file(&file.path, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_kind_is_found() {
        assert!(found("a.md", "one\ntwo \n")[0].starts_with("a.md:2: white space"));
        assert!(found("a.md", "one\r\n")[0].starts_with("a.md:1: white space"));
        assert!(found("a.rs", "\tone\n")[0].starts_with("a.rs:1: a tab"));
        assert!(found("a.rs", "one")[0].starts_with("a.rs: no line break"));
    }

    #[test]
    fn what_is_clean_passes() {
        assert!(found("a.rs", "one\n\n    two\n").is_empty());
        assert!(found("Makefile", "all:\n\tone\n").is_empty());
        assert!(found("a.snap", "one \n").is_empty());
        assert!(found("empty", "").is_empty());
    }
}
