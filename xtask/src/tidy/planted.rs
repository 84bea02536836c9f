//! Planted bugs are in no product build: only the engine defines their feature, only the simulator uses it, and nothing
//! enables it by default.

use super::source::{Finding, SourceFile};

const FEATURE: &str = "planted-bugs";

/// The lines of manifests that may name the feature.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/engine/Cargo.toml", "planted-bugs = []"),
    ("crates/sim/Cargo.toml", "planted-bugs = [\"flovyn-engine/planted-bugs\"]"),
    ("crates/sim/Cargo.toml", "required-features = [\"planted-bugs\"]"),
];

/// The file that lists the bugs, and the guard that keeps them out of releases.
const HOME: &str = "crates/engine/src/planted.rs";
const GUARD: &str = "#[cfg(all(feature = \"planted-bugs\", not(debug_assertions)))]\ncompile_error!(";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        for (index, line) in file.text.lines().enumerate() {
            let names_it = line.contains(FEATURE) && !line.trim_start().starts_with('#');
            if names_it && !ALLOWED.contains(&(file.path.as_str(), line.trim())) {
                let message =
                    format!("`{FEATURE}` is for the simulator alone: nothing else may switch it on");
                findings.push(Finding::at_line(&file.path, index + 1, message));
            }
        }
    }
    for file in files.iter().filter(|file| file.path == HOME && !file.text.contains(GUARD)) {
        findings.push(Finding::in_file(&file.path, "nothing keeps planted bugs out of a build for release"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[SourceFile::new(path, text)]).len()
    }

    #[test]
    fn the_simulator_may_name_the_feature() {
        for (path, line) in ALLOWED {
            assert_eq!(findings(path, &format!("{line}\n# planted-bugs\n")), 0, "{line}");
        }
    }

    #[test]
    fn nobody_may_switch_it_on() {
        assert_eq!(findings("crates/engine/Cargo.toml", "default = [\"planted-bugs\"]\n"), 1);
        assert_eq!(findings("crates/sim/Cargo.toml", "default = [\"planted-bugs\"]\n"), 1);
        let dependency = "flovyn-engine = { workspace = true, features = [\"planted-bugs\"] }\n";
        assert_eq!(findings("crates/server/Cargo.toml", dependency), 1);
    }

    #[test]
    fn a_release_refuses_them() {
        assert_eq!(findings(HOME, "//! Bugs.\n"), 1);
        assert_eq!(findings(HOME, &format!("{GUARD}\"\");\n")), 0);
    }
}
