//! Work that came together is begun together: most of it is over at once, and a task of the runtime for each piece would wake
//! another thread each time, which takes longer than the work.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

/// A piece that takes longer than this to pause is computing: those behind it do not wait for more like it.
const QUICK: Duration = Duration::from_micros(200);

type Piece = BoxFuture<'static, ()>;

/// Begins all of it, in as many rows as there are threads.
pub(super) fn start(work: Vec<Piece>) {
    let share = work.len().div_ceil(Handle::current().metrics().num_workers());
    let mut work = work.into_iter();
    loop {
        let row: Vec<Piece> = work.by_ref().take(share).collect();
        if row.is_empty() {
            return;
        }
        tokio::spawn(in_turn(row));
    }
}

/// Runs each until it ends or waits. One that waits goes on by itself.
async fn in_turn(row: Vec<Piece>) {
    let mut row = row.into_iter();
    while let Some(mut piece) = row.next() {
        if row.len() == 0 {
            return piece.await;
        }
        let began = Instant::now();
        if futures::poll!(&mut piece).is_pending() {
            tokio::spawn(piece);
        }
        if began.elapsed() > QUICK {
            row.by_ref().for_each(|piece| drop(tokio::spawn(piece)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

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
}
