//! Where memory comes from, and how threads give it back.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tikv_jemalloc_ctl::{Access, AsName};

/// Requests are made on one thread and freed on another, which the system's allocator does slowly; and what is free goes back
/// to the system when the load is over.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A thread sleeps thousands of times in a second of work, and a server without work still looks around every second. Of many
/// threads some are not woken for that: they keep what they have until there is work again.
const KEEPS_FOR: Duration = Duration::from_secs(1);

/// Whether the thread that asks keeps memory for itself.
const CACHE: &[u8] = b"thread.tcache.enabled\0";

/// For a thread that is about to sleep: gives up what it keeps at hand for its next allocations. That is little, but scattered
/// over many pages, all of which would stay in memory after a load.
pub(crate) fn thread_rests() {
    thread_local! {
        static GAVE_UP_AT: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    if GAVE_UP_AT.get().is_some_and(|at| now.duration_since(at) < KEEPS_FOR) {
        return;
    }
    GAVE_UP_AT.set(Some(now));
    // Without its cache the thread would only allocate more slowly.
    let _ = give_up();
}

/// Turned off, the cache of this thread is emptied. To empty it alone takes a call that is not safe.
fn give_up() -> tikv_jemalloc_ctl::Result<()> {
    let cache = CACHE.name();
    cache.write(false)?;
    cache.write(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_up_what_it_keeps_and_goes_on_keeping() {
        let keeps = || -> bool { CACHE.name().read().unwrap() };
        assert!(keeps());
        give_up().unwrap();
        assert!(keeps());
    }
}
