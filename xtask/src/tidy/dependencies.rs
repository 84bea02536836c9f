//! Dependencies: their licences, their sources, and which are forbidden. The lists are those of `deny.toml`, so that
//! `cargo deny` checks the same lists. Only cargo-deny can check for known vulnerabilities.

use serde_json::Value;

use super::source::Finding;

const LISTS: &str = "deny.toml";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// `metadata`: the output of `cargo metadata`. `lists`: the text of `deny.toml`.
pub(super) fn check(metadata: &Value, lists: &str) -> Vec<Finding> {
    let (allowed, denied) = (list(lists, "allow"), list(lists, "deny"));
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {}", text("name"), text("version"));
        if denied.iter().any(|denied| denied == text("name")) {
            findings
                .push(Finding::in_file(LISTS, format!("{name} is denied here, but a crate depends on it")));
        }
        if package["source"].is_null() {
            continue;
        }
        if text("source") != REGISTRY {
            let source = text("source");
            findings
                .push(Finding::in_file(LISTS, format!("{name} comes from {source}, not from the registry")));
        }
        let licence = text("license").replace('/', " OR ");
        if !is_allowed(&licence, &allowed) {
            findings.push(Finding::in_file(
                LISTS,
                format!("{name} has a licence that is not allowed: '{licence}'"),
            ));
        }
    }
    findings
}

/// The strings of an array in the file, one per line.
fn list(text: &str, name: &str) -> Vec<String> {
    let begin = format!("{name} = [");
    let lines = text.lines().skip_while(|line| *line != begin).skip(1).take_while(|line| *line != "]");
    lines.filter_map(|line| line.trim().strip_prefix('"')?.split('"').next().map(str::to_owned)).collect()
}

/// Whether the allowed licences satisfy an SPDX expression. An exception (`WITH`) only adds rights.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = any(&mut rest, allowed);
    met && rest.is_empty()
}

fn any(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut met = all(words, allowed);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut met = one(words, allowed);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut &[&str], allowed: &[String]) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let met = any(words, allowed);
            let [")", rest @ ..] = words else { return false };
            *words = rest;
            met
        }
        [licence, rest @ ..] => {
            let met = allowed.iter().any(|allowed| allowed == licence);
            *words = match rest {
                ["WITH", _, rest @ ..] => rest,
                rest => rest,
            };
            met
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "[licenses]\nallow = [\n    \"MIT\",\n    \"ISC\",\n]\n[bans]\ndeny = [\n    # Why.\n    \"openssl\",\n]\n";

    fn findings(package: Value) -> Vec<String> {
        let metadata = json!({ "packages": [package] });
        check(&metadata, TEXT).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_rule_can_fail() {
        let good = json!({ "name": "a", "version": "1.0.0", "license": "MIT", "source": REGISTRY });
        assert!(findings(good.clone()).is_empty());
        for (key, value, reason) in [
            ("name", "openssl", "denied"),
            ("license", "GPL-3.0", "licence"),
            ("license", "", "licence"),
            ("source", "git+https://example.com/a", "not from the registry"),
        ] {
            let mut package = good.clone();
            package[key] = json!(value);
            let found = findings(package);
            assert!(found.len() == 1 && found[0].contains(reason), "{key}: {found:?}");
        }
    }

    #[test]
    fn our_own_crates_need_no_licence_from_others() {
        assert!(findings(json!({ "name": "flovyn", "version": "0.1.0", "source": null })).is_empty());
    }

    #[test]
    fn expressions_are_read_as_they_are_meant() {
        let allowed = ["MIT".to_owned(), "ISC".to_owned()];
        for met in
            ["MIT", "GPL-2.0 OR MIT", "MIT AND ISC", "(GPL-2.0 OR MIT) AND ISC", "MIT WITH some-exception"]
        {
            assert!(is_allowed(met, &allowed), "{met}");
        }
        for unmet in ["GPL-2.0", "MIT AND GPL-2.0", "(MIT OR ISC) AND GPL-2.0", "(MIT", "MIT ISC"] {
            assert!(!is_allowed(unmet, &allowed), "{unmet}");
        }
    }
}
