//! Limits on the time of a request: how long its body may be silent, and how long it may take as a whole.
//!
//! Only the body of a request is watched. What waits for an answer (a poll, a stream, `?wait=`) is not silent: it has sent
//! everything.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// What is sent faster than this is never too slow as a whole, whatever its size.
const SLOWEST_BYTES_PER_SECOND: u64 = 64 << 10;
/// A request whose body is too slow is told so before one that is not answered in time.
const AFTER_BODY: Duration = Duration::from_secs(1);

/// Longer than it takes to send a head from anywhere.
const GREETING: Duration = Duration::from_secs(10);

/// How much patience there is with a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// A body that sends nothing for so long is cut.
    pub(crate) silence: Duration,
    /// So long a request may take, beside the time that its size takes.
    pub(crate) whole: Duration,
}

impl Patience {
    /// How long a caller that has connected may take to say what it wants.
    pub(crate) fn greeting(self) -> Duration {
        self.silence.min(GREETING)
    }
}

/// How far a request has come: shared by its body and whoever waits for its answer.
#[derive(Debug)]
pub(crate) struct Progress {
    patience: Patience,
    begin: Instant,
    bytes: AtomicU64,
    cut: AtomicBool,
}

/// It was not answered in time. Whether it had an effect is not known.
#[derive(Debug)]
pub(crate) struct NotAnswered;

impl Progress {
    /// The request with its body watched.
    pub(crate) fn of(request: Request, patience: Patience) -> (Request, Arc<Self>) {
        let (bytes, cut) = (AtomicU64::new(0), AtomicBool::new(false));
        let progress = Arc::new(Self { patience, begin: Instant::now(), bytes, cut });
        if request.body().is_end_stream() {
            return (request, progress);
        }
        let watched = progress.clone();
        (request.map(|body| Body::new(Watched::new(body, watched))), progress)
    }

    /// Whether the body was cut.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    fn end(&self) -> Instant {
        let for_its_size = Duration::from_secs(self.bytes.load(Ordering::Relaxed) / SLOWEST_BYTES_PER_SECOND);
        self.begin + self.patience.whole + for_its_size
    }

    /// Waits for the answer, for as long as a request may take. `waits`: how long it may wait for what it asks for.
    pub(crate) async fn answered<T>(
        &self,
        waits: Duration,
        answer: impl Future<Output = T>,
    ) -> Result<T, NotAnswered> {
        let mut answer = std::pin::pin!(answer);
        loop {
            let end = self.end() + waits + AFTER_BODY;
            match tokio::time::timeout_at(end, &mut answer).await {
                Ok(answer) => return Ok(answer),
                // More of the body has come since.
                Err(_) if self.end() + waits + AFTER_BODY > end => {}
                Err(_) => return Err(NotAnswered),
            }
        }
    }
}

/// Whether an error of a body is that it was cut here.
pub(crate) fn is_too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let cause = error.downcast_ref::<io::Error>().map(io::Error::kind);
    cause == Some(io::ErrorKind::TimedOut) || error.source().is_some_and(is_too_slow)
}

/// A body that ends in an error when it stands still or takes too long.
struct Watched {
    body: UnsyncBoxBody<Bytes, axum::Error>,
    progress: Arc<Progress>,
    /// There while nothing comes.
    timer: Option<Pin<Box<Sleep>>>,
    last: Instant,
}

impl Watched {
    fn new(body: Body, progress: Arc<Progress>) -> Self {
        Self { body: UnsyncBoxBody::new(body), last: progress.begin, progress, timer: None }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
                let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
                this.progress.bytes.fetch_add(length, Ordering::Relaxed);
            }
            (this.timer, this.last) = (None, Instant::now());
            return Poll::Ready(frame);
        }
        let silent = this.last + this.progress.patience.silence;
        let end = silent.min(this.progress.end());
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(timer.as_mut().poll(context));
        this.progress.cut.store(true, Ordering::Relaxed);
        let error = io::Error::new(io::ErrorKind::TimedOut, "the body of the request came too slowly");
        Poll::Ready(Some(Err(axum::Error::new(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use http_body_util::BodyExt;
    use tokio_stream::wrappers::IntervalStream;

    use super::*;

    const PATIENCE: Patience = Patience { silence: Duration::from_secs(2), whole: Duration::from_secs(10) };

    /// A body that sends so many bytes each so often, so many times, and then ends.
    fn body(bytes: usize, every: Duration, times: usize) -> Body {
        let ticks = IntervalStream::new(tokio::time::interval(every)).take(times);
        Body::from_stream(ticks.map(move |_| Ok::<_, io::Error>(vec![0_u8; bytes])))
    }

    /// How many bytes came of it, or that it was cut, after how long.
    async fn read(body: Body) -> (Option<usize>, Duration) {
        let begin = Instant::now();
        let (request, progress) = Progress::of(Request::new(body), PATIENCE);
        let read = request.into_body().collect().await;
        assert_eq!(progress.was_cut(), read.is_err());
        if let Err(error) = &read {
            assert!(is_too_slow(error), "{error}");
        }
        (read.ok().map(|whole| whole.to_bytes().len()), begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_pause_but_not_for_long() {
        let seconds = Duration::from_secs;
        assert_eq!(read(body(1, seconds(1), 5)).await.0, Some(5));
        let (whole, after) = read(Body::from_stream(futures::stream::pending::<io::Result<Bytes>>())).await;
        assert!(whole.is_none() && (seconds(2)..seconds(3)).contains(&after), "{after:?}");
        assert_eq!(read(body(1, seconds(3), 2)).await.0, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_cut_and_a_large_one_gets_its_time() {
        let (whole, after) = read(body(1, Duration::from_secs(1), 60)).await;
        assert!(
            whole.is_none() && (Duration::from_secs(9)..Duration::from_secs(12)).contains(&after),
            "{after:?}"
        );
        // Twice as fast as the slowest, for a minute.
        let fast = usize::try_from(SLOWEST_BYTES_PER_SECOND).unwrap() * 2;
        assert_eq!(read(body(fast, Duration::from_secs(1), 60)).await.0, Some(60 * fast));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_not_answered_is_told_so_but_may_wait_for_what_it_asks_for() {
        let in_a_minute = || tokio::time::timeout(Duration::from_secs(60), std::future::pending::<()>());
        let (_, progress) = Progress::of(Request::new(Body::empty()), PATIENCE);
        assert!(progress.answered(Duration::ZERO, in_a_minute()).await.is_err());
        let (_, progress) = Progress::of(Request::new(Body::empty()), PATIENCE);
        assert!(progress.answered(Duration::from_secs(300), in_a_minute()).await.is_ok());
    }
}
