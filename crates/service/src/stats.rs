//! Counters of the batch loop, for metrics and benches.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        pub struct Stats { $($(#[$meta])* pub(crate) $name: AtomicU64,)* }

        /// A reading of all counters.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Figures { $($(#[$meta])* pub $name: u64,)* }

        impl Stats {
            pub fn figures(&self) -> Figures {
                Figures { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

stats! {
    /// Transactions that wrote something.
    commits,
    /// Row changes in them.
    rows,
    /// Requests that were decided.
    requests,
    /// Batches that began while another batch was in flight.
    second_batches,
    /// Requests deferred because a row was locked by another transaction.
    deferred,
    /// Batches decided again because another writer changed a row first.
    conflicts,
    /// Batches split to find the request that the database refuses.
    bisections,
    /// Claims released because the poller had gone.
    given_back,
    /// Requests refused because their claim had ended.
    stale_claims,
    /// Reports that had been accepted before: acknowledged again, without effect.
    repeated_reports,
    /// Due rows that had their effect.
    fired,
    /// Due rows that had no effect, because another process had handled them.
    stale,
    /// Reports (progress, log lines) dropped because too many were waiting.
    dropped_reports,
}

impl Stats {
    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}
