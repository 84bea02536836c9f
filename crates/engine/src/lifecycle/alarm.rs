//! Alarms: at most one row in `due` per execution or task and clock, at the earliest time that matters.
//!
//! An alarm may be early, never late: when it fires, the rule checks again whether something is due. So a claim that
//! ends in time costs nothing, and a renewed lease leaves its alarm where it is.

use uuid::Uuid;

use crate::ids::TenantId;
use crate::rules::Work;
use crate::state::{Due, DueClass};

/// Makes sure that the alarm fires no later than `wanted_ms`. Returns the new time of the alarm.
pub(crate) fn no_later_than(
    work: &mut Work<'_>,
    class: DueClass,
    (tenant_id, id): (TenantId, Uuid),
    armed_ms: Option<i64>,
    wanted_ms: Option<i64>,
) -> Option<i64> {
    match (armed_ms, wanted_ms) {
        (armed, None) => armed,
        (Some(armed), Some(wanted)) if armed <= wanted => Some(armed),
        (armed, Some(wanted)) => {
            clear(work, class, (tenant_id, id), armed);
            work.set.due.put(Due::new(class, wanted, tenant_id, id));
            Some(wanted)
        }
    }
}

/// Removes the alarm, if there is one.
pub(crate) fn clear(
    work: &mut Work<'_>,
    class: DueClass,
    (tenant_id, id): (TenantId, Uuid),
    armed_ms: Option<i64>,
) {
    if let Some(armed) = armed_ms {
        work.set.due.delete_known(Due::new(class, armed, tenant_id, id));
    }
}

/// The earliest of several optional times. `None`: there is none.
pub(crate) fn earliest(moments: impl IntoIterator<Item = Option<i64>>) -> Option<i64> {
    moments.into_iter().flatten().min()
}
