//! Makes pollers search for work that another process made ready: immediately after a hint, or at the latest with the
//! next poll of the database.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use flovyn_engine::state::Lane;
use flovyn_store::{Hint, StoreResult};
use tokio::sync::{Notify, mpsc};

use crate::job::Asker;
use crate::loops::{Options, Stopped, pause};
use crate::service::Service;

/// The most lanes that are read for pollers that take work of any kind.
const ANY_LANES: usize = 100;

#[derive(Debug)]
pub struct WakeLoop {
    service: Service,
    every: Duration,
    look: Notify,
}

impl WakeLoop {
    pub fn new(service: Service, options: &Options) -> Self {
        Self { service, every: options.poll, look: Notify::new() }
    }

    pub(crate) async fn run(self, mut stopped: Stopped) {
        let mut hints = self.service.shared.hints.then(|| self.service.store().hints()).flatten();
        loop {
            // The pause is not restarted by hints, so the regular poll always happens and finds work whose hint was
            // lost.
            let mut pause = pin!(pause(&self.service, &mut stopped, self.every));
            loop {
                tokio::select! {
                    biased;
                    more = &mut pause => match more {
                        true => {
                            self.look.notify_one();
                            break;
                        }
                        false => return,
                    },
                    () = self.look.notified() => {
                        if let Err(error) = self.tick().await {
                            tracing::warn!(%error, "cannot look for ready work; trying again");
                        }
                    }
                    hint = next(&mut hints) => self.heard(hint, &mut hints),
                }
            }
        }
    }

    /// Looks for work in the lanes of all pollers and onlookers. Returns how many pollers it sent to search.
    pub async fn tick(&self) -> StoreResult<usize> {
        let found = with_work(&self.service, self.service.shared.dispatch.lanes()).await?;
        Ok(self.search(&found))
    }

    fn heard(&self, first: Hint, hints: &mut Option<mpsc::Receiver<Hint>>) {
        let mut all = BTreeSet::from([first]);
        while let Some(Ok(hint)) = hints.as_mut().map(mpsc::Receiver::try_recv) {
            all.insert(hint);
        }
        for hint in all {
            let mut lanes = self.service.shared.dispatch.lanes_of_queue(hint.tenant_id, &hint.queue);
            lanes.retain(|lane| lane.class == hint.class);
            if lanes.iter().any(Lane::is_any_kind) {
                // Only the database knows which kinds of work there are.
                self.look.notify_one();
            }
            self.search(&lanes);
        }
    }

    /// Makes one poller of each lane search. A poller that finds nothing waits again.
    fn search(&self, lanes: &[Lane]) -> usize {
        let jobs = self.service.shared.dispatch.take_one_of_each(lanes);
        let count = jobs.len();
        for job in jobs {
            if let Err((job, _)) = self.service.resend(job)
                && let Asker::Poll(poll) = job.asker
            {
                // If the queue is full, the poller continues to wait, and the next poll of the database finds the
                // work.
                self.service.shared.dispatch.park(job.request, poll);
            }
        }
        count
    }
}

/// The lanes among these that have ready work. A lane of any kind is replaced by the lanes with work in its queue.
pub(crate) async fn with_work(service: &Service, lanes: Vec<Lane>) -> StoreResult<Vec<Lane>> {
    let (any, named): (Vec<Lane>, Vec<Lane>) = lanes.into_iter().partition(Lane::is_any_kind);
    let store = service.store();
    let mut found = match named.is_empty() {
        true => Vec::new(),
        false => store.lanes_with_work(&named).await?,
    };
    for lane in any {
        found.extend(store.lanes_of_queue(lane.tenant_id, lane.class, &lane.queue, ANY_LANES).await?);
    }
    Ok(found)
}

async fn next(hints: &mut Option<mpsc::Receiver<Hint>>) -> Hint {
    if let Some(receiver) = hints {
        if let Some(hint) = receiver.recv().await {
            return hint;
        }
        *hints = None;
    }
    std::future::pending().await
}
