//! Key sets (RFC 7517): the public keys of an issuer, by their `kid`.
//!
//! This module only parses documents. It does not know where they come from or when they are read again.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;

/// The most keys that a set may have. Issuers publish only a few.
const MAX_KEYS: usize = 100;
/// The modulus of a key of 2048 bits has this many characters in base64. Shorter keys can be factored.
const MIN_MODULUS_CHARS: usize = 342;

pub(crate) type KeySet = FxHashMap<String, DecodingKey>;

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

/// The keys of the document that are usable with the algorithm. All other keys are skipped: issuers publish
/// keys for encryption and for other algorithms in the same set, and such a key must not verify a token here.
///
/// # Errors
/// Fails if the document is not a key set, if no key is usable, or if two keys have the same `kid`.
pub(crate) fn read(document: &[u8], algorithm: Algorithm) -> Result<KeySet, String> {
    let document: Document = serde_json::from_slice(document)
        .map_err(|error| format!("it is not a JSON Web Key Set ({error})"))?;
    if document.keys.len() > MAX_KEYS {
        return Err(format!("it has more than {MAX_KEYS} keys"));
    }
    let mut set = KeySet::default();
    for value in document.keys {
        let Ok(jwk) = serde_json::from_value::<Jwk>(value) else { continue };
        let Some(kid) = jwk.common.key_id.clone().filter(|_| fits(&jwk, algorithm)) else { continue };
        let Ok(key) = DecodingKey::from_jwk(&jwk) else { continue };
        if set.insert(kid.clone(), key).is_some() {
            return Err(format!("it has two keys with the kid {kid:?}"));
        }
    }
    if set.is_empty() {
        return Err(format!("it has no key with a kid that is usable with {algorithm:?}"));
    }
    Ok(set)
}

/// Whether the key may be used with the algorithm. A key states its purpose in up to three places: key type,
/// algorithm and use. All must agree.
fn fits(jwk: &Jwk, algorithm: Algorithm) -> bool {
    let (kind, named) = match (&jwk.algorithm, algorithm) {
        (AlgorithmParameters::RSA(key), Algorithm::RS256) => {
            (key.n.trim_start_matches('A').len() >= MIN_MODULUS_CHARS, KeyAlgorithm::RS256)
        }
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES256) => {
            (key.curve == EllipticCurve::P256, KeyAlgorithm::ES256)
        }
        (AlgorithmParameters::OctetKeyPair(key), Algorithm::EdDSA) => {
            (key.curve == EllipticCurve::Ed25519, KeyAlgorithm::EdDSA)
        }
        _ => return false,
    };
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
    kind && signs && jwk.common.key_algorithm.is_none_or(|given| given == named)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ed(kid: &str) -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" })
    }

    fn with(mut key: Value, name: &str, value: &str) -> Value {
        key[name] = value.into();
        key
    }

    fn kids(keys: &[Value]) -> Result<Vec<String>, String> {
        let document = json!({ "keys": keys }).to_string();
        let mut kids: Vec<_> = read(document.as_bytes(), Algorithm::EdDSA)?.into_keys().collect();
        kids.sort();
        Ok(kids)
    }

    #[test]
    fn only_keys_that_fit_are_taken() {
        let mut nameless = ed("");
        nameless.as_object_mut().unwrap().remove("kid");
        let keys = [
            ed("plain"),
            with(with(ed("said"), "alg", "EdDSA"), "use", "sig"),
            with(ed("other algorithm"), "alg", "RS256"),
            with(ed("algorithm of secrets"), "alg", "HS256"),
            with(ed("for encryption"), "use", "enc"),
            with(ed("other curve"), "crv", "P-256"),
            with(ed("other kind"), "kty", "EC"),
            with(ed("no key"), "x", "!"),
            json!({ "kty": "oct", "kid": "secret", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY" }),
            json!({ "kty": "new", "kid": "unknown kind" }),
            json!("no key at all"),
            nameless,
        ];
        assert_eq!(kids(&keys).unwrap(), ["plain", "said"]);
    }

    #[test]
    fn short_rsa_keys_are_left_out() {
        let set = |chars: usize| {
            // Leading zeros do not make a number larger.
            let n = format!("AAAA{}w", "x".repeat(chars - 1));
            json!({ "keys": [{ "kty": "RSA", "kid": "a", "e": "AQAB", "n": n }] }).to_string()
        };
        assert!(read(set(MIN_MODULUS_CHARS).as_bytes(), Algorithm::RS256).is_ok());
        assert!(read(set(MIN_MODULUS_CHARS - 4).as_bytes(), Algorithm::RS256).is_err());
    }

    #[test]
    fn a_set_that_cannot_be_used_is_refused_with_the_reason() {
        assert!(kids(&[]).unwrap_err().contains("no key"));
        assert!(kids(&[ed("a"), ed("a")]).unwrap_err().contains("two keys"));
        assert!(kids(&vec![ed("a"); MAX_KEYS + 1]).unwrap_err().contains("more than"));
        for document in [&b""[..], b"{}", b"[]", b"null", b"{\"keys\":{}}", b"\xff"] {
            assert!(read(document, Algorithm::EdDSA).unwrap_err().contains("not a JSON Web Key Set"));
        }
    }
}
