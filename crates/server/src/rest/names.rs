//! Enumerations of the engine in the OpenAPI document: their names come from the engine, so that none is missing.

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
    ExecutionStatus: "Where a workflow execution is. COMPLETED, FAILED and CANCELLED are final.";
    TaskStatus: "Where a task is. COMPLETED, FAILED and CANCELLED are final.";
    AttemptStatus: "How an attempt ended.";
    AuditAction: "What somebody did.";
    CredentialKind: "What somebody has shown to be let in.";
    LogLevel: "How much a line of a task's log matters.";
}
