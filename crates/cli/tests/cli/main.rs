//! The commands that call a server, run as processes against a real `flovyn dev` with real workers.
//!
//! Their output is compared with the transcripts in `snapshots`, which contain every command. Set
//! `FLOVYN_TEST_UPDATE=1` to update the transcripts, then review the difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

mod admin;
mod ansi;
mod conditions;
mod elsewhere;
mod help;
mod live;
mod payloads;
mod pictures;
mod places;
mod refusals;
mod snapshot;
mod tasks;
mod terminal;
mod tls;
mod why;
mod workflows;
mod world;
