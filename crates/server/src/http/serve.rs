//! The accept loop of HTTP, with or without TLS. It knows no paths.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::heads::{TwoLengths, Watched};

/// A lost HTTP/2 peer is noticed after these two intervals together.
const PING_EVERY: Duration = Duration::from_secs(60);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// The pause after an accept error. If the system has no free sockets, an immediate retry would only use processor
/// time.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Serves until `stop` completes, then until the requests in flight are answered. A caller that does not send the head
/// of a request within `greeting` is disconnected.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    greeting: Duration,
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
            Ok((stream, peer)) => {
                tokio::spawn(connection(
                    stream,
                    (peer, greeting),
                    tls.clone(),
                    router.clone(),
                    graceful.watcher(),
                ));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn connection(
    stream: TcpStream,
    (peer, greeting): (SocketAddr, Duration),
    tls: Option<TlsAcceptor>,
    router: Router,
    watcher: Watcher,
) {
    // Answers are small and complete, so waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return answer(stream, (peer, greeting), router, watcher).await };
    // A failed handshake is the caller's problem.
    if let Ok(Ok(stream)) = tokio::time::timeout(greeting, tls.accept(stream)).await {
        answer(stream, (peer, greeting), router, watcher).await;
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (peer, greeting): (SocketAddr, Duration),
    router: Router,
    watcher: Watcher,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(greeting);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_EVERY).keep_alive_timeout(PONG_WITHIN);
    let (stream, two_lengths) = Watched::new(stream);
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let service = tower::util::MapRequest::new(router, move |mut request: Request<Incoming>| {
        begins.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(ConnectInfo(peer));
        if two_lengths.load(Ordering::Relaxed) {
            request.extensions_mut().insert(TwoLengths);
        }
        request
    });
    let service = TowerToHyperService::new(service);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    let mut connection = pin!(watcher.watch(connection));
    // The timeout for a head does not cover a client that sends nothing at all.
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = tokio::time::sleep(greeting) => {
            if !begun.load(Ordering::Relaxed) {
                return;
            }
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended with an error");
    }
}
