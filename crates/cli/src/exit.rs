//! How a command ends: a message for people, and an exit code for scripts. The meaning of an exit code never changes.
//! `docs/reference/cli.md` has the same list.

use std::fmt;
use std::process::ExitCode;

use crate::client::ClientError;
use crate::view::note;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The reader of the output closed the pipe, as `| head` does. That is not a failure.
    Unread = 0,
    Failed = 1,
    /// Arguments or input are invalid. The command-line parser uses the same code.
    Usage = 2,
    NotFound = 3,
    Denied = 4,
    /// The current state of the execution or task does not allow the request.
    Conflict = 5,
    /// The server does not answer, or asks to retry later.
    Unavailable = 6,
    /// The execution or task that was waited for ended as FAILED or CANCELLED.
    NotCompleted = 7,
    /// The execution that was waited for did not end in time.
    TimedOut = 8,
}

const RUNNING: &str = "Is the server running? Start one with `flovyn dev`, or name another with --url, FLOVYN_URL or --profile.";

const ADDRESS: &str = "Check that this is the HTTP address of a Flovyn server, and that no proxy answers instead of the server.";

const NO_HTTP: &str = "Use the server's HTTP port, not its gRPC port. If the server uses TLS, the address begins with https://.";

const NO_TLS: &str = "If the server does not use TLS, use http://. To trust your own certificate, name its file in SSL_CERT_FILE.";

const UNREADABLE: &str = concat!(
    "This is flovyn ",
    env!("CARGO_PKG_VERSION"),
    ". The server may have another version, or a proxy may change its answers. Otherwise this is a bug: please report it."
);

const TOKEN: &str = "Give a valid JWT or API key with FLOVYN_TOKEN, --token or --profile.";
/// The code of a tenant that does not exist.
const NO_TENANT: &str = "FLV0030";

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    /// The error code of the server's refusal. Empty if the failure is not a refusal.
    code: String,
    what: String,
    /// What to do next, in sentences.
    todo: Vec<String>,
    /// `None` if no local setting can be the cause.
    doubt: Option<Doubt>,
}

/// The local setting that may have caused a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    Address,
    Token,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, code: String::new(), what: what.into(), todo: Vec::new(), doubt: None }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// Adds a sentence about what to do next, after the existing ones.
    pub(crate) fn advise(mut self, todo: impl Into<String>) -> Self {
        self.todo.push(todo.into());
        self
    }

    /// Adds `todo` if the failure is "not found". If the tenant itself does not exist, the advice is about the tenant.
    pub(crate) fn advise_if_missing(self, todo: &str) -> Self {
        match (self.exit, self.code.as_str()) {
            (Exit::NotFound, NO_TENANT) => {
                self.advise("Name another tenant with --tenant, FLOVYN_TENANT or --profile.")
            }
            (Exit::NotFound, _) => self.advise(todo),
            _ => self,
        }
    }

    #[cfg(test)]
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    fn doubt(self, doubt: Doubt) -> Self {
        Self { doubt: Some(doubt), ..self }
    }

    pub(crate) fn doubted(&self) -> Option<Doubt> {
        self.doubt
    }

    /// Prints the message on stderr and returns the exit code.
    pub(crate) fn end(&self) -> ExitCode {
        if self.exit != Exit::Unread {
            // The message may quote text of a server or a user, so `note` escapes control characters.
            note(&format!("flovyn: {self}"));
        }
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.todo.iter().filter(|todo| !todo.is_empty()).try_for_each(|todo| write!(f, "\n  {todo}"))
    }
}

/// For failures that have no exit code of their own.
impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self::new(Exit::Failed, what)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Url(_) => Self::usage(error.to_string()),
            ClientError::Token => Self::new(Exit::Denied, error.to_string()).doubt(Doubt::Token),
            ClientError::Certificates(_) => Self::new(Exit::Failed, error.to_string()),
            ClientError::Unreachable { url, why } => {
                let failure = Self::new(Exit::Unavailable, format!("{url} does not answer: {why}"));
                failure.advise(RUNNING).doubt(Doubt::Address)
            }
            ClientError::Broken(_) => Self::new(Exit::Unavailable, error.to_string()).doubt(Doubt::Address),
            ClientError::Refused { status, code, error, advice } => {
                let what = if code.is_empty() { error } else { format!("{error} ({code})") };
                let todo = if status == 401 { TOKEN.to_owned() } else { advice };
                let exit = exit_of(status);
                let doubt = match exit {
                    Exit::Denied => Some(Doubt::Token),
                    Exit::Unavailable => Some(Doubt::Address),
                    _ => None,
                };
                Self { code, doubt, ..Self::new(exit, what) }.advise(todo)
            }
            // A 404 of another server does not mean that the requested item does not exist in Flovyn.
            ClientError::Foreign { status: 404 | 405, .. } => {
                Self::new(Exit::Failed, error.to_string()).advise(ADDRESS).doubt(Doubt::Address)
            }
            ClientError::Foreign { status, .. } => {
                Self::new(exit_of(status), error.to_string()).advise(ADDRESS).doubt(Doubt::Address)
            }
            ClientError::NotHttp { .. } => {
                Self::new(Exit::Failed, error.to_string()).advise(NO_HTTP).doubt(Doubt::Address)
            }
            ClientError::NotTls { .. } => {
                Self::new(Exit::Failed, error.to_string()).advise(NO_TLS).doubt(Doubt::Address)
            }
            ClientError::Unreadable(_) => {
                Self::new(Exit::Failed, error.to_string()).advise(UNREADABLE).doubt(Doubt::Address)
            }
        }
    }
}

fn exit_of(status: u16) -> Exit {
    match status {
        400 | 413 | 422 => Exit::Usage,
        401 | 403 => Exit::Denied,
        404 | 405 => Exit::NotFound,
        409 => Exit::Conflict,
        429 | 502..=504 => Exit::Unavailable,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> Failure {
        let (code, error, advice) = (code.into(), "no such thing".into(), "Look elsewhere.".into());
        ClientError::Refused { status, code, error, advice }.into()
    }

    #[test]
    fn a_refusal_has_advice_and_an_exit_code() {
        let text = |status, code| refused(status, code).advise_if_missing("List them.").to_string();
        assert_eq!(text(404, "FLV0031"), "no such thing (FLV0031)\n  Look elsewhere.\n  List them.");
        assert!(text(404, "FLV0030").ends_with("--tenant, FLOVYN_TENANT or --profile."));
        assert_eq!(text(409, "FLV0051"), "no such thing (FLV0051)\n  Look elsewhere.");
        let exits =
            [400, 401, 403, 404, 409, 413, 429, 500, 503].map(|status| refused(status, "").exit as u8);
        assert_eq!(exits, [2, 4, 4, 3, 5, 2, 6, 1, 6]);
    }
}
