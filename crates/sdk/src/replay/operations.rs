//! Steps (`run`) that execute outside the workflow future and whose results are recorded.

use serde_json::Value;
use tokio::task::JoinHandle;

use super::slots::SlotId;
use crate::error::Error;

/// The result of a step: a JSON value, or the error of its serialization.
pub(crate) type OperationResult = Result<Value, Error>;

/// A step that has been created. Steps are kept in order of creation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) slot: SlotId,
    pub(crate) started: Started,
}

#[derive(Debug)]
pub(crate) enum Started {
    /// The result is in the log, so the step does not run again.
    Recorded(Value),
    /// The step is running.
    Running(JoinHandle<OperationResult>),
}
