//! A tenant's quota: its limits, its usage, and the token bucket of its rate limit.
//!
//! Only tenants that were given a quota have a row. The row is never removed, so that its counts stay right: removing a
//! limit sets it to `None`.

use crate::ids::TenantId;
use crate::table::Row;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Tokens are stored in thousandths: the refill per millisecond then equals the allowed requests per second.
const TOKEN: i64 = 1_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    pub tenant_id: TenantId,
    pub version: i64,

    // Limits. `None`: unlimited.
    pub monthly_workflow_runs: Option<i64>,
    pub concurrent_workflows: Option<i64>,
    pub requests_per_second: Option<i64>,
    /// How many requests may arrive at once after a pause. `None`: the requests of one second.
    pub burst: Option<i64>,

    /// The month that `runs` counts, as yyyymm in UTC.
    pub month: i64,
    /// Workflows that were started in `month`.
    pub runs: i64,
    /// Counted executions that are open.
    pub open_workflows: i64,

    /// The content of the bucket at `refilled_ms`, in thousandths of a request. `refilled_ms` is on the clock of
    /// leases.
    pub bucket: i64,
    pub refilled_ms: i64,
}

/// The result of taking tokens from the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    pub granted: i64,
    /// How long until the requested number is available. 0 if tokens were granted.
    pub wait_ms: i64,
}

impl Quota {
    /// A tenant without limits and without usage.
    pub(crate) fn unlimited(tenant_id: TenantId) -> Self {
        Self {
            tenant_id,
            version: 1,
            monthly_workflow_runs: None,
            concurrent_workflows: None,
            requests_per_second: None,
            burst: None,
            month: 0,
            runs: 0,
            open_workflows: 0,
            bucket: 0,
            refilled_ms: 0,
        }
    }

    /// Workflows started in the month of `now_ms`. If the clock steps back, the stored month still counts.
    pub fn runs_at(&self, now_ms: i64) -> i64 {
        if month_of(now_ms) > self.month { 0 } else { self.runs }
    }

    pub(crate) fn count_start(&mut self, now_ms: i64) {
        self.runs = self.runs_at(now_ms) + 1;
        self.month = self.month.max(month_of(now_ms));
        self.open_workflows += 1;
    }

    /// How many requests may arrive at once. `None`: there is no rate limit.
    pub fn burst_or_default(&self) -> Option<i64> {
        self.burst.or(self.requests_per_second)
    }

    /// Adds the tokens for the time since the last refill, up to the size of the bucket.
    pub(crate) fn refill(&mut self, now_ms: i64) {
        let (Some(rate), Some(burst)) = (self.requests_per_second, self.burst_or_default()) else { return };
        // If the clock steps back, nothing is added and nothing is removed.
        let passed_ms = now_ms.saturating_sub(self.refilled_ms).max(0);
        let flown_in = rate.saturating_mul(passed_ms);
        self.bucket = self.bucket.saturating_add(flown_in).min(burst.saturating_mul(TOKEN));
        self.refilled_ms = now_ms;
    }

    /// Fills the bucket: a new bucket starts full.
    pub(crate) fn fill(&mut self, now_ms: i64) {
        self.bucket = self.burst_or_default().map_or(0, |burst| burst.saturating_mul(TOKEN));
        self.refilled_ms = now_ms;
    }

    /// Takes up to `most` tokens from the bucket.
    pub(crate) fn take(&mut self, most: i64, now_ms: i64) -> Taken {
        self.refill(now_ms);
        let granted = most.min(self.bucket / TOKEN).max(0);
        self.bucket -= granted * TOKEN;
        let wanted = most.clamp(1, self.burst_or_default().unwrap_or(1).max(1));
        let missing = (wanted * TOKEN - self.bucket).max(0);
        let rate = self.requests_per_second.unwrap_or(TOKEN).max(1);
        Taken { granted, wait_ms: if granted > 0 { 0 } else { (missing + rate - 1) / rate } }
    }
}

impl Row for Quota {
    type Key = (TenantId,);
    const LOCKED: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id,)
    }
    fn version(&self) -> Option<i64> {
        Some(self.version)
    }

    fn version_mut(&mut self) -> Option<&mut i64> {
        Some(&mut self.version)
    }
}

/// The month of a time, as yyyymm in UTC.
pub fn month_of(ms: i64) -> i64 {
    // Years are counted from March, so that the leap day is the last day.
    let days = ms.div_euclid(DAY_MS) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2)) * 100 + month
}

/// The start of the month after the month of `ms`, in UTC.
pub fn next_month_ms(ms: i64) -> i64 {
    let (year, month) = (month_of(ms) / 100, month_of(ms) % 100);
    let (year, from_march) = match month {
        // The following month, counted from March.
        1 => (year - 1, 11),
        12 => (year, 10),
        month => (year, month - 2),
    };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * from_march + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era - 719_468) * DAY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_each_other_without_a_gap() {
        // From the epoch, month by month, compared with plain counting.
        let (mut year, mut month, mut begins_ms) = (1970, 1, 0);
        while year < 2110 {
            let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
            let days = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let ends_ms = begins_ms + days * DAY_MS;
            for ms in [begins_ms, begins_ms + 1, ends_ms - DAY_MS, ends_ms - 1] {
                assert_eq!((month_of(ms), next_month_ms(ms)), (year * 100 + month, ends_ms), "{ms}");
            }
            begins_ms = ends_ms;
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        }
        assert_eq!(month_of(-1), 196_912);
    }

    fn bucket(rate: i64, burst: Option<i64>) -> Quota {
        let none = Quota::unlimited(uuid::Uuid::nil());
        let mut quota = Quota { requests_per_second: Some(rate), burst, ..none };
        quota.fill(0);
        quota
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut quota = bucket(10, Some(25));
        assert_eq!(quota.take(100, 0), Taken { granted: 25, wait_ms: 0 });
        let mut granted = 0;
        for ms in 1..=1_000 {
            granted += quota.take(1, ms).granted;
        }
        assert_eq!(granted, 10);
        // A long pause fills it to the burst and no further.
        assert_eq!(quota.take(100, 3_600_000).granted, 25);
    }

    #[test]
    fn after_the_wait_there_is_one_and_not_before() {
        for rate in [1, 3, 7, 999, 1_000, 12_345] {
            let mut quota = bucket(rate, Some(1));
            assert_eq!(quota.take(1, 0).granted, 1);
            let wait_ms = quota.clone().take(1, 0).wait_ms;
            assert!((1..=1_000).contains(&wait_ms), "{rate}: {wait_ms}");
            assert_eq!(quota.clone().take(1, wait_ms).granted, 1, "{rate}");
            assert_eq!(quota.take(1, wait_ms - 1).granted, 0, "{rate}");
        }
    }

    #[test]
    fn a_clock_that_steps_back_brings_nothing() {
        let mut quota = bucket(1_000, Some(2));
        assert_eq!(quota.take(2, 10_000).granted, 2);
        assert_eq!(quota.take(1, 5_000).granted, 0);
        assert_eq!(quota.take(1, 5_001).granted, 1);
    }
}
