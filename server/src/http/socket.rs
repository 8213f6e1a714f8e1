//! A client's socket that is closed when nothing moves.
//!
//! A connection makes a step when a request has come whole, when the socket takes bytes, and with each 16 KiB of a
//! body. A timer runs beside it: if there was no step since it was set, the connection ends. So a client that is
//! silent, trickles, or does not take its answer holds nothing for more than twice the time. The timer costs nothing
//! for a request: it is read, not reset.
//!
//! The parser answers a request that it cannot read with a `400` without a reason. That answer is held back here, and
//! an answer with the reason is sent in its place when the socket is dropped, because the reason is known only then.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::limits::Pulse;

pub(super) struct Socket {
    /// Until it is taken.
    stream: Option<TcpStream>,
    pulse: Arc<Pulse>,
    timer: Pin<Box<Sleep>>,
    quiet_max: Duration,
    /// Whether the timer is to wake this task: it is told once, since a task keeps its waker.
    is_set: bool,
    /// Steps when the timer was set.
    seen_steps: u64,
    /// Whether the parser's answer to what it cannot read was held back.
    holds_refusal: bool,
}

/// Whether this is the parser's own answer: all others of this status have a body.
fn is_bare_refusal(bytes: &[u8]) -> bool {
    const LENGTH: &[u8] = b"content-length: 0\r\n";
    let has_status = bytes.starts_with(b"HTTP/1.1 400 ") || bytes.starts_with(b"HTTP/1.0 400 ");
    has_status && bytes.windows(LENGTH.len()).any(|part| part == LENGTH)
}

/// The answer to what the parser could not read, by its words for that.
fn refusal(why: &str) -> String {
    let (status, text) = if why.contains("invalid transfer-encoding") {
        ("501 Not Implemented", "the only transfer coding that is there is `chunked`, once".to_owned())
    } else if why.contains("content-length") {
        ("400 Bad Request", "Content-Length is not a number of bytes, or there are several that differ".to_owned())
    } else {
        ("400 Bad Request", format!("the request cannot be read: {why}"))
    };
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: \
         close\r\n\r\n{text}\n",
        text.len() + 1
    )
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.as_ref().filter(|_| self.holds_refusal) {
            // If the system takes nothing, the client has not taken what came before: then it sees the end.
            let _ = stream.try_write(refusal(self.pulse.unreadable().unwrap_or("it is not HTTP")).as_bytes());
        }
    }
}

impl Socket {
    /// To be made in a task.
    pub(super) fn new(stream: TcpStream, pulse: Arc<Pulse>, quiet_max: Duration) -> Socket {
        let seen_steps = pulse.steps();
        Socket {
            stream: Some(stream),
            pulse,
            timer: Box::pin(sleep(quiet_max)),
            quiet_max,
            is_set: false,
            seen_steps,
            holds_refusal: false,
        }
    }

    /// The connection, for another protocol.
    pub(super) fn into_stream(mut self) -> Option<TcpStream> {
        self.stream.take()
    }

    fn stream(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(self.stream.as_mut().expect("taking the stream takes the socket"))
    }

    /// Ready with an error when the client has been quiet for too long.
    fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        // This is asked several times for each request, and the timer's own answer costs more than a look at it.
        if self.is_set && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        loop {
            self.is_set = true;
            ready!(self.timer.as_mut().poll(cx));
            let steps = self.pulse.steps();
            if steps == self.seen_steps {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.seen_steps = steps;
            self.timer.set(sleep(self.quiet_max));
        }
    }

    fn or_quiet<T>(&mut self, cx: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match moved {
            Poll::Ready(moved) => Poll::Ready(moved),
            Poll::Pending => self.poll_quiet(cx).map(Err),
        }
    }

    fn wrote(&mut self, cx: &mut Context<'_>, moved: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(_)) = moved {
            self.pulse.step();
        }
        self.or_quiet(cx, moved)
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let moved = self.stream().poll_read(cx, buffer);
        self.or_quiet(cx, moved)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if is_bare_refusal(bytes) {
            self.holds_refusal = true;
            return Poll::Ready(Ok(bytes.len()));
        }
        let moved = self.stream().poll_write(cx, bytes);
        self.wrote(cx, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.holds_refusal {
            return Poll::Ready(Ok(()));
        }
        self.stream().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = self.stream().poll_write_vectored(cx, slices);
        self.wrote(cx, moved)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(TcpStream::is_write_vectored)
    }
}
