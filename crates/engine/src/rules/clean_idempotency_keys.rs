//! Removing expired keys. No rule depends on the removal: the next holder overwrites an expired key.

use crate::check;
use crate::code::Refusal;
use crate::ids::TenantId;
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::CleanIdempotencyKeys;
use crate::rules::{Rule, Work};
use crate::table::Row;
use crate::working_set::{Needs, Scan};

impl Rule for CleanIdempotencyKeys {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::bulk("keys", self.max, limits.bulk_items)
    }

    fn needs(&self, _tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.scan(Scan::ExpiredKeys { until_ms: self.until_ms, limit: self.max });
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let now_ms = work.now.ms;
        let expired: Vec<_> =
            work.set.keys.current().filter(|row| row.expires_ms <= now_ms).map(Row::key).collect();
        for key in &expired {
            work.set.keys.delete(key);
        }
        Ok(Reply::Cleaned { count: expired.len() })
    }
}
