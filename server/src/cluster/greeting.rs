//! How two nodes get to know each other: a request of HTTP that asks for the node protocol, and then four messages,
//! after which frames flow. `docs/cluster.md` has the bytes.
//!
//! Each side proves that it knows the cluster's secret: a keyed hash (HMAC-SHA-256) of both greetings and of a number
//! that each side has drawn, so that what was overheard is of no use. Frames are neither hidden nor signed: the network
//! between nodes must be trusted, or be a tunnel.
//!
//! Everything here waits, for a few seconds at most: it is not for the thread of the node.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use quipu_cluster::ids::NodeId;
use quipu_cluster::protocol::hello::Hello;
use quipu_cluster::topology::StoreId;
use ring::hmac;

use super::address;
use super::register::{Admitted, Register};
use crate::system::clock;

/// What the request asks to be upgraded to.
pub const PROTOCOL: &str = "quipu-peer/1";
/// How long a connection is waited for.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a greeting takes, as a whole: a fence on each side has its time in it.
const GREETING_MAX: Duration = Duration::from_secs(6);
const MESSAGE_BYTES_MAX: usize = 64 << 10;
const HEAD_BYTES_MAX: usize = 8 << 10;
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;

/// A peer that has greeted rightly.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) node: NodeId,
    pub(super) stream: TcpStream,
    /// Whether this node has asked for the connection.
    pub(super) is_dialed: bool,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nobody answers there, for now.
    Unreachable(String),
    /// One side does not want the other.
    Refused(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Unreachable(error.to_string())
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// A connection on which one greets, until it is too late: however slowly the bytes of the other side come.
struct Greeter {
    stream: TcpStream,
    begun: Instant,
    patience: Duration,
}

impl Greeter {
    fn new(stream: TcpStream, patience: Duration) -> Result<Greeter> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Greeter { stream, begun: clock::moment(), patience })
    }

    /// The time that is left.
    fn left(&self) -> Result<Option<Duration>> {
        let left = self.patience.checked_sub(clock::since(self.begun)).filter(|left| !left.is_zero());
        left.map(Some).ok_or_else(|| Failure::Unreachable("its greeting took too long".to_owned()))
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(self.left()?)?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(std::io::Error::from(ErrorKind::WriteZero).into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read(&mut self, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            self.stream.set_read_timeout(self.left()?)?;
            match self.stream.read(into) {
                Ok(0) => return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(count) => into = &mut into[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.write(&[&(message.len() as u32).to_le_bytes(), message].concat())
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(Failure::Refused(format!("a greeting of {length} bytes is none")));
        }
        let mut message = vec![0; length];
        self.read(&mut message)?;
        Ok(message)
    }
}

/// A greeting: the number drawn, whether the store is new, and who greets.
#[derive(Clone)]
struct Greeting(Vec<u8>);

impl Greeting {
    fn of(register: &Register) -> Greeting {
        let (is_new, hello) = register.hello();
        let mut bytes: Vec<u8> = rand::random::<[u8; NONCE_BYTES]>().to_vec();
        bytes.push(u8::from(is_new));
        bytes.extend_from_slice(&hello);
        Greeting(bytes)
    }

    fn parse(&self) -> Result<(bool, Hello<'_>)> {
        let parsed = self.0.get(NONCE_BYTES..).and_then(|rest| rest.split_first());
        let parsed = parsed.and_then(|(is_new, hello)| Some((*is_new == 1, Hello::decode(hello)?)));
        parsed.ok_or_else(|| Failure::Refused("it does not greet as a node does".to_owned()))
    }
}

/// The proof of one side that it knows the secret; zeros where there is none.
fn proof(secret: Option<&[u8]>, side: u8, dialer: &Greeting, acceptor: &Greeting) -> [u8; PROOF_BYTES] {
    let mut proof = [0; PROOF_BYTES];
    if let Some(secret) = secret {
        let message = [&[side][..], &(dialer.0.len() as u64).to_le_bytes(), &dialer.0, &acceptor.0].concat();
        proof.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &message).as_ref());
    }
    proof
}

fn check_proof(register: &Register, side: u8, greetings: (&Greeting, &Greeting), given: &[u8]) -> Result<()> {
    let expected = proof(register.secret(), side, greetings.0, greetings.1);
    // In constant time: a guess learns nothing from how long its refusal takes.
    let differs = expected.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b));
    if given.len() == PROOF_BYTES && differs == 0 {
        return Ok(());
    }
    Err(Failure::Refused(match register.has_secret() {
        true => "it does not know the cluster's secret; give it the same `--cluster-secret-file`".to_owned(),
        false => {
            "it has a cluster secret, and this node has none; give all the same `--cluster-secret-file`".to_owned()
        }
    }))
}

const DIALER: u8 = b'd';
const ACCEPTOR: u8 = b'a';
const WELCOME: u8 = 1;
const REFUSAL: u8 = 2;

/// What one side has decided: welcome, with whether the peer was known under another store and the stores that are
/// known here; or why not.
fn verdict(register: &Register, admitted: &Result<Admitted>) -> Vec<u8> {
    match admitted {
        Ok(admitted) => {
            let mut bytes = vec![WELCOME, u8::from(admitted.is_replaced)];
            for (node, store) in register.claims() {
                bytes.extend_from_slice(&node.0.to_le_bytes());
                bytes.extend_from_slice(&store.0.to_le_bytes());
            }
            bytes
        }
        Err(Failure::Refused(why) | Failure::Unreachable(why)) => [&[REFUSAL][..], why.as_bytes()].concat(),
    }
}

/// Reads the verdict of a peer.
fn take_verdict(register: &Register, node: NodeId, bytes: &[u8]) -> Result<()> {
    match bytes.split_first() {
        Some((&WELCOME, rest)) => {
            let was_known = rest.first() == Some(&1);
            let claim = |bytes: &[u8]| {
                let (node, store) = bytes.split_first_chunk()?;
                Some((NodeId(u16::from_le_bytes(*node)), StoreId(u64::from_le_bytes(*store.first_chunk()?))))
            };
            let claims: Vec<_> = rest.get(1..).unwrap_or_default().chunks_exact(10).filter_map(claim).collect();
            register.admitted_by(node, was_known, &claims).map_err(|error| Failure::Unreachable(error.to_string()))
        }
        Some((&REFUSAL, why)) => {
            let url = register.url_of(node);
            Err(Failure::Refused(format!("{url} says of this node: {}", String::from_utf8_lossy(why))))
        }
        _ => Err(Failure::Refused("it does not greet as a node does".to_owned())),
    }
}

/// Decides about a peer that has proven that it knows the secret, and notes its store.
fn decide(register: &Register, greeting: &Greeting, fence: &dyn Fn()) -> Result<Admitted> {
    let (is_new, hello) = greeting.parse()?;
    let admitted = register.admit(&hello, is_new).map_err(Failure::Refused)?;
    if admitted.is_replaced {
        fence();
    }
    if let Some(store) = admitted.store {
        register.note(admitted.node, store).map_err(|error| Failure::Unreachable(error.to_string()))?;
    }
    Ok(admitted)
}

/// Connects to a peer and greets it. `fence` is called where a peer has come with a new store.
pub(super) fn dial(register: &Register, node: NodeId, fence: &dyn Fn()) -> Result<Greeted> {
    let url = register.url_of(node);
    let mut peer = Greeter::new(connect(&url)?, GREETING_MAX)?;
    ask_for_upgrade(&mut peer, &url)?;
    let own = Greeting::of(register);
    peer.send(&own.0)?;
    let theirs = Greeting(peer.receive()?);
    let their_proof = peer.receive()?;
    let decided = check_proof(register, ACCEPTOR, (&own, &theirs), &their_proof)
        .and_then(|()| decide(register, &theirs, fence))
        .and_then(|admitted| match admitted.node == node {
            true => Ok(admitted),
            false => Err(Failure::Refused(format!("it is {}, not {url}", register.url_of(admitted.node)))),
        });
    let mut message = proof(register.secret(), DIALER, &own, &theirs).to_vec();
    message.extend_from_slice(&verdict(register, &decided));
    peer.send(&message)?;
    decided?;
    take_verdict(register, node, &peer.receive()?)?;
    Ok(Greeted { node, stream: peer.stream, is_dialed: true })
}

fn connect(url: &str) -> Result<TcpStream> {
    let mut last = Failure::Unreachable("its name has no address".to_owned());
    for address in address::resolve(url)? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn ask_for_upgrade(peer: &mut Greeter, url: &str) -> Result<()> {
    let host = url.strip_prefix("http://").unwrap_or(url);
    let request =
        format!("GET /v0/peer HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n");
    peer.write(request.as_bytes())?;
    // Byte by byte: what comes after the head is the greeting's.
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        peer.read(&mut byte)?;
        head.push(byte[0]);
        if head.len() > HEAD_BYTES_MAX {
            return Err(Failure::Refused("what answers there is no node".to_owned()));
        }
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some("101") => Ok(()),
        Some("503") => Err(Failure::Unreachable(format!("it answers {line}"))),
        _ => Err(Failure::Refused(format!("what answers there is no node of a cluster: {line}"))),
    }
}

/// Greets a peer that has asked for the node protocol.
pub(super) fn accept(register: &Register, stream: TcpStream, fence: &dyn Fn()) -> Result<Greeted> {
    let mut peer = Greeter::new(stream, GREETING_MAX)?;
    let theirs = Greeting(peer.receive()?);
    let own = Greeting::of(register);
    peer.send(&own.0)?;
    peer.send(&proof(register.secret(), ACCEPTOR, &theirs, &own))?;
    let message = peer.receive()?;
    let (their_proof, their_verdict) = message.split_at_checked(PROOF_BYTES).unwrap_or((&message, &[]));
    let decided =
        check_proof(register, DIALER, (&theirs, &own), their_proof).and_then(|()| decide(register, &theirs, fence));
    let node = decided.as_ref().map(|admitted| admitted.node);
    peer.send(&verdict(register, &decided))?;
    match (node, theirs.parse()) {
        (Ok(node), _) => {
            take_verdict(register, node, their_verdict)?;
            Ok(Greeted { node, stream: peer.stream, is_dialed: false })
        }
        (Err(_), Ok((_, hello))) => Err(match decided {
            Err(Failure::Refused(why)) => Failure::Refused(format!("node {} of {}: {why}", hello.node, hello.list)),
            Err(failure) => failure,
            Ok(_) => Failure::Refused("it was refused".to_owned()),
        }),
        (Err(_), Err(failure)) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Each byte that came began the wait anew: a client that sent one now and then kept a thread for as long as it
    /// liked.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a client that sends slowly")]
    fn a_greeting_that_comes_byte_by_byte_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut peer = Greeter::new(listener.accept().unwrap().0, Duration::from_millis(100)).unwrap();
        client.write_all(&(MESSAGE_BYTES_MAX as u32).to_le_bytes()).unwrap();
        let sender = std::thread::spawn(move || {
            // Until nobody takes them any more.
            while client.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        assert!(matches!(peer.receive(), Err(Failure::Unreachable(_))));
        drop(peer);
        sender.join().unwrap();
    }
}
