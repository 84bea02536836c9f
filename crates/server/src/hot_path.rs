//! The threads on which the service and the gRPC connections run.

use std::thread::available_parallelism;
use std::time::Duration;

use flovyn_store::Store;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for reads of the database: as many as the store has connections to read with. Without a bound another one would
/// be begun whenever a read has ended and its thread has not quite, and the stack of each stays in memory.
const BLOCKING_THREADS: usize = flovyn_store::sqlite::READERS;
/// How long one of them stays without work. The loops look at the database one after the other: threads that stayed longer
/// would each get such a look in time, and all would stay.
const BLOCKING_THREAD_STAYS: Duration = Duration::from_secs(1);

/// Where the database is in this process, the way from a socket to the disk and back is short, and waking another thread
/// takes longer than most of its steps: it has few threads. Pages and REST run on those of the caller, so that a large page
/// delays no worker. With a database elsewhere everybody waits for that, and all threads are shared.
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

    /// Carries out what spawns tasks, so that they run here.
    pub(crate) fn run<T>(&self, what: impl FnOnce() -> T) -> T {
        let here = self.own.as_ref().map_or_else(Handle::current, |own| own.handle().clone());
        let _entered = here.enter();
        what()
    }

    /// Waits until its threads have ended: what they had in hand is closed then.
    pub(crate) async fn end(mut self, within: Duration) {
        if let Some(own) = self.own.take() {
            // It cannot panic, and nothing depends on it any more.
            let _ = tokio::task::spawn_blocking(move || own.shutdown_timeout(within)).await;
        }
    }
}

impl Drop for HotPath {
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            // Where a server is dropped nothing may block.
            own.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use flovyn_store::sqlite::{Options, SqliteStore};

    use super::*;

    #[tokio::test]
    async fn with_the_database_in_this_process_it_has_threads_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("test.db"), Options::default()).unwrap();
        let hot_path = HotPath::start(&store, || ()).unwrap();
        let thread =
            hot_path.run(|| tokio::spawn(async { std::thread::current().name().map(str::to_owned) }));
        assert_eq!(thread.await.unwrap().as_deref(), Some("flovyn-hot"));
        hot_path.end(Duration::from_secs(10)).await;
        // Where nothing may block.
        drop(HotPath::start(&store, || ()).unwrap());
    }
}
