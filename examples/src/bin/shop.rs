//! The worker for the pages of the guide. It runs until Ctrl-C.
//!
//! `cargo run -p flovyn-examples --bin shop`

use std::process::ExitCode;

use flovyn_examples::{Connection, shop};
use flovyn_sdk::Result;
use tokio::signal::unix::{SignalKind, signal};

async fn example(server: Connection) -> Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let worker = shop::worker(server.worker()).build()?.start();
    println!("working; press Ctrl-C to stop");
    interrupted.recv().await;
    worker.stop().await;
    Ok(())
}

fn main() -> ExitCode {
    flovyn_examples::run(example)
}
