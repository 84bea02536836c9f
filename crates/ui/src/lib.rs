//! The web pages of a server, at `/` of its HTTP port.
//!
//! They are a client of the REST API in the same process: every page and every action is made of REST calls with the
//! visitor's own credential. So who may see and do what is decided there and nowhere else, and nothing here knows the
//! engine, the service or a store. Pages are rendered here; the scripts only fetch pages again and swap parts of them.

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

/// How the pages are served.
#[derive(Clone, Default)]
pub struct Options {
    /// The credential that visitors without a session get. For a server that only its own machine reaches.
    pub own_credential: Option<String>,
    /// Every connection is encrypted: the session must not travel otherwise.
    pub secure: bool,
    /// Of the server, to be shown.
    pub version: &'static str,
}

impl fmt::Debug for Options {
    /// Without the credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("secure", &self.secure).finish_non_exhaustive()
    }
}

/// What handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Ui {
    rest: Rest,
    options: Arc<Options>,
    once: Arc<Once>,
}

/// All pages, and the answer to every address that is none: browsers get a page there too, programs a problem in JSON.
/// `rest` answers below `/api`.
pub fn router(rest: Router, options: Options) -> Router {
    routes::router(Ui { rest: Rest::new(rest), options: Arc::new(options), once: Arc::default() })
}
