//! Reads the expiry time of a JWT. The server does not say that a token has expired, but the holder may know.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

#[derive(Deserialize)]
struct Claims {
    exp: i64,
}

/// The expiry time in milliseconds since 1970. `None`: the token is not a JWT or does not expire.
pub(super) fn expires_ms(token: &str) -> Option<i64> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    claims.exp.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jwt_says_when_it_expires() {
        let claims = |text: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(text));
        assert_eq!(expires_ms(&claims(r#"{"exp":1736937000,"sub":"ada"}"#)), Some(1_736_937_000_000));
        assert_eq!(expires_ms(&claims(r#"{"exp":9223372036854775807}"#)), None);
        for other in ["", "flv_abc", "a.b.c", &claims("{}")] {
            assert_eq!(expires_ms(other), None, "{other}");
        }
    }
}
