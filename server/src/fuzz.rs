//! Plays whole streams of commands from arbitrary bytes, for the fuzz target `commands` and `tests/streams.rs`. It is
//! not a stable interface.
//!
//! A stream is played over new servers: in batches, where commands that are alike run together; one by one, where
//! strings are cut into tiny pieces; and in batches over runs of which hardly a page is in memory, so that commands are
//! taken back and tried again. Each answer has to be one frame, no command may panic, and all servers have to be whole
//! at the end. All answers that do not depend on chance or time have to be the same.

use std::path::Path;

use quipu::{Db, Options};

use crate::config::Config;
use crate::execution::batch::{Progress, Turn};
use crate::execution::long::{LongCommand, Step as LongStep};
use crate::execution::words::Words;
use crate::facts::{self, Group, Spec};
use crate::keyspace::{self, Cut};
use crate::resp::parse::{Batch, Limits, Parser};
use crate::resp::reply::{Protocol, Reply};
use crate::state::server::Server;
use crate::state::session::{ReplyMode, Session};
use crate::system::log::Level;

/// Commands of a stream that are looked at.
const COMMANDS_MAX: usize = 400;

/// Words of a command that are made up.
const WORDS_MAX: usize = 12;

/// Names that meet again: of keys, members and snapshots.
const NAMES: [&str; 8] = ["a", "b", "c", "key", "z", "zz", "", "k\u{fc}\r\n"];

/// Words of a syntax that stand for names.
const NAMED: [&str; 9] = ["key", "newkey", "source", "destination", "destkey", "member", "field", "value", "id"];

/// Numbers and bounds, such that no value grows past some megabytes.
const NUMBERS: &str = "0 1 -1 2 3 7 10 100 -5 5000 100000 1.5 -2.25 1e3 inf -inf nan (1 (inf 9223372036854775807 \
    -9223372036854775808 9223372036854775808 18446744073709551615 + - [a (a [z (zz [ ( * a* ? [a-c]";
/// Of these, the small ones.
const SMALL: &str = "0 1 -1 2 3 7 10 100";

/// Options that come after a choice in the syntax of a command, or that do not exist.
const OPTIONS: &str = "sum min max string zset u8 i16 u63 #1 wrap help user on off allkeys ~a* +@read nx rev ex";

/// Commands that would end the server, write files, or make others wait.
const LEFT_OUT: [&str; 7] =
    ["shutdown", "debug|sleep", "client|pause", "config|set", "config|rewrite", "acl|save", "acl|load"];

/// Commands whose answers tell of the moment, of chance, or of what else the server has done; and what makes keys
/// expire.
const VARYING: &str = "time info client hello lastsave zrandmember randomkey q.sample q.snapshot q.at q.release ttl \
    pttl expiretime pexpiretime object q.tally memory latency slowlog acl scan zscan monitor config command expire \
    pexpire expireat pexpireat setex psetex getex restore set save bgsave bgrewriteaof dump auth quit reset";

/// A command, and which of two clients sends it.
type Step = (usize, Vec<Vec<u8>>);

/// Plays the stream that these bytes stand for. The lowest bit of the first says whether they are choices from the
/// table of commands, or what a client sends; the next one whether answers are compared, for which commands that vary
/// are left out.
///
/// # Panics
/// If anything of what the module promises does not hold.
pub fn commands(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let steps = if first & 1 == 0 { parsed(rest) } else { made_up(rest) };
    let compares = first & 2 != 0;
    let is_wanted = |(_, words): &Step| !(is_left_out(words) || compares && varies(words));
    let steps: Vec<Step> = steps.into_iter().filter(is_wanted).take(COMMANDS_MAX).collect();
    // Sums may have twenty digits and more: those strings are short.
    let tiny = Cut { whole_bytes_max: 64, piece_bytes: 8 };
    let together = play(&steps, usize::MAX, Cut::default(), Storage::Memory);
    let others =
        [("one by one", play(&steps, 1, tiny, Storage::Memory)), ("over runs", play(&steps, 6, tiny, Storage::Runs))];
    for (way, others) in others.iter().filter(|_| compares) {
        for (number, (together, other)) in together.iter().zip(others).enumerate() {
            let (together, other) = (together.escape_ascii().to_string(), other.escape_ascii().to_string());
            assert_eq!(together, other, "{way} answers otherwise: number {number} of {steps:?}");
        }
        assert_eq!(together.len(), others.len(), "another number of answers {way}");
    }
}

/// Where the keys of a server lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// In memory.
    Memory,
    /// In runs of tiny pages, of which hardly any is in memory.
    Runs,
}

impl Storage {
    fn options(self) -> Options {
        match self {
            Storage::Memory => Options::without_files(),
            Storage::Runs => Options {
                page_bytes: 256,
                run_page_bytes: 256,
                memtable_bytes: 1 << 20,
                cache_bytes: 2 << 10,
                ..Options::without_files()
            },
        }
    }

    /// Writes all tables to runs, if that is where they lie.
    fn bring(self, db: &Db) {
        if self == Storage::Runs {
            for table in db.tables().into_iter().filter(|table| !table.options().in_memory) {
                table.flush().expect("a flush");
            }
        }
    }
}

fn varies(words: &[Vec<u8>]) -> bool {
    let name = words[0].to_ascii_lowercase();
    // The common form of SET has no deadline.
    VARYING.split_whitespace().any(|varying| varying.as_bytes() == name) && (name != b"set" || words.len() > 3)
}

fn is_left_out(words: &[Vec<u8>]) -> bool {
    let name = words[0].to_ascii_lowercase();
    let both = [&name[..], b"|", &words.get(1).map(|word| word.to_ascii_lowercase()).unwrap_or_default()].concat();
    LEFT_OUT.iter().any(|out| out.as_bytes() == name || out.as_bytes() == both)
}

/// The commands in what a client sends, up to the first that breaks the protocol.
fn parsed(bytes: &[u8]) -> Vec<Step> {
    let mut batch = Batch::new();
    // What broke it is another target's business.
    let _ = Parser::new(Limits::default()).parse(bytes, COMMANDS_MAX, &mut batch);
    (0..batch.len()).map(|number| (0, batch.arguments(bytes, number).map(<[u8]>::to_vec).collect())).collect()
}

/// Commands that are chosen by bytes: which client, which command, how many words more than it needs, which words.
fn made_up(bytes: &[u8]) -> Vec<Step> {
    let mut bytes = bytes.iter().copied();
    let specs: Vec<&'static Spec> = facts::all().filter(|spec| spec.group != Group::Absent).collect();
    let mut steps = Vec::new();
    while let (Some(shape), Some(choice)) = (bytes.next(), bytes.next()) {
        let mut spec = specs[usize::from(choice) % specs.len()];
        let mut words = vec![spec.name.as_bytes().to_vec()];
        if !spec.subcommands.is_empty() {
            spec = &spec.subcommands[usize::from(bytes.next().unwrap_or(0)) % spec.subcommands.len()];
            words.extend(spec.name.rsplit('|').next().map(|name| name.as_bytes().to_vec()));
        }
        let further = if spec.arity < 0 || shape & 0b0110_0000 == 0 { usize::from(shape & 3) } else { 0 };
        let wanted = (spec.arity.unsigned_abs() as usize + further).min(WORDS_MAX);
        let split = |text: &'static str| {
            text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
        };
        // In the syntax, options are in upper case, and what is to be filled in is in lower case.
        let options: Vec<&str> =
            split(spec.syntax).filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase())).collect();
        let blanks: Vec<&str> =
            split(spec.syntax).filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase())).collect();
        for blank in words.len().. {
            if words.len() >= wanted {
                break;
            }
            let blank = blanks.get(blank - 1).is_some_and(|blank| NAMED.contains(blank));
            words.push(word(blank, &options, &mut bytes));
        }
        // Runs of what is alike take another path than single commands.
        let times = if shape & 0b0001_1000 == 0 { 5 } else { 1 };
        steps.extend((0..times).map(|_| (usize::from(shape >> 7), words.clone())));
    }
    steps
}

fn pick(words: &'static str, choice: usize) -> &'static str {
    let count = words.split_whitespace().count();
    words.split_whitespace().nth(choice % count).unwrap_or_default()
}

/// A word: a name where one is wanted, else a number, a bound or an option; sometimes anything.
fn word(wants_name: bool, options: &[&str], bytes: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let choice = usize::from(bytes.next().unwrap_or(0));
    let text = match choice {
        250.. => return bytes.take(choice - 250).collect(),
        _ if wants_name || choice >= 220 => NAMES[choice % NAMES.len()],
        200.. => pick(OPTIONS, choice),
        120.. if !options.is_empty() => options[choice % options.len()],
        // Small numbers are what most commands want.
        60.. => pick(SMALL, choice),
        _ => pick(NUMBERS, choice),
    };
    text.as_bytes().to_vec()
}

/// Plays the steps over a fresh server that cuts strings so, so many commands of a client in one batch, and returns the
/// answers.
fn play(steps: &[Step], first_chunk: usize, cut: Cut, place: Storage) -> Vec<Vec<u8>> {
    let db = Db::open(Path::new("/server"), place.options()).expect("a database");
    let server = Server::over_cut(db, Config::default(), cut).expect("a server");
    server.snapshots.number_from(0);
    let mut clients = [Player::new(&server), Player::new(&server)];
    let mut answers = Vec::new();
    let mut rest = steps;
    while let Some(&(who, _)) = rest.first() {
        let alike = rest.iter().take(first_chunk).take_while(|(other, _)| *other == who).count();
        let commands: Vec<&[Vec<u8>]> = rest[..alike].iter().map(|(_, words)| &words[..]).collect();
        let client = &mut clients[who];
        let was_silent = client.session.reply_mode != ReplyMode::On;
        let bytes = client.send(&commands);
        let mut left = &bytes[..];
        let mut frames = 0;
        while !left.is_empty() {
            let (frame, behind) = split_frame(left).unwrap_or_else(|| panic!("no frame: {}", left.escape_ascii()));
            assert!(!frame.starts_with(b"-ERR internal error"), "a command has panicked");
            answers.push(frame.to_vec());
            (left, frames) = (behind, frames + 1);
        }
        let is_silent = was_silent || commands.iter().any(|words| words[0].eq_ignore_ascii_case(b"client"));
        assert!(
            frames <= alike && (frames == alike || is_silent || client.session.closing),
            "{frames} answers to {alike} commands"
        );
        if client.session.closing {
            *client = Player::new(&server);
        }
        rest = &rest[alike..];
        place.bring(server.keyspace.db());
    }
    let faults = keyspace::check(server.keyspace.db()).expect("read");
    assert!(faults.is_empty(), "{faults:#?}");
    answers
}

/// The first frame of answers, and what is after it.
fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    let mut open = 1_u64;
    while open > 0 {
        let line = bytes[at..].split(|&byte| byte == b'\r').next()?;
        let (&kind, number) = line.split_first()?;
        at += line.len();
        at += bytes[at..].strip_prefix(b"\r\n").map(|_| 2)?;
        let number = || std::str::from_utf8(number).ok().and_then(|text| text.parse::<i64>().ok());
        open -= 1;
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
            b'$' | b'=' => {
                if let Ok(length) = usize::try_from(number()?) {
                    at += length;
                    at += bytes.get(at..)?.strip_prefix(b"\r\n").map(|_| 2)?;
                }
            }
            b'*' | b'~' | b'>' => open += u64::try_from(number()?).unwrap_or(0),
            b'%' => open += 2 * u64::try_from(number()?).ok()?,
            _ => return None,
        }
    }
    Some(bytes.split_at(at))
}

/// A client of a server without sockets.
pub struct Player<'s> {
    server: &'s Server,
    /// What the server remembers of it.
    pub session: Session,
    /// The version of the protocol that it speaks.
    pub protocol: Protocol,
}

impl<'s> Player<'s> {
    /// One that has just connected.
    ///
    /// # Panics
    /// If there are too many.
    pub fn new(server: &'s Server) -> Player<'s> {
        let session = server.welcome("test:1".to_owned(), "test:2".to_owned()).expect("welcome");
        Player { server, session, protocol: Protocol::Resp2 }
    }

    /// Sends commands in one read, and returns the bytes of all answers. What is to wait for the end of a pause is left
    /// out.
    ///
    /// # Panics
    /// If a batch cannot be committed.
    pub fn send(&mut self, commands: &[impl AsRef<[Vec<u8>]>]) -> Vec<u8> {
        let mut input = Vec::new();
        for words in commands {
            input.extend_from_slice(format!("*{}\r\n", words.as_ref().len()).as_bytes());
            for word in words.as_ref() {
                input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                input.extend_from_slice(word);
                input.extend_from_slice(b"\r\n");
            }
        }
        let mut batch = Batch::new();
        let parsed = Parser::new(Limits::default()).parse(&input, usize::MAX, &mut batch).expect("well-formed");
        assert_eq!(parsed.consumed, input.len());
        let mut reply = Reply::new(self.protocol);
        let mut from = 0;
        loop {
            let mut turn = Turn::new(self.server);
            let progress = turn.run(&mut self.session, &input, &batch, from, &mut reply);
            if let Err(error) = turn.finish(self.server.durability()) {
                reply.bytes.clear();
                reply.error(format!("MISCONF {error}"));
                break;
            }
            match progress {
                Progress::Done | Progress::Closing | Progress::Paused(_) => break,
                Progress::Enough(number) => from = number,
                Progress::Lacks(number) => {
                    from = number;
                    if let Some(attempt) = &mut self.session.attempt {
                        attempt.bring(&self.server.keyspace);
                    }
                }
                Progress::Beside(number, why) => {
                    let mut read = LongCommand::new(Words::copy(batch.arguments(&input, number)), why);
                    while read.step(self.server, &mut self.session, &mut reply) == LongStep::More {}
                    from = number + 1;
                }
            }
        }
        self.protocol = reply.protocol;
        reply.bytes
    }
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        self.server.farewell(&self.session.client, "", Level::Verbose);
    }
}
