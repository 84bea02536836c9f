//! An interpreter: the workflow is data, for example drawn by a business analyst, and the code executes it.
//!
//! The program is part of the input, so a replay runs the same program. It calls tasks by name. If no worker
//! implements a task, the execution waits and shows which task is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use flovyn_sdk::{Error, Result, TaskContext, WorkflowContext, join_all, task, workflow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Connection, PATIENCE};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Runs a task with these variables and stores its output in another variable.
    Call {
        task: String,
        with: Vec<String>,
        into: String,
    },
    /// Waits for a signal and stores its value.
    Ask {
        signal: String,
        into: String,
    },
    Sleep {
        seconds: u64,
    },
    Sequence(Vec<Step>),
    Parallel(Vec<Step>),
    /// Continues with the first step if the variable is `true`, otherwise with the second.
    If {
        variable: String,
        then: Box<Step>,
        otherwise: Box<Step>,
    },
}

type Variables = BTreeMap<String, Value>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Program {
    pub step: Step,
    pub variables: Variables,
}

#[workflow]
pub async fn interpret(ctx: WorkflowContext, program: Program) -> Result<Variables> {
    run(&ctx, &program.step, program.variables).await
}

/// Returns the variables after the step.
async fn run(ctx: &WorkflowContext, step: &Step, mut variables: Variables) -> Result<Variables> {
    match step {
        Step::Call { task, with, into } => {
            let input = with.iter().map(|name| variables.get(name).cloned().unwrap_or_default()).collect();
            let output = ctx.schedule_raw(task, Value::Array(input)).await?;
            variables.insert(into.clone(), output);
        }
        Step::Ask { signal, into } => {
            variables.insert(into.clone(), ctx.wait_for_signal(signal).await?);
        }
        Step::Sleep { seconds } => ctx.sleep(Duration::from_secs(*seconds)).await?,
        Step::Sequence(steps) => {
            for step in steps {
                variables = Box::pin(run(ctx, step, variables)).await?;
            }
        }
        Step::Parallel(steps) => {
            let branches = steps.iter().map(|step| Box::pin(run(ctx, step, variables.clone())));
            let branches: Result<Vec<Variables>> = join_all(branches).await.into_iter().collect();
            // Each branch has its own copy of the variables.
            let before = variables.clone();
            for branch in branches? {
                variables.extend(branch.into_iter().filter(|(name, value)| before.get(name) != Some(value)));
            }
        }
        Step::If { variable, then, otherwise } => {
            let chosen = match variables.get(variable).and_then(Value::as_bool) {
                Some(true) => then,
                Some(false) => otherwise,
                None => return Err(Error::failed(format!("{variable} is neither true nor false"))),
            };
            variables = Box::pin(run(ctx, chosen, variables)).await?;
        }
    }
    Ok(variables)
}

#[task]
pub async fn multiply(_: TaskContext, factors: Vec<u64>) -> Result<u64> {
    Ok(factors.into_iter().product())
}

#[task]
pub async fn is_large(_: TaskContext, numbers: Vec<u64>) -> Result<bool> {
    Ok(numbers.into_iter().any(|number| number > 100))
}

/// Computes a price for `count` pieces; large orders need approval.
fn price() -> Step {
    let steps = json!([
        { "parallel": [
            { "call": { "task": "multiply", "with": ["count", "cents"], "into": "price" } },
            { "sleep": { "seconds": 1 } }
        ] },
        { "call": { "task": "is-large", "with": ["price"], "into": "large" } },
        { "if": {
            "variable": "large",
            "then": { "ask": { "signal": "consent", "into": "by" } },
            "otherwise": { "sequence": [] }
        } }
    ]);
    serde_json::from_value(json!({ "sequence": steps })).expect("it is written as steps are")
}

fn program(count: u64) -> Program {
    let variables = [("count", json!(count)), ("cents", json!(30))];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
    Program { step: price(), variables }
}

pub async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Interpret).task(Multiply).task(IsLarge).build()?.start();
    let client = server.client()?;
    let small = client.start::<Interpret>(program(2)).await?;
    println!("result    {}", json!(small.result(PATIENCE).await?));
    let large = client.start::<Interpret>(program(9)).await?;
    large.signal("consent", "Grace").await?;
    println!("result    {}", json!(large.result(PATIENCE).await?));
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::testing::{TestEnvironment, TestRun};

    use super::*;

    fn started(program: Program) -> TestRun {
        TestEnvironment::new().task(Multiply).task(IsLarge).evict_always().start(Interpret, program)
    }

    #[tokio::test]
    async fn a_small_order_asks_nobody() -> Result<()> {
        let mut run = started(program(2));
        run.finish().await?;
        let expected = json!({ "count": 2, "cents": 30, "price": 60, "large": false });
        assert_eq!((run.output(), run.elapsed()), (Some(&expected), Duration::from_secs(1)));
        Ok(())
    }

    #[tokio::test]
    async fn a_large_order_waits_for_consent() -> Result<()> {
        let mut run = started(program(9));
        run.finish().await?;
        assert_eq!(run.waiting_on(), ["signal \"consent\""]);
        run.signal("consent", "Grace").await?;
        assert_eq!(run.output().map(|output| &output["by"]), Some(&json!("Grace")));
        Ok(())
    }

    #[tokio::test]
    async fn a_condition_that_is_none_fails_the_workflow() -> Result<()> {
        let none = || Box::new(Step::Sequence(Vec::new()));
        let step = Step::If { variable: "count".into(), then: none(), otherwise: none() };
        let mut run = started(Program { step, ..program(2) });
        run.finish().await?;
        assert_eq!(run.error(), Some(Error::failed("count is neither true nor false")));
        Ok(())
    }
}
