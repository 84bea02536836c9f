//! `RecordOperation`: the result of a step that the workflow ran itself. It needs no rows.

use crate::check;
use crate::code::Refusal;
use crate::event::{EventData, EventKind};
use crate::ids::{Payload, Text};
use crate::limits::Limits;
use crate::rules::Work;
use crate::rules::commands::log;
use crate::state::Execution;

pub(super) fn check(name: &Text, limits: &Limits) -> Result<(), Refusal> {
    check::name("operation name", name, limits)
}

pub(super) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    name: &Text,
    result: &Payload,
) -> Result<(), Refusal> {
    let result = check::payload("result", result, work.limits)?;
    log(work, execution, EventData::new(EventKind::OperationCompleted).name(name.clone()).payload(result));
    Ok(())
}
