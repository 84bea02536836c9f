//! Steps that run beside the workflow (`run`) and are recorded.

use serde_json::Value;
use tokio::task::JoinHandle;

use super::slots::SlotId;
use crate::error::Error;

/// A step's result: JSON, or why it could not be made into JSON.
pub(crate) type OperationResult = Result<Value, Error>;

/// A step that has been created, in order of creation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) slot: SlotId,
    pub(crate) started: Started,
}

#[derive(Debug)]
pub(crate) enum Started {
    /// The log has its result: it does not run again.
    Recorded(Value),
    /// It runs.
    Running(JoinHandle<OperationResult>),
}
