//! What happens to an execution, a task or a key, whichever request causes it. Used by `rules`; knows no request
//! of its own.

pub(crate) mod alarm;
pub(crate) mod execution;
pub(crate) mod key;
pub(crate) mod quota;
pub(crate) mod task;
