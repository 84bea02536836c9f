//! The transaction of a batch: rounds of loading, then all writes and COMMIT in one round trip.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use flovyn_engine::Mutations;
use futures::future::maybe_done;
use tokio_postgres::Error;

use crate::port::{SharedDecider, Step, StoreError, StoreResult, TransactOptions, next_step};
use crate::postgres::connection::{Answer, Connection, Pending, Request, bounded};
use crate::postgres::load::{self, LoadOptions};
use crate::postgres::pool::Pooled;
use crate::postgres::{Shared, apply, error, settle};

/// Runs a batch in a separate task, so that a caller that is cancelled does not interrupt it.
pub(super) async fn transact(
    shared: &Arc<Shared>,
    batch: SharedDecider,
    options: TransactOptions,
) -> StoreResult<()> {
    let running = tokio::spawn(run(Arc::clone(shared), batch, options));
    match running.await {
        Ok(outcome) => outcome,
        // The task panicked because of a fault in this crate, or the process is shutting down. The commit may have
        // happened.
        Err(error) => Err(StoreError::OutcomeUnknown(error.to_string())),
    }
}

/// The outcome of writing a batch.
#[derive(Debug)]
enum End {
    Committed,
    /// The server confirmed that nothing was written and that the transaction has ended.
    RolledBack(StoreError),
    /// The server confirmed that nothing was written. The same write would fail again on this connection.
    Outdated(StoreError),
    /// Nothing was written, but the transaction may still be open.
    Open(StoreError),
    /// COMMIT was sent, but its outcome is unknown.
    Unknown(String),
}

async fn run(shared: Arc<Shared>, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
    let mut connection = shared.writers.take().await?;
    connection.set_reusable(false);
    let decided = decide(&shared, &connection, &batch, options).await;
    let mutations = match decided {
        Ok(Some(mutations)) if !mutations.is_empty() => mutations,
        Ok(_) => {
            roll_back(&mut connection).await;
            return Ok(());
        }
        Err(error) => {
            give_up(&mut connection, &error).await;
            return Err(error);
        }
    };
    match write(&connection, &mutations, options).await {
        End::Committed => connection.set_reusable(true),
        End::RolledBack(error) => {
            connection.set_reusable(true);
            return Err(error);
        }
        End::Outdated(error) => {
            shared.writers.forget_idle();
            return Err(error);
        }
        End::Open(error) => {
            give_up(&mut connection, &error).await;
            return Err(error);
        }
        End::Unknown(why) => {
            let backend = connection.backend;
            drop(connection);
            settle::settle(&shared.connector, backend, options.batch_id, &why).await?;
        }
    }
    shared.starts.committed(&mutations.ready);
    Ok(())
}

/// Loads until the batch is decided. Returns its changes. `None`: there is nothing to write.
async fn decide(
    shared: &Shared,
    connection: &Connection,
    batch: &SharedDecider,
    options: TransactOptions,
) -> StoreResult<Option<Box<Mutations>>> {
    let mut load = LoadOptions { begin: true, wait_for_locks: options.wait_for_locks };
    let mut loaded = None;
    loop {
        match next_step(batch, loaded.take())? {
            Step::Load(wants) => {
                loaded = Some(load::load(connection, &wants, &shared.starts, load).await?);
                load.begin = false;
            }
            // Outside a transaction, every write would be a separate transaction.
            Step::Commit(_) if load.begin => {
                return Err(StoreError::Refused("a batch has to load before it commits".to_owned()));
            }
            Step::Commit(mutations) => return Ok(Some(mutations)),
            Step::Done => return Ok(None),
        }
    }
}

/// Not COMMIT, even after a success: row locks leave records that COMMIT would wait to be written to disk.
async fn roll_back(connection: &mut Pooled) {
    let ended = connection.one(Request::plain("ROLLBACK")).await.is_ok();
    connection.set_reusable(ended);
}

/// Rolls back, unless the server does not answer. Then the connection is closed, which also ends the transaction.
async fn give_up(connection: &mut Pooled, error: &StoreError) {
    if !matches!(error, StoreError::Unavailable(_)) {
        roll_back(connection).await;
    }
}

/// Sends all writes and COMMIT at once. If a write fails, the server turns COMMIT into a rollback.
async fn write(connection: &Connection, mutations: &Mutations, options: TransactOptions) -> End {
    let requests = match apply::requests(mutations, options.batch_id) {
        Ok(requests) => requests,
        Err(error) => return End::Open(error),
    };
    let mut writes = match bounded(connection.prepared(&requests)).await {
        Ok(Ok(writes)) => writes,
        Ok(Err(error)) | Err(error) => return End::Open(error),
    };
    let request = Request::plain("COMMIT");
    let mut commit = None;
    let answered = poll_fn(|context| {
        let mut all_done = true;
        for write in &mut writes {
            all_done &= Pin::new(write).poll(context).is_ready();
        }
        // If a write failed before any answer could arrive, it was never sent. Then COMMIT must not be sent.
        if commit.is_none() && writes.iter_mut().any(has_failed) {
            return Poll::Ready(());
        }
        let commit = commit.get_or_insert_with(|| maybe_done(connection.send(&request, None)));
        all_done &= Pin::new(commit).poll(context).is_ready();
        if all_done { Poll::Ready(()) } else { Poll::Pending }
    });
    if let Err(silence) = bounded(answered).await {
        return End::Unknown(silence.to_string());
    }
    let answers = writes.iter_mut().map(|write| take(write)).collect();
    verdict(&requests, answers, commit.as_mut().map(take))
}

fn has_failed(request: &mut Pending<'_>) -> bool {
    Pin::new(request).output_mut().is_some_and(|answer| answer.is_err())
}

/// The answer. `None` if the request has none yet.
fn take(request: &mut Pending<'_>) -> Option<Answer> {
    Pin::new(request).take_output()
}

fn verdict(requests: &[Request<'_>], writes: Vec<Option<Answer>>, commit: Option<Option<Answer>>) -> End {
    let named = writes.into_iter().zip(requests);
    let failed = named.filter_map(|(answer, request)| Some((answer?.err()?, request))).next();
    let Some(commit) = commit else {
        return End::Open(failed.map_or_else(never_sent, |(error, request)| meaning(&error, request)));
    };
    match (failed, commit) {
        (None, Some(Ok(_))) => End::Committed,
        // The connection cannot be reused, because its statements belong to a table that has changed since.
        (Some((error, request)), Some(_)) if error::is_outdated(&error) => {
            End::Outdated(meaning(&error, request))
        }
        // The server refused a write. So it committed nothing, whatever the answer to COMMIT is.
        (Some((error, request)), Some(Ok(_))) => End::RolledBack(meaning(&error, request)),
        (Some((error, request)), _) if error.as_db_error().is_some() => End::Open(meaning(&error, request)),
        (None, Some(Err(error))) if error::is_statement_error(&error) => {
            End::RolledBack(error::from_driver(&error, "COMMIT"))
        }
        // A server that is shutting down may report that (as FATAL) after it has committed.
        (Some((error, _)), _) | (None, Some(Err(error))) => End::Unknown(error::describe(&error, "COMMIT")),
        (None, None) => End::Unknown("COMMIT was not answered".to_owned()),
    }
}

fn meaning(error: &Error, request: &Request<'_>) -> StoreError {
    error::from_driver(error, &request.name())
}

fn never_sent() -> StoreError {
    StoreError::Unavailable("COMMIT was not sent".to_owned())
}
