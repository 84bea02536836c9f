//! Reads a small document over HTTP or HTTPS. Redirects are not followed: only the configured address is trusted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, StatusCode, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::config::ConfigError;

/// The time limit for the whole exchange, from the connection to the last byte.
const WITHIN: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone)]
pub(crate) struct Fetcher {
    tls: TlsConnector,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").finish_non_exhaustive()
    }
}

impl Fetcher {
    /// Trusts the certificates of this file. `None`: trusts the certificates that the system trusts.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, ConfigError> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ConfigError::new(format!("auth.jwt.jwks_url: no TLS: {error}")))?;
        let config = config.with_root_certificates(roots(ca_file)?).with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// The body of the response. Any status other than 200 is an error.
    pub(crate) async fn get(&self, uri: &Uri) -> Result<Vec<u8>, String> {
        let reading = tokio::time::timeout(WITHIN, self.get_in_time(uri));
        reading.await.map_err(|_| format!("no answer within {} seconds", WITHIN.as_secs()))?
    }

    async fn get_in_time(&self, uri: &Uri) -> Result<Vec<u8>, String> {
        let secure = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
        if !secure {
            return read(stream, uri).await;
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))?;
        read(stream, uri).await
    }
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        // System certificates that cannot be read are skipped, because they could not be trusted anyway. If there are
        // none at all, every request over https:// fails.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let wrong = |error: &dyn std::fmt::Display| {
        let path = path.display();
        ConfigError::new(format!(
            "auth.jwt.jwks_ca_file: {path} cannot be used: {error}; give a PEM file with certificates"
        ))
    };
    let bytes = std::fs::read(path).map_err(|error| wrong(&error))?;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() { Err(wrong(&"there is no certificate in it")) } else { Ok(roots) }
}

async fn read(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    uri: &Uri,
) -> Result<Vec<u8>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // This task ends when the sender is dropped, at the end of this function.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::OK {
        return Err(format!("the answer is {}", response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
    body.map(|body| body.to_bytes().to_vec())
        .map_err(|error| format!("the answer could not be read: {error}"))
}
