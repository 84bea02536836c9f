//! jemalloc with Flovyn's settings, for the shipped programs. There are two reasons for it. Requests are allocated on
//! one thread and freed on another, which is slow in the system's allocator. And jemalloc returns free memory to the
//! system when the load is over.
//!
//! Compiling jemalloc takes over a minute, so programs include it only with their feature `jemalloc`.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tikv_jemalloc_ctl::{Access, AsName};
pub use tikv_jemallocator::Jemalloc;

/// The settings, which jemalloc reads when the program starts. Unused memory is returned to the system after one second
/// instead of ten. Threads keep little of it to themselves: scattered over many pages, it would hold all of them.
#[used]
#[unsafe(export_name = "malloc_conf")]
static SETTINGS: &[u8; 131] = b"dirty_decay_ms:1000,percpu_arena:percpu,lg_tcache_max:11,\
tcache_nslots_small_max:8,tcache_nslots_small_min:4,tcache_nslots_large:1\0";

/// The shortest time between two releases by the same thread. A busy thread parks thousands of times per second, and
/// would release its cache each time. An idle server still wakes some threads every second. Threads that are not
/// woken keep their cache until there is work again.
const RELEASE_INTERVAL: Duration = Duration::from_secs(1);

/// The jemalloc setting for whether the calling thread has a cache.
const CACHE: &[u8] = b"thread.tcache.enabled\0";

/// Releases the allocation cache of a thread that is about to sleep. The cache is small, but it is scattered over many
/// pages, and all of them would stay in memory after a load.
pub fn thread_rests() {
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
/// it is not safe.
fn release_cache() -> tikv_jemalloc_ctl::Result<()> {
    let cache = CACHE.name();
    cache.write(false)?;
    cache.write(true)
}

/// The settings that jemalloc uses in this program, as it prints them.
pub fn settings_in_use() -> String {
    let mut text = Vec::new();
    let options = tikv_jemalloc_ctl::stats_print::Options::default();
    match tikv_jemalloc_ctl::stats_print::stats_print(&mut text, options) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Jemalloc = Jemalloc;

    #[test]
    fn a_thread_still_has_a_cache_after_a_release() {
        let has_cache = || -> bool { CACHE.name().read().expect("jemalloc knows it") };
        assert!(has_cache());
        release_cache().expect("jemalloc does it");
        assert!(has_cache());
    }
}
