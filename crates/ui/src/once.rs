//! Recently submitted forms: a form that is sent twice is executed once.
//!
//! This is for actions without an idempotency key in REST. This process remembers them long enough for a double click.
//! Starts and retries send their key to the engine, which remembers it for all processes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::failure::Failure;

/// The most forms that are remembered. Older ones are dropped.
const MOST: usize = 1_000;

/// The page that a form led to.
type Outcome = Arc<OnceCell<String>>;

#[derive(Debug, Default)]
pub(crate) struct Once {
    recent: Mutex<VecDeque<(String, Outcome)>>,
}

impl Once {
    fn outcome(&self, key: String) -> Outcome {
        // Nothing panics while the lock is held.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, outcome)) = recent.iter().find(|(known, _)| *known == key) {
            return outcome.clone();
        }
        let outcome = Outcome::default();
        recent.truncate(MOST - 1);
        recent.push_front((key, outcome.clone()));
        outcome
    }

    /// Executes an action, unless the form with this key was executed before or is being executed: then its outcome is
    /// awaited. A refused action may be tried again.
    ///
    /// The action is completed even if the visitor disconnects, because a browser aborts the first request on a double
    /// click.
    pub(crate) async fn run(
        &self,
        key: String,
        done: impl Future<Output = Result<String, Failure>> + Send + 'static,
    ) -> Result<String, Failure> {
        let outcome = self.outcome(key);
        let work = tokio::spawn(async move { outcome.get_or_try_init(|| done).await.cloned() });
        work.await.unwrap_or_else(|error| Err(Failure::internal("an action panicked", &error)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn counted(
        count: &Arc<AtomicUsize>,
        page: &'static str,
    ) -> impl Future<Output = Result<String, Failure>> + use<> {
        let count = count.clone();
        async move {
            tokio::task::yield_now().await;
            count.fetch_add(1, Ordering::Relaxed);
            if page.is_empty() { Err(Failure::Forged) } else { Ok(page.to_owned()) }
        }
    }

    #[tokio::test]
    async fn what_is_sent_twice_is_done_once() {
        let (once, count) = (Once::default(), Arc::new(AtomicUsize::new(0)));
        let both = futures::join!(
            once.run("a".into(), counted(&count, "/one")),
            once.run("a".into(), counted(&count, "/two"))
        );
        assert_eq!(both.0.unwrap(), both.1.unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 1);
        once.run("b".into(), counted(&count, "/b")).await.unwrap();
        once.run("c".into(), counted(&count, "")).await.unwrap_err();
        once.run("c".into(), counted(&count, "/c")).await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 4, "a refused action may be tried again");
    }

    #[tokio::test]
    async fn a_visitor_that_goes_away_leaves_it_done() {
        let (once, count) = (Once::default(), Arc::new(AtomicUsize::new(0)));
        {
            let mut gone = std::pin::pin!(once.run("a".into(), counted(&count, "/one")));
            assert!(futures::poll!(&mut gone).is_pending());
        }
        assert_eq!(once.run("a".into(), counted(&count, "/two")).await.unwrap(), "/one");
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn only_the_newest_are_remembered() {
        let (once, count) = (Once::default(), Arc::new(AtomicUsize::new(0)));
        for number in 0..=MOST {
            once.run(number.to_string(), counted(&count, "/x")).await.unwrap();
        }
        assert_eq!(once.recent.lock().unwrap().len(), MOST);
    }
}
