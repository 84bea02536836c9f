//! Runs a started server until a signal or a storage failure.

use std::time::Duration;

use flovyn_server::Server;
use flovyn_server::telemetry::Guard;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::terminal::say;

/// If storage has failed, a graceful stop may hang. The process exits after this time.
const STOP_AFTER_FAILURE: Duration = Duration::from_secs(15);

/// Why the server stops.
#[derive(Debug)]
pub(crate) enum End {
    /// Ctrl-C or SIGTERM.
    Signalled,
    /// Its work is done (`flovyn demo`).
    Done,
    /// Storage has failed permanently.
    Failed(String),
}

/// Serves until Ctrl-C or SIGTERM, then stops gracefully. A second signal ends the process immediately.
pub(crate) async fn until_told(server: Server, telemetry: Guard, mut signals: Signals) -> Result<(), String> {
    let end = until_end(&server, &mut signals).await;
    stop(server, telemetry, signals, end).await
}

/// Waits for a signal or a storage failure. Does not stop the server.
pub(crate) async fn until_end(server: &Server, signals: &mut Signals) -> End {
    tokio::select! {
        () = signals.next() => {
            say("flovyn: stopping; press Ctrl-C again to stop immediately");
            End::Signalled
        }
        reason = server.fatal() => End::Failed(reason),
    }
}

pub(crate) async fn stop(
    server: Server,
    telemetry: Guard,
    mut signals: Signals,
    end: End,
) -> Result<(), String> {
    if let End::Failed(reason) = end {
        let _ = tokio::time::timeout(STOP_AFTER_FAILURE, server.stop()).await;
        telemetry.flush().await;
        return Err(format!(
            "storage failed permanently: {reason}; check the disk or the database, then start again"
        ));
    }
    tokio::select! {
        () = async { server.stop().await; telemetry.flush().await } => Ok(()),
        () = signals.next() => {
            say("flovyn: stopped immediately");
            std::process::exit(1)
        }
    }
}

/// Ctrl-C and SIGTERM. Created before the server starts, so that a signal during the start also stops it gracefully.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
