//! The memory allocator, and how idle threads release the memory that they cache.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tikv_jemalloc_ctl::{Access, AsName};

/// jemalloc, for two reasons. Requests are allocated on one thread and freed on another, which is slow in the system's
/// allocator. And jemalloc returns free memory to the system when the load is over.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The shortest time between two releases by the same thread. A busy thread parks thousands of times per second, and
/// would release its cache each time. An idle server still wakes some threads every second. Threads that are not
/// woken keep their cache until there is work again.
const RELEASE_INTERVAL: Duration = Duration::from_secs(1);

/// The jemalloc setting for whether the calling thread has a cache.
const CACHE: &[u8] = b"thread.tcache.enabled\0";

/// Releases the allocation cache of a thread that is about to sleep. The cache is small, but it is scattered over many
/// pages, and all of them would stay in memory after a load.
pub(crate) fn thread_rests() {
    thread_local! {
        static RELEASED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    if RELEASED_AT.get().is_some_and(|at| now.duration_since(at) < RELEASE_INTERVAL) {
        return;
    }
    RELEASED_AT.set(Some(now));
    // The error can be ignored: a thread whose cache stays off only allocates more slowly.
    let _ = release_cache();
}

/// Turns the cache of this thread off, which empties it, and on again. A call that only empties the cache exists, but
/// it needs `unsafe`.
fn release_cache() -> tikv_jemalloc_ctl::Result<()> {
    let cache = CACHE.name();
    cache.write(false)?;
    cache.write(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_still_has_a_cache_after_a_release() {
        let has_cache = || -> bool { CACHE.name().read().unwrap() };
        assert!(has_cache());
        release_cache().unwrap();
        assert!(has_cache());
    }
}
