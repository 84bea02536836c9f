//! Decides which address, tenant and token are used. Pure.
//!
//! Explicit values (options, then `FLOVYN_URL`, `FLOVYN_TENANT`, `FLOVYN_TOKEN`) take precedence over the values of a
//! place. The token of a place is only sent to the address of that place.

use super::place::Place;
use crate::exit::{Exit, Failure};

const TENANT: &str = "default";

#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) url: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) token: Option<String>,
}

impl Asked {
    pub(crate) fn is_complete(&self) -> bool {
        self.url.is_some() && self.token.is_some()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) url: String,
    pub(crate) tenant: String,
    pub(crate) token: String,
    pub(crate) url_from: String,
    pub(crate) token_from: String,
}

pub(super) fn resolve(asked: Asked, place: Option<Place>) -> Result<Connection, Failure> {
    let mut place = place.unwrap_or_default();
    let name = place.name;
    if asked.url.is_some() && !same(&asked.url, &place.url) {
        // The place is about another server, so its tenant and token are not used.
        (place.tenant, place.token) = (None, None);
    }
    let (url, url_from) = choose(asked.url, "--url or FLOVYN_URL", place.url, &name).ok_or_else(|| {
        Failure::usage("no server is named, and this folder has no server of `flovyn dev`")
            .advise("Start one here with `flovyn dev`, or name one with --url and a token with FLOVYN_TOKEN,")
            .advise("or with --profile. `flovyn workflow --help` lists all options.")
    })?;
    let (token, token_from) =
        choose(asked.token, "--token or FLOVYN_TOKEN", place.token, &name).ok_or_else(|| {
            Failure::new(Exit::Denied, format!("no token for {url}"))
                .advise("Give a JWT or an API key with FLOVYN_TOKEN, --token or --profile.")
        })?;
    let tenant = asked.tenant.or(place.tenant).unwrap_or_else(|| TENANT.to_owned());
    Ok(Connection { url, tenant, token, url_from, token_from })
}

fn choose(asked: Option<String>, how: &str, kept: Option<String>, place: &str) -> Option<(String, String)> {
    let asked = asked.map(|value| (value, how.to_owned()));
    asked.or_else(|| kept.filter(|value| !value.is_empty()).map(|value| (value, place.to_owned())))
}

fn same(one: &Option<String>, other: &Option<String>) -> bool {
    let bare = |url: &Option<String>| url.as_deref().map(|url| url.trim_end_matches('/').to_owned());
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn place() -> Option<Place> {
        Some(Place { name: "P".into(), url: some("http://a"), tenant: some("acme"), token: some("secret") })
    }

    fn parts(asked: Asked, place: Option<Place>) -> Result<[String; 3], Exit> {
        let found = resolve(asked, place).map_err(|failure| failure.exit())?;
        Ok([found.url, found.tenant, found.token])
    }

    fn expected(url: &str, tenant: &str, token: &str) -> Result<[String; 3], Exit> {
        Ok([url.into(), tenant.into(), token.into()])
    }

    #[test]
    fn what_is_asked_for_wins() {
        assert_eq!(parts(Asked::default(), place()), expected("http://a", "acme", "secret"));
        let asked = Asked { tenant: some("other"), ..Asked::default() };
        assert_eq!(parts(asked, place()), expected("http://a", "other", "secret"));
        let asked = Asked { token: some("mine"), ..Asked::default() };
        assert_eq!(parts(asked, place()), expected("http://a", "acme", "mine"));
        let asked = Asked { url: some("http://b"), token: some("mine"), tenant: None };
        assert_eq!(parts(asked.clone(), None), expected("http://b", "default", "mine"));
        assert_eq!(
            parts(asked, place()),
            expected("http://b", "default", "mine"),
            "acme is on the other one"
        );
    }

    #[test]
    fn a_token_goes_nowhere_but_where_it_belongs() {
        let asked = |url| Asked { url: some(url), ..Asked::default() };
        assert_eq!(parts(asked("http://b"), place()), Err(Exit::Denied));
        assert_eq!(parts(asked("http://a/"), place()), expected("http://a/", "acme", "secret"));
    }

    #[test]
    fn without_a_server_there_is_nothing_to_ask() {
        assert_eq!(parts(Asked::default(), None), Err(Exit::Usage));
        let empty = Place { token: some(""), ..place().unwrap() };
        assert_eq!(parts(Asked::default(), Some(empty)), Err(Exit::Denied));
    }
}
