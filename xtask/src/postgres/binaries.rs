//! Finds the programs of PostgreSQL, or installs them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::account;
use crate::Outcome;
use crate::run;

/// Debian keeps each major version in its own directory, which is not in PATH.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";

/// The oldest major version the product supports.
const OLDEST_MAJOR: u32 = 14;

const NEEDED: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// A directory with every program that we need, of a supported version.
pub(crate) struct Binaries {
    pub(super) directory: PathBuf,
}

impl Binaries {
    /// Looks for the programs. If that is allowed, installs them and looks again.
    pub(crate) fn find_or_install() -> Outcome<Binaries> {
        if let Some(found) = find() {
            return Ok(found);
        }
        if account::is_root()? && on_path("apt-get") {
            install()?;
        }
        find().ok_or_else(advice)
    }
}

fn find() -> Option<Binaries> {
    let directories = path_directories().into_iter().chain(debian_directories(Path::new(DEBIAN_VERSIONS)));
    for directory in directories {
        if !NEEDED.iter().all(|name| directory.join(name).is_file()) {
            continue;
        }
        let major = installed_major(&directory);
        if major.is_some_and(|major| major >= OLDEST_MAJOR) {
            let version = major.unwrap_or_default();
            run::say(&format!("PostgreSQL {version} in {}", directory.display()));
            return Some(Binaries { directory });
        }
        run::say(&format!("skipping {}: not PostgreSQL {OLDEST_MAJOR} or newer", directory.display()));
    }
    None
}

fn path_directories() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

pub(crate) fn on_path(program: &str) -> bool {
    path_directories().iter().any(|directory| directory.join(program).is_file())
}

/// The newest version first.
fn debian_directories(versions: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(versions).into_iter().flatten().flatten();
    let mut majors: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.iter().map(|major| versions.join(major.to_string()).join("bin")).collect()
}

fn installed_major(directory: &Path) -> Option<u32> {
    let output = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
    major_of(&String::from_utf8_lossy(&output.stdout))
}

/// `postgres (PostgreSQL) 17.4 (Debian 17.4-1)` is 17, `postgres (PostgreSQL) 18beta1` is 18.
fn major_of(version: &str) -> Option<u32> {
    let number = version.split_whitespace().nth(2)?;
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

fn install() -> Outcome<()> {
    run::say("PostgreSQL is not installed: installing Debian's package");
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run::require_success(&mut command)
    };
    apt_get(&["update"])?;
    apt_get(&["install", "-y", "--no-install-recommends", "postgresql"])
}

fn advice() -> String {
    format!(
        "the programs {} of PostgreSQL {OLDEST_MAJOR} or newer are neither in PATH nor under \
         {DEBIAN_VERSIONS}. Install the server (Debian, Ubuntu: `apt-get install postgresql`; \
         Fedora: `dnf install postgresql-server`; macOS: `brew install postgresql`), and add the \
         directory of its programs to PATH if it is elsewhere",
        NEEDED.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version_is_read() {
        assert_eq!(major_of("postgres (PostgreSQL) 17.4 (Debian 17.4-1.pgdg120+2)\n"), Some(17));
        assert_eq!(major_of("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major_of("postgres (PostgreSQL) 9.6.24"), Some(9));
        assert_eq!(major_of("something else"), None);
    }

    #[test]
    fn newest_debian_version_comes_first() {
        let versions = env::temp_dir().join(format!("xtask-debian-{}", std::process::id()));
        for name in ["9", "17", "14", "common"] {
            fs::create_dir_all(versions.join(name)).unwrap();
        }
        let found = debian_directories(&versions);
        fs::remove_dir_all(&versions).unwrap();
        assert_eq!(found, ["17", "14", "9"].map(|major| versions.join(major).join("bin")));
    }
}
