//! A select loop: a printer that accepts jobs, prints one at a time, can be paused, and stops when it is idle.
//!
//! Everything the workflow waits for is in one `select!`. Futures that live for several iterations (a job that
//! prints, a signal) are created outside the loop and passed as `&mut`, so that a losing branch is not cancelled.

use std::collections::VecDeque;
use std::time::Duration;

use flovyn_sdk::context::TaskFuture;
use flovyn_sdk::{Result, TaskContext, WorkflowContext, task, workflow};
use serde::{Deserialize, Serialize};

use crate::{Connection, PATIENCE, until_state};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Button {
    Pause,
    Resume,
    Stop,
}

#[task]
pub async fn print(_: TaskContext, job: String) -> Result<String> {
    println!("task      print {job}");
    Ok(job)
}

#[workflow]
pub async fn printer(ctx: WorkflowContext, idle_for: Duration) -> Result<Vec<String>> {
    let (mut queue, mut printed) = (VecDeque::new(), Vec::new());
    let (mut job, mut button) = (ctx.wait_for_signal::<String>("job"), ctx.wait_for_signal("button"));
    let mut printing: Option<TaskFuture<String>> = None;
    let mut paused = false;
    loop {
        if !paused && printing.is_none() {
            printing = queue.pop_front().map(|job| ctx.schedule::<Print>(job));
        }
        let idle = printing.is_none() && !paused;
        flovyn_sdk::select! {
            new = &mut job => {
                queue.push_back(new?);
                job = ctx.wait_for_signal("job");
            }
            pressed = &mut button => {
                match pressed? {
                    Button::Pause => paused = true,
                    Button::Resume => paused = false,
                    Button::Stop => break,
                }
                ctx.set_state("state", if paused { "paused" } else { "running" })?;
                button = ctx.wait_for_signal("button");
            }
            done = next(&mut printing), if printing.is_some() => {
                printed.push(done?);
                printing = None;
            }
            slept = ctx.sleep(idle_for), if idle => {
                slept?;
                break;
            }
        }
    }
    // A job that has begun is printed to its end.
    if let Some(last) = printing {
        printed.push(last.await?);
    }
    Ok(printed)
}

/// The current job. It is a function because `select!` evaluates all branches, including those whose condition is
/// false.
async fn next(printing: &mut Option<TaskFuture<String>>) -> Result<String> {
    match printing {
        Some(printing) => printing.await,
        None => std::future::pending().await,
    }
}

pub async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Printer).task(Print).build()?.start();
    let handle = server.client()?.start::<Printer>(PATIENCE).await?;
    handle.signal("button", &Button::Pause).await?;
    until_state(&handle, "state", "paused").await?;
    for job in ["a letter", "a poem"] {
        println!("signal    {job}");
        handle.signal("job", job).await?;
    }
    println!("signal    resume");
    handle.signal("button", &Button::Resume).await?;
    while handle.history().await?.iter().filter(|event| event.kind == "TASK_COMPLETED").count() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    handle.signal("button", &Button::Stop).await?;
    println!("result    {}", handle.result(PATIENCE).await?.join(", "));
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::testing::{TestEnvironment, TestRun};
    use serde_json::json;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn started() -> TestRun {
        TestEnvironment::new().task(Print).evict_always().start(Printer, HOUR)
    }

    #[tokio::test]
    async fn jobs_are_printed_in_order_until_it_is_idle() -> Result<()> {
        let mut run = started();
        run.signal("job", "one").await?;
        run.advance(HOUR / 2).await?;
        run.signal("job", "two").await?;
        run.finish().await?;
        assert_eq!(run.output(), Some(&json!(["one", "two"])));
        assert_eq!(run.elapsed(), HOUR / 2 + HOUR);
        Ok(())
    }

    #[tokio::test]
    async fn a_paused_printer_prints_nothing_and_does_not_fall_asleep() -> Result<()> {
        let mut run = started();
        run.signal("button", &Button::Pause).await?;
        run.signal("job", "one").await?;
        run.advance(10 * HOUR).await?;
        assert!(run.is_waiting());
        assert!(!run.commands().iter().any(|command| command.starts_with("task")), "{:?}", run.commands());
        run.signal("button", &Button::Resume).await?;
        run.finish().await?;
        assert_eq!(run.output(), Some(&json!(["one"])));
        Ok(())
    }

    #[tokio::test]
    async fn what_is_being_printed_when_it_is_stopped_is_finished() -> Result<()> {
        // No mock for printing, so the task stays open.
        let mut run = TestEnvironment::new().start(Printer, HOUR);
        run.signal("job", "one").await?;
        run.signal("job", "two").await?;
        run.signal("button", &Button::Stop).await?;
        assert!(run.is_waiting());
        assert!(run.waiting_on()[0].starts_with("task \"print\""), "{:?}", run.waiting_on());
        Ok(())
    }
}
