//! How many requests a batch may have. A request that arrives while a batch is in flight waits for its end. As long as several
//! tenants ask, batches are therefore kept so small that none makes the others wait long. A tenant who is alone gets the largest
//! batches, which cost the least for each request.

use std::time::{Duration, Instant};

use flovyn_engine::ids::TenantId;
use uuid::Uuid;

/// Requests in a batch, at most: a few milliseconds of work. Whatever arrives meanwhile, a timer above all, waits for its end,
/// and a longer batch hardly saves anything more of an fsync.
const MAX_REQUESTS: usize = 256;
/// Requests to which a batch is cut down at most. How long so few take is what a transaction costs anyway.
const FEW: usize = 4;
/// A batch may last so long, or twice as long as one of few requests if that is longer: smaller ones would only add transactions.
const MAY_LAST: Duration = Duration::from_millis(10);
/// After so many larger batches, one of few requests is made to measure how long it takes now.
const LOOKS_AFTER: usize = 64;
/// For how long after a change of tenants several are assumed to ask.
const SHARED_FOR: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pace {
    /// Otherwise batches are always as large as they may be.
    adapts: bool,
    /// Size of the next batch while several tenants ask.
    max: usize,
    /// How long a batch of few requests takes, smoothed. Zero: not known yet.
    few_take: Duration,
    /// Larger batches since the last one of few requests.
    larger_since: usize,
    /// Nil: none has asked yet.
    last_tenant: TenantId,
    /// Until when several tenants are assumed to ask. `None`: there has been one at most.
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
        // As long as that takes no more than what two transactions would cost.
        let part = self.twice_few().as_secs_f64() / self.may_last().as_secs_f64();
        let filled_up_to = match max_requests {
            MAX_REQUESTS => MAX_REQUESTS,
            max => ((max as f64 * part) as usize).max(FEW),
        };
        Size { max_requests, filled_up_to }
    }

    /// Whether several tenants ask.
    pub(super) fn is_shared(&self, now: Instant) -> bool {
        self.shared_until.is_some_and(|until| now < until)
    }

    fn twice_few(&self) -> Duration {
        self.few_take * 2
    }

    fn may_last(&self) -> Duration {
        MAY_LAST.max(self.twice_few())
    }

    /// Takes note of whose requests go into a batch.
    pub(super) fn asked(&mut self, tenants: impl Iterator<Item = TenantId>, now: Instant) {
        // Housekeeping is nobody's.
        for tenant_id in tenants.filter(|tenant_id| !tenant_id.is_nil()) {
            if tenant_id != self.last_tenant {
                if !self.last_tenant.is_nil() {
                    self.shared_until = Some(now + SHARED_FOR);
                }
                self.last_tenant = tenant_id;
            }
        }
    }

    /// Takes note of how long a batch that wrote something took.
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
        // Down and up by as much: one that lasted long by chance is made good by the next.
        if took > self.may_last() {
            self.max = (self.max - self.max / 4).max(FEW);
        } else if requests >= self.max {
            self.max = (self.max + self.max / 4).min(MAX_REQUESTS);
        }
    }
}

/// How large a batch may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) max_requests: usize,
    /// Up to how many requests it is filled from one tenant after the others have had their turns.
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

    /// Both ask all the time, and batches are as large as they may be. Returns how large they are in the end, but for those
    /// that only look what few take.
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
        assert!((8..=12).contains(&settled(ms(1), ms(1))), "10 ms, and at times a quarter more");
        assert!((8..=12).contains(&settled(ms(1), ms(20))), "twice as long as few take");
    }

    #[test]
    fn batches_stay_large_where_few_requests_take_as_long() {
        assert_eq!(settled(ms(1), Duration::from_micros(10)), MAX_REQUESTS, "all is fast");
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
        assert_eq!(pace.size(now).max_requests, FEW, "what few take is not known yet");
        pace.took(FEW, ms(1), now);
        assert_eq!(pace.size(now), largest, "whether large ones last long is not known either");
        pace.took(MAX_REQUESTS, ms(500), now);
        let cut = Size { max_requests: MAX_REQUESTS * 3 / 4, filled_up_to: MAX_REQUESTS * 3 / 4 / 5 };
        assert_eq!(pace.size(now), cut, "they do");
        assert_eq!(pace.size(now + SHARED_FOR), largest, "alone again");
    }
}
