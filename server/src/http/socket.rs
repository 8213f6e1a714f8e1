//! A client's socket that is closed when nothing moves.
//!
//! A connection makes a step when a request has come whole, when the socket takes bytes, and with each 16 KiB of a
//! body. A timer runs beside it: if there was no step since it was set, the connection ends. So a client that is
//! silent, trickles, or does not take its answer holds nothing for more than twice the time. The timer costs nothing
//! for a request: it is read, not reset.

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
    stream: TcpStream,
    pulse: Arc<Pulse>,
    timer: Pin<Box<Sleep>>,
    quiet_max: Duration,
    /// Whether the timer is to wake this task: it is told once, since a task keeps its waker.
    is_set: bool,
    /// Steps when the timer was set.
    seen_steps: u64,
}

impl Socket {
    /// To be made in a task.
    pub(super) fn new(stream: TcpStream, pulse: Arc<Pulse>, quiet_max: Duration) -> Socket {
        let seen_steps = pulse.steps();
        Socket { stream, pulse, timer: Box::pin(sleep(quiet_max)), quiet_max, is_set: false, seen_steps }
    }

    /// The connection, for another protocol.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
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
        let moved = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.or_quiet(cx, moved)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(cx, moved)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
