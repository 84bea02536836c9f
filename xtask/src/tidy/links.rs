//! Markdown links to files of the repository must resolve.
//!
//! Links to other hosts are not checked: such a check needs the network and fails for reasons of others.

use super::source::{Finding, SourceFile};

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in targets(&file.text) {
            if local_path(&file.path, &target).is_some_and(|path| !exists(files, &path)) {
                let message = format!("the link to `{target}` leads nowhere: no such file");
                findings.push(Finding::at_line(&file.path, line, message));
            }
        }
    }
    findings
}

/// Files are listed; a directory exists if it contains a file.
fn exists(files: &[SourceFile], path: &str) -> bool {
    let directory = format!("{path}/");
    path.is_empty() || files.iter().any(|file| file.path == path || file.path.starts_with(&directory))
}

/// The link targets of a text, each with its line. Links in code do not count.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                found.extend(line_targets(&without_code(line)).into_iter().map(|target| (index + 1, target)));
            }
        }
    }
    found
}

/// Removes the text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// `[text](target "title")`, `![image](target)` and `[name]: target`.
fn line_targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let trimmed = line.trim_start();
    if let Some((_, target)) = trimmed.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        found.extend(first_word(target));
    }
    for (start, mark) in line.match_indices("](") {
        let rest = &line[start + mark.len()..];
        found.extend(rest.split_once(')').and_then(|(target, _)| first_word(target)));
    }
    found
}

fn first_word(target: &str) -> Option<String> {
    let word = target.split_whitespace().next()?;
    Some(word.trim_matches(['<', '>']).to_owned())
}

/// The path that a link names from the root of the repository. `None`: the link is to no file.
fn local_path(from: &str, target: &str) -> Option<String> {
    let has_scheme = target.split_once(':').is_some_and(|(scheme, _)| !scheme.contains(['/', '.', '#']));
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if has_scheme || target.starts_with("//") || path.is_empty() {
        return None;
    }
    let mut parts: Vec<&str> = match path.starts_with('/') {
        true => Vec::new(),
        false => from.rsplit_once('/').map_or(Vec::new(), |(directory, _)| directory.split('/').collect()),
    };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // A path above the root is kept, so that no file is found for it.
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = [
            SourceFile::new("docs/guide/start.md", text),
            SourceFile::new("docs/errors/FLV0001.md", ""),
            SourceFile::new("README.md", ""),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_resolve_are_right() {
        let text = "[a](../errors/FLV0001.md#top) [b](/README.md) ![c](../errors) [d](./start.md \"Start\")\n\
                    [e](https://example.com/x) [f](mailto:a@example.com) [g](#here) [h](..)\n[i]: ../../README.md\n";
        assert!(found(text).is_empty(), "{:?}", found(text));
    }

    #[test]
    fn dead_links_are_found() {
        for target in ["missing.md", "../errors/FLV0002.md#x", "/docs/none", "../../../README.md"] {
            let found = found(&format!("One\n[two]({target})\n"));
            assert_eq!(found.len(), 1, "{target}");
            assert!(found[0].starts_with("docs/guide/start.md:2: the link to"), "{found:?}");
        }
        assert_eq!(found("[a]: missing.md\n").len(), 1);
        assert_eq!(found("[a](README.md) [b](<missing.md>)\n").len(), 2);
    }

    #[test]
    fn code_holds_no_links() {
        assert!(found("```\n[a](missing.md)\n```\nuse `x[0](missing)` so\n").is_empty());
        assert_eq!(found("```\n```\n[a](missing.md)\n").len(), 1);
    }
}
