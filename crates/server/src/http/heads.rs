//! Watches the heads of HTTP/1 requests for information that hyper removes. If a request has both `Content-Length` and
//! `Transfer-Encoding`, hyper silently drops the first. A proxy in front may have used it, and may have taken the body
//! that this server sees for another request (request smuggling). So such a request is refused.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Marks a request on a connection where a head had both headers.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwoLengths;

/// How much of a line is examined. The relevant header names and values are shorter.
const LINE: usize = 256;

/// A connection whose request heads are watched.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    heads: Heads,
    two_lengths: Arc<AtomicBool>,
}

impl<S> Watched<S> {
    /// The returned switch is set at the first head with both headers.
    pub(super) fn new(stream: S) -> (Self, Arc<AtomicBool>) {
        let two_lengths = Arc::new(AtomicBool::new(false));
        (Self { stream, heads: Heads::default(), two_lengths: two_lengths.clone() }, two_lengths)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.heads.see(&buffer.filled()[before..]) {
            self.two_lengths.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The position of the next byte in the stream of requests. It follows the same rules as hyper; whatever hyper refuses
/// ends the connection.
#[derive(Debug)]
enum Place {
    /// In a head, at its first line or a later one.
    Head {
        begun: bool,
        length: Option<u64>,
        chunked: Option<bool>,
    },
    /// In a body, or in a chunk with its line break, with this many bytes left.
    Body(u64),
    ChunkSize,
    Chunk(u64),
    /// After the last chunk.
    Trailer,
    /// HTTP/2, or a stream that cannot be followed.
    Elsewhere,
}

const NEXT_HEAD: Place = Place::Head { begun: false, length: None, chunked: None };

#[derive(Debug)]
struct Heads {
    place: Place,
    /// The current line, up to a limit.
    line: Vec<u8>,
}

impl Default for Heads {
    fn default() -> Self {
        Self { place: NEXT_HEAD, line: Vec::new() }
    }
}

impl Heads {
    /// Whether a head with both headers ended in these bytes.
    fn see(&mut self, mut bytes: &[u8]) -> bool {
        let mut found = false;
        while !bytes.is_empty() {
            match &mut self.place {
                Place::Elsewhere => return found,
                Place::Body(left) | Place::Chunk(left) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= length as u64;
                    bytes = &bytes[length..];
                    if *left == 0 {
                        let in_chunks = matches!(self.place, Place::Chunk(_));
                        self.place = if in_chunks { Place::ChunkSize } else { NEXT_HEAD };
                    }
                }
                Place::Head { .. } | Place::ChunkSize | Place::Trailer => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let part = &bytes[..end.unwrap_or(bytes.len())];
                    let room = LINE.saturating_sub(self.line.len()).min(part.len());
                    self.line.extend_from_slice(&part[..room]);
                    let Some(end) = end else { return found };
                    bytes = &bytes[end + 1..];
                    let line = std::mem::take(&mut self.line);
                    found |= self.line_ended(line.trim_ascii());
                    self.line = line;
                    self.line.clear();
                }
            }
        }
        found
    }

    fn line_ended(&mut self, line: &[u8]) -> bool {
        match &mut self.place {
            // Empty lines are allowed before a request.
            Place::Head { begun: false, .. } if line.is_empty() => {}
            Place::Head { begun: false, .. } if line.starts_with(b"PRI ") => self.place = Place::Elsewhere,
            Place::Head { begun: begun @ false, .. } => *begun = true,
            Place::Head { length, chunked, .. } if line.is_empty() => {
                let (length, chunked) = (*length, *chunked);
                self.place = match (chunked, length) {
                    (Some(true), _) => Place::ChunkSize,
                    (Some(false), _) => Place::Elsewhere,
                    (None, None | Some(0)) => NEXT_HEAD,
                    (None, Some(length)) => Place::Body(length),
                };
                return chunked.is_some() && length.is_some();
            }
            Place::Head { length, chunked, .. } => {
                let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
                let (name, value) = (line[..colon].trim_ascii(), line.get(colon + 1..).unwrap_or_default());
                let value = value.trim_ascii().to_ascii_lowercase();
                if name.eq_ignore_ascii_case(b"content-length") {
                    let number = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                    *length = Some(number.unwrap_or(0));
                } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                    *chunked = Some(value.ends_with(b"chunked"));
                }
            }
            Place::ChunkSize => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                let size =
                    std::str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
                self.place = match size {
                    Some(0) => Place::Trailer,
                    // Including the line break after the chunk.
                    Some(size) => Place::Chunk(size.saturating_add(2)),
                    None => Place::Elsewhere,
                };
            }
            Place::Trailer if line.is_empty() => self.place = NEXT_HEAD,
            Place::Trailer | Place::Body(_) | Place::Chunk(_) | Place::Elsewhere => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the text with every way to cut it into reads.
    fn has_two(text: &str) -> bool {
        let whole = Heads::default().see(text.as_bytes());
        let mut one_by_one = Heads::default();
        let in_parts = text.as_bytes().iter().fold(false, |found, byte| one_by_one.see(&[*byte]) | found);
        assert_eq!(whole, in_parts, "{text:?}");
        whole
    }

    #[test]
    fn two_lengths_are_seen_in_either_order() {
        for head in [
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 3\r\n\r\n",
            "\r\nPOST / HTTP/1.1\nContent-Length: 3\nx: y\nTransfer-Encoding: gzip, chunked\n\n",
        ] {
            assert!(has_two(head), "{head:?}");
        }
    }

    #[test]
    fn the_second_request_of_a_connection_is_seen_behind_every_kind_of_body() {
        let two = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        for first in [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345".into(),
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n".into(),
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n".into(),
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n".into(),
            format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(3 * LINE)),
        ] {
            assert!(!has_two(&first), "{first:?}");
            assert!(has_two(&format!("{first}{two}")), "{first:?}");
            assert!(has_two(&format!("{first}{first}{two}")), "{first:?}");
        }
    }

    #[test]
    fn what_stands_in_a_body_is_no_head() {
        let two = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        let length = two.len();
        assert!(!has_two(&format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{two}")));
        assert!(!has_two(&format!(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{two}\r\n0\r\n\r\n"
        )));
        assert!(!has_two(&format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{two}")));
    }
}
