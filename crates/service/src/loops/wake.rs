//! Brings pollers together with work that another process made ready: at once by hint, at the latest by polling.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use flovyn_engine::state::Lane;
use flovyn_store::{Hint, StoreResult};
use tokio::sync::{Notify, mpsc};

use crate::job::Asker;
use crate::loops::{Options, Stopped, pause};
use crate::service::Service;

/// Lanes that are looked up at a time for those who take work of any kind.
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
            // However many hints come: those that got lost are made up for by looking.
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
                            tracing::warn!(%error, "ready work could not be looked for; trying again");
                        }
                    }
                    hint = next(&mut hints) => self.heard(hint, &mut hints),
                }
            }
        }
    }

    /// Looks for work in the lanes that somebody waits for. Returns how many pollers it sent to search.
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
                // Which kinds there are is for the database to say.
                self.look.notify_one();
            }
            self.search(&lanes);
        }
    }

    /// Lets one poller of each lane search; whoever finds nothing waits again.
    fn search(&self, lanes: &[Lane]) -> usize {
        let jobs = self.service.shared.dispatch.take_one_of_each(lanes);
        let count = jobs.len();
        for job in jobs {
            if let Err((job, _)) = self.service.resend(job)
                && let Asker::Poll(poll) = job.asker
            {
                // The queue is full: it goes on waiting, and the next look will find the work.
                self.service.shared.dispatch.park(job.request, poll);
            }
        }
        count
    }
}

/// Those of these lanes that have ready work. For a lane of any kind: lanes of its queue.
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
