//! Start over REST and wait for the result in the same request, like the back end of a web shop that does not use an
//! SDK.
//!
//! `wait` has a time limit. A client that gets no result in time repeats the request with the same idempotency key,
//! and finds the same execution.

use std::time::Duration;

use flovyn_sdk::{Error, Result, TaskContext, WorkflowContext, task, workflow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Connection, Rest};

#[derive(Debug, Serialize, Deserialize)]
pub struct Question {
    pub weight_kg: u32,
    pub patience: Duration,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Quote {
    pub cents: u32,
}

#[task]
pub async fn ask_carrier(_: TaskContext, weight_kg: u32) -> Result<u32> {
    Ok(500 + 20 * weight_kg)
}

#[workflow]
pub async fn shipping_quote(ctx: WorkflowContext, question: Question) -> Result<Quote> {
    let cents = ctx.schedule::<AskCarrier>(question.weight_kg).await?;
    ctx.sleep(question.patience).await?;
    Ok(Quote { cents })
}

/// Requests a quote until the result is there. Any HTTP client can do this; this one needs no dependency.
async fn quote(server: &Connection, key: &str, question: &Question) -> Result<Quote> {
    loop {
        let body = json!({ "input": question, "idempotencyKey": key });
        let answer = post(server, "/workflows/shipping-quote/trigger?wait=1s", &body).await?;
        match answer["status"].as_str() {
            Some("COMPLETED") => return Ok(serde_json::from_value(answer["execution"]["output"].clone())?),
            Some("PENDING" | "RUNNING" | "WAITING") => println!("answer    not yet"),
            _ => return Err(Error::failed(answer)),
        }
    }
}

async fn post(server: &Connection, path: &str, body: &Value) -> Result<Value> {
    let Rest { http_url, api_token, tenant } = server.rest()?;
    let (host, body) = (http_url.trim_start_matches("http://"), body.to_string());
    let request = format!(
        "POST /api/tenants/{tenant}{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {api_token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or_else(|| Error::failed("that is no HTTP"))?;
    Ok(serde_json::from_str(body)?)
}

pub async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(ShippingQuote).task(AskCarrier).build()?.start();
    let question = Question { weight_kg: 7, patience: Duration::ZERO };
    println!("result    {} cents", quote(&server, "parcel-1", &question).await?.cents);
    let question = Question { weight_kg: 9, patience: Duration::from_millis(1_500) };
    println!("result    {} cents", quote(&server, "parcel-2", &question).await?.cents);
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::testing::TestEnvironment;

    use super::*;

    #[tokio::test]
    async fn a_quote_takes_as_long_as_it_says() -> Result<()> {
        let question = Question { weight_kg: 10, patience: Duration::from_secs(3_600) };
        let mut run = TestEnvironment::new().task(AskCarrier).start(ShippingQuote, question);
        run.finish().await?;
        assert_eq!(run.output(), Some(&json!({ "cents": 700 })));
        assert_eq!(run.elapsed(), Duration::from_secs(3_600));
        Ok(())
    }
}
