//! Two servers that are sent the same: the reference, and the subject under test.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tempfile::TempDir;

use crate::client::{Answer, Client, REPLY_TIMEOUT};
use crate::clock::{self, Deadline};
use crate::command::{Command, encode_all, quoted};
use crate::comparison::Session;
use crate::process::{Launch, ServerProcess};
use crate::step::{ASIDE, Step, TALKERS};
use crate::value::{Body, Value};

/// An iteration that takes more calls than this does not end.
const ITERATION_LIMIT: usize = 100_000;

/// Where two servers disagree.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The command whose replies differ.
    pub command: Command,
    /// What the reference answered.
    pub reference: String,
    /// What the subject answered.
    pub subject: String,
    /// What differs.
    pub why: String,
}

impl Difference {
    fn of_answers(command: &Command, reference: &Answer, subject: &Answer, why: String) -> Difference {
        let told = |answer: &Answer| match answer {
            Answer::Reply { raw, .. } => quoted(raw),
            Answer::Silence(raw) => format!("nothing within the time limit, after {}", quoted(raw)),
            Answer::Closed(raw) => format!("closed the connection, after {}", quoted(raw)),
            Answer::Garbage(raw) => format!("no reply, but {}", quoted(raw)),
        };
        Difference { command: command.clone(), reference: told(reference), subject: told(subject), why }
    }
}

/// A server and the connections to it.
#[derive(Debug)]
struct Side {
    launch: Option<Launch>,
    dir: TempDir,
    process: Option<ServerProcess>,
    address: SocketAddr,
    clients: Vec<Client>,
}

impl Side {
    fn start(launch: Launch) -> io::Result<Side> {
        let dir = tempfile::tempdir()?;
        let process = ServerProcess::start(&launch, &dir.path().join("data"), dir.path())?;
        Ok(Side { launch: Some(launch), dir, address: process.address, process: Some(process), clients: Vec::new() })
    }

    /// An empty server with fresh connections; a new process, if the last one has ended.
    fn renew(&mut self, protocol: u8, patience: Duration) -> io::Result<()> {
        self.clients.clear();
        if let (Some(launch), Some(process)) = (&self.launch, &mut self.process) {
            // A process that refuses a connection may be about to end.
            let deadline = Deadline::after(Duration::from_secs(2));
            while process.ended().is_none() && Client::connect(self.address).is_err() && !deadline.passed() {
                clock::pause(Duration::from_millis(5));
            }
            if process.ended().is_some() {
                *process = ServerProcess::start(launch, &self.dir.path().join("data"), self.dir.path())?;
                self.address = process.address;
            }
        }
        for _ in 0..=TALKERS {
            let mut client = Client::connect(self.address)?;
            client.be_patient_for(patience)?;
            if protocol == 3 {
                client.ask(&Command::new("HELLO 3"))?;
            }
            self.clients.push(client);
        }
        let flushed = self.clients[ASIDE].ask(&Command::new("FLUSHALL"))?;
        if flushed.is_simple("OK") { Ok(()) } else { Err(io::Error::other(format!("FLUSHALL answered {flushed:?}"))) }
    }
}

/// Two servers with the same connections to both.
#[derive(Debug)]
pub struct Pair {
    reference: Side,
    subject: Side,
    sessions: Vec<Session>,
    /// How long a reply may take, on connections made from now on.
    pub patience: Duration,
    /// How many replies of each command were compared, and how many of them were errors.
    pub replies: BTreeMap<String, (u64, u64)>,
}

impl Pair {
    /// Starts both.
    ///
    /// # Errors
    ///
    /// If one of them does not start.
    pub fn start(reference: Launch, subject: Launch) -> io::Result<Pair> {
        let (reference, subject) = (Side::start(reference)?, Side::start(subject)?);
        Ok(Pair::of(reference, subject))
    }

    /// Two servers that run already.
    ///
    /// # Errors
    ///
    /// If there is no place for temporary files.
    pub fn at(reference: SocketAddr, subject: SocketAddr) -> io::Result<Pair> {
        let side = |address| {
            let dir = tempfile::tempdir()?;
            Ok::<Side, io::Error>(Side { launch: None, dir, process: None, address, clients: Vec::new() })
        };
        Ok(Pair::of(side(reference)?, side(subject)?))
    }

    fn of(reference: Side, subject: Side) -> Pair {
        Pair { reference, subject, sessions: Vec::new(), patience: REPLY_TIMEOUT, replies: BTreeMap::new() }
    }

    /// Where the two listen.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.reference.address, self.subject.address)
    }

    /// How the subject's process ended, and the last lines it printed, if it has ended.
    pub fn subject_end(&mut self) -> Option<String> {
        let process = self.subject.process.as_mut()?;
        // Its connections are closed a little before it has ended.
        let deadline = Deadline::after(Duration::from_millis(500));
        while process.ended().is_none() && !deadline.passed() && Client::connect(self.subject.address).is_err() {
            clock::pause(Duration::from_millis(5));
        }
        let status = process.ended()?;
        #[expect(clippy::disallowed_methods, reason = "the log of a process under test, not a file of a database")]
        let log = std::fs::read(self.subject.dir.path().join("server.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        Some(format!("{status}; it printed last:\n{}", lines[lines.len().saturating_sub(20)..].join("\n")))
    }

    /// Empty servers and fresh connections that speak version `protocol`.
    ///
    /// # Errors
    ///
    /// If a server does not answer.
    pub fn renew(&mut self, protocol: u8) -> io::Result<()> {
        self.sessions = vec![Session::default(); TALKERS + 1];
        self.reference.renew(protocol, self.patience)?;
        self.subject.renew(protocol, self.patience)
    }

    /// Does a step on both servers and compares.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn perform(&mut self, step: &Step) -> Result<(), Box<Difference>> {
        match step {
            Step::Pipeline { client, units, cuts } => self.exchange(*client, &units.concat(), cuts, None),
            Step::Hushed { commands, answered } => self.exchange(ASIDE, commands, &[], Some(answered)),
            Step::Wait { before, pause_ms, after } => {
                self.exchange(ASIDE, before, &[], None)?;
                clock::pause(Duration::from_millis(*pause_ms));
                self.exchange(ASIDE, after, &[], None)
            }
            Step::Iterate { command, cursor } => self.iterate(command, *cursor),
            Step::Transfer { from, to, ttl_ms, options } => self.transfer(from, to, *ttl_ms, options),
            Step::Sample { key, count, with_scores } => self.sample(key, *count, *with_scores),
        }
    }

    /// Sends commands in one go and compares the replies; only those at `answered` get one, if that is given.
    fn exchange(
        &mut self,
        client: usize,
        commands: &[Command],
        cuts: &[usize],
        answered: Option<&[usize]>,
    ) -> Result<(), Box<Difference>> {
        let bytes = encode_all(commands);
        // A failure to write shows as a missing reply.
        let _ = self.reference.clients[client].send(&bytes, cuts);
        let _ = self.subject.clients[client].send(&bytes, cuts);
        for (index, command) in commands.iter().enumerate() {
            if answered.is_none_or(|answered| answered.contains(&index)) {
                let (reference, subject) = self.answers(client);
                self.compare(client, command, &reference, &subject)?;
            }
        }
        let unasked = |side: &Side| side.clients[client].unasked().to_vec();
        let (reference, subject) = (unasked(&self.reference), unasked(&self.subject));
        if let (true, Some(last)) = (!reference.is_empty() || !subject.is_empty(), commands.last()) {
            let why = "bytes after the last reply".to_string();
            let (reference, subject) = (quoted(&reference), quoted(&subject));
            return Err(Box::new(Difference { command: last.clone(), reference, subject, why }));
        }
        Ok(())
    }

    fn answers(&mut self, client: usize) -> (Answer, Answer) {
        (self.reference.clients[client].answer(), self.subject.clients[client].answer())
    }

    fn compare(
        &mut self,
        client: usize,
        command: &Command,
        reference: &Answer,
        subject: &Answer,
    ) -> Result<(), Box<Difference>> {
        let entry = self.replies.entry(command.name()).or_default();
        entry.0 += 1;
        entry.1 += u64::from(reference.value().is_some_and(Value::is_error));
        self.sessions[client]
            .compare(command, reference, subject)
            .map_err(|why| Box::new(Difference::of_answers(command, reference, subject, why)))
    }

    /// Sends the same to both, on the connection that is in no transaction, and compares by the command's rule.
    fn ask(&mut self, command: &Command) -> Result<(Answer, Answer), Box<Difference>> {
        self.ask_each(command, command)
    }

    fn ask_each(&mut self, reference: &Command, subject: &Command) -> Result<(Answer, Answer), Box<Difference>> {
        let _ = self.reference.clients[ASIDE].send(&reference.encode(), &[]);
        let _ = self.subject.clients[ASIDE].send(&subject.encode(), &[]);
        let answers = self.answers(ASIDE);
        self.compare(ASIDE, reference, &answers.0, &answers.1)?;
        Ok(answers)
    }

    fn iterate(&mut self, command: &Command, cursor: usize) -> Result<(), Box<Difference>> {
        let (reference, subject) = self.ask(command)?;
        let references = collect(&mut self.reference.clients[ASIDE], command, cursor, reference);
        let subjects = collect(&mut self.subject.clients[ASIDE], command, cursor, subject);
        if references == subjects {
            return Ok(());
        }
        let (reference, subject) = (format!("{references:?}"), format!("{subjects:?}"));
        let why = "what the full iteration found differs".to_string();
        Err(Box::new(Difference { command: command.clone(), reference, subject, why }))
    }

    fn transfer(
        &mut self,
        from: &[u8],
        to: &[u8],
        ttl_ms: i64,
        options: &[&'static str],
    ) -> Result<(), Box<Difference>> {
        let (reference, subject) = self.ask(&Command::new("DUMP").arg(from))?;
        let restore = |answer: &Answer| {
            let payload = answer.value().filter(|value| value.marker == b'$')?.text()?.to_vec();
            Some(Command::new("RESTORE").arg(to).number(ttl_ms).arg(payload).args(options.iter().copied()))
        };
        match (restore(&reference), restore(&subject)) {
            (Some(reference), Some(subject)) => self.ask_each(&reference, &subject).map(drop),
            _ => Ok(()),
        }
    }

    fn sample(&mut self, key: &[u8], count: i64, with_scores: bool) -> Result<(), Box<Difference>> {
        let (whole, _) = self.ask(&Command::new("ZRANGE").arg(key).args(["0", "-1", "WITHSCORES"]))?;
        let command = Command::new("ZRANDMEMBER").arg(key).number(count).when(with_scores, "WITHSCORES");
        let (reference, subject) = self.ask(&command)?;
        let Some(whole) = whole.value().filter(|whole| !whole.is_error()) else { return Ok(()) };
        for (who, answer) in [("reference", &reference), ("subject", &subject)] {
            let Some(sample) = answer.value() else { continue };
            if let Err(why) = check_sample(whole, sample, count, with_scores) {
                let why = format!("the {who}'s sample is wrong: {why}");
                return Err(Box::new(Difference::of_answers(&command, &reference, &subject, why)));
            }
        }
        Ok(())
    }
}

/// What an iteration finds, from its first portion on: keys, or members with their scores.
fn collect(client: &mut Client, command: &Command, cursor: usize, first: Answer) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut answer = first;
    let per_entry = if cursor == 2 { 2 } else { 1 };
    for _ in 0..ITERATION_LIMIT {
        let value = answer.value().ok_or_else(|| format!("no reply: {answer:?}"))?;
        if value.is_error() {
            return Err(quoted(answer.raw()));
        }
        let Some([next, portion]) = value.items() else { return Err("a reply that is not a pair".to_string()) };
        for entry in portion.items().unwrap_or_default().chunks(per_entry) {
            let mut texts: Vec<String> = entry.iter().map(|part| quoted(part.text().unwrap_or_default())).collect();
            // How a score is written depends on the set's encoding in Redis; what it is does not.
            if let [_, score] = &mut texts[..]
                && let Ok(number) = score.trim_matches('"').parse::<f64>()
            {
                *score = format!("{number:?}");
            }
            found.insert(texts.join(" "));
        }
        let next = next.text().unwrap_or_default().to_vec();
        if next == b"0" {
            return Ok(found);
        }
        let mut following = command.clone();
        following.words[cursor] = next;
        client.send(&following.encode(), &[]).map_err(|error| error.to_string())?;
        answer = client.answer();
    }
    Err(format!("no end within {ITERATION_LIMIT} calls"))
}

/// Whether a score is zero: with its sign or without, as the set's encoding in Redis decides.
fn is_zero(score: &[u8]) -> bool {
    matches!(score, b"0" | b"-0")
}

/// Whether a sample could have been drawn from the whole set.
fn check_sample(whole: &Value, sample: &Value, count: i64, with_scores: bool) -> Result<(), String> {
    if sample.is_error() {
        return Err("an error".to_string());
    }
    let whole_texts = texts(whole);
    let pairs: Vec<(&[u8], &[u8])> = whole_texts.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let drawn_texts = texts(sample);
    let drawn: Vec<&[&[u8]]> = drawn_texts.chunks(if with_scores { 2 } else { 1 }).collect();
    let asked = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let expected = match (pairs.is_empty(), count < 0) {
        (true, _) => 0,
        (false, true) => asked,
        (false, false) => asked.min(pairs.len()),
    };
    if drawn.len() != expected {
        return Err(format!("{} members instead of {expected}", drawn.len()));
    }
    for entry in &drawn {
        let is_score = |own: &[u8], score: &[u8]| own == score || is_zero(own) && is_zero(score);
        let known = pairs
            .iter()
            .any(|(member, score)| *member == entry[0] && entry.get(1).is_none_or(|own| is_score(own, score)));
        if !known {
            return Err(format!("{} is not in the set", quoted(entry[0])));
        }
    }
    let distinct: BTreeSet<&[u8]> = drawn.iter().map(|entry| entry[0]).collect();
    if count >= 0 && distinct.len() != drawn.len() { Err("a member twice".to_string()) } else { Ok(()) }
}

/// All texts of a reply in order, nested ones included.
fn texts(value: &Value) -> Vec<&[u8]> {
    match &value.body {
        Body::Nil => Vec::new(),
        Body::Text(text) => vec![text],
        Body::Items(items) => items.iter().flat_map(texts).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_must_be_drawn_from_the_set() {
        let value = |bytes: &[u8]| Value::decode(bytes).unwrap().unwrap().0;
        let whole = value(b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n");
        let check = |sample: &[u8], count, scores| check_sample(&whole, &value(sample), count, scores);
        assert_eq!(check(b"*1\r\n$1\r\nb\r\n", 1, false), Ok(()));
        assert_eq!(check(b"*2\r\n$1\r\nb\r\n$1\r\n2\r\n", 1, true), Ok(()));
        assert_eq!(check(b"*1\r\n*2\r\n$1\r\nb\r\n,2\r\n", 1, true), Ok(()));
        assert_eq!(check(b"*3\r\n$1\r\nb\r\n$1\r\nb\r\n$1\r\na\r\n", -3, false), Ok(()));
        assert_eq!(check(b"*0\r\n", 0, false), Ok(()));
        assert!(check(b"*2\r\n$1\r\nb\r\n$1\r\nb\r\n", 2, false).is_err(), "twice");
        assert!(check(b"*2\r\n$1\r\nb\r\n$1\r\n1\r\n", 1, true).is_err(), "another's score");
        assert!(check(b"*1\r\n$1\r\nc\r\n", 1, false).is_err(), "unknown");
        assert!(check(b"*1\r\n$1\r\na\r\n", 2, false).is_err(), "too few");
    }
}
