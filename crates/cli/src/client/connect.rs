//! Connections: TCP, with TLS for `https://`. Certificates are checked against those that the system trusts, or against
//! those in the file that `SSL_CERT_FILE` names.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower::Service;

use super::{ClientError, Result};

/// Opens connections to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("tls", &self.tls.is_some()).finish()
    }
}

impl Connector {
    pub(super) fn new(tls: bool) -> Result<Self> {
        if !tls {
            return Ok(Self { tls: None });
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Certificates(error.to_string()))?;
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map_or("the system has none".to_owned(), ToString::to_string);
            return Err(ClientError::Certificates(why));
        }
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { tls: Some(TlsConnector::from(Arc::new(config))) })
    }
}

/// The server answered, but the TLS handshake failed: it speaks another protocol, or its certificate is not trusted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoTls(String);

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Connection for Box<dyn Io> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        Box::pin(async move {
            let host =
                uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            // Requests are small, and a caller waits for each of them.
            stream.set_nodelay(true)?;
            let Some(tls) = tls else { return Ok(TokioIo::new(Box::new(stream) as Box<dyn Io>)) };
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let stream = tls.connect(name, stream).await.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => io::Error::other(NoTls(error.to_string())),
                // Not an error of TLS: a server that is starting or stopping may close the connection at any time.
                _ => error,
            })?;
            Ok(TokioIo::new(Box::new(stream) as Box<dyn Io>))
        })
    }
}
