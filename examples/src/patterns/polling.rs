//! Polling an external job: start the job, poll its state with growing delays, and give up after a day. The job is
//! stopped if the workflow gives up or is cancelled.
//!
//! The delays are timers of the server: no worker needs to run while the job runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use flovyn_sdk::{Result, TaskContext, WorkflowContext, tasks, with_timeout, workflow};
use serde::{Deserialize, Serialize};

use crate::{Connection, PATIENCE};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Video {
    pub name: String,
    pub first_pause: Duration,
    pub longest_pause: Duration,
    pub give_up_after: Duration,
}

#[workflow]
pub async fn render_video(ctx: WorkflowContext, video: Video) -> Result<String> {
    let job = ctx.schedule::<StartJob>(video.name.clone()).await?;
    let rendered = with_timeout(&ctx, video.give_up_after, async {
        let mut pause = video.first_pause;
        loop {
            if let Some(url) = ctx.schedule::<AskJob>(job.clone()).await? {
                return Ok(url);
            }
            ctx.sleep(pause).await?;
            pause = (pause * 2).min(video.longest_pause);
        }
    });
    let rendered = rendered.await;
    if rendered.is_err() {
        ctx.shielded().schedule::<StopJob>(job).await?;
    }
    rendered
}

/// An external service that renders videos.
#[derive(Debug)]
pub struct Renderer {
    /// How often the service answers "not yet".
    asked_in_vain: AtomicU32,
}

#[tasks]
impl Renderer {
    #[task]
    async fn start_job(&self, ctx: TaskContext, video: String) -> Result<String> {
        // The key lets a second attempt find the job of the first.
        println!("task      start a job for {video}");
        Ok(format!("job-{}", &ctx.idempotency_key()[..4]))
    }

    #[task(timeout_secs = 30)]
    async fn ask_job(&self, _: TaskContext, job: String) -> Result<Option<String>> {
        let left = |left: u32| left.checked_sub(1);
        let done = self.asked_in_vain.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err();
        println!("task      ask for {}", &job[..3]);
        Ok(done.then(|| "https://videos.example.com/1".to_owned()))
    }

    #[task]
    async fn stop_job(&self, _: TaskContext, job: String) -> Result<()> {
        println!("task      stop {}", &job[..3]);
        Ok(())
    }
}

pub async fn example(server: Connection) -> Result<()> {
    let renderer = Renderer { asked_in_vain: 3.into() };
    let worker = server.worker().workflow(RenderVideo).tasks(renderer).build()?.start();
    let video = Video {
        name: "holidays".into(),
        first_pause: Duration::from_millis(50),
        longest_pause: Duration::from_millis(200),
        give_up_after: PATIENCE,
    };
    let handle = server.client()?.start::<RenderVideo>(video).await?;
    println!("result    {}", handle.result(PATIENCE).await?);
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::Error;
    use flovyn_sdk::testing::{TestEnvironment, TestRun};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(24 * 3_600);

    fn started(asked_in_vain: u32) -> TestRun {
        let renderer = Renderer { asked_in_vain: asked_in_vain.into() };
        let name = "holidays".to_owned();
        let video = Video { name, first_pause: MINUTE, longest_pause: 60 * MINUTE, give_up_after: DAY };
        TestEnvironment::new().tasks(renderer).start(RenderVideo, video)
    }

    fn tasks(run: &TestRun, kind: &str) -> usize {
        run.commands().iter().filter(|command| command.contains(&format!("{kind:?}"))).count()
    }

    #[tokio::test]
    async fn pauses_double_until_the_job_is_done() -> Result<()> {
        let mut run = started(4);
        run.finish().await?;
        assert_eq!(run.output().and_then(|url| url.as_str()), Some("https://videos.example.com/1"));
        assert_eq!((run.elapsed(), tasks(&run, "ask-job")), ((1 + 2 + 4 + 8) * MINUTE, 5));
        assert_eq!(tasks(&run, "stop-job"), 0);
        Ok(())
    }

    #[tokio::test]
    async fn after_a_day_it_gives_up_and_stops_the_job() -> Result<()> {
        let mut run = started(1_000);
        run.finish().await?;
        assert_eq!((run.error(), run.elapsed()), (Some(Error::Elapsed(DAY)), DAY));
        assert_eq!(tasks(&run, "stop-job"), 1);
        Ok(())
    }

    #[tokio::test]
    async fn who_cancels_stops_the_job_too() -> Result<()> {
        let mut run = started(1_000);
        run.advance(5 * MINUTE).await?;
        run.cancel("not needed").await?;
        run.finish().await?;
        assert!(run.error().expect("it was cancelled").is_cancelled());
        assert_eq!(tasks(&run, "stop-job"), 1);
        Ok(())
    }
}
