//! An issuer of tokens that publishes its key set on this machine.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::worker::PATIENCE;
use crate::world::FAR;

/// A key pair with a name.
pub(crate) struct Signer {
    kid: String,
    algorithm: Algorithm,
    pair: KeyPair,
}

impl Signer {
    pub(crate) fn new(kid: &str) -> Self {
        Self::of(kid, Algorithm::EdDSA)
    }

    pub(crate) fn of(kid: &str, algorithm: Algorithm) -> Self {
        let kind = if algorithm == Algorithm::ES256 { &PKCS_ECDSA_P256_SHA256 } else { &PKCS_ED25519 };
        Self { kid: kid.to_owned(), algorithm, pair: KeyPair::generate_for(kind).unwrap() }
    }

    /// The public key, for a key set.
    pub(crate) fn public(&self) -> Value {
        let raw = self.pair.public_key_raw();
        let mut key = json!({ "kid": self.kid, "alg": self.header().alg });
        match self.algorithm {
            // An uncompressed point: 4, x, y.
            Algorithm::ES256 => {
                (key["kty"], key["crv"]) = (json!("EC"), json!("P-256"));
                (key["x"], key["y"]) = (json!(base64(&raw[1..33])), json!(base64(&raw[33..])));
            }
            _ => (key["kty"], key["crv"], key["x"]) = (json!("OKP"), json!("Ed25519"), json!(base64(raw))),
        }
        key
    }

    pub(crate) fn public_pem(&self) -> String {
        self.pair.public_key_pem()
    }

    pub(crate) fn header(&self) -> Header {
        Header { kid: Some(self.kid.clone()), ..Header::new(self.algorithm) }
    }

    pub(crate) fn sign(&self, header: &Header, claims: &Value) -> String {
        let header = serde_json::to_vec(header).unwrap();
        let message = format!("{}.{}", base64(&header), base64(claims.to_string().as_bytes()));
        let (key, random) = (self.pair.serialized_der(), SystemRandom::new());
        let signature = match self.algorithm {
            Algorithm::ES256 => {
                let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random).unwrap();
                key.sign(&random, message.as_bytes()).unwrap()
            }
            _ => Ed25519KeyPair::from_pkcs8(key).unwrap().sign(message.as_bytes()),
        };
        format!("{message}.{}", base64(signature.as_ref()))
    }

    /// A valid token of an administrator of tenant one.
    pub(crate) fn token(&self) -> String {
        self.sign(&self.header(), &claims())
    }
}

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn claims() -> Value {
    json!({
        "sub": "somebody", "iss": "issuer", "aud": "audience", "iat": 1, "exp": FAR,
        "tenants": ["one"], "role": "admin",
    })
}

/// The answer of the URL, and the number of requests.
#[derive(Clone)]
pub(crate) struct KeyAddress {
    pub(crate) url: String,
    answer: Arc<Mutex<(StatusCode, String)>>,
    asked: watch::Sender<usize>,
}

impl KeyAddress {
    pub(crate) async fn start(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let address = Self { url, answer: Arc::default(), asked: watch::Sender::new(0) };
        address.publish(keys);
        let state = address.clone();
        let answer = move || async move {
            state.asked.send_modify(|asked| *asked += 1);
            state.answer.lock().unwrap().clone()
        };
        let router = axum::Router::new().route("/keys", axum::routing::get(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    pub(crate) fn publish(&self, keys: &[&Signer]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
        self.answer(StatusCode::OK, &json!({ "keys": keys }).to_string());
    }

    pub(crate) fn answer(&self, status: StatusCode, body: &str) {
        *self.answer.lock().unwrap() = (status, body.to_owned());
    }

    pub(crate) fn asked(&self) -> usize {
        *self.asked.borrow()
    }

    /// Waits until this many requests have arrived.
    pub(crate) async fn until_asked(&self, times: usize) {
        let mut asked = self.asked.subscribe();
        let reached = asked.wait_for(|asked| *asked >= times);
        tokio::time::timeout(PATIENCE, reached).await.expect("the requests arrive in time").unwrap();
    }
}
