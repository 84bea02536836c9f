//! Closes connections that send nothing. Keep-alive begins with HTTP/2, so it does not notice a client that never gets
//! that far.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use super::connection::Connection;

/// The length of the HTTP/2 preface and of the frame head that follows it.
const GREETING_BYTES: usize = 24 + 9;

/// A connection that fails if the client does not send the preface in time.
#[derive(Debug)]
pub(crate) struct Greeted {
    stream: TcpStream,
    connection: Arc<Connection>,
    /// The bytes received so far and the timeout. `None`: the preface has arrived.
    silent: Option<(usize, Pin<Box<Sleep>>)>,
}

impl Greeted {
    pub(crate) fn new(stream: TcpStream, within: Duration) -> Self {
        let connection = Connection::new(stream.peer_addr().ok());
        Self { stream, connection, silent: Some((0, Box::pin(sleep(within)))) }
    }
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
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
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
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
