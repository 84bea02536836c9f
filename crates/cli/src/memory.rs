//! The memory allocator: jemalloc with the feature `jemalloc`, otherwise the system's.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: flovyn_allocator::Jemalloc = flovyn_allocator::Jemalloc;

#[cfg(feature = "jemalloc")]
pub(crate) use flovyn_allocator::thread_rests;

/// Called when a thread is about to sleep. The system's allocator has nothing to release.
#[cfg(not(feature = "jemalloc"))]
pub(crate) fn thread_rests() {}

#[cfg(all(test, feature = "jemalloc"))]
mod tests {
    #[test]
    fn jemalloc_uses_the_settings_of_this_program() {
        let text = flovyn_allocator::settings_in_use();
        for expected in
            ["opt.dirty_decay_ms: 1000", "opt.percpu_arena: \"percpu\"", "opt.tcache_nslots_large: 1"]
        {
            assert!(text.contains(expected), "{expected} is not in use:\n{text}");
        }
    }
}
