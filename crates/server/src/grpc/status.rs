//! The only place where a refusal becomes a gRPC status.

use flovyn_auth::AuthError;
use flovyn_engine::code::Class;
use flovyn_engine::ids::ExecutionId;
use flovyn_engine::request::RefuseActivation;
use flovyn_engine::{Code, Op, Refusal};
use flovyn_store::StoreError;
use tonic::metadata::MetadataValue;
use tonic::{Code as Grpc, Status};
use uuid::Uuid;

/// The metadata key with the stable code of an error.
pub(super) const ERROR_CODE: &str = "flovyn-error-code";

/// The metadata key with the seconds to wait, like the HTTP header of this name.
const RETRY_AFTER: &str = "retry-after";

/// The longest error message. It may quote what the caller sent, and it is transferred as a header, whose length
/// clients limit.
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

/// Reads the refusal that a status was made from. `None` if it was not made from a refusal.
fn refusal_of(status: &Status) -> Option<Refusal> {
    let code = status.metadata().get(ERROR_CODE)?.to_str().ok().and_then(Code::parse)?;
    let text = status.message();
    let text = text.strip_prefix(&format!("{code}: ")).unwrap_or(text);
    let text = text.strip_suffix(&format!(". {}", code.advice())).unwrap_or(text);
    Some(Refusal::new(code, text))
}

/// Adds the part of the message that the refusal is about.
pub(super) fn refused_at(part: &str, status: Status) -> Status {
    match refusal_of(&status) {
        Some(refusal) => refuse(refusal.code, format!("{part}: {}", refusal.message)),
        None => status,
    }
}

/// An activation that cannot be read.
#[derive(Debug)]
pub(super) struct Unread {
    /// The status that its sender receives.
    pub(super) status: Status,
    /// The request that is decided instead. `None` if the message does not name the execution.
    pub(super) instead: Option<Box<RefuseActivation>>,
}

impl From<Status> for Unread {
    fn from(status: Status) -> Self {
        Self { status, instead: None }
    }
}

impl Unread {
    /// The execution, the token and the request that is decided instead. The error is the status that the sender
    /// receives.
    pub(super) fn about(self) -> Result<(Uuid, Option<i64>, Op), Status> {
        match self.instead {
            Some(op) => Ok((op.execution_id, op.token, (*op).into())),
            None => Err(self.status),
        }
    }

    pub(super) fn activation(execution_id: ExecutionId, token: Option<i64>, status: Status) -> Self {
        let instead = refusal_of(&status)
            .map(|refusal| Box::new(RefuseActivation { execution_id, token, build_id: None, refusal }));
        Self { status, instead }
    }
}

pub(super) fn refuse(code: Code, message: impl Into<String>) -> Status {
    refused(Refusal::new(code, message))
}

pub(super) fn not_allowed(error: AuthError) -> Status {
    match error {
        AuthError::Unauthenticated(why) => refuse(Code::Unauthenticated, why),
        AuthError::TooManyTries { retry_after_seconds } => {
            let mut status = refuse(Code::TooManyTries, "too many invalid credentials were tried");
            status.metadata_mut().insert(RETRY_AFTER, retry_after_seconds.into());
            status
        }
        AuthError::Unavailable => refuse(Code::StoreUnavailable, "cannot check the credential now"),
    }
}

/// A failed database read. The database's message may name hosts and files, so it goes to the log only.
pub(super) fn not_read(error: StoreError) -> Status {
    tracing::warn!(%error, "a database read failed");
    let code = match error {
        StoreError::Damaged(_) => Code::DatabaseDamaged,
        _ => Code::StoreUnavailable,
    };
    refuse(code, code.advice())
}

/// The engine returned the wrong kind of reply, which is a bug in the server.
pub(super) fn unexpected(reply: &flovyn_engine::Reply) -> Status {
    tracing::error!(?reply, "the engine returned an unexpected kind of reply");
    refuse(Code::Internal, "an unexpected reply")
}

/// Whether the caller may retry the same request.
pub(super) fn may_repeat(status: &Status) -> bool {
    matches!(status.code(), Grpc::Unavailable | Grpc::Aborted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_leads_back_to_its_refusal() {
        for code in Code::ALL {
            for message in ["it is wrong", code.advice()] {
                let refusal = Refusal::new(*code, message);
                assert_eq!(refusal_of(&refused(refusal.clone())), Some(refusal));
            }
        }
        assert_eq!(refusal_of(&Status::internal("no code")), None);
        let at = refused_at("command 3", refuse(Code::InvalidId, "x is no UUID"));
        assert_eq!(at.message(), format!("FLV0004: command 3: x is no UUID. {}", Code::InvalidId.advice()));
    }
}
