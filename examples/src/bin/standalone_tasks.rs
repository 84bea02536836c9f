//! Tasks without a workflow: a job queue with retries.
//!
//! `cargo run -p flovyn-examples --bin standalone_tasks`

use std::process::ExitCode;

use flovyn_examples::{Connection, PATIENCE};
use flovyn_sdk::{Error, Result, TaskContext, task};
use tokio::sync::Semaphore;

const IMAGES: u32 = 5;

/// One permit for each finished image. Nothing waits for a standalone task, but this process must know when to end.
static DONE: Semaphore = Semaphore::const_new(0);

#[task(max_retries = 3, timeout_secs = 10)]
async fn resize_image(ctx: TaskContext, image: u32) -> Result<String> {
    println!("task      image {image}, attempt {}", ctx.attempt());
    if image == 3 && ctx.attempt() == 1 {
        println!("task      image 3 fails, and is tried again in a second");
        return Err("the disk is full".into());
    }
    DONE.add_permits(1);
    Ok(format!("image-{image}-small.png"))
}

async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().task(ResizeImage).build()?.start();
    let client = server.client()?;
    for image in 1..=IMAGES {
        let id = client.submit_task::<ResizeImage>(image).await?;
        println!("submitted image {image} as task {id}");
    }
    let all = tokio::time::timeout(PATIENCE, DONE.acquire_many(IMAGES)).await;
    all.map_err(|_| Error::Timeout(Some(PATIENCE)))?.map_err(Error::failed)?.forget();
    // Sends the remaining results.
    worker.stop().await;
    println!("result    all {IMAGES} images are done");
    Ok(())
}

fn main() -> ExitCode {
    flovyn_examples::run(example)
}
