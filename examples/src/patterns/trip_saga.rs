//! A saga with child workflows: each part of a trip is a child workflow. If a later part fails or the trip is
//! cancelled, the bookings are undone in reverse order.
//!
//! Clean-up after a cancel request uses the shielded context. Its children are ordinary workflows that are not
//! cancelled.

use std::time::Duration;

use flovyn_sdk::{Error, Result, TaskContext, WorkflowContext, task, workflow};
use serde::{Deserialize, Serialize};

use crate::{Connection, PATIENCE, until_state};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    pub what: String,
    /// Some hotels need an hour to confirm.
    pub answers_after: Duration,
}

#[task]
pub async fn reserve(_: TaskContext, part: Part) -> Result<String> {
    println!("task      reserve {}", part.what);
    match part.what.as_str() {
        "balloon" => Err(Error::NonRetryable("no balloon is free".into())),
        what => Ok(format!("{what} reserved")),
    }
}

#[task(max_retries = 1_000)]
pub async fn release(_: TaskContext, part: Part) -> Result<()> {
    println!("undo      release {}", part.what);
    Ok(())
}

/// Books one part: reserves it, then waits for the confirmation.
#[workflow]
pub async fn book(ctx: WorkflowContext, part: Part) -> Result<String> {
    let reserved = ctx.schedule::<Reserve>(part.clone()).await?;
    ctx.sleep(part.answers_after).await?;
    Ok(reserved)
}

/// Undoes a part, whether or not it was booked.
#[workflow]
pub async fn unbook(ctx: WorkflowContext, part: Part) -> Result<()> {
    ctx.schedule::<Release>(part).await
}

#[workflow]
pub async fn trip(ctx: WorkflowContext, parts: Vec<Part>) -> Result<Vec<String>> {
    let mut begun = Vec::new();
    let booked = book_all(&ctx, &parts, &mut begun).await;
    if booked.is_err() {
        for part in begun.into_iter().rev() {
            let name = format!("unbook {}", part.what);
            ctx.shielded().schedule_workflow::<Unbook>(&name, part.clone()).await?;
        }
    }
    booked
}

async fn book_all<'a>(
    ctx: &WorkflowContext,
    parts: &'a [Part],
    begun: &mut Vec<&'a Part>,
) -> Result<Vec<String>> {
    let mut booked = Vec::new();
    for part in parts {
        // Recorded before the child starts, because a child that fails may have reserved something.
        begun.push(part);
        booked.push(ctx.schedule_workflow::<Book>(&format!("book {}", part.what), part.clone()).await?);
        ctx.set_state("booked", &part.what)?;
    }
    Ok(booked)
}

fn parts(of: &[(&str, Duration)]) -> Vec<Part> {
    of.iter().map(|(what, after)| Part { what: (*what).to_owned(), answers_after: *after }).collect()
}

pub async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Trip).workflow(Book).workflow(Unbook).task(Reserve).task(Release);
    let worker = worker.build()?.start();
    let client = server.client()?;
    let soon = Duration::from_millis(20);
    for last in ["car", "balloon"] {
        let handle = client.start::<Trip>(parts(&[("flight", soon), ("hotel", soon), (last, soon)])).await?;
        match handle.result(PATIENCE).await {
            Ok(booked) => println!("result    {}", booked.join(", ")),
            Err(error) => println!("result    {error}"),
        }
    }
    let handle = client.start::<Trip>(parts(&[("train", soon), ("castle", 100 * PATIENCE)])).await?;
    until_state(&handle, "booked", "train").await?;
    handle.cancel("it rains").await?;
    match handle.result(PATIENCE).await {
        Ok(booked) => println!("result    {}", booked.join(", ")),
        Err(error) => println!("result    {error}"),
    }
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::testing::{TestEnvironment, TestRun};
    use serde_json::json;

    use super::*;

    fn started(of: &[&str]) -> TestRun {
        let environment = TestEnvironment::new()
            .mock_workflow::<Book>(|part| match part.what.as_str() {
                "balloon" => Err(Error::failed("no balloon is free")),
                what => Ok(format!("{what} reserved")),
            })
            .mock_workflow::<Unbook>(|_| Ok(()));
        let of: Vec<_> = of.iter().map(|what| (*what, Duration::ZERO)).collect();
        environment.start(Trip, parts(&of))
    }

    fn undone(run: &TestRun) -> Vec<&str> {
        run.commands()
            .iter()
            .filter_map(|command| command.strip_prefix("child \"unbook ")?.split('"').next())
            .collect()
    }

    #[tokio::test]
    async fn all_parts_are_booked_in_order() -> Result<()> {
        let mut run = started(&["flight", "hotel"]);
        run.finish().await?;
        assert_eq!(run.output(), Some(&json!(["flight reserved", "hotel reserved"])));
        assert!(undone(&run).is_empty());
        Ok(())
    }

    #[tokio::test]
    async fn a_part_that_fails_undoes_those_before_it_and_itself() -> Result<()> {
        let mut run = started(&["flight", "hotel", "balloon", "car"]);
        run.finish().await?;
        assert!(run.error().expect("it failed").to_string().contains("no balloon is free"));
        assert_eq!(undone(&run), ["balloon", "hotel", "flight"]);
        Ok(())
    }

    #[tokio::test]
    async fn who_cancels_gets_everything_undone() -> Result<()> {
        // The bookings have no mock, so the first one stays open.
        let environment = TestEnvironment::new().mock_workflow::<Unbook>(|_| Ok(()));
        let mut run =
            environment.start(Trip, parts(&[("flight", Duration::ZERO), ("hotel", Duration::ZERO)]));
        run.settle().await?;
        run.cancel("it rains").await?;
        run.finish().await?;
        assert_eq!(run.error(), Some(Error::Cancelled("it rains".into())));
        assert_eq!(undone(&run), ["flight"]);
        Ok(())
    }

    #[tokio::test]
    async fn each_child_does_its_task() -> Result<()> {
        let part = parts(&[("hotel", Duration::from_secs(3_600))]).remove(0);
        let environment = TestEnvironment::new().task(Reserve).task(Release);
        let mut booked = environment.start(Book, part.clone());
        booked.finish().await?;
        assert_eq!((booked.output(), booked.elapsed()), (Some(&json!("hotel reserved")), part.answers_after));
        let mut unbooked = environment.start(Unbook, part);
        unbooked.finish().await?;
        assert_eq!(unbooked.commands().len(), 1);
        Ok(())
    }
}
