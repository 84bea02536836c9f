//! The account of the PostgreSQL server: `initdb` and `postgres` refuse to run as root.

use std::process::Command;

use crate::Outcome;

/// The account of the package first, then an account that every system has.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

#[derive(Clone, Copy)]
pub(super) struct Account {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl Account {
    /// The account to switch to. `None`: we are not root and need not switch.
    pub(super) fn for_server() -> Outcome<Option<Account>> {
        if !is_root()? {
            return Ok(None);
        }
        let found = CANDIDATES
            .iter()
            .find_map(|name| Some(Account { user: id(&["-u", name]).ok()?, group: id(&["-g", name]).ok()? }));
        let unprivileged = found.filter(|account| account.user != 0);
        unprivileged.map(Some).ok_or_else(|| {
            "PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as"
                .to_owned()
        })
    }
}

pub(crate) fn is_root() -> Outcome<bool> {
    Ok(id(&["-u"])? == 0)
}

fn id(arguments: &[&str]) -> Outcome<u32> {
    let output =
        Command::new("id").args(arguments).output().map_err(|error| format!("cannot run id: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| format!("`id {}` does not print a number", arguments.join(" ")))
}
