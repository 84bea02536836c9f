//! Runs one of the [patterns](../patterns/mod.rs) against the server.
//!
//! `cargo run -p flovyn-examples --bin pattern -- money_transfer`

use std::process::ExitCode;

use flovyn_examples::patterns;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    patterns::run(&name).unwrap_or_else(|| {
        eprintln!("give the name of a pattern: {}", patterns::NAMES.join(", "));
        ExitCode::FAILURE
    })
}
