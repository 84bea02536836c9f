//! Valid tokens, and every way in which a token can be invalid.

use serde_json::json;

use super::*;

fn settings(issuer: &str, audience: &str, secret: u8) -> JwtSettings {
    JwtSettings {
        key: JwtKey::Secret(vec![secret; 32]),
        issuer: issuer.into(),
        audience: audience.into(),
        tenants_claim: "tenants".into(),
        role_claim: "role".into(),
    }
}

fn verifier(issuer: &str, audience: &str, secret: u8) -> JwtVerifier {
    JwtVerifier::new(settings(issuer, audience, secret)).unwrap()
}

const FAR: i64 = 4_000_000_000;

/// An RSA public key, and a token that its private key signed; the private key was not kept. The token is for
/// the subject `dev` and the tenant `default`, and is valid until 2096.
const RSA_PEM: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAzS0MDmJh0LEdP0EEycMm\n\
Px6k/cfqcj2c8FGdxkM/WN7du5uKsAFRjwt6NkYvJlBLcOzj+/JkMc1nGyNUgCmg\n\
8ptgf/YIT3iM3n2SulFNYWYqzFB2qNtkcxOAETjyWmYBpEcnj8bgRPuIX73i5Lqt\n\
klcx+uZDB9NWKwNY4fHrw/4VA6qzXeadH6dD8Gui+iBHjZ/OBbxgmc5h1sq6YSWU\n\
gaW0Cjbpq+NqfiasvVG+wVUsYPDnviNVvmhZcc0Nz4hVnbWjm+C/U3z6o33psw24\n\
xJc0olehxv2SbyvokWtFl6dEypOzRy8DpNFidlPb8b2Kq6XBWShNk/nesW77/D/r\n\
iwIDAQAB\n\
-----END PUBLIC KEY-----\n";
const RSA_MODULUS: &str = "\
    zS0MDmJh0LEdP0EEycMmPx6k_cfqcj2c8FGdxkM_WN7du5uKsAFRjwt6NkYvJlBLcOzj-_JkMc1nGyNUgCmg8ptgf_YIT3iM3n2S\
    ulFNYWYqzFB2qNtkcxOAETjyWmYBpEcnj8bgRPuIX73i5Lqtklcx-uZDB9NWKwNY4fHrw_4VA6qzXeadH6dD8Gui-iBHjZ_OBbxg\
    mc5h1sq6YSWUgaW0Cjbpq-NqfiasvVG-wVUsYPDnviNVvmhZcc0Nz4hVnbWjm-C_U3z6o33psw24xJc0olehxv2SbyvokWtFl6dE\
    ypOzRy8DpNFidlPb8b2Kq6XBWShNk_nesW77_D_riw";
const RSA_TOKEN: &str = "\
    eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJkZXYiLCJpc3MiOiJmbG92eW4iLCJhdWQiOiJmbG92eW4iLCJpYXQ\
    iOjEsImV4cCI6NDAwMDAwMDAwMCwidGVuYW50cyI6WyJkZWZhdWx0Il0sInJvbGUiOiJhZG1pbiJ9.fZpABUvP9KBpi0e_PVQWA_\
    uPJwF8Re9VC55Ls8b_4v9voiQLzvMrZtWQ24NLn02rf-9W2BS8GWkd8nLf-hYjaj1mQOL7_EqhHIU4J84Vb0WGzSrxlwmGcooHXC\
    UI47_A8rlIR7CeyyZpQrgbX7AfwZ-WZMuYP3FqM81PpJaASTJ41Dd6b7Bu1ZL4XYcAQ9rlgwK9qS30CgJZGJngKgYkp4NBUBIJhM\
    9RwqPbQSTZ4JeetCkVzN9-pCPAkD-8t9kXKRX3SANEELw6bGrZS3lKEZ_pGBFEWxd6u-UUehdOTUmXppvWJQRVXiZaKcSvNo_qgj\
    -xanGXdJu904dheKxXBA";

#[test]
fn a_token_of_our_own_is_accepted_and_says_who_it_is() {
    let own = verifier("flovyn", "flovyn", 1);
    let token = own.sign("dev", &["default"], "admin", 1, FAR).unwrap();
    let principal = own.authenticate(&token).unwrap();
    assert_eq!(principal.role(), Role::Admin);
    assert_eq!(principal.named_tenants(), ["default"]);
}

#[test]
fn issuer_audience_secret_time_and_role_all_have_to_fit() {
    let own = verifier("flovyn", "flovyn", 1);
    let refused = |token: String| assert!(own.authenticate(&token).is_err());
    refused(verifier("other", "flovyn", 1).sign("dev", &["*"], "admin", 1, FAR).unwrap());
    refused(verifier("flovyn", "other", 1).sign("dev", &["*"], "admin", 1, FAR).unwrap());
    refused(verifier("flovyn", "flovyn", 2).sign("dev", &["*"], "admin", 1, FAR).unwrap());
    refused(own.sign("dev", &["*"], "admin", 1, 1_000).unwrap());
    refused(own.sign("dev", &["*"], "king", 1, FAR).unwrap());
    refused("not.a.token".into());
    refused(String::new());
}

#[test]
fn a_token_from_the_future_is_refused() {
    let own = verifier("flovyn", "flovyn", 1);
    let sign = |iat| own.sign("dev", &["*"], "admin", iat, FAR).unwrap();
    let leeway = i64::try_from(LEEWAY_SECONDS).unwrap();
    assert!(own.authenticate(&sign(now_seconds() + leeway - 5)).is_ok(), "clocks differ a little");
    assert!(own.authenticate(&sign(now_seconds() + leeway + 600)).is_err());
    assert!(own.authenticate(&sign(i64::MAX)).is_err());
}

#[test]
fn what_a_token_calls_critical_is_not_passed_over() {
    let own = verifier("flovyn", "flovyn", 1);
    let claims = OwnClaims {
        sub: "dev",
        iss: "flovyn",
        aud: "flovyn",
        iat: 1,
        exp: FAR,
        tenants: &["*"],
        role: "admin",
    };
    let key = EncodingKey::from_secret(&[1; 32]);
    let with = |crit: Option<&[&str]>| {
        let crit = crit.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let header = Header { crit, ..Header::new(Algorithm::HS256) };
        own.authenticate(&jsonwebtoken::encode(&header, &claims, &key).unwrap())
    };
    assert!(with(None).is_ok());
    // An empty list is refused too, because RFC 7515 does not allow it.
    for names in [&["exp"][..], &["b64"], &["https://example.com/made-up", "exp"], &[]] {
        assert!(with(Some(names)).is_err(), "{names:?}");
    }
}

#[test]
fn another_algorithm_is_refused_whatever_the_token_says() {
    let own = verifier("flovyn", "flovyn", 1);
    let token = own.sign("dev", &["*"], "admin", 1, FAR).unwrap();
    let body = token.split('.').nth(1).unwrap();
    // {"alg":"none","typ":"JWT"}
    let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{body}.");
    assert!(own.authenticate(&unsigned).is_err());
}

#[test]
fn a_short_secret_is_refused() {
    let short = JwtSettings { key: JwtKey::Secret(vec![1; MIN_SECRET_BYTES - 1]), ..settings("a", "b", 1) };
    assert!(JwtVerifier::new(short).is_err());
}

fn with_key(key: JwtKey) -> Result<JwtVerifier, String> {
    JwtVerifier::new(JwtSettings { key, ..settings("flovyn", "flovyn", 1) })
}

fn rsa_set(kid: &str) -> Vec<u8> {
    json!({ "keys": [{ "kty": "RSA", "kid": kid, "e": "AQAB", "n": RSA_MODULUS }] }).to_string().into_bytes()
}

fn rsa_verifier(kid: &str) -> JwtVerifier {
    with_key(JwtKey::Jwks { algorithm: JwksAlgorithm::RS256, document: rsa_set(kid) }).unwrap()
}

#[test]
fn a_public_key_checks_what_its_private_half_signed() {
    for own in [with_key(JwtKey::RsaPem(RSA_PEM.into())).unwrap(), rsa_verifier("rsa")] {
        assert_eq!(own.authenticate(RSA_TOKEN).unwrap().named_tenants(), ["default"]);
        assert!(own.authenticate(&RSA_TOKEN[..RSA_TOKEN.len() - 4]).is_err());
    }
    for wrong in
        [JwtKey::EcPem(RSA_PEM.into()), JwtKey::EdPem(RSA_PEM.into()), JwtKey::RsaPem(b"no key".to_vec())]
    {
        assert!(with_key(wrong).is_err(), "a key of another kind stops the start");
    }
}

#[test]
fn a_public_key_is_no_secret() {
    // The attack: the public key is used as the shared secret of HS256.
    let (name, header) = ("rsa".to_owned(), Header::new(Algorithm::HS256));
    let header = Header { kid: Some(name), ..header };
    let claims = OwnClaims {
        sub: "dev",
        iss: "flovyn",
        aud: "flovyn",
        iat: 1,
        exp: FAR,
        tenants: &["*"],
        role: "admin",
    };
    for secret in [RSA_PEM.as_bytes(), RSA_PEM.trim().as_bytes(), RSA_MODULUS.as_bytes()] {
        let forged = jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(secret)).unwrap();
        for own in [with_key(JwtKey::RsaPem(RSA_PEM.into())).unwrap(), rsa_verifier("rsa")] {
            assert!(own.authenticate(&forged).is_err());
        }
    }
}

#[test]
fn keys_are_replaced_as_a_whole_and_only_by_ones_that_can_be_used() {
    let own = rsa_verifier("other");
    assert!(own.names_unknown_key(RSA_TOKEN) && own.authenticate(RSA_TOKEN).is_err());
    assert_eq!(own.replace_keys(&rsa_set("rsa")), Ok(1));
    assert!(!own.names_unknown_key(RSA_TOKEN) && own.authenticate(RSA_TOKEN).is_ok());
    for broken in [&b"{}"[..], b"", br#"{"keys":[]}"#] {
        assert!(own.replace_keys(broken).is_err());
        assert!(own.authenticate(RSA_TOKEN).is_ok(), "the last good ones stay");
    }
    assert!(verifier("flovyn", "flovyn", 1).replace_keys(&rsa_set("rsa")).is_err());
}

#[test]
fn only_a_token_of_the_right_algorithm_with_a_name_is_a_reason_to_look_for_new_keys() {
    let own = rsa_verifier("other");
    let secret = verifier("flovyn", "flovyn", 1);
    let of_secret = secret.sign("dev", &["*"], "admin", 1, FAR).unwrap();
    for token in ["", "..", "a.b.c", &of_secret] {
        assert!(!own.names_unknown_key(token), "{token}");
    }
    assert!(!secret.names_unknown_key(RSA_TOKEN), "one key is all there is");
}
