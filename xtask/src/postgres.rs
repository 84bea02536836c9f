//! A throw-away PostgreSQL cluster: found or installed, started, used, stopped and removed.

mod account;
mod binaries;
mod cluster;

use std::ffi::OsString;
use std::process::{Command, ExitCode};

pub(crate) use account::is_root;
pub(crate) use binaries::{Binaries, on_path};
pub(crate) use cluster::Cluster;

use crate::Outcome;
use crate::run;

/// The variable with the URL of a server on which tests and benches may create databases.
pub(crate) const URL_VARIABLE: &str = "FLOVYN_TEST_POSTGRES";

/// `cargo xtask postgres -- COMMAND`: exits with the exit code of the command.
pub(crate) fn run_with_cluster(words: &[OsString]) -> Outcome<ExitCode> {
    let (program, arguments) = words.split_first().ok_or("no command was given")?;
    let cluster = Cluster::start(&Binaries::find_or_install()?)?;
    let mut command = Command::new(program);
    command.args(arguments).env(URL_VARIABLE, cluster.url());
    run::forget_own_package(&mut command);
    let status = run::run_attended(&mut command)?;
    cluster.stop()?;
    Ok(run::exit_code_of(status))
}
