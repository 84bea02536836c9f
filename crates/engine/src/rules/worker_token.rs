//! Worker tokens: only a hash is stored; a token can expire and can be revoked.

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::reply::Reply;
use crate::request::{CreateWorkerToken, RevokeWorkerToken};
use crate::rules::{Rule, Work};
use crate::state::{Tenant, WorkerToken};
use crate::table::Found;
use crate::working_set::Needs;

/// Length of a SHA-256 hash.
const HASH_BYTES: usize = 32;

impl Rule for CreateWorkerToken {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.peek::<Tenant>((tenant_id,));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        check::name("token name", &self.name, work.limits)?;
        if self.hash.len() != HASH_BYTES {
            return Err(Refusal::new(Code::InvalidPayload, format!("the hash must have {HASH_BYTES} bytes")));
        }
        if work.set.tenants.get(&(work.tenant_id,)).is_none() {
            return Err(Refusal::new(Code::TenantNotFound, format!("tenant {} not found", work.tenant_id)));
        }
        let id = work.ids.uuid(work.now.ms);
        let token = WorkerToken {
            tenant_id: work.tenant_id,
            id,
            version: 1,
            name: self.name.clone(),
            hash: self.hash.clone(),
            created_ms: work.now.ms,
            expires_ms: self.expires_ms,
            revoked_ms: None,
        };
        work.set.worker_tokens.supply((work.tenant_id, id), Found::Absent, true);
        work.set.worker_tokens.put(token.clone());
        Ok(Reply::WorkerToken(token))
    }
}

impl Rule for RevokeWorkerToken {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.row::<WorkerToken>((tenant_id, self.token_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let Some(mut token) = work.set.worker_tokens.get(&(work.tenant_id, self.token_id)).cloned() else {
            let message = format!("worker token {} not found", self.token_id);
            return Err(Refusal::new(Code::WorkerTokenNotFound, message));
        };
        token.revoked_ms.get_or_insert(work.now.ms);
        work.set.worker_tokens.put(token.clone());
        Ok(Reply::WorkerToken(token))
    }
}
