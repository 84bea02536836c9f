//! The accept loop of HTTP, with or without TLS. Knows no path.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A caller that takes longer to say what it wants is cut off.
const GREETING: Duration = Duration::from_secs(10);
/// When the system has no more sockets to give, trying at once would only burn time.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Serves until `stop`, then until the requests in flight are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, tls.clone(), router.clone(), graceful.watcher()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, watcher: Watcher) {
    // Answers are small and complete: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return answer(stream, router, watcher).await };
    // A failed handshake is the caller's affair.
    if let Ok(Ok(stream)) = tokio::time::timeout(GREETING, tls.accept(stream)).await {
        answer(stream, router, watcher).await;
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    watcher: Watcher,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(GREETING);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "an HTTP connection ended badly");
    }
}
