//! Seeded random runs of the engine, on the memory oracle alone or in lockstep on several databases; and of whole
//! servers in virtual time, with faults.
//!
//! After every step the promises are checked. In lockstep, replies and full snapshots must be equal as well.

mod commands;
pub mod crossed;
pub mod generate;
pub mod lockstep;
pub mod open;
pub mod reports;
pub mod rng;
pub mod servers;
mod stage;
