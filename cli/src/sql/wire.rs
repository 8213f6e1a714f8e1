//! A server that speaks PostgreSQL's protocol: simple queries, COPY, notices, cancel.

use std::io::{self, BufReader, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::address::Address;
use super::backend::{Answers, Backend, Ended, Report, Transaction};
use super::messages::{self, Message, Parts};
use super::scram::{Exchange, MECHANISM};
use super::transport::{Transport, dial, is_timeout};
use crate::failure::{Failure, Result};
use crate::interrupts::Stop;

/// The version of the protocol: 3.0.
const VERSION: u32 = 3 << 16;
/// What a cancel begins with: its length and its number.
const CANCEL: [u8; 8] = [0, 0, 0, 16, 4, 210, 22, 46];

/// A session of a server.
pub(super) struct Connected {
    stream: BufReader<Transport>,
    address: Address,
    /// What a cancel must say.
    key: Vec<u8>,
    transaction: Transaction,
    version: String,
}

impl Connected {
    /// Connects and logs in.
    pub(super) fn open(address: Address) -> Result<Connected> {
        let stream = BufReader::with_capacity(64 << 10, Transport::connect(&address)?);
        let (key, transaction, version) = (Vec::new(), Transaction::No, String::new());
        let mut connected = Connected { stream, address, key, transaction, version };
        connected.log_in()?;
        connected.stream.get_mut().wait_for_answers().map_err(|error| connected.lost(&error))?;
        Ok(connected)
    }

    fn lost(&self, error: &io::Error) -> Failure {
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the server has closed the connection".to_owned(),
            _ if is_timeout(error) => "the server does not answer".to_owned(),
            _ => error.to_string(),
        };
        Failure::new(format!("{}:{}: {what}", self.address.host, self.address.port))
    }

    fn send(&mut self, tag: u8, body: &[u8]) -> Result<()> {
        messages::write(self.stream.get_mut(), tag, body).map_err(|error| self.lost(&error))
    }

    fn receive(&mut self) -> Result<Message> {
        messages::read(&mut self.stream).map_err(|error| self.lost(&error))
    }

    fn log_in(&mut self) -> Result<()> {
        let mut body = VERSION.to_be_bytes().to_vec();
        let own = [("user", &self.address.user), ("database", &self.address.database)];
        let others = self.address.parameters.iter().map(|(name, value)| (name.as_str(), value));
        let encoding = "UTF8".to_owned();
        for (name, value) in own.into_iter().chain([("client_encoding", &encoding)]).chain(others) {
            body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
        }
        body.push(0);
        let length = u32::try_from(body.len() + 4).map_err(|_| Failure::new("the login is too long"))?;
        let bytes = [&length.to_be_bytes(), body.as_slice()].concat();
        let stream = self.stream.get_mut();
        let sent = stream.write_all(&bytes).and_then(|()| stream.flush());
        sent.map_err(|error| self.lost(&error))?;
        let mut exchange = None;
        loop {
            let message = self.receive()?;
            match message.tag {
                b'R' => self.prove(&message.body, &mut exchange)?,
                b'K' => self.key = message.body,
                b'S' => self.note_parameter(&message.body).map_err(|error| self.lost(&error))?,
                b'E' => {
                    let report = messages::report(&message.body).map_err(|error| self.lost(&error))?;
                    return Err(Failure::new(format!("{}:  {}", report.severity, report.message)));
                }
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }

    fn note_parameter(&mut self, body: &[u8]) -> io::Result<()> {
        let mut parts = Parts(body);
        if parts.text()? == "server_version" {
            self.version = parts.text()?.to_owned();
        }
        Ok(())
    }

    /// Says what the server asks for: nothing, a password, or the next step of SCRAM.
    fn prove(&mut self, body: &[u8], exchange: &mut Option<Exchange>) -> Result<()> {
        let mut parts = Parts(body);
        let malformed = || Failure::new("the server's login is malformed");
        let kind = parts.i32().map_err(|_| malformed())?;
        let said = std::str::from_utf8(parts.0).map_err(|_| malformed())?;
        match (kind, exchange.as_mut()) {
            (0, None) => Ok(()),
            // The password itself is shown to no network.
            (3, _) if !self.stream.get_ref().is_tls() && !is_near(&self.address.host) => {
                Err(Failure::new("the server asks for the password as it is; it is sent over TLS only"))
            }
            (3, _) => {
                let password = self.password()?;
                self.send(b'p', format!("{password}\0").as_bytes())
            }
            (10, None) if said.split('\0').any(|offered| offered == MECHANISM) => {
                let begun = Exchange::new(&self.password()?);
                let first = begun.first();
                let length = i32::try_from(first.len()).map_err(|_| malformed())?.to_be_bytes();
                *exchange = Some(begun);
                self.send(b'p', &[MECHANISM.as_bytes(), &[0], &length, first.as_bytes()].concat())
            }
            (11, Some(exchange)) => {
                let proof = exchange.prove(said).ok_or_else(malformed)?;
                self.send(b'p', proof.as_bytes())
            }
            (12, Some(begun)) if begun.is_proved(said) => {
                *exchange = None;
                Ok(())
            }
            (12, _) => Err(Failure::new("the server does not know the password: it may be another one")),
            (0, Some(_)) => Err(Failure::new("the server has not proved that it knows the password")),
            (5, _) => Err(Failure::new("the server asks for a password by MD5; SCRAM-SHA-256 is what is spoken here")),
            _ => Err(Failure::new("the server asks for a login of a kind that is not spoken here")),
        }
    }

    /// The password: given, or typed.
    fn password(&self) -> Result<String> {
        if let Some(password) = &self.address.password {
            return Ok(password.clone());
        }
        if !io::stdin().is_terminal() {
            return Err(Failure::new("the server asks for a password: PGPASSWORD, or the URL, has it"));
        }
        typed_password(&self.address.user).map_err(|error| Failure::new(format!("the terminal: {error}")))
    }

    fn run_to_end(&mut self, text: &str, answers: &mut dyn Answers) -> Result<(), Ended> {
        if text.contains('\0') {
            return Err(Failure::new("a statement cannot have a zero byte").into());
        }
        self.send(b'Q', format!("{text}\0").as_bytes())?;
        let mut refused = None;
        loop {
            let message = self.receive()?;
            match self.take(message, answers) {
                Ok(Taken::More) => {}
                Ok(Taken::Refused(report)) => {
                    // After such an error nothing follows.
                    if matches!(report.severity.as_str(), "FATAL" | "PANIC") {
                        return Err(Failure::new(format!("{}:  {}", report.severity, report.message)).into());
                    }
                    refused = Some(report);
                }
                Ok(Taken::End) => return refused.map_or(Ok(()), |report| Err(Ended::Refused(report))),
                Err(Broken::Io(error)) => return Err(self.lost(&error).into()),
                Err(Broken::Failure(failure)) => return Err(failure.into()),
            }
        }
    }

    fn take(&mut self, message: Message, answers: &mut dyn Answers) -> Result<Taken, Broken> {
        let body = message.body.as_slice();
        match message.tag {
            b'T' => answers.columns(messages::columns(body)?)?,
            b'D' => answers.row(&messages::values(body)?)?,
            b'd' => answers.copy_data(body)?,
            b'C' => answers.done(Parts(body).text()?)?,
            b'I' => answers.done("")?,
            b'N' => answers.notice(&messages::report(body)?)?,
            b'A' => {
                let mut parts = Parts(body);
                let (process, channel) = (parts.i32()?, parts.text()?);
                answers.notice(&Report::of_notification(process, channel, parts.text()?))?;
            }
            b'E' => return Ok(Taken::Refused(Box::new(messages::report(body)?))),
            b'S' => self.note_parameter(body)?,
            b'G' => loop {
                match answers.copy_in() {
                    Ok(Some(data)) => self.send(b'd', &data)?,
                    Ok(None) => break self.send(b'c', &[])?,
                    Err(failure) => break self.send(b'f', format!("{failure}\0").as_bytes())?,
                }
            },
            b'Z' => {
                self.transaction = match body {
                    [b'I'] => Transaction::No,
                    [b'E'] => Transaction::Failed,
                    _ => Transaction::Open,
                };
                return Ok(Taken::End);
            }
            _ => {}
        }
        Ok(Taken::More)
    }
}

/// What a message was.
enum Taken {
    More,
    Refused(Box<Report>),
    End,
}

/// Why no more messages can be taken.
enum Broken {
    Io(io::Error),
    Failure(Failure),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Io(error)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Broken {
        Broken::Failure(failure)
    }
}

impl Backend for Connected {
    fn run(&mut self, text: &str, answers: &mut dyn Answers) -> Result<(), Ended> {
        self.run_to_end(text, answers)
    }

    fn transaction(&self) -> Transaction {
        self.transaction
    }

    fn stop(&self) -> Stop {
        let (address, key) = (self.address.clone(), self.key.clone());
        Box::new(move || {
            // A cancel that does not arrive is one that the person repeats.
            if let Ok(mut socket) = dial(&address)
                && socket.write_all(&[CANCEL.as_slice(), &key].concat()).is_ok()
            {
                let _ = socket.read(&mut [0]);
            }
        })
    }

    fn database(&self) -> String {
        self.address.database.clone()
    }

    fn title(&self) -> String {
        let Address { host, port, user, .. } = &self.address;
        let tls = if self.stream.get_ref().is_tls() { ", TLS" } else { "" };
        format!("PostgreSQL {}, {user} at {host}:{port}{tls}", self.version)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // The server sees the end of the connection anyway.
        let _ = messages::write(self.stream.get_mut(), b'X', &[]);
    }
}

/// Whether a host is this machine.
fn is_near(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1")
}

/// Reads a password from the terminal, which does not show it.
fn typed_password(user: &str) -> io::Result<String> {
    let stdin = io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    eprint!("Password for {user}: ");
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let mut password = String::new();
    let read = stdin.read_line(&mut password);
    tcsetattr(&stdin, OptionalActions::Flush, &shown)?;
    eprintln!();
    read?;
    Ok(password.trim_end_matches(['\r', '\n']).to_owned())
}
