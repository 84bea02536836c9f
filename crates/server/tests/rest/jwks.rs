//! Key sets: keys are chosen by their `kid`, refreshed when they change, and accept no other issuer.

use std::sync::Arc;

use axum::http::StatusCode;
use flovyn_server::config::{Algorithm, Jwt, Metrics, MetricsAccess};
use flovyn_server::{Server, ServerOptions};
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::common::{Database, TestServer};
use crate::http::Http;
use crate::issuer::{KeyAddress, Signer, claims};

const PATH: &str = "/api/tenants/one";

struct World {
    server: TestServer,
    keys: KeyAddress,
}

impl World {
    async fn start(keys: &[&Signer]) -> Self {
        Self::start_with(keys, |_| {}).await
    }

    async fn start_with(keys: &[&Signer], change: impl FnOnce(&mut Jwt)) -> Self {
        let keys = KeyAddress::start(keys).await;
        let mut jwt = Jwt::with_jwks_url(&keys.url, Algorithm::EdDSA, "issuer", "audience");
        change(&mut jwt);
        let server = TestServer::start_with(Database::Sqlite, |config| {
            config.auth.jwt = Some(jwt);
            config.metrics = Metrics { access: MetricsAccess::Loopback, ..Metrics::default() };
        })
        .await;
        Self { server, keys }
    }

    async fn status(&self, token: &str) -> u16 {
        let http = Http::new(self.server.server.http_addr());
        http.send("GET", PATH, &[("authorization", &format!("Bearer {token}"))], "").await.status
    }

    async fn metrics(&self) -> String {
        let http = Http::new(self.server.server.http_addr());
        http.send("GET", "/_/metrics", &[], "").await.text
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_found_by_the_first_token_that_names_it() {
    let (old, new, foreign) = (Signer::new("old"), Signer::new("new"), Signer::new("foreign"));
    let world = World::start(&[&old]).await;
    assert_eq!((world.status(&old.token()).await, world.keys.asked()), (200, 1));
    world.keys.publish(&[&old, &new]);
    assert_eq!((world.status(&new.token()).await, world.keys.asked()), (200, 2));
    assert_eq!(world.status(&old.token()).await, 200, "both are in the set");
    // Any caller can name unknown keys. That must not make the server ask the issuer again and again.
    for _ in 0..5 {
        assert_eq!(world.status(&foreign.token()).await, 401);
    }
    assert_eq!(world.keys.asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tokens_that_name_a_new_key_cause_one_reading() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let world = World::start(&[&old]).await;
    world.keys.publish(&[&new]);
    let token = new.token();
    let statuses = futures::future::join_all((0..30).map(|_| world.status(&token))).await;
    assert_eq!(statuses, [200; 30]);
    assert_eq!(world.keys.asked(), 2);
    assert_eq!(world.status(&old.token()).await, 401, "a removed key is not accepted any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_were_taken_out_go_without_a_token_that_names_a_new_one() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let world = World::start_with(&[&old], |jwt| jwt.jwks_refresh_seconds = 1).await;
    assert_eq!(world.status(&old.token()).await, 200);
    world.keys.publish(&[&new]);
    // One request may have been in flight. When the next one arrives, the new set is in use.
    world.keys.until_asked(world.keys.asked() + 2).await;
    assert_eq!(world.status(&old.token()).await, 401);
    assert_eq!(world.status(&new.token()).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_keys_cannot_be_read_the_last_ones_stay() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let world = World::start_with(&[&old], |jwt| jwt.jwks_refresh_seconds = 1).await;
    let broken = [
        (StatusCode::INTERNAL_SERVER_ERROR, json!({ "keys": [new.public()] }).to_string()),
        (StatusCode::OK, "<html>back soon</html>".to_owned()),
        (StatusCode::OK, " ".repeat(2 << 20)),
    ];
    for (status, body) in broken {
        world.keys.answer(status, &body);
        world.keys.until_asked(world.keys.asked() + 2).await;
        assert_eq!(world.status(&old.token()).await, 200, "{status}");
        assert_eq!(world.status(&new.token()).await, 401, "{status}");
    }
    let metrics = world.metrics().await;
    let failed =
        metrics.lines().find(|line| line.starts_with("flovyn_jwks_refreshes_total{result=\"failed\"}"));
    assert!(failed.is_some_and(|line| !line.ends_with(" 0")), "{metrics}");
    world.keys.publish(&[&new]);
    world.keys.until_asked(world.keys.asked() + 2).await;
    assert_eq!(world.status(&new.token()).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_on_disk_is_read_again_too() {
    let (old, new) = (
        Signer::of("old", jsonwebtoken::Algorithm::ES256),
        Signer::of("new", jsonwebtoken::Algorithm::ES256),
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let publish =
        |signer: &Signer| std::fs::write(&path, json!({ "keys": [signer.public()] }).to_string()).unwrap();
    publish(&old);
    let world = World::start_with(&[], |jwt| {
        (jwt.jwks_url, jwt.jwks_file, jwt.algorithm) = (None, Some(path.clone()), Some(Algorithm::ES256));
    })
    .await;
    assert_eq!(world.status(&old.token()).await, 200);
    publish(&new);
    assert_eq!((world.status(&new.token()).await, world.status(&old.token()).await), (200, 401));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_in_a_file_is_enough() {
    for algorithm in [jsonwebtoken::Algorithm::EdDSA, jsonwebtoken::Algorithm::ES256] {
        let (signer, other) = (Signer::of("a", algorithm), Signer::of("a", algorithm));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        std::fs::write(&path, signer.public_pem()).unwrap();
        let pinned =
            if algorithm == jsonwebtoken::Algorithm::ES256 { Algorithm::ES256 } else { Algorithm::EdDSA };
        let world = World::start_with(&[], |jwt| {
            (jwt.jwks_url, jwt.public_key_file, jwt.algorithm) = (None, Some(path.clone()), Some(pinned));
        })
        .await;
        assert_eq!((world.status(&signer.token()).await, world.status(&other.token()).await), (200, 401));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_cannot_be_used_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let other = Signer::of("a", jsonwebtoken::Algorithm::ES256);
    let address = KeyAddress::start(&[&other]).await;
    let answers = [
        (StatusCode::OK, json!({ "keys": [other.public()] }).to_string(), "no key"),
        (StatusCode::OK, "nonsense".to_owned(), "not a JSON Web Key Set"),
        (StatusCode::NOT_FOUND, String::new(), "404"),
    ];
    for (status, body, part) in answers {
        address.answer(status, &body);
        let error = refused_start(&folder, &address.url).await;
        assert!(
            error.contains(part) && error.contains("auth.jwt.jwks_url") && error.contains("check"),
            "{error}"
        );
    }
    // No server listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", gone.local_addr().unwrap());
    drop(gone);
    let error = refused_start(&folder, &url).await;
    assert!(error.contains("refused") && error.contains(&url), "{error}");
}

async fn refused_start(folder: &tempfile::TempDir, url: &str) -> String {
    let mut config = flovyn_server::Config::local(format!("sqlite:{}", folder.path().join("a.db").display()));
    config.auth.jwt = Some(Jwt::with_jwks_url(url, Algorithm::EdDSA, "issuer", "audience"));
    Server::start(ServerOptions::new(config)).await.map(|_| ()).unwrap_err().to_string()
}

fn changed(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_not_as_configured_are_refused() {
    let signer = Signer::new("a");
    let world = World::start(&[&signer]).await;
    assert_eq!(world.status(&signer.token()).await, 200);
    let soon = jiff::Timestamp::now().as_second() + 3_600;
    let cases = [
        changed("iss", json!("other")),
        changed("aud", json!("other")),
        changed("aud", json!(["other", "another"])),
        changed("exp", json!(1_000)),
        changed("nbf", json!(soon)),
        changed("role", json!("king")),
        changed("role", json!(["admin"])),
    ];
    let missing = ["sub", "iss", "aud", "exp", "iat", "role"].map(|name| changed(name, Value::Null));
    for claims in cases.iter().chain(&missing) {
        assert_eq!(world.status(&signer.sign(&signer.header(), claims)).await, 401, "{claims}");
    }
    let good = [changed("nbf", json!(1)), changed("aud", json!(["other", "audience"]))];
    for claims in &good {
        assert_eq!(world.status(&signer.sign(&signer.header(), claims)).await, 200, "{claims}");
    }
    let nowhere = signer.sign(&signer.header(), &changed("tenants", Value::Null));
    assert_eq!(world.status(&nowhere).await, 404, "a token without tenants is for none");
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_tokens_are_refused() {
    let (signer, attacker) = (Signer::new("a"), Signer::new("a"));
    let world = World::start(&[&signer]).await;
    let good = signer.token();
    let (body, signature) = (good.split('.').nth(1).unwrap(), good.split('.').nth(2).unwrap());
    let secret = Header { kid: Some("a".into()), ..Header::new(jsonwebtoken::Algorithm::HS256) };
    let with_secret =
        |key: &[u8]| jsonwebtoken::encode(&secret, &claims(), &EncodingKey::from_secret(key)).unwrap();
    let (pem, public) = (signer.public_pem(), signer.public());
    let mut forged = vec![
        // The public key as a shared secret, as an attacker may know it.
        with_secret(pem.as_bytes()),
        with_secret(pem.trim_end().as_bytes()),
        with_secret(public["x"].as_str().unwrap().as_bytes()),
        with_secret(public.to_string().as_bytes()),
        with_secret(b""),
        // {"alg":"none","kid":"a"} and {"alg":"None","kid":"a"}
        format!("eyJhbGciOiJub25lIiwia2lkIjoiYSJ9.{body}."),
        format!("eyJhbGciOiJub25lIiwia2lkIjoiYSJ9.{body}.{signature}"),
        format!("eyJhbGciOiJOb25lIiwia2lkIjoiYSJ9.{body}."),
        attacker.token(),
        Signer::of("a", jsonwebtoken::Algorithm::ES256).token(),
    ];
    // A key that the token contains, or whose URL it names.
    let elsewhere = KeyAddress::start(&[&attacker]).await;
    let brought: Header = serde_json::from_value(json!({
        "alg": "EdDSA", "kid": "a", "jwk": attacker.public(), "jku": elsewhere.url, "x5u": elsewhere.url,
    }))
    .unwrap();
    forged.push(attacker.sign(&brought, &claims()));
    // Names that would be paths, URLs or SQL if they were used as such.
    let names = [
        "",
        " a",
        "a ",
        "A",
        "../a",
        "/dev/null",
        "file:///dev/null",
        &elsewhere.url,
        "a\0",
        "' OR 1=1 --",
        "*",
    ];
    for kid in names {
        let header = Header { kid: Some(kid.to_owned()), ..signer.header() };
        forged.push(signer.sign(&header, &claims()));
    }
    forged.push(signer.sign(&Header { kid: None, ..signer.header() }, &claims()));
    for token in &forged {
        assert_eq!(world.status(token).await, 401, "{token}");
    }
    assert_eq!(elsewhere.asked(), 0);
    assert_eq!(world.status(&good).await, 200);
}

/// Answers one request after the other with the same document, over TLS.
async fn serve_tls(acceptor: TlsAcceptor, listener: TcpListener, document: String) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // A caller that does not trust the certificate disconnects.
        let Ok(mut stream) = acceptor.accept(stream).await else { continue };
        let mut request = [0; 1_024];
        let _ = stream.read(&mut request).await.unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{document}", document.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_certificate_must_be_trusted() {
    let signer = Signer::new("a");
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, own.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("localhost:0").await.unwrap();
    let url = format!("https://localhost:{}/keys", listener.local_addr().unwrap().port());
    let document = json!({ "keys": [signer.public()] }).to_string();
    tokio::spawn(serve_tls(TlsAcceptor::from(Arc::new(tls)), listener, document));

    let error = refused_start(&folder, &url).await;
    assert!(error.contains("TLS") && error.contains("certificate"), "{error}");
    let world = World::start_with(&[], |jwt| {
        (jwt.jwks_url, jwt.jwks_ca_file) = (Some(url), Some(path));
    })
    .await;
    assert_eq!(world.status(&signer.token()).await, 200);
}
