//! Requests per second: this process's share of a tenant's bucket.
//!
//! The bucket is in the database, one for all processes. A process takes some requests out of it, admits that many,
//! and then asks again. So all processes together admit exactly what the bucket granted. The engine decides the
//! amount.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flovyn_engine::ids::TenantId;
use flovyn_engine::request::TakeRequests;
use flovyn_engine::{Code, Refusal, Reply};
use flovyn_service::Service;
use rustc_hash::FxHashMap;

/// How long a tenant without a limit is assumed to have none. A limit set by another process takes effect after this
/// time.
const UNLIMITED_FOR: Duration = Duration::from_secs(1);
/// How long requests taken out of a bucket may be used. The remainder is lost then, so that a process cannot
/// accumulate them.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// A process takes as many requests as it recently admitted in this fraction of a second (one tenth).
const PART_OF_SECOND: i64 = 10;
/// The most tenants that are remembered. Beyond that, tenants without a limit are forgotten.
const REMEMBERED: usize = 10_000;

/// The shares of all tenants that send requests here.
#[derive(Debug, Default)]
pub struct Rates {
    shares: Mutex<FxHashMap<TenantId, Arc<Share>>>,
}

#[derive(Debug, Default)]
struct Share {
    held: Mutex<Held>,
    /// Only one caller asks the database at a time. The others wait and use the result.
    asking: tokio::sync::Mutex<()>,
    waiting: AtomicI64,
}

/// The part of a tenant's bucket that this process holds.
#[derive(Debug, Default)]
struct Held {
    /// `None` if the limit is not known yet.
    limit: Option<Limit>,
    let_in: LetIn,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    None {
        until: Instant,
    },
    Share {
        left: i64,
        until: Instant,
    },
    /// The bucket is empty. The database is not asked again before `until`.
    Empty {
        per_second: i64,
        until: Instant,
    },
}

/// The number of requests admitted in the current second and in the one before.
#[derive(Debug, Default)]
struct LetIn {
    second: Option<Instant>,
    now: i64,
    before: i64,
}

impl LetIn {
    fn count(&mut self, now: Instant) {
        let passed = self.second.map(|second| now.saturating_duration_since(second).as_secs());
        if passed != Some(0) {
            self.before = if passed == Some(1) { self.now } else { 0 };
            (self.second, self.now) = (Some(now), 0);
        }
        self.now += 1;
    }
}

impl Held {
    /// Admits or refuses a request from memory. `None`: the database must be asked.
    fn answer(&mut self, now: Instant) -> Option<Result<(), Refusal>> {
        match self.limit.as_mut()? {
            Limit::None { until } => (now < *until).then_some(Ok(())),
            Limit::Share { left, until } => {
                if *left == 0 || now >= *until {
                    return None;
                }
                *left -= 1;
                self.let_in.count(now);
                Some(Ok(()))
            }
            Limit::Empty { per_second, until } => {
                (now < *until).then(|| Err(too_many(*per_second, *until, now)))
            }
        }
    }

    /// Stores the limit that the database returned, and answers the caller that asked for it.
    fn learn(&mut self, mut limit: Limit, now: Instant) -> Result<(), Refusal> {
        let answer = match &mut limit {
            Limit::None { .. } => Ok(()),
            Limit::Share { left, .. } => {
                *left -= 1;
                self.let_in.count(now);
                Ok(())
            }
            Limit::Empty { per_second, until } => Err(too_many(*per_second, *until, now)),
        };
        self.limit = Some(limit);
        answer
    }

    /// How many requests to ask for: enough for all callers that wait and for those expected soon.
    fn most(&self, waiting: i64) -> i64 {
        waiting.max(self.let_in.now.max(self.let_in.before) / PART_OF_SECOND).max(1)
    }
}

impl Rates {
    /// Admits one request of the tenant.
    ///
    /// # Errors
    /// Fails if the tenant's bucket is empty, or if the database cannot be asked.
    pub async fn admit(&self, service: &Service, tenant_id: TenantId) -> Result<(), Refusal> {
        let share = self.share(tenant_id);
        if let Some(answer) = share.held().answer(Instant::now()) {
            return answer;
        }
        let _waits = Waits::begin(&share.waiting);
        let _turn = share.asking.lock().await;
        // Another caller may have asked the database meanwhile.
        if let Some(answer) = share.held().answer(Instant::now()) {
            return answer;
        }
        let known = share.held().limit;
        let limit = match known {
            Some(Limit::Share { .. } | Limit::Empty { .. }) => take(service, &share, tenant_id).await?,
            // Nearly every tenant has no limit. A read shows this without a write transaction.
            Some(Limit::None { .. }) | None => match has_limit(service, tenant_id).await? {
                true => take(service, &share, tenant_id).await?,
                false => unlimited(),
            },
        };
        share.held().learn(limit, Instant::now())
    }

    /// Forgets the limit of a tenant, after its quota was changed by this process.
    pub fn forget(&self, tenant_id: TenantId) {
        self.shares().remove(&tenant_id);
    }

    fn share(&self, tenant_id: TenantId) -> Arc<Share> {
        let mut shares = self.shares();
        if shares.len() >= REMEMBERED && !shares.contains_key(&tenant_id) {
            shares.retain(|_, share| !matches!(share.held().limit, None | Some(Limit::None { .. })));
        }
        Arc::clone(shares.entry(tenant_id).or_default())
    }

    fn shares(&self) -> MutexGuard<'_, FxHashMap<TenantId, Arc<Share>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many(per_second: i64, until: Instant, now: Instant) -> Refusal {
    let wait = until.saturating_duration_since(now);
    Refusal::rate_limited(per_second, i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))
}

fn unlimited() -> Limit {
    Limit::None { until: Instant::now() + UNLIMITED_FOR }
}

async fn has_limit(service: &Service, tenant_id: TenantId) -> Result<bool, Refusal> {
    let quota = service.store().quota_get(tenant_id).await.map_err(|error| {
        tracing::warn!(%error, "a quota could not be read");
        Refusal::new(Code::StoreUnavailable, "the database did not answer")
    })?;
    Ok(quota.is_some_and(|quota| quota.requests_per_second.is_some()))
}

async fn take(service: &Service, share: &Share, tenant_id: TenantId) -> Result<Limit, Refusal> {
    let most = share.held().most(share.waiting.load(Ordering::Relaxed));
    match service.call(tenant_id, TakeRequests { most }).await? {
        Reply::RequestsTaken { taken, .. } if taken.granted > 0 => {
            Ok(Limit::Share { left: taken.granted, until: Instant::now() + GOOD_FOR })
        }
        Reply::RequestsTaken { limit: per_second, taken } => {
            let wait = Duration::from_millis(taken.wait_ms.max(1).unsigned_abs());
            Ok(Limit::Empty { per_second, until: Instant::now() + wait })
        }
        Reply::RequestsUnlimited => Ok(unlimited()),
        reply => {
            tracing::error!(?reply, "the engine gave another kind of reply than expected");
            Err(Refusal::new(Code::Internal, "an unexpected reply"))
        }
    }
}

/// Counts a waiting caller until it is dropped.
struct Waits<'a>(&'a AtomicI64);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicI64) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
