//! One connection: sends a batch, reads its answers, checks them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Batch;
use super::dialect::{Address, Dialect};
use crate::clock::nanos_of;
use crate::store::Result;

/// A server that says nothing for so long is given up.
const SILENCE_SECONDS_MAX: i64 = 120;
/// Read at once, at most.
const READ_BYTES: usize = 1 << 16;

/// A connection of its own to a server. Nothing is under way on it between two calls of [`Connection::exchange`].
pub(crate) struct Connection {
    stream: TcpStream,
    dialect: Dialect,
    /// How much of the batch is written.
    sent_bytes: usize,
    /// The answers so far, and maybe a part of the next; only `received_bytes` of it are.
    received: Vec<u8>,
    received_bytes: usize,
    /// How much of that is whole answers, and how many they are.
    framed_bytes: usize,
    answers: usize,
}

impl Connection {
    /// Connects, and reads the greeting if there is one.
    pub(crate) fn open(address: Address) -> Result<Self> {
        let mut stream = TcpStream::connect(address.socket)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut greeting = vec![0; address.dialect.greeting_bytes()];
        stream.read_exact(&mut greeting)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            dialect: address.dialect,
            sent_bytes: 0,
            received: vec![0; 256],
            received_bytes: 0,
            framed_bytes: 0,
            answers: 0,
        })
    }

    /// Sends the batch, reads the answers and checks them. Returns how long sending and reading took, in nanoseconds.
    ///
    /// # Errors
    /// A connection that broke or fell silent; an answer that is an error or another than expected.
    pub(crate) fn exchange(&mut self, batch: &Batch) -> Result<u64> {
        self.begin();
        let (done, nanos) = nanos_of(|| self.send_and_receive(batch));
        done?;
        self.check(batch)?;
        Ok(nanos)
    }

    fn send_and_receive(&mut self, batch: &Batch) -> Result<()> {
        loop {
            let sent = self.send(batch)?;
            if sent && self.is_answered(batch)? {
                return Ok(());
            }
            let wanted = if sent { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            let mut waiting = [PollFd::new(&self.stream, wanted)];
            let silence = Timespec { tv_sec: SILENCE_SECONDS_MAX, tv_nsec: 0 };
            match poll(&mut waiting, Some(&silence)) {
                Ok(0) => return Err(format!("no answer in {SILENCE_SECONDS_MAX} s").into()),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if waiting[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.receive()?;
            }
        }
    }

    // The steps, for callers that wait for many connections at once.

    /// Forgets the last batch.
    pub(crate) fn begin(&mut self) {
        (self.sent_bytes, self.received_bytes, self.framed_bytes, self.answers) = (0, 0, 0, 0);
    }

    /// Writes what the socket takes. Returns whether that was all.
    pub(crate) fn send(&mut self, batch: &Batch) -> Result<bool> {
        while self.sent_bytes < batch.requests().len() {
            match self.stream.write(&batch.requests()[self.sent_bytes..]) {
                Ok(bytes) => self.sent_bytes += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Reads what is there.
    pub(crate) fn receive(&mut self) -> Result<()> {
        if self.received.len() - self.received_bytes < READ_BYTES.min(self.received.len() / 2) {
            self.received.resize(self.received.len() * 2, 0);
        }
        let end = self.received.len().min(self.received_bytes + READ_BYTES);
        match self.stream.read(&mut self.received[self.received_bytes..end]) {
            Ok(0) => Err("the server closed the connection".into()),
            Ok(bytes) => {
                self.received_bytes += bytes;
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether as many whole answers are there as there are requests.
    pub(crate) fn is_answered(&mut self, batch: &Batch) -> Result<bool> {
        while self.answers < batch.len() {
            let rest = &self.received[self.framed_bytes..self.received_bytes];
            let Some(bytes) = self.dialect.answer_bytes(rest)? else { return Ok(false) };
            self.framed_bytes += bytes;
            self.answers += 1;
        }
        Ok(true)
    }

    /// Compares the answers with what `batch` expects.
    pub(crate) fn check(&self, batch: &Batch) -> Result<()> {
        let mut rest = &self.received[..self.received_bytes];
        for number in 0..batch.len() {
            let bytes = self.dialect.answer_bytes(rest)?.ok_or("too few answers")?;
            let (answer, after) = rest.split_at(bytes);
            self.dialect.check(batch, number, answer)?;
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(format!("{} bytes that were not asked for", rest.len()).into()) }
    }

    /// The payload of the answer to a single request whose answer is not known before.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let mut batch = Batch::default();
        batch.push(|out, _| out.extend_from_slice(request));
        self.begin();
        self.send_and_receive(&batch)?;
        Ok(self.received[..self.framed_bytes].to_vec())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::{Request, Row};
    use super::*;

    /// A server of one connection, which it serves with `serve`.
    fn serve_once(serve: impl FnOnce(TcpStream) + Send + 'static) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(listener.accept().unwrap().0));
        Address { socket, dialect: Dialect::Resp }
    }

    /// Both sides' buffers fill many times over: a client that only writes at first would wait for ever.
    #[test]
    fn a_batch_larger_than_all_buffers_goes_through() {
        let address = serve_once(|mut stream| {
            let mut request = Vec::new();
            let mut batch = Batch::default();
            Dialect::Resp.push(&mut batch, Request::Delete, &Row::new(0, false));
            request.resize(batch.requests().len(), 0);
            while stream.read_exact(&mut request).is_ok() {
                stream.write_all(b":1\r\n").unwrap();
            }
        });
        let mut batch = Batch::default();
        for key in 0..500_000 {
            Dialect::Resp.push(&mut batch, Request::Delete, &Row::new(key, false));
        }
        let mut connection = Connection::open(address).unwrap();
        assert!(connection.exchange(&batch).unwrap() > 0);
    }

    #[test]
    fn surplus_answers_and_errors_are_found() {
        for (answers, expected) in
            [(":1\r\n:1\r\n", "not asked for"), ("-ERR no\r\n", "ERR no"), ("", "closed"), (":2\r\n", "not `:1")]
        {
            let address = serve_once(|mut stream| {
                stream.read_exact(&mut [0; 4]).unwrap();
                stream.write_all(answers.as_bytes()).unwrap();
                // Reads the rest, so that closing does not reset the connection before the answer is read.
                stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
            });
            let mut batch = Batch::default();
            Dialect::Resp.push(&mut batch, Request::Delete, &Row::new(0, false));
            let error = Connection::open(address).unwrap().exchange(&batch).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
