//! Futures that have ended, and futures that have lost a race: one rule for all kinds, live and on replay.

use std::time::Duration;

use flovyn_sdk::testing::TestEnvironment;
use flovyn_sdk::{Either, Error, PromiseOptions, Result, WorkflowContext, join_all, select, with_timeout};
use futures::future::FutureExt;
use serde_json::{Value, json};

use crate::runs::{environment_in_order, replay_strictly};

const SECOND: Duration = Duration::from_secs(1);

/// Every kind of future that a context creates.
const KINDS: [&str; 7] = ["task", "timer", "child", "promise", "step", "signal", "cancellation"];

/// Polls the given future again after its end. `map` and similar combinators would panic themselves.
struct Again<F>(F);

impl<F: Future + Unpin> Again<F> {
    async fn twice(mut self) -> F::Output {
        let _ = (&mut self.0).await;
        (&mut self.0).await
    }
}

/// The panic of a workflow that awaits a future of this kind twice.
async fn awaited_twice(environment: &TestEnvironment, kind: &'static str) -> String {
    let workflow = move |context: WorkflowContext, _: Value| async move {
        match kind {
            "task" => Again(context.schedule_raw("good", json!(1))).twice().await.map(drop)?,
            "timer" => Again(context.sleep(SECOND)).twice().await?,
            "child" => {
                Again(context.schedule_workflow_raw("kid", "good", json!(1))).twice().await.map(drop)?
            }
            "promise" => {
                let options = PromiseOptions { timeout: Some(SECOND), key: None };
                Again(context.promise_with_options::<Value>("p", options)).twice().await.map(drop)?;
            }
            "step" => Again(context.run("s", || json!(1))).twice().await.map(drop)?,
            "signal" => Again(context.wait_for_signal::<Value>("go")).twice().await.map(drop)?,
            _ => drop(Again(context.cancellation()).twice().await),
        }
        Ok(Value::Null)
    };
    let mut run = environment.start_fn("w", workflow, Value::Null);
    let outcome = async {
        run.settle().await?;
        match kind {
            "signal" => run.signal("go", &1).await?,
            "cancellation" => run.cancel("enough").await?,
            _ => {}
        }
        run.finish().await
    };
    let outcome = outcome.await;
    let Err(Error::DeterminismViolation(message)) = outcome else { panic!("{kind}: {outcome:?}") };
    message
}

#[tokio::test]
async fn a_future_that_is_polled_after_it_has_ended_panics_with_its_name() {
    let names = [
        "the task \"good\"",
        "the timer \"timer-1\"",
        "the child workflow \"kid\"",
        "the promise \"p\"",
        "the step \"s\"",
        "the signal \"go\"",
        "the request to cancel",
    ];
    for environment in [environment_in_order(), environment_in_order().evict_always()] {
        for (kind, name) in KINDS.into_iter().zip(names) {
            let message = awaited_twice(&environment, kind).await;
            assert!(message.starts_with("PANIC at event"), "{message}");
            let expected = format!("the future of {name} was polled after it had ended");
            assert!(message.contains(&expected), "{message}");
        }
    }
}

/// The commands of a workflow: live, without a cache, and on replay of its log.
async fn commands<F, R>(workflow: F) -> (Vec<String>, Value)
where
    F: Fn(WorkflowContext, Value) -> R + Send + Sync + Clone + 'static,
    R: Future<Output = Result<Value>> + Send + 'static,
{
    let mut seen = Vec::new();
    for environment in [environment_in_order(), environment_in_order().evict_always()] {
        let mut run = environment.start_fn("w", workflow.clone(), Value::Null);
        run.finish().await.unwrap();
        replay_strictly("w", workflow.clone(), &run.recording()).await.unwrap();
        seen.push((run.commands().to_vec(), run.output().expect("it completes").clone()));
    }
    let (without_memory, live) = (seen.pop().unwrap(), seen.pop().unwrap());
    assert_eq!(live, without_memory);
    live
}

fn cancels(commands: &[String]) -> Vec<&str> {
    commands.iter().filter(|command| command.starts_with("cancel")).map(|c| &c[..15]).collect()
}

const ALL_THREE: [&str; 3] = ["cancel of task ", "cancel of timer", "cancel of child"];

/// A task that never ends, a timer of one day and a child that never ends.
async fn endless(context: &WorkflowContext) -> Value {
    let task = context.schedule_raw("endless", Value::Null);
    let timer = context.sleep(86_400 * SECOND);
    let child = context.schedule_workflow_raw("kid", "endless", Value::Null);
    let all = join_all([task.boxed(), timer.map(|slept| slept.map(|()| Value::Null)).boxed(), child.boxed()]);
    json!(all.await.into_iter().map(|result| result.is_ok()).collect::<Vec<_>>())
}

#[tokio::test]
async fn whatever_loses_is_cancelled_however_deep_it_lies() {
    let (asked, output) = commands(|context, _| async move {
        let limited = with_timeout(&context, SECOND, async { Ok(endless(&context).await) }).await;
        Ok(json!(format!("{limited:?}")))
    })
    .await;
    assert_eq!((cancels(&asked), output), (ALL_THREE.to_vec(), json!("Err(Elapsed(1s))")));
    let (asked, output) = commands(|context, _| async move {
        Ok(match select(endless(&context), context.sleep(SECOND)).await {
            Either::Left(_) => json!("all"),
            Either::Right(slept) => json!(slept.is_ok()),
        })
    })
    .await;
    assert_eq!((cancels(&asked), output), (ALL_THREE.to_vec(), json!(true)));
    let (asked, output) = commands(|context, _| async move {
        Ok(flovyn_sdk::select! {
            all = endless(&context) => all,
            _ = context.promise_raw("never"), if false => json!("disabled"),
            Ok(()) = context.sleep(SECOND) => json!("slept"),
            else => json!("nothing"),
        })
    })
    .await;
    assert_eq!((cancels(&asked), output), (ALL_THREE.to_vec(), json!("slept")));
}

#[tokio::test]
async fn what_is_passed_by_reference_is_kept_and_can_be_awaited_again() {
    let (asked, output) = commands(|context, _| async move {
        let mut slow = context.sleep(10 * SECOND);
        let mut seen = vec![with_timeout(&context, SECOND, &mut slow).await.is_err()];
        seen.push(matches!(select(&mut slow, context.sleep(SECOND)).await, Either::Right(_)));
        seen.push(flovyn_sdk::select! {
            _ = &mut slow => false,
            _ = context.sleep(SECOND) => true,
        });
        slow.await?;
        Ok(json!([seen, context.current_time_millis() - 1_700_000_000_000]))
    })
    .await;
    assert_eq!(output, json!([[true, true, true], 10_000]), "it fired at its own time");
    assert_eq!(cancels(&asked), [""; 0]);
}

/// If the future wins, `with_timeout` cancels its timer and nothing else.
#[tokio::test]
async fn who_wins_cancels_the_others_and_is_not_cancelled() {
    let (asked, output) = commands(|context, _| async move {
        let task = with_timeout(&context, SECOND, context.schedule_raw("good", json!(7))).await?;
        let other = flovyn_sdk::select! {
            result = context.schedule_raw("good", json!(8)) => result?,
            _ = context.sleep(SECOND) => Value::Null,
        };
        Ok(json!([task, other]))
    })
    .await;
    assert_eq!(output, json!([7, 8]));
    assert_eq!(cancels(&asked), ["cancel of timer"; 2]);
}

/// Dropping an undecided race cancels nothing.
#[tokio::test]
async fn a_race_that_is_dropped_undecided_cancels_nothing() {
    let (asked, _) = commands(|context, _| async move {
        let mut race = Box::pin(async {
            flovyn_sdk::select! {
                all = endless(&context) => all,
                _ = context.promise_raw("never") => Value::Null,
            }
        });
        assert!(futures::poll!(&mut race).is_pending());
        drop(race);
        Ok(Value::Null)
    })
    .await;
    assert_eq!(cancels(&asked), [""; 0]);
}

/// The timeout of a promise differs from a time limit on waiting: after the promise's own timeout it can no longer be
/// resolved.
#[tokio::test]
async fn the_deadline_of_a_promise_is_not_the_limit_of_a_wait() {
    let reminders = |context: WorkflowContext, _: Value| async move {
        let options = PromiseOptions { timeout: Some(3 * SECOND), key: None };
        let mut answer = context.promise_with_options::<Value>("approval", options);
        for reminders in 0..20 {
            match with_timeout(&context, SECOND, &mut answer).await {
                Err(Error::Elapsed(_)) => context.schedule_raw("good", json!("remind")).await.map(drop)?,
                Err(Error::Timeout(_)) => return Ok(json!(reminders)),
                other => return other,
            }
        }
        Ok(json!("the mailbox is full"))
    };
    let (_, output) = commands(reminders).await;
    assert!(output == json!(2) || output == json!(3), "{output}");
}

/// All forms of a branch that `tokio::select!` accepts.
#[tokio::test]
async fn every_form_of_a_branch_is_taken() {
    let (_, output) = commands(|context, _| async move {
        let mut seen = Vec::new();
        for round in 0..3 {
            let (one, two) = (context.schedule_raw("good", json!(1)), context.schedule_raw("good", json!(2)));
            let won = flovyn_sdk::select! {
                Ok(value) = one, if round == 0 => { value }
                value = two, if round == 1 => { value? },
                slept = context.sleep(SECOND), if round > 5 => slept.map(|()| Value::Null)?,
                _ = async {} => json!("at once"),
            };
            seen.push(won);
        }
        Ok(json!(seen))
    })
    .await;
    assert_eq!(output, json!(["at once", "at once", "at once"]));
}
