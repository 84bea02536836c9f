//! Several versions of one workflow in one worker.

use flovyn_sdk::{
    Client, Result, StartOptions, Worker, WorkflowContext, WorkflowDefinition, WorkflowHandle, workflow,
};
use serde_json::{Value, json};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(a_run_stays_with_the_version_it_named, a_typed_child_runs_on_the_version_of_its_definition,);

#[workflow(kind = "greeting", version = "1")]
async fn greeting_one(ctx: WorkflowContext, name: String) -> Result<String> {
    let word: String = ctx.wait_for_signal("word").await?;
    Ok(format!("one: {word}, {name}"))
}

/// Has another input and output than the first version.
#[workflow(kind = "greeting", version = "2")]
async fn greeting_two(ctx: WorkflowContext, names: Vec<String>) -> Result<Vec<String>> {
    ctx.set_state("names", &names.len())?;
    let word: String = ctx.wait_for_signal("word").await?;
    Ok(names.iter().map(|name| format!("two: {word}, {name}")).collect())
}

#[workflow(kind = "greeting")]
async fn greeting_without(_: WorkflowContext, name: String) -> Result<String> {
    Ok(format!("none: {name}"))
}

#[workflow]
async fn parent(ctx: WorkflowContext, name: String) -> Result<(String, Vec<String>)> {
    let one = ctx.schedule_workflow::<ChildOne>("one", name.clone());
    let two = ctx.schedule_workflow::<ChildTwo>("two", name);
    Ok((one.await?, two.await?))
}

#[workflow(kind = "child", version = "1")]
async fn child_one(_: WorkflowContext, name: String) -> Result<String> {
    Ok(name)
}

#[workflow(kind = "child", version = "2")]
async fn child_two(_: WorkflowContext, name: String) -> Result<Vec<String>> {
    Ok(vec![name])
}

async fn by_name(client: &Client, version: Option<&str>) -> WorkflowHandle<Value> {
    let options = StartOptions { version: version.map(str::to_owned), ..StartOptions::default() };
    client.start_raw("greeting", json!("Ada"), options).await.unwrap()
}

async fn waits<T>(handle: &WorkflowHandle<T>) {
    while handle.describe().await.unwrap().status != "WAITING" {
        tokio::task::yield_now().await;
    }
}

async fn a_run_stays_with_the_version_it_named(server: TestServer) {
    let client = server.client();
    // Without a cache: after the signal, the workflow is replayed with the definition that the worker chooses.
    let first = server.worker().workflow(GreetingOne).cache_size(0).build().unwrap().start();
    let (typed, unnamed) =
        (client.start::<GreetingOne>("Ada".into()).await.unwrap(), by_name(&client, None).await);
    waits(&typed).await;
    waits(&unnamed).await;
    first.stop().await;
    let both = server.worker().workflow(GreetingOne).workflow(GreetingTwo).cache_size(0);
    let both = both.build().unwrap().start();
    let newer = client.start::<GreetingTwo>(vec!["Ada".into(), "Bob".into()]).await.unwrap();
    let named = by_name(&client, Some("1")).await;
    waits(&newer).await;
    waits(&named).await;
    for id in [typed.id(), unnamed.id(), newer.id(), named.id()] {
        client.handle::<Value>(id).signal("word", "hello").await.unwrap();
    }
    assert_eq!(typed.result(PATIENCE).await.unwrap(), "one: hello, Ada");
    assert_eq!(
        unnamed.result(PATIENCE).await.unwrap(),
        json!("one: hello, Ada"),
        "the first that was registered"
    );
    assert_eq!(newer.result(PATIENCE).await.unwrap(), ["two: hello, Ada", "two: hello, Bob"]);
    assert_eq!(named.result(PATIENCE).await.unwrap(), json!("one: hello, Ada"));
    both.stop().await;
    let all = server.worker().workflow(GreetingOne).workflow(GreetingWithout).workflow(GreetingTwo);
    let all = all.build().unwrap().start();
    assert_eq!(by_name(&client, None).await.result(PATIENCE).await.unwrap(), json!("none: Ada"));
    all.stop().await;
}

async fn a_typed_child_runs_on_the_version_of_its_definition(server: TestServer) {
    let worker =
        server.worker().workflow(Parent).workflow(ChildOne).workflow(ChildTwo).build().unwrap().start();
    let output = server.client().start::<Parent>("Ada".into()).await.unwrap().result(PATIENCE).await;
    assert_eq!(output.unwrap(), ("Ada".to_owned(), vec!["Ada".to_owned()]));
    worker.stop().await;
}

#[tokio::test]
async fn a_definition_that_is_registered_twice_is_refused() {
    assert_eq!(GreetingOne::KIND, GreetingTwo::KIND);
    let worker = || Worker::builder("http://localhost:9090", "token");
    let echo = |_, input| async move { Ok(input) };
    let twice = [
        (worker().workflow(GreetingOne).workflow(GreetingOne), "version \"1\" of the workflow \"greeting\""),
        (
            worker().workflow(GreetingWithout).workflow_fn("greeting", |_, input| async { Ok(input) }),
            "without a version",
        ),
        (worker().task_fn("t", echo).task_fn("u", echo).task_fn("t", echo), "the task \"t\""),
    ];
    for (builder, expected) in twice {
        let error = builder.build().unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains("registered twice") && error.contains("remove"),
            "{error}"
        );
    }
    assert!(worker().workflow(GreetingOne).workflow(GreetingTwo).workflow(GreetingWithout).build().is_ok());
    assert!(worker().workflow_fn("t", |_, input| async { Ok(input) }).task_fn("t", echo).build().is_ok());
}
