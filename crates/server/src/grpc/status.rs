//! The one place where a refusal becomes a gRPC status.

use flovyn_auth::AuthError;
use flovyn_engine::code::Class;
use flovyn_engine::{Code, Refusal};
use flovyn_store::StoreError;
use tonic::metadata::MetadataValue;
use tonic::{Code as Grpc, Status};

/// Metadata key under which every error carries its stable code.
pub(super) const ERROR_CODE: &str = "flovyn-error-code";

/// Longest message about a request. What the caller sent may be part of it, and it travels as a header, which clients
/// do not take at any length.
const MAX_MESSAGE_CHARS: usize = 500;

pub(super) fn refused(refusal: Refusal) -> Status {
    let grpc = match refusal.code.class() {
        Class::InvalidArgument => Grpc::InvalidArgument,
        Class::NotFound => Grpc::NotFound,
        Class::AlreadyExists => Grpc::AlreadyExists,
        Class::FailedPrecondition => Grpc::FailedPrecondition,
        Class::Unauthenticated => Grpc::Unauthenticated,
        Class::PermissionDenied => Grpc::PermissionDenied,
        Class::ResourceExhausted => Grpc::ResourceExhausted,
        Class::Aborted => Grpc::Aborted,
        Class::Unavailable => Grpc::Unavailable,
        Class::Unimplemented => Grpc::Unimplemented,
        Class::Internal => Grpc::Internal,
    };
    let Refusal { code, mut message, .. } = refusal;
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
        message.truncate(end);
        message.push('\u{2026}');
    }
    let advice = code.advice();
    let text =
        if message == advice { format!("{code}: {advice}") } else { format!("{code}: {message}. {advice}") };
    let mut status = Status::new(grpc, text);
    if let Ok(value) = MetadataValue::try_from(code.to_string()) {
        status.metadata_mut().insert(ERROR_CODE, value);
    }
    status
}

pub(super) fn refuse(code: Code, message: impl Into<String>) -> Status {
    refused(Refusal::new(code, message))
}

pub(super) fn not_allowed(error: AuthError) -> Status {
    match error {
        AuthError::Unauthenticated(why) => refuse(Code::Unauthenticated, why),
        AuthError::Unavailable => refuse(Code::StoreUnavailable, "the credential could not be checked"),
    }
}

/// A read that failed. What the database says may name hosts and files: it goes to the log.
pub(super) fn not_read(error: StoreError) -> Status {
    tracing::warn!(%error, "a read failed");
    refuse(Code::StoreUnavailable, Code::StoreUnavailable.advice())
}

/// An engine that answers with the wrong kind of reply is a fault of ours.
pub(super) fn unexpected(reply: &flovyn_engine::Reply) -> Status {
    tracing::error!(?reply, "the engine gave another kind of reply than expected");
    refuse(Code::Internal, "an unexpected reply")
}

/// Whether the same may be asked again.
pub(super) fn may_repeat(status: &Status) -> bool {
    matches!(status.code(), Grpc::Unavailable | Grpc::Aborted)
}
