//! State changes of an execution, a task or a key that several requests share. Used by `rules`; knows no request.

pub(crate) mod alarm;
pub(crate) mod clean_up;
pub(crate) mod execution;
pub(crate) mod held_back;
pub(crate) mod key;
pub(crate) mod lease;
pub(crate) mod quota;
pub(crate) mod reporter;
pub(crate) mod task;
