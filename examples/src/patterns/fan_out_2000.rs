//! Fan-out: 2,000 tasks in parallel, and one sum. The results arrive in any order; the workflow keeps them in the
//! order of the tasks.

use flovyn_sdk::{Result, TaskContext, WorkflowContext, join_all, task, workflow};

use crate::{Connection, PATIENCE};

const WIDTH: u64 = 2_000;

#[task]
pub async fn square(_: TaskContext, number: u64) -> Result<u64> {
    Ok(number * number)
}

#[workflow]
pub async fn sum_of_squares(ctx: WorkflowContext, width: u64) -> Result<u64> {
    let squares = join_all((1..=width).map(|number| ctx.schedule::<Square>(number))).await;
    // The first error ends the workflow. To continue with the successful results, handle each result here.
    squares.into_iter().sum()
}

pub async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(SumOfSquares).task(Square).max_tasks(500).build()?.start();
    let handle = server.client()?.start::<SumOfSquares>(WIDTH).await?;
    println!("started   {WIDTH} tasks");
    println!("result    {}", handle.result(PATIENCE * 4).await?);
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::Error;
    use flovyn_sdk::testing::TestEnvironment;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn all_squares_are_added_in_whatever_order_they_come() -> Result<()> {
        for seed in 0..3 {
            let mut run = TestEnvironment::new().task(Square).shuffle(seed).start(SumOfSquares, WIDTH);
            run.finish().await?;
            assert_eq!(run.output(), Some(&json!(2_668_667_000_u64)), "seed {seed}");
            assert_eq!(run.commands().len(), 2_000);
        }
        Ok(())
    }

    #[tokio::test]
    async fn one_failure_is_the_result() -> Result<()> {
        let mock = |number| if number == 7 { Err(Error::failed("not seven")) } else { Ok(number) };
        let mut run = TestEnvironment::new().mock::<Square>(mock).start(SumOfSquares, 20);
        run.finish().await?;
        assert!(run.error().expect("it failed").to_string().contains("not seven"));
        Ok(())
    }
}
