//! Bytes that are no proper request, each sent on a connection of its own: the replies must be the same bytes, and the
//! connection must be closed or left open by both.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::client::Client;
use crate::clock;
use crate::command::{Command, encode_all, quoted};
use crate::dice::Dice;

/// Requests that break the rules of framing, or come close.
pub const FRAMES: &[&[u8]] = &[
    // Inline commands.
    b"PING\r\n",
    b"PING\n",
    b"ping   hello \r\n",
    b"\r\n",
    b"\r\n\r\nPING\r\n",
    b"\n\n\nPING\r\n",
    b" \r\nPING\r\n",
    b"\tPING\r\n",
    b"ECHO \"a b\"\r\n",
    b"ECHO 'a b'\r\n",
    b"ECHO \"\\x41\\n\\t\\\"\"\r\n",
    b"ECHO 'a\\'b'\r\n",
    b"ECHO \"a\r\n",
    b"ECHO 'a\r\nPING\r\n",
    b"ECHO \"a\"b\r\n",
    b"ECHO a\"b\"\r\n",
    b"ECHO \"\"\r\n",
    b"hello world\r\n",
    b"GET\r\n",
    b"$4\r\nPING\r\n",
    b":1\r\n",
    b"+OK\r\n",
    b"-ERR\r\n",
    b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"Host: localhost\r\n",
    b"PING",
    b"PING\r",
    b"PING\rPING\r\n",
    // The number of words.
    b"*0\r\n",
    b"*0\r\nPING\r\n",
    b"*-1\r\nPING\r\n",
    b"*-5\r\nPING\r\n",
    b"*\r\n",
    b"*a\r\n",
    b"*1a\r\n",
    b"* 1\r\n$4\r\nPING\r\n",
    b"*+1\r\n$4\r\nPING\r\n",
    b"*01\r\n$4\r\nPING\r\n",
    b"*1 \r\n$4\r\nPING\r\n",
    b"*1.0\r\n",
    b"*2147483648\r\n",
    b"*2147483647\r\n",
    b"*9223372036854775807\r\n",
    b"*9223372036854775808\r\n",
    b"*-9223372036854775809\r\n",
    b"*99999999999999999999999999\r\n",
    b"*1\n$4\r\nPING\r\n",
    b"*1\r$4\r\nPING\r\n",
    // The length of a word.
    b"*1\r\n$-1\r\n",
    b"*1\r\n$-2\r\nPING\r\n",
    b"*1\r\n$\r\n",
    b"*1\r\n$a\r\nPING\r\n",
    b"*1\r\n$4a\r\nPING\r\n",
    b"*1\r\n$ 4\r\nPING\r\n",
    b"*1\r\n$+4\r\nPING\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n$536870913\r\n",
    b"*1\r\n$9223372036854775807\r\n",
    b"*1\r\n$9223372036854775808\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"*1\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$4\r\nPING\r\n$0\r\n\r\n",
    // What stands where a word should.
    b"*1\r\nPING\r\n",
    b"*1\r\n:4\r\nPING\r\n",
    b"*1\r\n+PING\r\n",
    b"*1\r\n\r\n",
    b"*1\r\n*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n:5\r\n",
    // Words longer or shorter than they say.
    b"*1\r\n$3\r\nPING\r\n",
    b"*1\r\n$5\r\nPING\r\n",
    b"*1\r\n$5\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$4\r\nPINGPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n$3\r\nabcdef\r\n",
    // Frames that end in the middle.
    b"*",
    b"*1",
    b"*1\r",
    b"*1\r\n",
    b"*1\r\n$",
    b"*1\r\n$4",
    b"*1\r\n$4\r\nPI",
    b"*1\r\n$4\r\nPING",
    b"*1\r\n$4\r\nPING\r",
    b"*2\r\n$4\r\nPING\r\n",
    // After a reply, and in the middle of things.
    b"*1\r\n$4\r\nPING\r\n*1\r\nX",
    b"*1\r\n$4\r\nPING\r\n\r\n*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$5\r\nMULTI\r\n*1\r\n$-5\r\n",
    b"*1\r\n$4\r\nQUIT\r\n",
    b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$4\r\nquit\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$5\r\nHELLO\r\n$1\r\n9\r\n*1\r\n$4\r\nPING\r\n",
    b"\xff\xfe\xfd\r\n",
];

/// A difference between the answers to one case.
#[derive(Clone, Debug)]
pub struct FrameDifference {
    /// What was sent.
    pub sent: Vec<u8>,
    /// What the reference answered, and whether it closed the connection.
    pub reference: (Vec<u8>, bool),
    /// What the subject did.
    pub subject: (Vec<u8>, bool),
}

/// Compares the answers to all of [`FRAMES`], to a line and to lengths that are too long, and to `mutated` requests
/// that chance has damaged.
///
/// # Errors
///
/// If a server is not there.
pub fn compare(
    reference: SocketAddr,
    subject: SocketAddr,
    dice: &mut Dice,
    mutated: usize,
) -> io::Result<(usize, Option<FrameDifference>)> {
    let mut cases: Vec<Vec<u8>> = FRAMES.iter().map(|frame| frame.to_vec()).collect();
    // Lines longer than the 64 KiB that a server reads in search of their end.
    cases.push(vec![b'a'; 70_000]);
    cases.push([b"*".to_vec(), vec![b'1'; 70_000]].concat());
    cases.push([b"*1\r\n$".to_vec(), vec![b'1'; 70_000]].concat());
    cases.extend((0..mutated).map(|_| damaged(dice)));
    for group in cases.chunks(64) {
        let references = answers(reference, group, Duration::from_millis(60))?;
        let subjects = answers(subject, group, Duration::from_millis(60))?;
        for (index, sent) in group.iter().enumerate() {
            if references[index] == subjects[index] {
                continue;
            }
            // A difference may be slowness: ask again, this case alone, with patience.
            let alone = std::slice::from_ref(sent);
            let patience = Duration::from_millis(1000);
            let (again, other) = (answers(reference, alone, patience)?, answers(subject, alone, patience)?);
            if again != other {
                let difference =
                    FrameDifference { sent: sent.clone(), reference: again[0].clone(), subject: other[0].clone() };
                return Ok((cases.len(), Some(difference)));
            }
        }
    }
    Ok((cases.len(), None))
}

/// Sends each case on a connection of its own, all at once; what comes back within `quiet`, and whether the connection
/// was closed.
fn answers(address: SocketAddr, cases: &[Vec<u8>], quiet: Duration) -> io::Result<Vec<(Vec<u8>, bool)>> {
    let mut clients = Vec::with_capacity(cases.len());
    for case in cases {
        let mut client = Client::connect(address)?;
        // A server may close the connection before it has read everything.
        let _ = client.send(case, &[]);
        clients.push(client);
    }
    clock::pause(quiet);
    let drained = clients.into_iter().map(Client::drain);
    Ok(drained.map(|(bytes, closed)| (without_client_id(bytes), closed)).collect())
}

/// An answer without the client's number in that to `HELLO`, which damaged frames may turn into.
fn without_client_id(mut bytes: Vec<u8>) -> Vec<u8> {
    const BEFORE: &[u8] = b"$2\r\nid\r\n:";
    let mut from = 0;
    while let Some(at) = bytes[from..].windows(BEFORE.len()).position(|window| window == BEFORE) {
        from += at + BEFORE.len();
        let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        bytes.drain(from..from + digits);
    }
    bytes
}

/// Harmless requests with a few bytes changed.
fn damaged(dice: &mut Dice) -> Vec<u8> {
    let harmless = [
        Command::new("PING"),
        Command::new("ECHO hello"),
        Command::new("ECHO").arg(b"a\r\nb".to_vec()),
        Command::new("GET nosuchkey"),
        Command::new("ZRANGE nosuchkey 0 -1"),
        Command::new("PING").arg(""),
    ];
    let commands: Vec<Command> = (0..1 + dice.below(4)).map(|_| harmless[dice.below(harmless.len())].clone()).collect();
    let mut bytes = encode_all(&commands);
    for _ in 0..1 + dice.below(3) {
        let place = dice.below(bytes.len());
        match dice.below(5) {
            0 => bytes[place] = *dice.pick(&[&b'*', &b'$', &b'\r', &b'\n', &b'-', &b'0', &b' ', &b'"']),
            // No zero byte: Redis takes the end of a line for missing after one, and waits.
            1 => bytes[place] = dice.bytes(1)[0].max(1),
            2 => bytes.insert(place, *dice.pick(&[&b'1', &b'9', &b'\r', &b'\n', &b'-', &b'x', &b'\''])),
            3 => {
                bytes.remove(place);
            }
            _ => bytes.truncate(place.max(1)),
        }
        if bytes.is_empty() {
            bytes.push(b'*');
        }
    }
    bytes
}

impl std::fmt::Display for FrameDifference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told = |(bytes, closed): &(Vec<u8>, bool)| {
            format!(
                "{} and {}",
                quoted(bytes),
                if *closed { "closed the connection" } else { "left the connection open" }
            )
        };
        writeln!(formatter, "sent, on a fresh connection: {}", quoted(&self.sent))?;
        writeln!(formatter, "reference answered: {}", told(&self.reference))?;
        writeln!(formatter, "subject answered:   {}", told(&self.subject))
    }
}
