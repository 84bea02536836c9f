//! Tasks with dependencies: methods of a value, and extensions of the worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use flovyn_sdk::{
    ChildOptions, Error, Result, RetryPolicy, StartOptions, TaskContext, TaskDefinition, TaskOptions, Worker,
    WorkflowContext, WorkflowDefinition, task, tasks, workflow,
};
use serde_json::{Value, json};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(
    methods_are_tasks_that_share_what_they_are_called_on,
    a_child_is_started_as_its_options_say,
    a_missing_extension_is_named,
);

/// A substitute for a database.
#[derive(Debug, Default)]
struct Ledger {
    sum: AtomicU32,
}

struct Bank {
    ledger: Arc<Ledger>,
}

#[tasks]
impl Bank {
    fn new(ledger: Arc<Ledger>) -> Self {
        Self { ledger }
    }

    /// Charges the amount.
    #[task(max_retries = 7, retry_initial_ms = 1, retry_factor = 1.5, retry_cap_ms = 20)]
    async fn pay(&self, ctx: TaskContext, cents: u32) -> Result<u32> {
        if ctx.attempt() < 3 {
            return Err(Error::failed("the bank is slow"));
        }
        Ok(self.book(cents))
    }

    #[task(kind = "give-back", name = Refund)]
    pub(crate) async fn refund(&self, _: TaskContext, _: ()) -> Result<(u32, u32)> {
        Ok((self.ledger.sum.swap(0, Ordering::SeqCst), 0))
    }

    fn book(&self, cents: u32) -> u32 {
        self.ledger.sum.fetch_add(cents, Ordering::SeqCst) + cents
    }
}

#[derive(Debug, PartialEq)]
struct Greeting(&'static str);

#[task]
async fn greet(ctx: TaskContext, name: String) -> Result<String> {
    let Greeting(word) = ctx.extension::<Greeting>()?;
    Ok(format!("{word}, {name}, you have {}", ctx.extension::<Arc<Ledger>>()?.sum.load(Ordering::SeqCst)))
}

#[workflow]
async fn shopping(ctx: WorkflowContext, cents: u32) -> Result<(u32, String, (u32, u32))> {
    let paid = ctx.schedule::<Pay>(cents).await?;
    let greeting = ctx.schedule::<Greet>("Ada".into()).await?;
    Ok((paid, greeting, ctx.schedule::<Refund>(()).await?))
}

async fn methods_are_tasks_that_share_what_they_are_called_on(server: TestServer) {
    let ledger = Arc::new(Ledger::default());
    let builder = server.worker().workflow(Shopping).task(Greet).tasks(Bank::new(ledger.clone()));
    let worker = builder.extension(Greeting("hello")).extension(ledger.clone()).build().unwrap().start();
    let output = server.client().start::<Shopping>(250).await.unwrap().result(PATIENCE).await.unwrap();
    assert_eq!(output, (250, "hello, Ada, you have 250".to_owned(), (250, 0)));
    assert_eq!(ledger.sum.load(Ordering::SeqCst), 0);
    worker.stop().await;
}

async fn a_missing_extension_is_named(server: TestServer) {
    let workflow = |ctx: WorkflowContext, _: Value| async move {
        let options = TaskOptions { max_retries: Some(1), ..TaskOptions::default() };
        ctx.schedule_with_options::<Greet>("Ada".into(), options).await.map(Value::from)
    };
    let worker = server.worker().workflow_fn("w", workflow).task(Greet).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    let error = handle.result(PATIENCE).await.unwrap_err().to_string();
    assert!(error.contains("Greeting`: add one with `.extension(...)`"), "{error}");
    worker.stop().await;
}

#[workflow(version = "3")]
async fn parcel(_: WorkflowContext, what: String) -> Result<String> {
    Ok(what)
}

async fn a_child_is_started_as_its_options_say(server: TestServer) {
    let parent = |ctx: WorkflowContext, _: Value| async move {
        let options = ChildOptions {
            queue: Some("warehouse".into()),
            execution_timeout: Some(Duration::from_secs(3_600)),
            priority_seconds: -5,
            ..ChildOptions::default()
        };
        let parcel = ctx.schedule_workflow_with_options::<Parcel>("parcel", "books".into(), options);
        let id = parcel.execution_id();
        Ok(json!([parcel.await?, id.to_string()]))
    };
    let parents = server.worker().workflow_fn("parent", parent).build().unwrap().start();
    let warehouse = server.worker().queue("warehouse").workflow(Parcel).build().unwrap().start();
    let client = server.client();
    let handle = client.start_raw("parent", Value::Null, StartOptions::default()).await.unwrap();
    let output = handle.result(PATIENCE).await.unwrap();
    assert_eq!(output[0], json!("books"));
    let id = output[1].as_str().unwrap().parse().unwrap();
    assert_eq!(client.handle::<String>(id).describe().await.unwrap().queue, "warehouse");
    for worker in [parents, warehouse] {
        worker.stop().await;
    }
}

#[test]
fn a_task_of_a_set_has_the_options_of_its_attribute() {
    let retry =
        RetryPolicy { initial: Duration::from_millis(1), factor: 1.5, cap: Duration::from_millis(20) };
    let expected = TaskOptions { max_retries: Some(7), retry: Some(retry), ..TaskOptions::default() };
    assert_eq!((Pay::KIND, Pay::options()), ("pay", expected));
    assert_eq!((Refund::KIND, Refund::options()), ("give-back", TaskOptions::default()));
    assert_eq!(Parcel::VERSION, Some("3"));
}

#[tokio::test]
async fn what_is_given_twice_is_refused() {
    let bank = || Bank::new(Arc::default());
    let worker = || Worker::builder("http://localhost:9090", "token");
    let error = worker().tasks(bank()).tasks(bank()).build().unwrap_err().to_string();
    assert!(error.contains("the task \"pay\" is registered twice"), "{error}");
    let twice = worker().tasks(bank()).extension(Greeting("hello")).extension(Greeting("good day"));
    let error = twice.build().unwrap_err().to_string();
    assert!(error.contains("Greeting`: wrap each in a type of its own"), "{error}");
}
