//! `cargo xtask python`: the tests in `tests/python`, a gRPC client that shares no code with the server. Python's
//! packages are installed once. If they cannot be installed, `cargo xtask test` skips these tests with a warning.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::Outcome;
use crate::chaos;
use crate::postgres::{Binaries, Cluster, on_path};
use crate::run;
use crate::signal;

const TESTS: &str = "tests/python";
const PROTO: &str = "crates/proto/proto";
/// `tests/python/server.py` reads a variable of this name.
const BINARY_VARIABLE: &str = "FLOVYN_TEST_BINARY";

/// A Python environment in which the tests can run. `None`: it could not be created.
#[derive(Debug)]
pub(crate) struct Python(Option<Environment>);

#[derive(Debug)]
struct Environment {
    /// A folder in the target directory, with the environment and the generated stubs.
    folder: PathBuf,
}

pub(crate) fn run(arguments: &[OsString]) -> Outcome<ExitCode> {
    let environment = Environment::find_or_install()?;
    chaos::build(&["--bin", "flovyn"])?;
    let cluster = Cluster::start(&Binaries::find_or_install()?)?;
    let tested = environment.test(&cluster, arguments);
    cluster.stop()?;
    tested.map(|()| ExitCode::SUCCESS)
}

impl Python {
    pub(crate) fn find_or_install() -> Outcome<Python> {
        let found = Environment::find_or_install();
        // Ctrl-C ends the run; it must not count as a missing Python.
        signal::check()?;
        Ok(Python(found.inspect_err(|why| warn(why)).ok()))
    }

    pub(crate) fn test(&self, cluster: &Cluster, arguments: &[OsString]) -> Outcome<()> {
        let Some(environment) = &self.0 else {
            warn("no Python environment");
            return Ok(());
        };
        chaos::build(&["--bins", "--tests"])?;
        environment.test(cluster, arguments)
    }
}

fn warn(why: &str) {
    run::say(&format!(
        "THE PYTHON CLIENT'S TESTS ARE SKIPPED: {why}. To run them, install Python 3.10 or newer with venv and pip (Debian: \
         `apt-get install python3-venv`) and make sure that pip can download packages"
    ));
}

impl Environment {
    fn find_or_install() -> Outcome<Environment> {
        if !on_path("python3") {
            return Err("python3 is not in PATH".into());
        }
        let folder = run::target().join("python");
        fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        let environment = Environment { folder };
        let requirements = run::repository().join(TESTS).join("requirements.txt");
        let wanted = fs::read_to_string(&requirements)
            .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
        if !environment.holds(&wanted) {
            environment.install(&requirements, &wanted)?;
        }
        Ok(environment)
    }

    /// A file with the requirements of the last installation. Written only after everything was installed.
    fn installed(&self) -> PathBuf {
        self.folder.join("installed.txt")
    }

    fn holds(&self, wanted: &str) -> bool {
        // The interpreter is a link, which is dangling after an upgrade of the system's Python.
        let interpreter = self.folder.join("venv/bin/python").exists();
        interpreter && fs::read_to_string(self.installed()).is_ok_and(|installed| installed == wanted)
    }

    fn install(&self, requirements: &Path, wanted: &str) -> Outcome<()> {
        run::say("installing the packages of the Python client");
        let written = |error| format!("cannot write {}: {error}", self.installed().display());
        // Emptied first, so that an interrupted installation does not count.
        fs::write(self.installed(), "").map_err(written)?;
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--clear"]).arg(self.folder.join("venv"));
        run::require_success(&mut venv)?;
        let mut pip = self.python();
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        run::require_success(pip.arg(requirements))?;
        fs::write(self.installed(), wanted).map_err(written)
    }

    /// The environment's interpreter, at the root of the repository. Its output goes to stderr.
    fn python(&self) -> Command {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.current_dir(run::repository()).stdout(Stdio::from(io::stderr()));
        // Compiled files stay out of the sources.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn test(&self, cluster: &Cluster, arguments: &[OsString]) -> Outcome<()> {
        let stubs = self.generate_stubs()?;
        let mut pytest = self.python();
        pytest.args(["-m", "pytest", "--verbose"]).args(arguments);
        pytest.current_dir(run::repository().join(TESTS));
        pytest.env("PYTHONPATH", stubs).env(BINARY_VARIABLE, run::target().join("debug/flovyn"));
        chaos::name_cluster(&mut pytest, cluster);
        run::require_success(&mut pytest)
    }

    /// Generates the stubs each time, so that they match the current .proto files.
    fn generate_stubs(&self) -> Outcome<PathBuf> {
        let stubs = self.folder.join("stubs");
        let failed = |error: io::Error| format!("cannot create {}: {error}", stubs.display());
        if stubs.exists() {
            fs::remove_dir_all(&stubs).map_err(failed)?;
        }
        fs::create_dir_all(&stubs).map_err(failed)?;
        let proto = run::repository().join(PROTO);
        let mut protoc = self.python();
        protoc.args(["-m", "grpc_tools.protoc"]).arg(format!("--proto_path={}", proto.display()));
        for kind in ["python", "pyi", "grpc_python"] {
            protoc.arg(format!("--{kind}_out={}", stubs.display()));
        }
        let listed = fs::read_dir(proto.join("flovyn/v1")).map_err(failed)?;
        let files = listed.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
        protoc.args(
            files.map_err(failed)?.iter().filter(|file| file.extension().is_some_and(|it| it == "proto")),
        );
        run::require_success(&mut protoc)?;
        Ok(stubs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_again_when_the_requirements_change_or_the_interpreter_is_gone() {
        let folder = std::env::temp_dir().join(format!("flovyn-xtask-python-{}", std::process::id()));
        let environment = Environment { folder: folder.clone() };
        let interpreter = folder.join("venv/bin/python");
        fs::create_dir_all(interpreter.parent().unwrap()).unwrap();
        fs::write(environment.installed(), "a==1\n").unwrap();
        assert!(!environment.holds("a==1\n"), "there is no interpreter");
        fs::write(&interpreter, "").unwrap();
        assert!(environment.holds("a==1\n") && !environment.holds("a==2\n"));
        fs::write(environment.installed(), "").unwrap();
        assert!(!environment.holds("a==1\n"), "an installation that did not end");
        fs::remove_dir_all(folder).unwrap();
    }
}
