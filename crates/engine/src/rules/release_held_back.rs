//! Letting executions go that a failed activation holds back: one by an operator, many for a new build.

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::lifecycle::execution;
use crate::limits::{HELD_BACK_ROWS, Limits};
use crate::reply::Reply;
use crate::request::{ReleaseForBuild, ReleaseHeldBack};
use crate::rules::{Rule, Work};
use crate::state::{Execution, WorkClass};
use crate::table::Known;
use crate::working_set::Needs;

fn is_held_back(row: &Execution) -> bool {
    row.is_in_ready() && row.ready().lane.class == WorkClass::HeldBack
}

impl Rule for ReleaseHeldBack {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.execution((tenant_id, self.execution_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = execution::find(work, self.execution_id)?;
        if !is_held_back(&row) {
            let message = format!("execution {} is {} and not held back", row.id, row.status);
            return Err(Refusal::new(Code::NotBackedOff, message));
        }
        execution::release(work, &mut row);
        work.set.executions.put(row);
        Ok(Reply::Released { count: 1 })
    }
}

impl Rule for ReleaseForBuild {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::bulk("lanes", self.lanes.len(), limits.claim_lanes)?;
        check::bulk("items", self.max, limits.claim_items)?;
        for lane in &self.lanes {
            check::name("queue", &lane.queue, limits)?;
            check::name("kind", &lane.kind, limits)?;
            check::text("version", &lane.version, limits)?;
        }
        Ok(())
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let mut searched = true;
        for lane in &self.lanes {
            // More than it may release: those that the same build failed on stay where they are.
            searched &= needs.lane(lane, HELD_BACK_ROWS);
        }
        if !searched {
            return;
        }
        for lane in &self.lanes {
            for (_, id) in needs.set().pool.get(lane).into_iter().flatten() {
                needs.candidate::<Execution>((tenant_id, *id));
            }
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let foreign = self
            .lanes
            .iter()
            .any(|lane| lane.tenant_id != work.tenant_id || lane.class != WorkClass::HeldBack);
        if foreign {
            return Err(Refusal::new(
                Code::InvalidBatch,
                "a lane is not one of this tenant's held-back lanes",
            ));
        }
        let ids: Vec<_> = self
            .lanes
            .iter()
            .flat_map(|lane| work.set.pool.get(lane).into_iter().flatten().map(|(_, id)| *id))
            .collect();
        let mut count = 0;
        for id in ids {
            if count == self.max {
                break;
            }
            let Known::Row(row) = work.set.executions.known(&(work.tenant_id, id), true) else { continue };
            // The build that failed on it would only fail again.
            if !is_held_back(row) || row.failure_build.as_ref() == Some(&self.build_id) {
                continue;
            }
            let mut row = row.clone();
            execution::release(work, &mut row);
            work.set.executions.put(row);
            count += 1;
        }
        Ok(Reply::Released { count })
    }
}
