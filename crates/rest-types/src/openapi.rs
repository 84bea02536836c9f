//! References to schemas that the server adds to the OpenAPI document: enumerations of the engine, which this crate does
//! not know.

use utoipa::openapi::Ref;

macro_rules! references {
    ($($function:ident $name:literal;)*) => {$(
        pub(crate) fn $function() -> Ref {
            Ref::from_schema_name($name)
        }
    )*};
}

references! {
    execution_status "ExecutionStatus";
    task_status "TaskStatus";
    attempt_status "AttemptStatus";
    log_level "LogLevel";
    audit_action "AuditAction";
    credential_kind "CredentialKind";
}
