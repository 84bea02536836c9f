//! TLS on both listeners, with a certificate that the test trusts.

use std::net::SocketAddr;
use std::sync::Arc;

use flovyn_server::config::Tls;
use flovyn_server::{Server, ServerOptions};
use rcgen::CertifiedKey;
use tempfile::tempdir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::config;
use crate::http::exchange;

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

#[tokio::test]
async fn both_listeners_speak_tls() {
    let folder = tempdir().unwrap();
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = Tls { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&files.cert, cert.pem()).unwrap();
    std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
    let mut config = config(&folder);
    config.tls = Some(files);
    let server = Server::start(ServerOptions::new(config)).await.unwrap();

    let stream = handshake(server.http_addr(), cert.der().clone(), b"http/1.1").await;
    let answer = exchange(stream, "GET", "/_/health", &[("Host", "localhost")], "").await;
    assert_eq!(answer.status, 200);

    let stream = handshake(server.grpc_addr(), cert.der().clone(), b"h2").await;
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
