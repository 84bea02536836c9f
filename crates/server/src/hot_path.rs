//! The threads that run the service and the gRPC connections.

use std::thread::available_parallelism;
use std::time::Duration;

use flovyn_store::Store;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for database reads: one for each read connection of the store. Without this bound, a new thread would be
/// started whenever a read has ended but its thread is not idle yet. The stack of each such thread stays in memory.
const BLOCKING_THREADS: usize = flovyn_store::sqlite::READERS;
/// How long such a thread is kept without work. The loops read the database one after the other. With a longer time,
/// each of these threads would get a read before it expires, and all of them would stay.
const BLOCKING_THREAD_STAYS: Duration = Duration::from_secs(1);

/// The runtime for work that must not be delayed.
///
/// With an embedded database, the path from a socket to the disk and back is short, and waking another thread takes
/// longer than most of its steps. So this runtime has few threads. The web pages and REST run on the caller's
/// threads, so that a large page delays no worker. With a remote database, all requests wait for the database, and
/// all threads are shared.
#[derive(Debug)]
pub(crate) struct HotPath {
    own: Option<Runtime>,
}

impl HotPath {
    pub(crate) fn start(store: &dyn Store, thread_rests: fn()) -> std::io::Result<Self> {
        if store.is_shared() {
            return Ok(Self { own: None });
        }
        let threads = available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
        let mut builder = Builder::new_multi_thread();
        let runtime = builder
            .worker_threads(threads)
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_keep_alive(BLOCKING_THREAD_STAYS)
            .thread_name("flovyn-hot")
            .on_thread_park(thread_rests)
            .enable_all()
            .build()?;
        Ok(Self { own: Some(runtime) })
    }

    /// Calls a function so that the tasks it spawns run on these threads.
    pub(crate) fn run<T>(&self, what: impl FnOnce() -> T) -> T {
        let here = self.own.as_ref().map_or_else(Handle::current, |own| own.handle().clone());
        let _entered = here.enter();
        what()
    }

    /// Waits until the threads have ended. Then all resources that their tasks held are closed.
    pub(crate) async fn end(mut self, within: Duration) {
        if let Some(own) = self.own.take() {
            // `shutdown_timeout` does not panic, and nothing depends on its result.
            let _ = tokio::task::spawn_blocking(move || own.shutdown_timeout(within)).await;
        }
    }
}

impl Drop for HotPath {
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            // A server may be dropped in a place where blocking is not allowed.
            own.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use flovyn_store::sqlite::{Options, SqliteStore};

    use super::*;

    #[tokio::test]
    async fn an_embedded_database_gets_its_own_threads() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("test.db"), Options::default()).unwrap();
        let hot_path = HotPath::start(&store, || ()).unwrap();
        let thread =
            hot_path.run(|| tokio::spawn(async { std::thread::current().name().map(str::to_owned) }));
        assert_eq!(thread.await.unwrap().as_deref(), Some("flovyn-hot"));
        hot_path.end(Duration::from_secs(10)).await;
        // Dropping it must work in async code, where blocking is not allowed.
        drop(HotPath::start(&store, || ()).unwrap());
    }
}
