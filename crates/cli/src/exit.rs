//! How a command ends: a sentence for people, and a number for scripts. The numbers never change their meaning; the page
//! of the CLI has the same list.

use std::fmt;
use std::process::ExitCode;

use crate::client::ClientError;
use crate::view::note;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Whoever reads the output has gone. That is how `| head` ends, and no failure.
    Unread = 0,
    Failed = 1,
    /// Arguments or input are wrong: the same as from the parser of the command line.
    Usage = 2,
    NotFound = 3,
    Denied = 4,
    /// The state of things does not allow it.
    Conflict = 5,
    /// Nobody answers, or not now: trying again may help.
    Unavailable = 6,
    /// What was waited for has ended, and not as COMPLETED.
    NotCompleted = 7,
    /// What was waited for has not ended in time.
    TimedOut = 8,
}

const RUNNING: &str =
    "Is the server running? `flovyn dev` starts one; --url, FLOVYN_URL or --profile name another.";

const ADDRESS: &str = "Is this the address of a Flovyn server's HTTP port, or is something in between?";

const NO_HTTP: &str =
    "Name the server's HTTP port, not that of gRPC; it may want https:// instead of http://.";

const NO_TLS: &str =
    "It may want http:// instead of https://. A certificate of your own is trusted with SSL_CERT_FILE.";

const UNREADABLE: &str = concat!(
    "This is flovyn ",
    env!("CARGO_PKG_VERSION"),
    ". The server may be of another version, or something in between may change answers; else it is a fault of ours."
);

const TOKEN: &str = "Give a valid JWT or API key with FLOVYN_TOKEN, --token or --profile.";
/// The code of a tenant that is not there.
const NO_TENANT: &str = "FLV0030";

/// Why a command did not do what it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    /// Of the server, if it has refused.
    code: String,
    what: String,
    /// What to do next, in sentences.
    todo: Vec<String>,
    doubt: Option<Doubt>,
}

/// What may be wrong of that which is set up on this machine.
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

    /// Says what to do next, after what is said already.
    pub(crate) fn advise(mut self, todo: impl Into<String>) -> Self {
        self.todo.push(todo.into());
        self
    }

    /// The same, if what was looked for is not there. Without the tenant nothing is.
    pub(crate) fn advise_if_missing(self, todo: &str) -> Self {
        match (self.exit, self.code.as_str()) {
            (Exit::NotFound, NO_TENANT) => self.advise("--tenant, FLOVYN_TENANT or --profile name another."),
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

    /// Tells people, and returns the number for scripts.
    pub(crate) fn end(&self) -> ExitCode {
        if self.exit != Exit::Unread {
            // It may quote what a server or a user said.
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

/// Commands that have nothing more to tell.
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
            // A page that somebody else does not have says nothing of what was asked for.
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
    fn a_refusal_says_what_to_do_and_has_a_number() {
        let text = |status, code| refused(status, code).advise_if_missing("List them.").to_string();
        assert_eq!(text(404, "FLV0031"), "no such thing (FLV0031)\n  Look elsewhere.\n  List them.");
        assert!(text(404, "FLV0030").ends_with("name another."));
        assert_eq!(text(409, "FLV0051"), "no such thing (FLV0051)\n  Look elsewhere.");
        let exits =
            [400, 401, 403, 404, 409, 413, 429, 500, 503].map(|status| refused(status, "").exit as u8);
        assert_eq!(exits, [2, 4, 4, 3, 5, 2, 6, 1, 6]);
    }
}
