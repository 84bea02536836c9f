//! TLS of a connection: whom it trusts and who it is.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::error::{Error, Result};

/// Limit of a handshake: a peer that accepts and stays silent must not hold the connection.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// How a worker or a client checks the server's certificate, and which certificate it shows.
///
/// A URL with `https://` needs none of this if the server's certificate is signed by a CA of the system. The system's CAs are
/// those of the operating system, or of the file that the environment variable `SSL_CERT_FILE` names.
///
/// ```no_run
/// # use flovyn_sdk::{Tls, Worker};
/// # fn main() -> flovyn_sdk::Result<()> {
/// # let builder = Worker::builder("https://flovyn.internal:9090", "token");
/// let tls = Tls::new().ca_file("/etc/flovyn/ca.pem").client_certificate_files("worker.pem", "worker.key");
/// let worker = builder.tls(tls);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Tls {
    authorities: Vec<Pem>,
    system_roots: bool,
    identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
}

#[derive(Clone)]
enum Pem {
    File(PathBuf),
    Text(Vec<u8>),
}

/// Without its content, which may be a private key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Text(_) => f.write_str("PEM"),
        }
    }
}

impl Pem {
    fn read(&self, what: &str) -> Result<Vec<u8>> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => std::fs::read(path).map_err(|error| {
                Error::failed(format!("cannot read the {what} {}: {error}", path.display()))
            }),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Text(_) => "the given text".to_owned(),
        }
    }
}

impl Tls {
    /// Trusts the CAs of the system and shows no certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the CA certificates of this PEM file instead of the system's. The file is read when the worker or client is
    /// built. May be called several times.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.authorities.push(Pem::File(path.into()));
        self
    }

    /// [`ca_file`](Self::ca_file) with the content of the file.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(Pem::Text(pem.into()));
        self
    }

    /// Trusts the system's CAs beside those of [`ca_file`](Self::ca_file).
    pub fn system_roots(mut self) -> Self {
        self.system_roots = true;
        self
    }

    /// Shows a client certificate: PEM files with the certificate and its chain, and with its private key. For a proxy before
    /// the server that asks for one.
    pub fn client_certificate_files(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.identity = Some((Pem::File(certificate.into()), Pem::File(key.into())));
        self
    }

    /// [`client_certificate_files`](Self::client_certificate_files) with the content of the files.
    pub fn client_certificate_pem(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity = Some((Pem::Text(certificate.into()), Pem::Text(key.into())));
        self
    }

    /// The name that the server's certificate must have, if it is not the host of the URL.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The endpoint with TLS.
    pub(crate) fn apply(&self, endpoint: Endpoint) -> Result<Endpoint> {
        let mut config = ClientTlsConfig::new().timeout(HANDSHAKE_WITHIN);
        for pem in &self.authorities {
            let text = pem.read("CA file")?;
            check_authority(pem, &text)?;
            config = config.ca_certificate(Certificate::from_pem(text));
        }
        if self.system_roots || self.authorities.is_empty() {
            config = config.with_native_roots();
        }
        if let Some((certificate, key)) = &self.identity {
            let certificate = certificate.read("client certificate")?;
            config =
                config.identity(Identity::from_pem(certificate, key.read("key of the client certificate")?));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        endpoint.tls_config(config).map_err(|error| Error::failed(advise(&crate::reason::chain(&error))))
    }
}

/// An unreadable certificate would be skipped and show as a failed handshake later.
fn check_authority(pem: &Pem, text: &[u8]) -> Result<()> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let added = certificate.map_err(|error| error.to_string());
        added.and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string())).map_err(
            |error| {
                Error::failed(format!("{} has a CA certificate that cannot be used: {error}", pem.name()))
            },
        )?;
    }
    if roots.is_empty() {
        let message =
            format!("{} has no CA certificate: it needs a block `-----BEGIN CERTIFICATE-----`", pem.name());
        return Err(Error::failed(message));
    }
    Ok(())
}

fn advise(error: &str) -> String {
    if error.contains("native certs") {
        return format!(
            "{error}: install the system's CA certificates (package ca-certificates), name a file with SSL_CERT_FILE, or use `Tls::ca_file`"
        );
    }
    format!("TLS cannot be set up: {error}; check the client certificate, its key and the server's name")
}
