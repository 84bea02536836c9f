//! Ids and random numbers that are the same on every replay.
//!
//! Each kind of command counts for itself, so that a new call of one kind shifts no id of another.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::command::{Command, Kind};

/// Bytes that depend on the execution, the purpose and the number, and on nothing else.
fn bytes(execution: Uuid, purpose: &str, number: u64) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(execution.as_bytes());
    hash.update(purpose.as_bytes());
    hash.update([0]);
    hash.update(number.to_be_bytes());
    let digest = hash.finalize();
    let mut out = [0; 16];
    out.copy_from_slice(&digest[..16]);
    out
}

/// A version 7 UUID with the execution's creation time, so that its rows lie beside each other.
pub(super) fn id(execution: Uuid, created_ms: i64, purpose: &str, number: u64) -> Uuid {
    let mut bytes = bytes(execution, purpose, number);
    let time = created_ms.max(0).unsigned_abs().to_be_bytes();
    bytes[..6].copy_from_slice(&time[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0F);
    bytes[8] = 0x80 | (bytes[8] & 0x3F);
    Uuid::from_bytes(bytes)
}

/// A number in `0.0..1.0`.
pub(super) fn fraction(execution: Uuid, number: u64) -> f64 {
    let bytes = bytes(execution, "random", number);
    let drawn = u64::from_be_bytes(bytes[..8].try_into().expect("eight of sixteen bytes"));
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}

/// Ids of the log that are not those that we would have made: of another formula, or of another SDK.
#[derive(Debug, Default)]
pub(super) struct LoggedIds {
    /// Never to be made again.
    foreign: HashSet<(Kind, String)>,
    /// Of what was asked for before its row was read: the log's id by the one that was made.
    renamed: HashMap<(Kind, String), String>,
}

impl LoggedIds {
    /// The id of command `number` of its kind: the log's, if it has the command. `own` makes one; where the log has used that for
    /// another command, the next number's is taken.
    pub(super) fn next(
        &mut self,
        kind: Kind,
        number: u64,
        logged: Option<&str>,
        own: impl Fn(u64) -> String,
    ) -> String {
        let made = own(number);
        let id = match logged {
            Some(logged) if logged == made => return made,
            Some(logged) => logged.to_owned(),
            None if self.foreign.is_empty() => return made,
            None => {
                let mut numbers = number..;
                let free = numbers.find_map(|number| {
                    Some(own(number)).filter(|id| !self.foreign.contains(&(kind, id.clone())))
                });
                free.unwrap_or_else(|| made.clone())
            }
        };
        if id != made {
            self.foreign.insert((kind, id.clone()));
        }
        id
    }

    pub(super) fn rename(&mut self, kind: Kind, own: String, logged: String) {
        self.foreign.insert((kind, logged.clone()));
        self.renamed.insert((kind, own), logged);
    }

    /// `None`: the log has no other id for it.
    pub(super) fn logged(&self, kind: Kind, own: &str) -> Option<&str> {
        if self.renamed.is_empty() {
            return None;
        }
        self.renamed.get(&(kind, own.to_owned())).map(String::as_str)
    }

    /// Lets a command that cancels something name it as the log does.
    pub(super) fn translate(&self, command: &mut Command) {
        if self.renamed.is_empty() {
            return;
        }
        let Some(kind) = command.kind().cancels() else { return };
        let logged = command.id().and_then(|id| self.logged(kind, &id).map(str::to_owned));
        let Some(logged) = logged else { return };
        match command {
            Command::CancelTask { id } | Command::CancelChild { id, .. } => {
                *id = Uuid::try_parse(&logged).unwrap_or(*id);
            }
            Command::CancelTimer { name } => *name = logged,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_and_depend_on_everything_given() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let base = id(one, 1_700_000_000_000, "task", 0);
        assert_eq!(base.get_version_num(), 7);
        assert_eq!(base, id(one, 1_700_000_000_000, "task", 0));
        for other in [
            id(two, 1_700_000_000_000, "task", 0),
            id(one, 1_700_000_000_001, "task", 0),
            id(one, 1_700_000_000_000, "child", 0),
            id(one, 1_700_000_000_000, "task", 1),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn fractions_stay_below_one() {
        for number in 0..1_000 {
            assert!((0.0..1.0).contains(&fraction(Uuid::from_u128(9), number)));
        }
    }
}
