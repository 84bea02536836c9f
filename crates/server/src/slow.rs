//! Time limits of a request: how long its body may pause, and how long the whole request may take.
//!
//! Only the body of a request is watched for pauses. A request that waits for its answer (a poll, a stream, `?wait=`)
//! has sent its whole body, so it is not counted as silent.

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

/// A body that arrives faster than this never exceeds the total time limit, whatever its size.
const SLOWEST_BYTES_PER_SECOND: u64 = 64 << 10;
/// The answer may come this much later than the end of the time limit. So a slow body is reported as a slow body, not
/// as a missing answer.
const AFTER_BODY: Duration = Duration::from_secs(1);

/// The time limit for a caller to send the head of its first request. Every network path is faster.
const GREETING: Duration = Duration::from_secs(10);

/// The time limits of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// A body that sends nothing for this long is cut off.
    pub(crate) silence: Duration,
    /// The longest time that a request may take, in addition to the time allowed for its size.
    pub(crate) whole: Duration,
}

impl Patience {
    /// How long a caller may take after connecting before it sends a request.
    pub(crate) fn greeting(self) -> Duration {
        self.silence.min(GREETING)
    }

    /// When this many bytes that began to arrive at `begin` must have ended.
    fn end(self, begin: Instant, bytes: u64) -> Instant {
        begin + self.whole + Duration::from_secs(bytes / SLOWEST_BYTES_PER_SECOND)
    }
}

/// The progress of a request. Its body and the code that waits for its answer share it.
#[derive(Debug)]
pub(crate) struct Progress {
    patience: Patience,
    begin: Instant,
    bytes: AtomicU64,
    cut: AtomicBool,
}

/// The request was not answered in time. Whether it had an effect is not known.
#[derive(Debug)]
pub(crate) struct NotAnswered;

impl Progress {
    /// Returns the request with a watched body, and its progress.
    pub(crate) fn of(request: Request, patience: Patience) -> (Request, Arc<Self>) {
        let (bytes, cut) = (AtomicU64::new(0), AtomicBool::new(false));
        let progress = Arc::new(Self { patience, begin: Instant::now(), bytes, cut });
        if request.body().is_end_stream() {
            return (request, progress);
        }
        let watched = progress.clone();
        (request.map(|body| Body::new(Watched::new(body, watched))), progress)
    }

    /// Returns the request with a body that may pause between the messages of a gRPC stream, but not within one.
    pub(crate) fn of_stream(request: Request, patience: Patience) -> Request {
        let (bytes, cut) = (AtomicU64::new(0), AtomicBool::new(false));
        let progress = Arc::new(Self { patience, begin: Instant::now(), bytes, cut });
        request.map(|body| {
            let watched = Watched::new(body, progress);
            Body::new(Watched { messages: Some(Messages::default()), ..watched })
        })
    }

    /// Whether the body was cut off because it was too slow.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    fn end(&self) -> Instant {
        self.patience.end(self.begin, self.bytes.load(Ordering::Relaxed))
    }

    /// Waits for the answer, at most as long as the request may take. `waits` is the time that the request may spend
    /// waiting for its result, such as a long poll.
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
                // More of the body has arrived since, so the limit is later now.
                Err(_) if self.end() + waits + AFTER_BODY > end => {}
                Err(_) => return Err(NotAnswered),
            }
        }
    }
}

/// Whether the error means that the body was cut off here.
pub(crate) fn is_too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let cause = error.downcast_ref::<io::Error>().map(io::Error::kind);
    cause == Some(io::ErrorKind::TimedOut) || error.source().is_some_and(is_too_slow)
}

/// A body that ends with an error if it pauses or takes too long.
struct Watched {
    body: UnsyncBoxBody<Bytes, axum::Error>,
    progress: Arc<Progress>,
    /// Set while the body is waiting for data.
    timer: Option<Pin<Box<Sleep>>>,
    last: Instant,
    /// The messages of a gRPC stream, which is limited only within a message. `None`: the body has one message.
    messages: Option<Messages>,
}

impl Watched {
    fn new(body: Body, progress: Arc<Progress>) -> Self {
        Self { body: UnsyncBoxBody::new(body), last: progress.begin, progress, timer: None, messages: None }
    }

    /// When the body is cut off if nothing more arrives. `None`: it may be silent for any time.
    fn end(&self) -> Option<Instant> {
        let end = match &self.messages {
            None => self.progress.end(),
            Some(messages) => self.progress.patience.end(messages.begin?, messages.bytes),
        };
        Some(end.min(self.last + self.progress.patience.silence))
    }
}

/// The length of the head of a gRPC message: a flag and the length of the message.
const HEAD_BYTES: usize = 5;

/// Where the messages of a gRPC stream begin and end.
#[derive(Debug, Default)]
struct Messages {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the message that have not arrived.
    missing: usize,
    /// Bytes of the current message that have arrived.
    bytes: u64,
    /// When the current message began. `None`: the last one has arrived completely.
    begin: Option<Instant>,
}

impl Messages {
    fn read(&mut self, mut data: &[u8], now: Instant) {
        while !data.is_empty() {
            self.begin.get_or_insert(now);
            if self.head_bytes < HEAD_BYTES {
                self.head[self.head_bytes] = data[0];
                self.head_bytes += 1;
                self.bytes += 1;
                data = &data[1..];
                let [_, length @ ..] = self.head;
                self.missing = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            } else {
                let part = self.missing.min(data.len());
                data = &data[part..];
                self.missing -= part;
                self.bytes += u64::try_from(part).unwrap_or(u64::MAX);
            }
            if self.head_bytes == HEAD_BYTES && self.missing == 0 {
                *self = Self::default();
            }
        }
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
                if let Some(messages) = &mut this.messages {
                    messages.read(data, Instant::now());
                }
            }
            (this.timer, this.last) = (None, Instant::now());
            return Poll::Ready(frame);
        }
        let Some(end) = this.end() else { return Poll::Pending };
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

    /// A body that sends `bytes` bytes in every interval, `times` times, and then ends.
    fn body(bytes: usize, every: Duration, times: usize) -> Body {
        let ticks = IntervalStream::new(tokio::time::interval(every)).take(times);
        Body::from_stream(ticks.map(move |_| Ok::<_, io::Error>(vec![0_u8; bytes])))
    }

    /// The number of bytes read, or `None` if the body was cut off, and the time this took.
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
    async fn a_body_that_pauses_too_long_is_cut() {
        let seconds = Duration::from_secs;
        assert_eq!(read(body(1, seconds(1), 5)).await.0, Some(5));
        let (whole, after) = read(Body::from_stream(futures::stream::pending::<io::Result<Bytes>>())).await;
        assert!(whole.is_none() && (seconds(2)..seconds(3)).contains(&after), "{after:?}");
        assert_eq!(read(body(1, seconds(3), 2)).await.0, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_may_pause_between_messages_but_not_within_one() {
        let whole = [0, 0, 0, 0, 3, b'a', b'b', b'c', 0, 0, 0, 0, 0];
        // Each part arrives after a pause that is too long within a message.
        let parts = async |parts: &[&[u8]]| {
            let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
            let begin = Instant::now();
            let ticks = IntervalStream::new(tokio::time::interval(PATIENCE.silence * 10));
            let sent = ticks.zip(futures::stream::iter(parts)).map(|(_, part)| Ok::<_, io::Error>(part));
            let request = Request::new(Body::from_stream(sent));
            let read = Progress::of_stream(request, PATIENCE).into_body().collect().await;
            (read.ok().map(|body| body.to_bytes().len()), begin.elapsed())
        };
        assert_eq!(parts(&[&whole, &whole[..8], &whole[8..]]).await.0, Some(26));
        for cut in [1, 4, 5, 7, 9, 12] {
            let (read, after) = parts(&[&whole[..cut], &whole[cut..]]).await;
            assert_eq!(read, None, "{cut}");
            assert!(after < PATIENCE.silence * 12, "{cut}: {after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_cut_but_a_large_one_gets_more_time() {
        let (whole, after) = read(body(1, Duration::from_secs(1), 60)).await;
        assert!(
            whole.is_none() && (Duration::from_secs(9)..Duration::from_secs(12)).contains(&after),
            "{after:?}"
        );
        // Twice the slowest allowed speed, for a minute.
        let fast = usize::try_from(SLOWEST_BYTES_PER_SECOND).unwrap() * 2;
        assert_eq!(read(body(fast, Duration::from_secs(1), 60)).await.0, Some(60 * fast));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_request_fails_unless_it_may_wait_longer() {
        let in_a_minute = || tokio::time::timeout(Duration::from_secs(60), std::future::pending::<()>());
        let (_, progress) = Progress::of(Request::new(Body::empty()), PATIENCE);
        assert!(progress.answered(Duration::ZERO, in_a_minute()).await.is_err());
        let (_, progress) = Progress::of(Request::new(Body::empty()), PATIENCE);
        assert!(progress.answered(Duration::from_secs(300), in_a_minute()).await.is_ok());
    }
}
