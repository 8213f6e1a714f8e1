//! Waiting for two things at once: that the client sends something, and that another session has told this one
//! something. Only connections that listen have a bell; others wait in a read.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use quipu_sql::notifications::Mailbox;

use super::stream::Stream;

/// The token of the socket, and that of the waker.
const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// The client has sent something, or is gone.
    Socket,
    /// The mailbox may have something.
    Mailbox,
    /// The time is over.
    Never,
}

/// What wakes a connection that waits for its client.
pub(super) struct Bell {
    poll: Poll,
    events: Events,
    /// The socket, as another handle of it.
    _socket: TcpStream,
}

impl Bell {
    /// Of a connection: its mailbox rings from now on.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new(stream: &mut Stream, mailbox: &Mailbox) -> io::Result<Bell> {
        let poll = Poll::new()?;
        let mut socket = TcpStream::from_std(stream.duplicate()?);
        poll.registry().register(&mut socket, SOCKET, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        mailbox.wake_by(move || {
            // If it cannot be woken, the connection is over, or tells at the next message.
            let _ = waker.wake();
        });
        Ok(Bell { poll, events: Events::with_capacity(4), _socket: socket })
    }

    /// Waits. What was in the mailbox before [`Bell::new`] does not ring.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn wait(&mut self, stream: &mut Stream, timeout: Option<Duration>) -> io::Result<Rung> {
        // The system tells of what comes from now on: what has come is asked for after it was told to.
        if stream.would_give()? {
            return Ok(Rung::Socket);
        }
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Rung::Mailbox),
            other => other?,
        }
        let is_waker = self.events.iter().any(|event| event.token() == WAKER);
        Ok(match self.events.is_empty() {
            true => Rung::Never,
            // If it was nothing, the caller looks in vain and waits again.
            false if is_waker || !stream.would_give()? => Rung::Mailbox,
            false => Rung::Socket,
        })
    }
}
