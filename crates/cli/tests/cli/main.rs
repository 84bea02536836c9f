//! The commands that call a server, as processes of their own against a real `flovyn dev` with real workers.
//!
//! What they print is compared with the transcripts in `snapshots`: every command is in one of them. Set
//! `FLOVYN_TEST_UPDATE=1` to write those anew, then read the difference.

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
