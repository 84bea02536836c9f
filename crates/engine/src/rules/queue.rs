//! Pausing and resuming a queue. Ready work stays ready, but is not handed out while the queue is paused.

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::reply::Reply;
use crate::request::{PauseQueue, ResumeQueue};
use crate::rules::{Rule, Work};
use crate::state::PausedQueue;
use crate::working_set::{Needs, Scan};

impl Rule for PauseQueue {
    fn needs(&self, _tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.scan(Scan::PausedQueues);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        check::name("queue", &self.queue, work.limits)?;
        if work.set.queues.get(&(work.tenant_id, self.queue.clone())).is_some() {
            return Ok(Reply::Done);
        }
        // Every claim loads all paused queues, so their number is bounded.
        if work.set.queues.current().count() >= work.limits.paused_queues {
            let message = format!("{} queues are paused already", work.limits.paused_queues);
            return Err(Refusal::new(Code::TooManyQueuesPaused, message));
        }
        let row = PausedQueue { tenant_id: work.tenant_id, name: self.queue.clone(), paused_ms: work.now.ms };
        work.set.queues.put(row);
        Ok(Reply::Done)
    }
}

impl Rule for ResumeQueue {
    fn needs(&self, _tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.scan(Scan::PausedQueues);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        check::name("queue", &self.queue, work.limits)?;
        let key = (work.tenant_id, self.queue.clone());
        if work.set.queues.get(&key).is_some() {
            work.set.queues.delete(&key);
        }
        Ok(Reply::Done)
    }
}
