//! Goal: nodes with certificates speak TLS with each other and with no other program; nodes with a port of their own
//! meet there and nowhere else. Method: clusters of real processes, some of them with wrong certificates; sockets that
//! speak to the nodes' port.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use crate::nodes::{Nodes, ask, eventually, local};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// The authority that signs the certificates of nodes.
struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

#[expect(clippy::disallowed_methods, reason = "files of whoever runs the nodes")]
fn write(path: &std::path::Path, text: &str) -> String {
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
    path.to_str().expect("a path").to_owned()
}

impl Authority {
    fn new(directory: PathBuf) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        write(&directory.join("ca.pem"), &params.self_signed(&key).expect("a root").pem());
        Authority { directory, issuer: Issuer::new(params, key) }
    }

    /// The flags of a node at `host` with a certificate of this authority, which believes in `roots`.
    fn flags(&self, host: &str, roots: &Authority) -> Vec<String> {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        let certificate = certificate.signed_by(&key, &self.issuer).expect("a certificate");
        let path = |what: &str| self.directory.join(format!("{host}-{what}.pem"));
        [
            ("--cluster-tls-cert-file", write(&path("certificate"), &certificate.pem())),
            ("--cluster-tls-key-file", write(&path("key"), &key.serialize_pem())),
            ("--cluster-tls-ca-cert-file", roots.directory.join("ca.pem").to_str().expect("a path").to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }
}

/// What a node answers to a request for a protocol, and what comes after the head if `then` is sent.
fn upgrade(port: u16, protocol: &str, then: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let request =
        format!("GET /v0/peer HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    stream.write_all(then).expect("bytes");
    let mut rest = Vec::new();
    if !then.is_empty() {
        // The node may end the connection at once.
        let _ = stream.read_to_end(&mut rest);
    }
    (String::from_utf8(head).expect("text"), rest)
}

#[test]
fn nodes_with_certificates_speak_tls_and_refuse_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let ours = Authority::new(directory.path().join("ours"));
    let theirs = Authority::new(directory.path().join("theirs"));
    let good = ours.flags("localhost", &ours);
    let mut nodes = Nodes::of_list(4, 3, &good.iter().map(String::as_str).collect::<Vec<_>>());
    (0..3).for_each(|node| nodes.spawn(node));
    (0..3).for_each(|node| nodes.until_ready(node));
    // Larger than a record of TLS, and than what it keeps unsent.
    let value: Vec<u8> = (0..2_000_000u32).map(|number| (number.wrapping_mul(number) >> 7) as u8).collect();
    for node in 0..3 {
        assert_eq!(nodes.status(node, "PUT", &format!("/v0/entity?id=k{node}&ack=3"), &value), 201);
        let read = nodes.get((node + 1) % 3, &format!("/v0/entity?id=k{node}&ack=3"));
        assert!(read.status == 200 && read.body == value, "{} of {} bytes", read.status, read.body.len());
    }
    // Without TLS a stranger is not even heard; what is no TLS is answered by an alert.
    let (head, _) = upgrade(nodes.port(0), "quipu-peer/1", b"");
    assert!(head.starts_with("HTTP/1.1 426 ") && head.contains("quipu-peer-tls/1"), "{head}");
    let (head, alert) = upgrade(nodes.port(0), "quipu-peer-tls/1", &[40, 0, 0, 0, 1, 2, 3, 4, 5]);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(alert.first(), Some(&21), "an alert");

    for (flags, told) in [
        (Vec::new(), "speaks TLS with its peers"),
        (theirs.flags("localhost", &ours), "do not agree in TLS"),
        (ours.flags("localhost", &theirs), "do not agree in TLS"),
        (ours.flags("elsewhere.example", &ours), "its certificate is not that of"),
    ] {
        nodes.kill(2);
        nodes.flags = flags;
        let said = nodes.log(2).len();
        nodes.spawn(2);
        nodes.wait(2);
        eventually(&format!("it says `{told}`"), || nodes.log(2)[said..].contains(told));
        assert_eq!(nodes.status(0, "PUT", "/v0/entity?id=k&ack=2", b"v"), 201);
        assert_eq!(nodes.status(0, "PUT", "/v0/entity?id=k&ack=3", b"v"), 504);
        assert_eq!(nodes.status(2, "GET", "/v0/entity?id=k", b""), 504);
    }
    eventually("the others say why", || {
        (0..2).any(|node| nodes.log(node).contains("does not speak TLS"))
            && (0..2).any(|node| nodes.log(node).contains("do not agree in TLS"))
    });
    nodes.kill(2);
    nodes.flags = good;
    nodes.spawn(2);
    nodes.until_ready(2);
    eventually("it is back", || nodes.status(0, "PUT", "/v0/entity?id=k&ack=3", b"v") == 201);

    // A node joins over TLS.
    let add = format!("{{\"add\":[{{\"url\":\"{}\"}}]}}", nodes.url(3));
    nodes.spawn_with(3, &["--join", &nodes.url(1)]);
    eventually("it is added", || nodes.status(0, "POST", "/v0/cluster", add.as_bytes()) == 202);
    nodes.wait(3);
    nodes.until_ready(3);
    assert_eq!(nodes.get(3, "/v0/entity?id=k").body, b"v");
}

#[test]
fn certificates_that_cannot_be_used_are_told_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let ours = Authority::new(directory.path().join("ours"));
    let theirs = Authority::new(directory.path().join("theirs"));
    let (good, other) = (ours.flags("localhost", &ours), theirs.flags("localhost", &ours));
    let (certificate, key, roots) = (&good[0..2], &good[2..4], &good[4..6]);
    let broken = write(&directory.path().join("broken.pem"), "no certificate");
    let nodes = Nodes::new(3, &[]);
    for (flags, told) in [
        ([certificate, key].concat(), "--cluster-tls-ca-cert-file"),
        ([certificate, roots].concat(), "--cluster-tls-key-file"),
        (roots.to_vec(), "--cluster-tls-cert-file"),
        ([certificate, &other[2..4], roots].concat(), "do not fit together"),
        ([certificate, key, &["--cluster-tls-ca-cert-file".to_owned(), broken]].concat(), "broken.pem"),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let output = nodes.command(0, &flags).output().expect("the program");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(told), "{flags:?}: {text}");
    }
}

#[test]
fn nodes_with_a_port_of_their_own_meet_there() {
    let mut nodes = Nodes::of_list(8, 3, &[]);
    // Ports that are not used: those of nodes that never run.
    let ports: Vec<u16> = (4..8).map(|node| nodes.port(node)).collect();
    let own = |node: usize| ["--peer-port".to_owned(), ports[node].to_string()];
    // One of them meets the others at the port of HTTP: each says where it is met.
    for node in 0..3 {
        let flags = own(node);
        let flags: Vec<&str> = if node == 1 { Vec::new() } else { flags.iter().map(String::as_str).collect() };
        nodes.spawn_with(node, &flags);
    }
    (0..3).for_each(|node| nodes.until_ready(node));
    for node in 0..3 {
        assert_eq!(nodes.status(node, "PUT", &format!("/v0/entity?id=k{node}&ack=3"), b"v"), 201);
    }
    let (head, _) = upgrade(nodes.port(0), "quipu-peer/1", b"");
    assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
    assert!(head.contains(&format!("quipu-peer-port: {}\r\n", ports[0])), "{head}");
    let (head, _) = upgrade(ports[0], "quipu-peer/1", b"");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for target in ["/v0/entity?id=k0", "/v0/status", "/metrics", "/v0/cluster"] {
        let reply = ask(local(ports[0]), "GET", target, b"", "").expect("an answer");
        assert_eq!(reply.status, 404, "{target}: {}", reply.text());
        assert!(reply.text().contains("nodes of the cluster"), "{}", reply.text());
    }
    // A node joins from and at such a port.
    let add = format!("{{\"add\":[{{\"url\":\"{}\"}}]}}", nodes.url(3));
    let [flag, port] = own(3);
    nodes.spawn_with(3, &["--join", &nodes.url(0), &flag, &port]);
    eventually("it is added", || nodes.status(0, "POST", "/v0/cluster", add.as_bytes()) == 202);
    nodes.until_ready(3);
    assert_eq!(nodes.get(3, "/v0/entity?id=k1").body, b"v");
}
