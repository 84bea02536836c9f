//! Workers and clients over TLS: with a private CA, with the system's CAs, with a client certificate; and the error
//! messages.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use flovyn_sdk::worker::WorkerEvent;
use flovyn_sdk::{Client, Error, StartOptions, Tls, Worker, WorkflowContext};
use flovyn_server::config::Tls as ServerTls;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::common::{Database, PATIENCE, TOKEN, TestServer};

/// Passes the server's address to the child process of a test.
const URL_FOR_CHILD: &str = "FLOVYN_SDK_TEST_TLS_URL";

/// A CA and the certificates that it has signed, as PEM files.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("CA in {}", folder.path().display());
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> ServerTls {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files =
            ServerTls { cert: self.file(&format!("{name}.pem")), key: self.file(&format!("{name}.key")) };
        std::fs::write(&files.cert, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    async fn server(&self) -> TestServer {
        let files = self.sign("server");
        TestServer::start_with(Database::Sqlite, |config| config.tls = Some(files)).await
    }
}

fn url(address: SocketAddr) -> String {
    format!("https://{address}")
}

/// A workflow runs on a worker and its result reaches a client, each with its own connection.
async fn works(url: &str, tls: Option<Tls>) {
    let builder = Worker::builder(url, TOKEN);
    let builder = match &tls {
        Some(tls) => builder.tls(tls.clone()),
        None => builder,
    };
    let echo = |_: WorkflowContext, input: Value| async move { Ok(input) };
    let worker = builder.workflow_fn("echo", echo).build().unwrap().start();
    let client = match tls {
        Some(tls) => Client::with_tls(url, TOKEN, tls).unwrap(),
        None => Client::new(url, TOKEN).unwrap(),
    };
    let output = client.execute_raw("echo", json!("over TLS"), StartOptions::default(), PATIENCE).await;
    assert_eq!(output.unwrap(), json!("over TLS"));
    worker.stop().await;
}

/// The errors of a client and a worker that cannot connect.
async fn complaints(url: &str, tls: Option<Tls>) -> [String; 3] {
    let client = match &tls {
        Some(tls) => Client::with_tls(url, TOKEN, tls.clone()).unwrap(),
        None => Client::new(url, TOKEN).unwrap(),
    };
    let start = client.start_raw("echo", Value::Null, StartOptions::default()).await.unwrap_err();
    // Waiting for a result continues while a server is unavailable. An untrusted certificate is a permanent error.
    let result = client.handle::<Value>(uuid::Uuid::nil()).result(PATIENCE).await.unwrap_err();
    let (told, mut tells) = mpsc::unbounded_channel();
    let builder = Worker::builder(url, TOKEN).task_fn("t", |_, input| async move { Ok(input) });
    let builder = builder.on_event(move |event| drop(told.send(event.clone())));
    let builder = match tls {
        Some(tls) => builder.tls(tls),
        None => builder,
    };
    let worker = builder.build().unwrap().start();
    let event = tells.recv().await;
    worker.stop().await;
    let Some(WorkerEvent::Disconnected(reason)) = event else { panic!("{event:?}") };
    [start.to_string(), result.to_string(), reason]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_of_ones_own_is_trusted_and_another_is_not() {
    let (ours, other) = (Authority::new(), Authority::new());
    let server = ours.server().await;
    let url = url(server.address());
    works(&url, Some(Tls::new().ca_file(ours.ca()))).await;
    works(&url, Some(Tls::new().ca_pem(std::fs::read(ours.ca()).unwrap()).server_name("localhost"))).await;
    works(&url, Some(Tls::new().ca_file(other.ca()).ca_file(ours.ca()).system_roots())).await;
    for tls in [Some(Tls::new().ca_file(other.ca())), None] {
        for said in complaints(&url, tls).await {
            assert!(said.contains("UnknownIssuer"), "{said}");
            assert!(said.contains("name the CA's PEM file with `Tls::ca_file` or SSL_CERT_FILE"), "{said}");
        }
    }
    for said in complaints(&url, Some(Tls::new().ca_file(ours.ca()).server_name("elsewhere"))).await {
        assert!(said.contains("`Tls::server_name`"), "{said}");
    }
}

/// The system's CAs can only be changed by environment variables, so this test runs itself in another process.
#[tokio::test(flavor = "multi_thread")]
async fn without_configuration_the_file_of_ssl_cert_file_is_trusted() {
    if let Ok(url) = std::env::var(URL_FOR_CHILD) {
        return works(&url, None).await;
    }
    let (ours, other) = (Authority::new(), Authority::new());
    let server = ours.server().await;
    let url = url(server.address());
    let child = |roots: &Path| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "tls::without_configuration_the_file_of_ssl_cert_file_is_trusted",
            "--nocapture",
        ]);
        command.env(URL_FOR_CHILD, &url).env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let trusting = child(&ours.ca()).await.unwrap();
    assert!(trusting.status.success(), "{}", String::from_utf8_lossy(&trusting.stderr));
    for roots in [other.ca(), ours.file("missing.pem")] {
        let failed = child(&roots).await.unwrap();
        assert!(!failed.status.success());
        let said = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(said.contains("`Tls::ca_file`") && said.contains("SSL_CERT_FILE"), "{said}");
    }
}

/// A proxy in front of the server that requires a client certificate of the CA. It ends with the test's runtime.
async fn proxy(authority: &Authority, server: SocketAddr) -> SocketAddr {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.ca()).unwrap()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let files = authority.sign("proxy");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from_pem_file(&files.cert).unwrap()],
            PrivateKeyDer::from_pem_file(&files.key).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client without a certificate is refused here.
                let Ok(mut client) = acceptor.accept(stream).await else { return };
                let mut server = TcpStream::connect(server).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_shown_where_one_is_asked_for() {
    let (ours, other) = (Authority::new(), Authority::new());
    let server = TestServer::start(Database::Sqlite).await;
    let url = url(proxy(&ours, server.address()).await);
    let tls = Tls::new().ca_file(ours.ca());
    let files = ours.sign("worker");
    works(&url, Some(tls.clone().client_certificate_files(&files.cert, &files.key))).await;
    let texts = [files.cert, files.key].map(|file| std::fs::read(file).unwrap());
    let [certificate, key] = texts;
    works(&url, Some(tls.clone().client_certificate_pem(certificate, key))).await;
    let strange = other.sign("worker");
    for tls in [tls.clone(), tls.client_certificate_files(strange.cert, strange.key)] {
        let all = complaints(&url, Some(tls)).await;
        assert!(all.iter().all(|said| said.contains("client certificate")), "{all:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_of_the_wrong_scheme_is_named() {
    let ours = Authority::new();
    let plain = TestServer::start(Database::Sqlite).await;
    for said in complaints(&url(plain.address()), Some(Tls::new().ca_file(ours.ca()))).await {
        assert!(said.contains("does not speak TLS") && said.contains("http://"), "{said}");
    }
    let encrypted = ours.server().await;
    let client = Client::new(&format!("http://{}", encrypted.address()), TOKEN).unwrap();
    let error = client.start_raw("echo", Value::Null, StartOptions::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Server { .. }), "{error:?}");
}

#[test]
fn what_cannot_be_used_is_refused_when_it_is_built() {
    let ours = Authority::new();
    let (files, key) = (ours.sign("worker"), ours.sign("other").key);
    let empty = ours.file("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let trusting = || Tls::new().ca_file(ours.ca());
    let refused = |url: &str, tls: Tls| {
        let client = Client::with_tls(url, TOKEN, tls.clone()).unwrap_err();
        let builder = Worker::builder(url, TOKEN).task_fn("t", |_, input| async move { Ok(input) });
        assert_eq!(builder.tls(tls).build().unwrap_err(), client);
        let Error::Failed(message) = client else { panic!("{client:?}") };
        message
    };
    let https = "https://localhost:9090";
    let cases = [
        ("http://localhost:9090", trusting(), "write https://"),
        ("localhost:9090", trusting(), "http://localhost:9090"),
        (https, Tls::new().ca_file(ours.file("missing.pem")), "cannot read the CA file"),
        (https, Tls::new().ca_file(&empty), "has no CA certificate"),
        (https, Tls::new().ca_file(&files.key), "has no CA certificate"),
        (https, Tls::new().ca_pem(broken), "cannot be used"),
        (https, trusting().client_certificate_files(&files.cert, ours.file("missing.key")), "missing.key"),
        (https, trusting().client_certificate_files(&files.cert, &empty), "client certificate"),
        (https, trusting().client_certificate_files(&empty, &files.key), "client certificate"),
        (https, trusting().client_certificate_files(&files.cert, &key), "client certificate"),
        (https, trusting().server_name("not a name"), "server's name"),
    ];
    for (url, tls, expected) in cases {
        let message = refused(url, tls);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let debug = format!("{:?}", Tls::new().client_certificate_pem("certificate", "a secret key"));
    assert!(!debug.contains("secret"), "{debug}");
}
