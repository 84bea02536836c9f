//! Signal, cancel and terminate by key. The key is resolved in the transaction of the action, so the action always
//! reaches the execution that the key names at that time.

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::{ExecutionId, TenantId};
use crate::lifecycle::{execution, key};
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::{ActByKey, CancelWorkflow, KeyedAction, SignalWorkflow, TerminateWorkflow};
use crate::rules::{Rule, Work};
use crate::working_set::Needs;

impl Rule for ActByKey {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::name("key", &self.key, limits)?;
        match &self.action {
            KeyedAction::Signal { name, .. } => check::name("signal name", name, limits),
            KeyedAction::Cancel { .. } | KeyedAction::Terminate { .. } => Ok(()),
        }
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        if let Some(id) = key::needs_named(needs, tenant_id, &self.key) {
            execution::needs_with_end(needs, tenant_id, id);
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let none =
            || Refusal::new(Code::ExecutionNotFound, format!("no execution has the key '{}'", self.key));
        let execution_id = key::named(work.set, work.tenant_id, &self.key).ok_or_else(none)?;
        let reply = self.action.on(execution_id, work)?;
        Ok(Reply::ByKey { execution_id, reply: Box::new(reply) })
    }
}

impl KeyedAction {
    fn on(&self, execution_id: ExecutionId, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        match self.clone() {
            Self::Signal { name, value } => SignalWorkflow { execution_id, name, value }.decide(work),
            Self::Cancel { reason, cascade } => CancelWorkflow { execution_id, reason, cascade }.decide(work),
            Self::Terminate { reason } => TerminateWorkflow { execution_id, reason }.decide(work),
        }
    }
}
