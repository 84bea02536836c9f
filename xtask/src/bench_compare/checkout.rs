//! The two sides of a comparison: their sources, and how they are built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::run;

/// The settings of the profile `dist`. They are given as variables, because an older commit may lack the profile.
const AS_SHIPPED: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "thin"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];

/// One side: its sources, and its build.
pub(super) struct Side {
    name: &'static str,
    sources: PathBuf,
    target: PathBuf,
    bench: PathBuf,
    revision: String,
    /// The names of optimisations that are switched off.
    without: String,
}

impl Side {
    /// The base commit, checked out inside the build folder. It is kept there, so that a second comparison need not
    /// build it again.
    pub(super) fn base(commit: &str) -> Outcome<Self> {
        let revision = git(&["rev-parse", "--short=10", "--verify", &format!("{commit}^{{commit}}")])?;
        let sources = run::target().join("bench-compare").join(&revision);
        if !sources.join("Cargo.toml").exists() {
            git(&["worktree", "prune"])?;
            let folder = sources.to_string_lossy().into_owned();
            git(&["worktree", "add", "--detach", "--force", &folder, &revision])?;
        }
        let target = sources.join("target");
        Ok(Self::at("base", sources, target, revision))
    }

    /// This checkout, including uncommitted changes.
    pub(super) fn this() -> Self {
        let revision =
            git(&["describe", "--always", "--dirty", "--abbrev=10"]).unwrap_or_else(|_| "unknown".into());
        // Not the usual build folder: its release build has other settings.
        let target = run::target().join("bench-compare").join("this");
        Self::at("this", run::repository(), target, revision)
    }

    fn at(name: &'static str, sources: PathBuf, target: PathBuf, revision: String) -> Self {
        let bench = target.join("release").join("flovyn-bench");
        Self { name, sources, target, bench, revision, without: String::new() }
    }

    /// The same sources as the base of the comparison, without these optimisations.
    pub(super) fn without(self, names: &str) -> Self {
        let revision = format!("{} without {names}", self.revision);
        Self { name: "base", revision, without: names.to_owned(), ..self }
    }

    pub(super) fn switched_off(&self) -> &str {
        &self.without
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    /// The measuring program. It runs the server and the worker of its own build.
    pub(super) fn bench(&self) -> &Path {
        &self.bench
    }

    pub(super) fn build(&self) -> Outcome<()> {
        let mut command =
            run::cargo(["build", "--release", "--locked", "--bin", "flovyn", "--bin", "flovyn-bench"]);
        command.args(["--package", "flovyn", "--package", "flovyn-bench"]);
        if self.sources.join("crates/allocator").exists() {
            // Older commits have no such feature: jemalloc is always in them.
            command.args(["--features", "flovyn/jemalloc,flovyn-bench/jemalloc"]);
        }
        command.envs(AS_SHIPPED.iter().copied());
        run::require_success(command.current_dir(&self.sources).env("CARGO_TARGET_DIR", &self.target))
    }
}

/// The output of git, without the line break at the end.
fn git(arguments: &[&str]) -> Outcome<String> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(run::repository());
    run::output_of(&mut command).map(|text| text.trim().to_owned())
}
