//! Loads the TLS certificate and key for both listeners. If they cannot be read, the server does not start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::{Identity, ServerTlsConfig};

use crate::config::{ConfigError, Tls};

/// The time limit of a TLS handshake over gRPC. HTTP has its own limit.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The TLS settings of each listener.
pub(crate) struct Loaded {
    pub(crate) http: TlsAcceptor,
    pub(crate) grpc: ServerTlsConfig,
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
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Loaded {
        http: TlsAcceptor::from(Arc::new(server)),
        grpc: ServerTlsConfig::new().identity(Identity::from_pem(cert, key)).timeout(HANDSHAKE),
    })
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| {
        let message =
            format!("{name}: cannot read {}: {error}; check the path and its permissions", path.display());
        ConfigError::new(message)
    })
}
