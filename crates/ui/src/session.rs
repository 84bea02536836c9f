//! Sessions: the visitor's credential in a cookie. Scripts cannot read it, and other sites cannot make a browser send
//! it.
//!
//! Nothing is stored on the server, so a session survives a restart and works on every process behind one address. A
//! random part makes each session's token against forged requests unique.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const NAME: &str = "flovyn_session";
/// The longest cookie. Browsers silently drop longer ones.
const LONGEST: usize = 3_500;
/// The cookie value of a visitor who has signed out, and must not be signed in again automatically.
const SIGNED_OUT: &str = "none";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// `RANDOM~CREDENTIAL`
    value: String,
}

/// The contents of the cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Session(Session),
    SignedOut,
    Nothing,
}

impl Session {
    /// A session with this credential. `None`: the text does not fit into a cookie, so it is not a Flovyn credential.
    pub(crate) fn new(credential: &str) -> Option<Self> {
        let fits = !credential.is_empty() && credential.len() <= LONGEST && credential.bytes().all(is_plain);
        let random = random().filter(|_| fits)?;
        Some(Self { value: format!("{random}~{credential}") })
    }

    fn from_cookie(value: &str) -> Option<Self> {
        let (random, credential) = value.split_once('~')?;
        let fits = random.len() == 32 && !credential.is_empty() && credential.bytes().all(is_plain);
        fits.then(|| Self { value: value.to_owned() })
    }

    pub(crate) fn credential(&self) -> &str {
        self.value.split_once('~').map_or("", |(_, credential)| credential)
    }

    /// The token in forms. Only a page of this session can know it.
    pub(crate) fn form_token(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"flovyn form ");
        hash.update(self.value.as_bytes());
        hex(&hash.finalize()[..16])
    }

    pub(crate) fn knows(&self, form_token: &str) -> bool {
        self.form_token().as_bytes().ct_eq(form_token.as_bytes()).into()
    }

    pub(crate) fn cookie(&self, secure: bool) -> HeaderValue {
        cookie(&self.value, secure)
    }
}

/// A random value.
pub(crate) fn random() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(hex(&random))
}

/// The cookie of a visitor who has signed out.
pub(crate) fn no_cookie(secure: bool) -> HeaderValue {
    cookie(SIGNED_OUT, secure)
}

fn cookie(value: &str, secure: bool) -> HeaderValue {
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{NAME}={value}; Path=/; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).expect("the characters were checked")
}

pub(crate) fn find(headers: &HeaderMap) -> Found {
    match cookie_of(headers, NAME) {
        None => Found::Nothing,
        Some(SIGNED_OUT) => Found::SignedOut,
        Some(value) => Session::from_cookie(value).map_or(Found::Nothing, Found::Session),
    }
}

/// The value of a cookie. `None`: there is no such cookie.
pub(crate) fn cookie_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Whether the byte may occur in JWTs, API keys and cookies.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.+/=:~".contains(&byte)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookie).unwrap())])
    }

    #[test]
    fn a_session_comes_back_as_it_went() {
        let session = Session::new("a.b-c_d.e").unwrap();
        let sent = session.cookie(false);
        let sent = sent.to_str().unwrap();
        assert!(sent.contains("; HttpOnly; SameSite=Strict"), "{sent}");
        let value = sent.split(';').next().unwrap();
        let found = find(&headers(&format!("other=1; {value}; more=2")));
        assert_eq!(found, Found::Session(session.clone()));
        assert_eq!(session.credential(), "a.b-c_d.e");
        assert!(session.cookie(true).to_str().unwrap().ends_with("; Secure"));
    }

    #[test]
    fn form_tokens_belong_to_their_session() {
        let (one, other) = (Session::new("same").unwrap(), Session::new("same").unwrap());
        assert!(one.knows(&one.form_token()));
        assert!(!one.knows(&other.form_token()), "another session of the same credential");
        assert!(!one.knows(""));
    }

    #[test]
    fn what_could_break_a_cookie_is_no_credential() {
        for wrong in ["", "a b", "a;b", "a,b", "a\"b", "a\r\nb", "é", &"x".repeat(LONGEST + 1)] {
            assert_eq!(Session::new(wrong), None, "{wrong:?}");
        }
        for wrong in ["flovyn_session=", "flovyn_session=abc", "flovyn_session=short~x", "x=1"] {
            assert_eq!(find(&headers(wrong)), Found::Nothing, "{wrong:?}");
        }
        assert_eq!(find(&headers("flovyn_session=none")), Found::SignedOut);
    }
}
