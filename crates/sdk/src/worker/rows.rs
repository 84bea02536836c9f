//! Runs the work of one frame together. Most pieces finish at their first poll, and spawning a task for each would
//! wake a thread each time, which takes longer than the work itself.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

/// A piece that takes longer than this for its first poll computes. The pieces behind it are then spawned separately.
const QUICK: Duration = Duration::from_micros(200);

type Piece = BoxFuture<'static, ()>;

/// Starts all pieces, in as many tasks as the runtime has threads. The tasks share one queue, so none is idle while
/// pieces wait.
pub(super) fn start(work: Vec<Piece>) {
    let rows = work.len().min(Handle::current().metrics().num_workers());
    let line = Arc::new(Mutex::new(work.into_iter()));
    for _ in 0..rows {
        tokio::spawn(in_turn(line.clone()));
    }
}

/// Polls each piece once. A piece that is pending then continues in a task of its own.
async fn in_turn(line: Arc<Mutex<IntoIter<Piece>>>) {
    while let Some((piece, is_last)) = next(&line) {
        // Catch panics, which user code may cause when it is dropped, so that the pieces behind are not lost.
        let mut piece = AssertUnwindSafe(piece).catch_unwind();
        if is_last {
            return drop(piece.await);
        }
        let began = Instant::now();
        if futures::poll!(&mut piece).is_pending() {
            tokio::spawn(piece);
        }
        if began.elapsed() > QUICK {
            while let Some((piece, _)) = next(&line) {
                tokio::spawn(piece);
            }
        }
    }
}

fn next(line: &Mutex<IntoIter<Piece>>) -> Option<(Piece, bool)> {
    let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
    line.next().map(|piece| (piece, line.len() == 0))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tokio::sync::{Barrier, mpsc};

    use super::*;

    #[tokio::test]
    async fn pieces_that_wait_for_each_other_all_end() {
        let (all, (done, mut ended)) = (Arc::new(Barrier::new(50)), mpsc::unbounded_channel());
        start(
            (0..50)
                .map(|number| {
                    let (all, done) = (all.clone(), done.clone());
                    Box::pin(async move {
                        all.wait().await;
                        done.send(number).unwrap();
                    }) as Piece
                })
                .collect(),
        );
        for _ in 0..50 {
            ended.recv().await.unwrap();
        }
    }

    #[tokio::test]
    async fn behind_a_piece_that_computes_each_goes_by_itself() {
        let (done, mut ended) = mpsc::unbounded_channel();
        let piece = |computes: bool| {
            let done = done.clone();
            Box::pin(async move {
                let began = Instant::now();
                while computes && began.elapsed() <= QUICK {
                    std::hint::spin_loop();
                }
                done.send(tokio::task::id()).unwrap();
            }) as Piece
        };
        start(vec![piece(true), piece(false), piece(false)]);
        let mut tasks = HashSet::new();
        for _ in 0..3 {
            tasks.insert(ended.recv().await.unwrap());
        }
        assert_eq!(tasks.len(), 3);
    }

    #[tokio::test]
    async fn a_panic_takes_nobody_along() {
        let (done, mut ended) = mpsc::unbounded_channel();
        let piece = |panics: bool| {
            let done = done.clone();
            Box::pin(async move {
                assert!(!panics, "on purpose");
                done.send(()).unwrap();
            }) as Piece
        };
        start(vec![piece(true), piece(false), piece(false)]);
        drop(done);
        assert_eq!((ended.recv().await, ended.recv().await), (Some(()), Some(())));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn those_behind_a_piece_that_blocks_are_run_by_others() {
        let (done, ended) = std::sync::mpsc::channel();
        let (told, mut outcome) = mpsc::unbounded_channel();
        let blocks = Box::pin(async move {
            // Its thread stays blocked until the other four pieces have ended.
            let all = (0..4).all(|_| ended.recv_timeout(Duration::from_secs(10)).is_ok());
            told.send(all).unwrap();
        }) as Piece;
        let quick = (0..4).map(|_| {
            let done = done.clone();
            Box::pin(async move { done.send(()).unwrap() }) as Piece
        });
        start(std::iter::once(blocks).chain(quick).collect());
        assert_eq!(outcome.recv().await, Some(true));
    }
}
