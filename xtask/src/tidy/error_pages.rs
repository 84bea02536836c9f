//! Every error code has a page, and every page has a code, because users look up the code.

use std::collections::BTreeSet;

use super::source::{Finding, SourceFile};

/// Contains the table of codes, with rows like `(1, InvalidPayload, InvalidArgument, "...")`.
const TABLE: &str = "crates/engine/src/code.rs";

const PAGES: &str = "docs/errors/";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let codes = codes(files);
    if codes.is_empty() {
        let message =
            "no row like `(1, Name, Class, \"advice\")` is in here: codes and pages cannot be compared";
        return vec![Finding::in_file(TABLE, message)];
    }
    let mut findings = Vec::new();
    let pages: BTreeSet<&str> = files.iter().filter_map(|file| page(&file.path)).collect();
    for (line, code) in &codes {
        if !pages.contains(code.as_str()) {
            let message = format!("{code} has no page {PAGES}{code}.md: users look up what they are shown");
            findings.push(Finding::at_line(TABLE, *line, message));
        }
    }
    for page in pages {
        if !codes.iter().any(|(_, code)| code == page) {
            let message = format!("{page} is not in {TABLE}: the page explains an error that cannot occur");
            findings.push(Finding::in_file(&format!("{PAGES}{page}.md"), message));
        }
    }
    findings
}

/// The codes in the table, each with its line.
fn codes(files: &[SourceFile]) -> Vec<(usize, String)> {
    let table = files.iter().filter(|file| file.path == TABLE);
    let lines = table.flat_map(SourceFile::code_lines);
    lines.filter_map(|(line, code, _)| Some((line, format!("FLV{:04}", row_number(code)?)))).collect()
}

fn row_number(line: &str) -> Option<u16> {
    let (number, rest) = line.trim_start().strip_prefix('(')?.split_once(',')?;
    let names_a_variant = rest.trim_start().starts_with(|c: char| c.is_ascii_uppercase());
    number.trim().parse().ok().filter(|_| names_a_variant)
}

/// The code that a page is about. `None`: another file in the directory.
fn page(path: &str) -> Option<&str> {
    let name = path.strip_prefix(PAGES)?.strip_suffix(".md")?;
    name.starts_with("FLV").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[&str]) -> Vec<String> {
        let table = "//! Codes.\n\ncodes! {\n    (1, First, NotFound, \"a\"),\n    // (2, Gone, NotFound, \"b\"),\n    (30, Next, Internal, \"c\"),\n}\n";
        let mut files = vec![SourceFile::new(TABLE, table)];
        files.extend(pages.iter().map(|page| SourceFile::new(&format!("docs/errors/{page}.md"), "")));
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn pages_and_codes_agree() {
        assert!(found(&["FLV0001", "FLV0030", "README"]).is_empty());
    }

    #[test]
    fn a_code_without_page_is_found() {
        let found = found(&["FLV0001"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/engine/src/code.rs:6: FLV0030 has no page"));
    }

    #[test]
    fn a_page_without_code_is_found() {
        let found = found(&["FLV0001", "FLV0002", "FLV0030"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/errors/FLV0002.md: FLV0002 is not in"));
    }

    #[test]
    fn an_empty_table_is_found() {
        assert_eq!(check(&[]).len(), 1);
        assert_eq!(check(&[SourceFile::new(TABLE, "//! Codes.\n")]).len(), 1);
    }
}
