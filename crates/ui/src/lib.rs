//! The web pages of a server, at `/` of its HTTP port.
//!
//! They are a client of the REST API in the same process: every page and every action consists of REST calls with the
//! visitor's own credential. So REST alone decides who may see and do what, and nothing here knows the engine, the
//! service or a store. Pages are rendered here; the scripts only fetch pages again and swap parts of them.

mod actions;
mod assets;
mod extract;
mod failure;
mod guard;
mod layout;
mod nowhere;
mod once;
mod pages;
mod parts;
mod rest;
mod routes;
mod session;
mod urls;
mod visitor;
mod wish;

use std::fmt;
use std::sync::Arc;

use axum::Router;

pub use crate::parts::times::as_of;
pub use crate::routes::ROUTES;

use crate::once::Once;
use crate::rest::Rest;

/// The options of the pages.
#[derive(Clone, Default)]
pub struct Options {
    /// The credential that visitors without a session receive, for a server that only its own machine can reach.
    /// `None`: visitors must sign in.
    pub own_credential: Option<String>,
    /// Whether every connection is encrypted. If true, the session cookie is sent only over encrypted connections.
    pub secure: bool,
    /// The server's version, shown on pages.
    pub version: &'static str,
}

impl fmt::Debug for Options {
    /// Omits the credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("secure", &self.secure).finish_non_exhaustive()
    }
}

/// The state that handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Ui {
    rest: Rest,
    options: Arc<Options>,
    once: Arc<Once>,
}

/// All pages, and the answer to unknown addresses: a page for browsers, problem details in JSON for programs. `rest`
/// answers below `/api`.
pub fn router(rest: Router, options: Options) -> Router {
    routes::router(Ui { rest: Rest::new(rest), options: Arc::new(options), once: Arc::default() })
}
