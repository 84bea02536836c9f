//! Removing audit log entries whose retention is over.

use crate::check;
use crate::code::Refusal;
use crate::ids::TenantId;
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::CleanAudit;
use crate::rules::{Rule, Work};
use crate::table::Row;
use crate::working_set::{Needs, Scan};

impl Rule for CleanAudit {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::bulk("entries", self.max, limits.bulk_items)
    }

    fn needs(&self, _tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.scan(Scan::AuditBefore { before_ms: self.before_ms, limit: self.max });
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let old: Vec<_> =
            work.set.audit.current().filter(|row| row.time_ms < self.before_ms).map(Row::key).collect();
        for key in &old {
            work.set.audit.delete(key);
        }
        Ok(Reply::Cleaned { count: old.len() })
    }
}
