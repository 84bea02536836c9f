//! How many requests a batch may have. A request that arrives while a batch is in flight waits for the end of that
//! batch. So while several tenants send requests, batches are kept small enough that no tenant waits long for the
//! others. A tenant alone gets the largest batches, which cost least per request.

use std::time::{Duration, Instant};

use flovyn_engine::ids::TenantId;
use uuid::Uuid;

/// The most requests in a batch: a few milliseconds of work. Everything that arrives meanwhile, above all timers,
/// waits for the end of the batch. A larger batch would save hardly any more fsync time per request.
const MAX_REQUESTS: usize = 256;
/// The size below which batches are not cut down. The time for so few requests is mainly the fixed cost of a
/// transaction.
const FEW: usize = 4;
/// How long a batch may take. If twice the time of a batch of few requests is longer, that is the limit: smaller
/// batches would only add transactions.
const MAY_LAST: Duration = Duration::from_millis(10);
/// After this many larger batches, one batch of few requests is made, to measure how long it takes now.
const LOOKS_AFTER: usize = 64;
/// After a request of another tenant, several tenants are assumed to be active for this time.
const SHARED_FOR: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pace {
    /// If false, batches always have the largest size.
    adapts: bool,
    /// The size of the next batch while several tenants are active.
    max: usize,
    /// How long a batch of few requests takes, smoothed. Zero: unknown.
    few_take: Duration,
    /// The number of larger batches since the last batch of few requests.
    larger_since: usize,
    /// The tenant of the last request. Nil: there was none yet.
    last_tenant: TenantId,
    /// Until when several tenants are assumed to be active. `None`: there has been at most one.
    shared_until: Option<Instant>,
}

impl Pace {
    pub(super) fn new(adapts: bool) -> Self {
        Self {
            adapts,
            max: MAX_REQUESTS,
            few_take: Duration::ZERO,
            larger_since: 0,
            last_tenant: Uuid::nil(),
            shared_until: None,
        }
    }

    /// Size of the next batch.
    pub(super) fn size(&self, now: Instant) -> Size {
        let max_requests = match self.adapts && self.is_shared(now) {
            true if self.larger_since >= LOOKS_AFTER => FEW,
            true => self.max,
            false => MAX_REQUESTS,
        };
        // Filled up as long as that takes no longer than two transactions.
        let part = self.twice_few().as_secs_f64() / self.may_last().as_secs_f64();
        let filled_up_to = match max_requests {
            MAX_REQUESTS => MAX_REQUESTS,
            max => ((max as f64 * part) as usize).max(FEW),
        };
        Size { max_requests, filled_up_to }
    }

    /// Whether several tenants are active.
    pub(super) fn is_shared(&self, now: Instant) -> bool {
        self.shared_until.is_some_and(|until| now < until)
    }

    fn twice_few(&self) -> Duration {
        self.few_take * 2
    }

    fn may_last(&self) -> Duration {
        MAY_LAST.max(self.twice_few())
    }

    /// Records the tenants whose requests go into a batch.
    pub(super) fn asked(&mut self, tenants: impl Iterator<Item = TenantId>, now: Instant) {
        // Requests of the background loops have no tenant.
        for tenant_id in tenants.filter(|tenant_id| !tenant_id.is_nil()) {
            if tenant_id != self.last_tenant {
                if !self.last_tenant.is_nil() {
                    self.shared_until = Some(now + SHARED_FOR);
                }
                self.last_tenant = tenant_id;
            }
        }
    }

    /// Records how long a batch took that wrote something.
    pub(super) fn took(&mut self, requests: usize, took: Duration, now: Instant) {
        if requests <= FEW {
            self.few_take = if self.few_take.is_zero() { took } else { (self.few_take * 3 + took) / 4 };
            self.larger_since = 0;
        } else {
            self.larger_since += 1;
        }
        if !self.is_shared(now) {
            return;
        }
        // Decrease and increase are equally large, so that the next batch corrects a single slow one.
        if took > self.may_last() {
            self.max = (self.max - self.max / 4).max(FEW);
        } else if requests >= self.max {
            self.max = (self.max + self.max / 4).min(MAX_REQUESTS);
        }
    }
}

/// The size limits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) max_requests: usize,
    /// The number of requests up to which one tenant may fill the batch, after the other tenants had their turns.
    pub(super) filled_up_to: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = Uuid::from_u128(1);
    const B: TenantId = Uuid::from_u128(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Two tenants send requests all the time, and batches have the largest size allowed. Returns the average size at
    /// the end, without the batches that only measure the time of few requests.
    fn settled(fixed: Duration, each: Duration) -> usize {
        let (mut pace, now) = (Pace::new(true), Instant::now());
        let mut sizes = Vec::new();
        for _ in 0..4 * LOOKS_AFTER {
            pace.asked([A, B].into_iter(), now);
            let requests = pace.size(now).max_requests;
            pace.took(requests, fixed + each * u32::try_from(requests).unwrap(), now);
            sizes.push(requests);
        }
        *sizes[2 * LOOKS_AFTER + 1..].iter().max().unwrap()
    }

    #[test]
    fn batches_of_several_tenants_are_cut_until_they_do_not_last_long() {
        assert!((8..=12).contains(&settled(ms(1), ms(1))), "about 10 ms, sometimes a quarter more");
        assert!((8..=12).contains(&settled(ms(1), ms(20))), "twice the time of a batch of few");
    }

    #[test]
    fn batches_stay_large_where_few_requests_take_as_long() {
        assert_eq!(settled(ms(1), Duration::from_micros(10)), MAX_REQUESTS, "every request is fast");
        assert_eq!(
            settled(ms(50), Duration::from_micros(50)),
            MAX_REQUESTS,
            "the transaction itself is slow"
        );
    }

    #[test]
    fn a_tenant_who_is_alone_has_the_largest_batches_however_long_they_take() {
        let (mut pace, now) = (Pace::new(true), Instant::now());
        let largest = Size { max_requests: MAX_REQUESTS, filled_up_to: MAX_REQUESTS };
        for _ in 0..3 * LOOKS_AFTER {
            pace.asked([A, Uuid::nil(), A].into_iter(), now);
            assert_eq!(pace.size(now), largest);
            pace.took(MAX_REQUESTS, ms(500), now);
        }
        pace.asked([B].into_iter(), now);
        assert_eq!(pace.size(now).max_requests, FEW, "the time of few is unknown");
        pace.took(FEW, ms(1), now);
        assert_eq!(pace.size(now), largest, "the time of large batches is unknown too");
        pace.took(MAX_REQUESTS, ms(500), now);
        let cut = Size { max_requests: MAX_REQUESTS * 3 / 4, filled_up_to: MAX_REQUESTS * 3 / 4 / 5 };
        assert_eq!(pace.size(now), cut, "they do");
        assert_eq!(pace.size(now + SHARED_FOR), largest, "alone again");
    }
}
