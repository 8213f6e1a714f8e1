//! The greeting of two nodes: a request of HTTP that asks for the node protocol, and then four messages, after which
//! frames flow. `docs/internals/cluster.md` has the bytes.
//!
//! Each side proves that it knows the cluster's secret: a keyed hash (HMAC-SHA-256) of both greetings and of a number
//! that each side has drawn, so that what was overheard is of no use. With certificates all of it, and all frames, are
//! inside TLS, in which each side has checked the other's; without, frames are neither hidden nor signed: the network
//! between nodes must be trusted, or be a tunnel.
//!
//! Everything here waits, for a few seconds at most: it is not for the thread of the node.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use quipu_cluster::ids::NodeId;
use quipu_cluster::protocol::VERSIONS;
use quipu_cluster::protocol::hello::Hello;
use quipu_cluster::topology::{Settings, StoreId, Topology};
use ring::hmac;

use super::address;
use super::host::Credentials;
use super::register::{Admitted, Decision, Newcomer, Register};
use super::socket::{PeerSocket, Timed};
use crate::tls::PeerTls;

/// What the request asks to be upgraded to.
const PROTOCOL: &str = "quipu-peer/1";
/// The same, if TLS begins where the request's head ends.
const PROTOCOL_TLS: &str = "quipu-peer-tls/1";
/// The field of an answer with the port at which nodes meet, if it is another.
pub const PEER_PORT: &str = "quipu-peer-port";
/// How long a connection is waited for.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a greeting takes, as a whole: a fence on each side has its time in it.
const GREETING_MAX: Duration = Duration::from_secs(6);
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// The longest verdict, which may have a topology in it.
const VERDICT_BYTES_MAX: usize = 4 << 20;
const HEAD_BYTES_MAX: usize = 8 << 10;
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;

/// A peer that has greeted rightly.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) node: NodeId,
    pub(super) stream: PeerSocket<Timed>,
    /// Whether this node has asked for the connection.
    pub(super) is_dialed: bool,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No node answers there, for now.
    Unreachable(String),
    /// One side does not want the other.
    Refused(String),
    /// The peer has a new store, which the log is to give an id.
    Newcomer(Newcomer),
    /// The peer has left the cluster and does not know it.
    Left,
    /// This node has left the cluster, as this topology says.
    Removed(Box<Topology>),
    /// The store of this peer has gone back in time: it had come to this mark. Whether that is sure.
    PeerWentBack(NodeId, u64, bool),
    /// This node's has.
    WentBack,
    /// This node has got its place in the cluster: it greets as that from now on.
    Placed,
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            // TLS says so of what it does not take.
            ErrorKind::InvalidData => Failure::Refused(format!("it and this node do not agree in TLS: {error}")),
            _ => Failure::Unreachable(error.to_string()),
        }
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// A connection on which one greets.
struct Greeter {
    stream: PeerSocket<Timed>,
}

impl Greeter {
    fn new(stream: TcpStream, patience: Duration) -> Result<Greeter> {
        Ok(Greeter { stream: PeerSocket::Plain(Timed::new(stream, patience)?) })
    }

    /// Connects to a node and asks it for the node protocol.
    fn dial(url: &str, credentials: &Credentials) -> Result<Greeter> {
        let mut port = None;
        loop {
            let mut peer = Greeter::new(connect(url, port)?, GREETING_MAX)?;
            match ask_for_upgrade(&mut peer, url, credentials)? {
                None => {
                    let host = address::host(url).unwrap_or_default();
                    let connection = credentials.tls.as_ref().map(|tls| tls.dial(host)).transpose();
                    peer.stream = peer.stream.sealed(connection.map_err(Failure::Refused)?);
                    return Ok(peer);
                }
                Some(_) if port.is_some() => {
                    return Err(Failure::Refused("its port for nodes names another one".to_owned()));
                }
                other => port = other,
            }
        }
    }

    /// Takes a connection of a peer that has asked for the node protocol.
    fn accept(stream: TcpStream, credentials: &Credentials) -> Result<Greeter> {
        let mut peer = Greeter::new(stream, GREETING_MAX)?;
        let connection = credentials.tls.as_ref().map(PeerTls::accept).transpose();
        peer.stream = peer.stream.sealed(connection.map_err(Failure::Refused)?);
        Ok(peer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<()> {
        Ok(self.stream.read_exact(into)?)
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.write(&[&(message.len() as u32).to_le_bytes(), message].concat())
    }

    fn receive(&mut self, bytes_max: usize) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > bytes_max {
            return Err(Failure::Refused(format!("a message of {length} bytes is too long: at most {bytes_max}")));
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
        Greeting::new(is_new, &hello)
    }

    fn new(is_new: bool, hello: &[u8]) -> Greeting {
        let mut bytes: Vec<u8> = rand::random::<[u8; NONCE_BYTES]>().to_vec();
        bytes.push(u8::from(is_new));
        bytes.extend_from_slice(hello);
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

fn check_proof(secret: Option<&[u8]>, side: u8, greetings: (&Greeting, &Greeting), given: &[u8]) -> Result<()> {
    let expected = proof(secret, side, greetings.0, greetings.1);
    // In constant time: a guess learns nothing from how long its refusal takes.
    let differs = expected.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b));
    if given.len() == PROOF_BYTES && differs == 0 {
        return Ok(());
    }
    Err(Failure::Refused(match secret.is_some() {
        true => "it does not know the cluster's secret; give it the same `--cluster-secret-file`".to_owned(),
        false => {
            "it has a cluster secret, and this node has none; give all the same `--cluster-secret-file`".to_owned()
        }
    }))
}

/// What is said where the mark of a store was raised while its node greeted.
pub(super) const AGAIN: &str = "the store came further while its node greeted";

const DIALER: u8 = b'd';
const ACCEPTOR: u8 = b'a';
const WELCOME: u8 = 1;
const REFUSAL: u8 = 2;
const PLACE: u8 = 3;
const WAIT: u8 = 4;
const LEFT: u8 = 5;
const BACK: u8 = 6;

/// What one side has decided about the other.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Whether it was known under another store, and the stores that are known.
    Welcome(bool, Vec<(NodeId, StoreId)>),
    /// Why it is not welcome.
    Refusal(String),
    /// The log has given it this id.
    Place(NodeId, Box<Topology>),
    /// The log is about to.
    Wait,
    /// It is no member any more, as this topology says.
    Left(Box<Topology>),
    /// Its store has gone back in time: it had come to this mark.
    WentBack(u64),
}

impl Verdict {
    fn of(register: &Register, decided: &Result<Admitted>) -> Verdict {
        match decided {
            Ok(admitted) => Verdict::Welcome(admitted.is_replaced, register.claims()),
            Err(Failure::Refused(why) | Failure::Unreachable(why)) => Verdict::Refusal(why.clone()),
            Err(Failure::Newcomer(newcomer)) => match register.place_of(newcomer) {
                Some((node, topology)) => Verdict::Place(node, Box::new(topology)),
                None => Verdict::Wait,
            },
            Err(Failure::Left) => Verdict::Left(Box::new(register.routing().topology().clone())),
            Err(Failure::PeerWentBack(_, mark, _)) => Verdict::WentBack(*mark),
            Err(Failure::Placed | Failure::Removed(_) | Failure::WentBack) => Verdict::Wait,
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Verdict::Welcome(is_replaced, claims) => {
                let mut bytes = vec![WELCOME, u8::from(*is_replaced)];
                for (node, store) in claims {
                    bytes.extend_from_slice(&node.0.to_le_bytes());
                    bytes.extend_from_slice(&store.0.to_le_bytes());
                }
                bytes
            }
            Verdict::Refusal(why) => [&[REFUSAL][..], why.as_bytes()].concat(),
            Verdict::Place(node, topology) => [&[PLACE][..], &node.0.to_le_bytes(), &topology.encode()].concat(),
            Verdict::Wait => vec![WAIT],
            Verdict::Left(topology) => [&[LEFT][..], &topology.encode()].concat(),
            Verdict::WentBack(mark) => [&[BACK][..], &mark.to_le_bytes()].concat(),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Verdict> {
        let decoded = bytes.split_first().and_then(|(kind, rest)| match *kind {
            WELCOME => {
                let claim = |bytes: &[u8]| {
                    let (node, store) = bytes.split_first_chunk()?;
                    Some((NodeId(u16::from_le_bytes(*node)), StoreId(u64::from_le_bytes(*store.first_chunk()?))))
                };
                let claims = rest.get(1..).unwrap_or_default().chunks_exact(10).filter_map(claim).collect();
                Some(Verdict::Welcome(rest.first() == Some(&1), claims))
            }
            REFUSAL => Some(Verdict::Refusal(String::from_utf8_lossy(rest).into_owned())),
            PLACE => {
                let (node, topology) = rest.split_first_chunk()?;
                let topology = Box::new(Topology::decode(topology)?);
                Some(Verdict::Place(NodeId(u16::from_le_bytes(*node)), topology))
            }
            WAIT => Some(Verdict::Wait),
            LEFT => Some(Verdict::Left(Box::new(Topology::decode(rest)?))),
            BACK => Some(Verdict::WentBack(u64::from_le_bytes(rest.try_into().ok()?))),
            _ => None,
        });
        decoded.ok_or_else(|| Failure::Refused("it does not greet as a node does".to_owned()))
    }
}

/// Does as the verdict of a peer says. `node` is the peer, if this node knows it.
fn take_verdict(register: &Register, node: Option<NodeId>, url: &str, bytes: &[u8]) -> Result<()> {
    let failed = |error: quipu::Error| Failure::Unreachable(error.to_string());
    match (Verdict::decode(bytes)?, node) {
        (Verdict::Welcome(was_known, claims), Some(node)) => {
            register.admitted_by(node, was_known, &claims).map_err(failed)
        }
        (Verdict::Welcome(..), None) => {
            Err(Failure::Unreachable(format!("{url} is another node than when the list was written")))
        }
        (Verdict::Refusal(why), _) => Err(Failure::Refused(format!("{url} says of this node: {why}"))),
        (Verdict::Place(node, topology), _) => match register.become_member(node, *topology).map_err(failed)? {
            true => Err(Failure::Placed),
            false => Err(Failure::Unreachable("this node has got its place meanwhile".to_owned())),
        },
        (Verdict::Left(topology), _) => Err(Failure::Removed(topology)),
        // It has been raised since it greeted.
        (Verdict::WentBack(mark), _) if mark <= register.mark() => Err(Failure::Unreachable(AGAIN.to_owned())),
        (Verdict::WentBack(_), _) => Err(Failure::WentBack),
        (Verdict::Wait, _) => {
            register.is_not_new();
            Err(Failure::Unreachable(format!("{url} waits until the cluster has agreed on an id for this node")))
        }
    }
}

/// Decides about a peer that has proven that it knows the secret, and notes its store.
fn decide(register: &Register, peer: &Greeter, greeting: &Greeting, fence: &dyn Fn()) -> Result<Admitted> {
    let (is_new, hello) = greeting.parse()?;
    if let Some(url) = register.claimed_url(&hello).filter(|url| !peer.stream.may_be(url)) {
        return Err(Failure::Refused(format!("its certificate is not that of {url}")));
    }
    let admitted = match register.admit(&hello, is_new).map_err(Failure::Refused)? {
        Decision::Admitted(admitted) => admitted,
        Decision::Newcomer(newcomer) => return Err(Failure::Newcomer(newcomer)),
        Decision::Left => return Err(Failure::Left),
        Decision::WentBack { mark, is_sure } => return Err(Failure::PeerWentBack(hello.node, mark, is_sure)),
    };
    if admitted.is_replaced {
        fence();
    }
    if let Some(store) = admitted.store {
        register.note(admitted.node, store).map_err(|error| Failure::Unreachable(error.to_string()))?;
    }
    let noted = register.note_mark(admitted.node, StoreId(hello.store), hello.mark);
    noted.map_err(|error| Failure::Unreachable(error.to_string()))?;
    Ok(admitted)
}

/// Connects to a peer and greets it. `fence` is called where a peer has come with a new store.
pub(super) fn dial(register: &Register, node: NodeId, fence: &dyn Fn()) -> Result<Greeted> {
    let url = register.url_of(node);
    let mut peer = Greeter::dial(&url, register.credentials())?;
    let own = Greeting::of(register);
    peer.send(&own.0)?;
    let theirs = Greeting(peer.receive(MESSAGE_BYTES_MAX)?);
    let their_proof = peer.receive(MESSAGE_BYTES_MAX)?;
    let proven = check_proof(register.secret(), ACCEPTOR, (&own, &theirs), &their_proof);
    let decided = proven.clone().and_then(|()| decide(register, &peer, &theirs, fence)).and_then(|admitted| {
        match admitted.node == node {
            true => Ok(admitted),
            false => Err(Failure::Refused(other_node(register, admitted.node, node))),
        }
    });
    let knows_better = matches!(decided, Err(Failure::Refused(_)))
        && proven.is_ok()
        && theirs.parse().is_ok_and(|(_, hello)| register.may_know_less_than(&hello));
    let verdict = match knows_better {
        true => Verdict::Welcome(false, Vec::new()),
        false => Verdict::of(register, &decided),
    };
    let mut message = proof(register.secret(), DIALER, &own, &theirs).to_vec();
    message.extend_from_slice(&verdict.encode());
    peer.send(&message)?;
    if knows_better {
        take_verdict(register, None, &url, &peer.receive(VERDICT_BYTES_MAX)?)?;
    }
    decided?;
    take_verdict(register, Some(node), &url, &peer.receive(VERDICT_BYTES_MAX)?)?;
    Ok(Greeted { node, stream: peer.stream, is_dialed: true })
}

/// What is said of a node that is found in the place of another.
fn other_node(register: &Register, found: NodeId, sought: NodeId) -> String {
    let (theirs, url) = (register.url_of(found), register.url_of(sought));
    match theirs == url {
        // It has come back under another id, and no node here has heard of that yet.
        true => format!("node {found} is at {url} now, where node {sought} was"),
        false => format!("it is {theirs}, not {url}"),
    }
}

/// Asks a member for the place of a node that was added: its id, and the topology.
pub(super) fn ask_for_place(
    url: &str,
    credentials: &Credentials,
    self_url: &str,
    store: StoreId,
) -> Result<(NodeId, Topology)> {
    let mut peer = Greeter::dial(url, credentials)?;
    let secret = credentials.secret.as_deref();
    let versions = (*VERSIONS.start(), *VERSIONS.end());
    let settings = Settings { replicas: 0, partitions: 0, seed: 0 };
    let (store, node, list) = (store.0, NodeId::NONE, self_url);
    let hello = Hello { versions, cluster: 0, node, store, mark: 0, applied: 0, settings, list };
    let own = Greeting::new(true, &hello.encode());
    peer.send(&own.0)?;
    let theirs = Greeting(peer.receive(MESSAGE_BYTES_MAX)?);
    check_proof(secret, ACCEPTOR, (&own, &theirs), &peer.receive(MESSAGE_BYTES_MAX)?)?;
    let mut message = proof(secret, DIALER, &own, &theirs).to_vec();
    message.extend_from_slice(&Verdict::Welcome(false, Vec::new()).encode());
    peer.send(&message)?;
    match Verdict::decode(&peer.receive(VERDICT_BYTES_MAX)?)? {
        Verdict::Place(node, topology) => Ok((node, *topology)),
        Verdict::Refusal(why) => Err(Failure::Refused(format!("{url} says of this node: {why}"))),
        Verdict::Wait | Verdict::Welcome(..) | Verdict::Left(_) | Verdict::WentBack(_) => {
            Err(Failure::Unreachable(format!("{url} waits until the cluster has agreed on an id for this node")))
        }
    }
}

/// Connects to a node, at another port if one is given.
fn connect(url: &str, port: Option<u16>) -> Result<TcpStream> {
    let mut last = Failure::Unreachable("its name has no address".to_owned());
    for mut address in address::resolve(url)? {
        address.set_port(port.unwrap_or(address.port()));
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// The protocol that a node with these credentials speaks with its peers.
pub(super) fn protocol(credentials: &Credentials) -> &'static str {
    if credentials.tls.is_some() { PROTOCOL_TLS } else { PROTOCOL }
}

/// What a node with these credentials says of a peer that speaks the other protocol.
pub(super) fn other_protocol(credentials: &Credentials) -> &'static str {
    match credentials.tls.is_some() {
        true => "it does not speak TLS with its peers, as this node does; start it with `--cluster-tls-cert-file`",
        false => "it speaks TLS with its peers; start this node with `--cluster-tls-cert-file`",
    }
}

/// Asks for the node protocol. Returns the port to ask at instead, if nodes meet at another.
fn ask_for_upgrade(peer: &mut Greeter, url: &str, credentials: &Credentials) -> Result<Option<u16>> {
    let host = url.strip_prefix("http://").unwrap_or(url);
    let protocol = protocol(credentials);
    let request =
        format!("GET /v0/peer HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
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
    let value_of = |name: &str| {
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    };
    match line.split(' ').nth(1) {
        Some("101") => Ok(None),
        Some("421") if let Some(port) = value_of(PEER_PORT).and_then(|port| port.parse().ok()) => Ok(Some(port)),
        Some("426") => Err(Failure::Refused(other_protocol(credentials).to_owned())),
        Some("503") => Err(Failure::Unreachable(format!("it answers {line}"))),
        _ => Err(Failure::Refused(format!("what answers there is no node of a cluster: {line}"))),
    }
}

/// Greets a peer that has asked for the node protocol.
pub(super) fn accept(register: &Register, stream: TcpStream, fence: &dyn Fn()) -> Result<Greeted> {
    let mut peer = Greeter::accept(stream, register.credentials())?;
    let theirs = Greeting(peer.receive(MESSAGE_BYTES_MAX)?);
    let own = Greeting::of(register);
    peer.send(&own.0)?;
    peer.send(&proof(register.secret(), ACCEPTOR, &theirs, &own))?;
    let message = peer.receive(MESSAGE_BYTES_MAX)?;
    let (their_proof, their_verdict) = message.split_at_checked(PROOF_BYTES).unwrap_or((&message, &[]));
    let decided = check_proof(register.secret(), DIALER, (&theirs, &own), their_proof)
        .and_then(|()| decide(register, &peer, &theirs, fence));
    peer.send(&Verdict::of(register, &decided).encode())?;
    match (decided, theirs.parse()) {
        (Ok(admitted), _) => {
            let node = admitted.node;
            take_verdict(register, Some(node), &register.url_of(node), their_verdict)?;
            Ok(Greeted { node, stream: peer.stream, is_dialed: false })
        }
        (Err(Failure::Refused(why)), Ok((_, hello))) => {
            Err(Failure::Refused(format!("node {} of {}: {why}", hello.node, hello.list)))
        }
        (Err(failure), _) => Err(failure),
    }
}

/// Decodes bytes of a stranger: see [`fuzz`](super::fuzz).
#[cfg(feature = "fuzz")]
pub(super) fn examine_greeting(bytes: &[u8]) {
    let greeting = Greeting(bytes.to_vec());
    if let Ok((is_new, hello)) = greeting.parse() {
        let again = Greeting([&bytes[..NONCE_BYTES], &[u8::from(is_new)], &hello.encode()].concat());
        assert_eq!(again.parse().ok(), Some((is_new, hello)));
    }
    if let Ok(verdict) = Verdict::decode(bytes) {
        assert_eq!(Verdict::decode(&verdict.encode()), Ok(verdict));
    }
}

/// A greeting, and a verdict of each kind.
#[cfg(all(test, feature = "fuzz"))]
pub(super) fn sample_greetings() -> Vec<(String, Vec<u8>)> {
    let list = [("http://a:1".to_owned(), String::new()), ("http://b:1".to_owned(), "zone".to_owned())];
    let topology = || Box::new(Topology::founded(&list, 7, 4, 2));
    let (versions, node, settings) = ((1, 1), NodeId(1), topology().settings());
    let hello = Hello { versions, cluster: 5, node, store: 9, mark: 2, applied: 3, settings, list: "a,b" };
    let verdicts = [
        ("welcome", Verdict::Welcome(true, vec![(NodeId(1), StoreId(9)), (NodeId(2), StoreId(8))])),
        ("refusal", Verdict::Refusal("it is not a member".to_owned())),
        ("place", Verdict::Place(NodeId(3), topology())),
        ("wait", Verdict::Wait),
        ("left", Verdict::Left(topology())),
        ("back", Verdict::WentBack(7)),
    ];
    let verdicts = verdicts.into_iter().map(|(name, verdict)| (name.to_owned(), verdict.encode()));
    verdicts.chain([("greeting".to_owned(), Greeting::new(true, &hello.encode()).0)]).collect()
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
            // Until the reader takes them no more.
            while client.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        assert!(matches!(peer.receive(MESSAGE_BYTES_MAX), Err(Failure::Unreachable(_))));
        drop(peer);
        sender.join().unwrap();
    }
}
