//! Enumerations of the engine in the OpenAPI document. Their names come from the engine, so the lists are complete.

use std::borrow::Cow;

use flovyn_engine::state::{self, SmallEnum};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! named {
    ($($name:ident: $about:literal;)*) => {$(
        #[doc = $about]
        #[derive(Debug)]
        pub(super) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let names = state::$name::ALL.iter().map(|value| value.name());
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .enum_values(Some(names))
                    .description(Some($about))
                    .into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

named! {
    ExecutionStatus: "The status of a workflow execution. COMPLETED, FAILED and CANCELLED are final.";
    TaskStatus: "The status of a task. COMPLETED, FAILED and CANCELLED are final.";
    AttemptStatus: "How an attempt ended.";
    AuditAction: "What the caller did.";
    CredentialKind: "The kind of credential that the caller sent.";
    LogLevel: "The severity of a line in a task's log.";
}
