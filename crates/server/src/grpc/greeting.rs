//! Closes connections that send nothing. Keep-alive begins with HTTP/2, so it does not notice a client that never gets
//! that far. TLS handshakes are done here too, so that the bytes of the handshake do not count as a greeting.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;

use super::connection::Connection;

/// The length of the HTTP/2 preface and of the frame head that follows it.
const GREETING_BYTES: usize = 24 + 9;

/// The most TLS handshakes at a time. Further connections wait; a handshake that takes too long is ended.
const MAX_HANDSHAKES: usize = 4_096;

/// The two directions of a connection, with or without TLS.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection that fails if the client does not send the preface in time.
pub(crate) struct Greeted {
    stream: Box<dyn Duplex>,
    connection: Arc<Connection>,
    /// The bytes received so far and the timeout. `None`: the preface has arrived.
    silent: Option<(usize, Pin<Box<Sleep>>)>,
}

impl Greeted {
    fn new(stream: TcpStream, within: Duration) -> Self {
        let address = stream.peer_addr().ok();
        Self::over(stream, address, within)
    }

    fn over(stream: impl Duplex + 'static, address: Option<SocketAddr>, within: Duration) -> Self {
        let connection = Connection::new(address);
        Self { stream: Box::new(stream), connection, silent: Some((0, Box::pin(sleep(within)))) }
    }
}

/// The connections of a listener. With `tls`, each is passed on after its handshake, which has the time `within` too.
pub(crate) fn incoming(
    accepted: impl Stream<Item = io::Result<TcpStream>> + Send + 'static,
    tls: Option<TlsAcceptor>,
    within: Duration,
) -> Pin<Box<dyn Stream<Item = io::Result<Greeted>> + Send>> {
    let Some(tls) = tls else {
        return Box::pin(accepted.map(move |stream| stream.map(|stream| Greeted::new(stream, within))));
    };
    let handshakes = accepted.map(move |stream| {
        let tls = tls.clone();
        async move {
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) => return Some(Err(error)),
            };
            let address = stream.peer_addr().ok();
            // A task of its own, so that handshakes use all threads.
            let handshake = tokio::spawn(timeout(within, tls.accept(stream)));
            match handshake.await {
                Ok(Ok(Ok(stream))) => Some(Ok(Greeted::over(stream, address, within))),
                Ok(Ok(Err(error))) => {
                    tracing::debug!(%error, ?address, "a TLS handshake failed");
                    None
                }
                Ok(Err(_)) | Err(_) => None,
            }
        }
    });
    Box::pin(handshakes.buffer_unordered(MAX_HANDSHAKES).filter_map(std::future::ready))
}

impl Connected for Greeted {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Arc<Connection> {
        self.connection.clone()
    }
}

impl AsyncRead for Greeted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut *this.stream).poll_read(context, buffer);
        let Some((bytes, timer)) = &mut this.silent else { return read };
        if read.is_pending() {
            ready!(timer.as_mut().poll(context));
            let error = io::Error::new(io::ErrorKind::TimedOut, "the client sent nothing in time");
            return Poll::Ready(Err(error));
        }
        *bytes += buffer.filled().len() - before;
        if *bytes >= GREETING_BYTES {
            this.silent = None;
        }
        read
    }
}

impl AsyncWrite for Greeted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
