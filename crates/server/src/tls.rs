//! Loads the TLS certificate and key for both listeners. If they cannot be read, the server does not start.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{ConfigError, Tls};

/// The TLS settings of each listener.
pub(crate) struct Loaded {
    pub(crate) http: TlsAcceptor,
    pub(crate) grpc: TlsAcceptor,
}

pub(crate) fn load(config: &Tls) -> Result<Loaded, ConfigError> {
    let (cert, key) = (read("tls.cert", &config.cert)?, read("tls.key", &config.key)?);
    let wrong = |name: &str, path: &Path, error: &dyn std::fmt::Display| {
        ConfigError::new(format!("{name}: {} cannot be used: {error}; give a PEM file", path.display()))
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&cert)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong("tls.cert", &config.cert, &error))?;
    if chain.is_empty() {
        return Err(wrong("tls.cert", &config.cert, &"there is no certificate in it"));
    }
    let private =
        PrivateKeyDer::from_pem_slice(&key).map_err(|error| wrong("tls.key", &config.key, &error))?;
    let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| wrong("tls.key", &config.key, &error))?;
    let mut grpc = server.clone();
    grpc.alpn_protocols = vec![b"h2".to_vec()];
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Loaded { http: TlsAcceptor::from(Arc::new(server)), grpc: TlsAcceptor::from(Arc::new(grpc)) })
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| {
        let message =
            format!("{name}: cannot read {}: {error}; check the path and its permissions", path.display());
        ConfigError::new(message)
    })
}
