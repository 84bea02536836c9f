//! TLS on both listeners, with a certificate that the test trusts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use flovyn_server::config::{Requests, Tls};
use flovyn_server::{Config, Server, ServerOptions};
use rcgen::CertifiedKey;
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::config;
use crate::http::exchange;

/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

async fn handshake(
    address: SocketAddr,
    trusted: CertificateDer<'static>,
    protocol: &[u8],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let mut client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap()
}

/// A server that speaks TLS, and its certificate.
async fn with_tls(change: impl FnOnce(&mut Config)) -> (TempDir, Server, CertificateDer<'static>) {
    let folder = tempdir().unwrap();
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = Tls { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&files.cert, cert.pem()).unwrap();
    std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
    let mut config = config(&folder);
    config.tls = Some(files);
    change(&mut config);
    let server = Server::start(ServerOptions::new(config)).await.unwrap();
    (folder, server, cert.der().clone())
}

#[tokio::test]
async fn a_grpc_client_that_is_silent_after_the_handshake_is_closed() {
    let hasty = Requests { body_silence_ms: 300, limit_ms: 1_000 };
    let (_folder, server, cert) = with_tls(|config| config.requests = hasty).await;
    for sent in [b"".as_slice(), b"PRI * HTTP/2.0\r\n\r\n"] {
        let mut stream = handshake(server.grpc_addr(), cert.clone(), b"h2").await;
        stream.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        end.expect("the connection was not closed").ok();
    }
    // Nor does a client live on that does not even begin the handshake.
    let mut stream = TcpStream::connect(server.grpc_addr()).await.unwrap();
    let end = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    assert!(end.expect("the connection was not closed").is_err());
    server.stop().await;
}

#[tokio::test]
async fn both_listeners_speak_tls() {
    let (_folder, server, cert) = with_tls(|_| {}).await;
    let stream = handshake(server.http_addr(), cert.clone(), b"http/1.1").await;
    let answer = exchange(stream, "GET", "/_/health", &[("Host", "localhost")], "").await;
    assert_eq!(answer.status, 200);

    let stream = handshake(server.grpc_addr(), cert, b"h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    drop(stream);
    server.stop().await;
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_stops_the_start() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("empty.pem");
    std::fs::write(&file, "").unwrap();
    let mut config = config(&folder);
    for cert in [folder.path().join("missing.pem"), file] {
        config.tls = Some(Tls { cert: cert.clone(), key: cert });
        let error = Server::start(ServerOptions::new(config.clone())).await.unwrap_err();
        assert!(error.to_string().contains("tls.cert"), "{error}");
    }
}
