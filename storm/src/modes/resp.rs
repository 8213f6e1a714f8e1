//! The storm over the Redis protocol: honest clients with keys of their own, judged reply by reply, and all sorts of
//! others beside them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu_suite::client::{Answer, Client};
use quipu_suite::clock::{Deadline, pause};
use quipu_suite::command::{Command, encode_all};
use quipu_suite::dice::Dice;
use quipu_suite::generate::{Group, Stream};
use quipu_suite::step::Step;
use quipu_suite::value::{Body, Value};

use crate::modes::server::{Judged, Stormed, SumField, Usage, ask, ping, watch};
use crate::options::Options;
use crate::report::Counters;

/// Threads that the server may have beside those that it has at rest, whatever its clients do.
const MORE_THREADS: u64 = 40;
/// Members, or keys, that all clients that ask for everything are answered at one time: what an honest client waits for
/// is then seconds, also of a machine that has other work.
const LISTED_AT_ONCE: usize = 1_600_000;
/// Commands that honest clients or the noise beside them must not send: they would change what others are judged by,
/// or end the server.
const NOT_FOR_NOISE: &[&str] = &[
    "FLUSHALL", "FLUSHDB", "SWAPDB", "SELECT", "MOVE", "RESET", "QUIT", "CLIENT", "MONITOR", "SHUTDOWN", "WAIT",
    "AUTH", "HELLO",
];

/// What is sent, beside the noise, which sends what the differential suite does.
pub const COMMANDS: &[&str] = &[
    "SET", "GET", "DEL", "APPEND", "STRLEN", "MGET", "ZADD", "ZREM", "ZSCORE", "ZCOUNT", "ZCARD", "ZRANK", "ZRANGE",
    "Q.COUNT", "SCAN", "ZSCAN", "KEYS", "Q.RANGE", "PING", "MULTI", "EXEC",
];

/// A run.
pub fn run(seed: u64, options: &Options) -> (Counters, Judged) {
    let mut counters = Counters::default();
    let result = storm(&mut Dice::new(seed), options, &mut counters);
    (counters, result)
}

fn storm(dice: &mut Dice, options: &Options, counters: &mut Counters) -> Judged {
    let durability = *dice.pick(&[&"os", &"os", &"none", &"sync"]);
    let arguments = ["--durability", durability];
    let mut stormed = Stormed::start(options.quipu.as_deref(), dice, &arguments).map_err(|error| error.to_string())?;
    let members = *dice.pick(&[&300_usize, &20_000, &20_000, &200_000]);
    let keys = *dice.pick(&[&500_usize, &8_000, &60_000]);
    let value_bytes = *dice.pick(&[&10_usize, &200, &1000]);
    fill(&stormed, members, keys, value_bytes)?;
    let process = stormed.process()?;
    let at_rest = Usage::of(process);
    // What is there, three times, and something for buffers: replies to slow readers included.
    let bound = Usage {
        threads: at_rest.threads + MORE_THREADS,
        resident_kib: at_rest.resident_kib * 3 + (300 << 10),
        files: at_rest.files + 2000,
    };
    let used_at_rest = used_memory(&stormed)?;
    let field =
        SumField::new(&stormed, Deadline::after(Duration::from_secs_f64(options.run_seconds)), options.stall_ms);
    let honest = 1 + dice.below(3);
    let mut crowd: Vec<(&str, usize)> = Vec::new();
    let lists = 80.min(LISTED_AT_ONCE / members.max(keys));
    for (name, most) in [("abandon", 2), ("list", lists), ("noise", 2), ("bytes", 3), ("slow", 4), ("overwrite", 1)] {
        let percent = if matches!(name, "abandon" | "overwrite") { 60 } else { 40 };
        if dice.percent(percent) {
            crowd.push((name, 1 + dice.below(most)));
        }
    }
    let models: Vec<Honest> = std::thread::scope(|scope| {
        let field = &field;
        let honest: Vec<_> = (0..honest)
            .map(|number| {
                let mut client = Honest::new(number, dice.seed());
                scope.spawn(move || field.guard("an honest client", move || client.go(field).map(|()| client)))
            })
            .collect();
        scope.spawn(move || field.guard("an honest client", || ping(field)));
        scope.spawn(move || field.guard("the watch", || watch(field, process, bound)));
        for (name, count) in &crowd {
            for _ in 0..*count {
                let seed = dice.seed();
                scope.spawn(move || field.guard(name, || one_of_the_crowd(field, name, seed, keys, value_bytes)));
            }
        }
        honest.into_iter().filter_map(|client| client.join().ok().flatten()).collect()
    });
    counters.commands = field.commands.load(Ordering::Relaxed);
    let crowd: Vec<String> = crowd.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let told =
        format!("beside {}; {members} members, {keys} keys of {value_bytes} bytes, {durability}", crowd.join(", "));
    field.end().map_err(|text| format!("{text} [{told}]"))?;
    let own: usize = models.iter().map(Honest::bytes).sum();
    judge_rest(&stormed, at_rest, used_at_rest + own as u64, process).map_err(|text| format!("{text} [{told}]"))?;
    let kill = durability != "none" && dice.percent(50);
    stormed.restart(kill).map_err(|error| format!("a restart: {error} [{told}]"))?;
    counters.kills += u64::from(kill);
    counters.reopens += 1;
    models
        .iter()
        .try_for_each(|model| model.judge_all(&stormed))
        .map_err(|text| format!("after a restart: {text} [{told}]"))
}

/// What all share, and no client is judged by: a sorted set, and strings.
fn fill(stormed: &Stormed, members: usize, keys: usize, value_bytes: usize) -> Judged {
    let mut client = Client::connect(stormed.server.address).map_err(|error| error.to_string())?;
    let adds =
        (0..members).map(|number| Command::new("ZADD shared").number(number % 977).arg(format!("member {number:07}")));
    let sets =
        (0..keys).map(|number| Command::new("SET").arg(format!("string {number:06}")).arg(vec![b'v'; value_bytes]));
    let commands: Vec<Command> = adds.chain(sets).collect();
    for some in commands.chunks(1000) {
        client.send(&encode_all(some), &[]).map_err(|error| error.to_string())?;
        for _ in some {
            match client.answer() {
                Answer::Reply { value, .. } if !value.is_error() => {}
                other => return Err(format!("the server refuses to be filled: {other:?}")),
            }
        }
    }
    Ok(())
}

/// When all clients have gone, the server comes to rest: what they took is given back.
fn judge_rest(stormed: &Stormed, at_rest: Usage, used_at_rest: u64, process: u32) -> Judged {
    let deadline = Deadline::after(Duration::from_secs(10));
    loop {
        let now = Usage::of(process);
        let rests = now.threads <= at_rest.threads + 4 && now.files <= at_rest.files + 64;
        let used = used_memory(stormed)?;
        // What the honest clients have is counted; what was overwritten was there before.
        let is_used = used <= used_at_rest * 2 + (48 << 20);
        if rests && is_used && now.resident_kib <= at_rest.resident_kib * 2 + used_at_rest / 512 + (200 << 10) {
            return Ok(());
        }
        if deadline.passed() {
            return Err(format!(
                "the clients have gone, and the server takes {now:?} and uses {used} bytes, {at_rest:?} and \
                 {used_at_rest} before"
            ));
        }
        pause(Duration::from_millis(100));
    }
}

fn used_memory(stormed: &Stormed) -> Judged<u64> {
    let info = ask(stormed.server.address, &["INFO", "memory"])?;
    let text = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
    Ok(line.and_then(|number| number.trim().parse().ok()).unwrap_or(0))
}

/// A client that knows what its keys hold: strings, and a sorted set.
struct Honest {
    dice: Dice,
    prefix: String,
    strings: BTreeMap<String, Vec<u8>>,
    scores: BTreeMap<String, i64>,
}

/// What is to be answered.
enum Expected {
    Simple(&'static str),
    Integer(i64),
    Bulk(Option<Vec<u8>>),
    Bulks(Vec<Vec<u8>>),
    Array(Vec<Option<Vec<u8>>>),
    All(Vec<Expected>),
}

impl Expected {
    fn is(&self, value: &Value) -> bool {
        match self {
            Expected::Simple(text) => value.is_simple(text),
            Expected::Integer(number) => value.integer() == Some(*number),
            Expected::Bulk(None) => value.body == Body::Nil,
            Expected::Bulk(Some(bytes)) => value.text() == Some(bytes),
            Expected::Bulks(all) => value
                .items()
                .is_some_and(|items| items.iter().map(Value::text).eq(all.iter().map(|one| Some(&one[..])))),
            Expected::All(all) => value.items().is_some_and(|items| {
                items.len() == all.len() && items.iter().zip(all).all(|(item, expected)| expected.is(item))
            }),
            Expected::Array(all) => {
                value.items().is_some_and(|items| items.iter().map(Value::text).eq(all.iter().map(Option::as_deref)))
            }
        }
    }
}

impl Honest {
    fn new(number: usize, seed: u64) -> Honest {
        let mut dice = Dice::new(seed);
        let mut scores = BTreeMap::new();
        // So large that all of it is a long reply.
        for number in 0..*dice.pick(&[&10, &1000, &60_000]) {
            scores.insert(format!("member {number:06} with a name of some length"), dice.below(1000) as i64);
        }
        Honest { dice, prefix: format!("honest-{number}:"), strings: BTreeMap::new(), scores }
    }

    /// What its keys take, about.
    fn bytes(&self) -> usize {
        let strings: usize = self.strings.values().map(|value| value.len() + 100).sum();
        strings + self.scores.len() * 300
    }

    fn set(&self) -> String {
        format!("{}set", self.prefix)
    }

    fn go(&mut self, field: &SumField) -> Judged {
        let mut client = Client::connect(field.address).map_err(|error| error.to_string())?;
        let adds: Vec<(Command, Expected)> = self
            .scores
            .iter()
            .map(|(member, score)| {
                (Command::new("ZADD").arg(self.set()).number(score).arg(member.clone()), Expected::Integer(1))
            })
            .collect();
        for some in adds.chunks(2000) {
            pipeline(field, &mut client, some)?;
        }
        while !field.is_over() {
            let count = *self.dice.pick(&[&1, &2, &5, &40]);
            let mut commands: Vec<(Command, Expected)> = (0..count).map(|_| self.command()).collect();
            if self.dice.percent(10) {
                let (queued, expected): (Vec<Command>, Vec<Expected>) = commands.into_iter().unzip();
                commands = vec![(Command::new("MULTI"), Expected::Simple("OK"))];
                commands.extend(queued.into_iter().map(|command| (command, Expected::Simple("QUEUED"))));
                commands.push((Command::new("EXEC"), Expected::All(expected)));
            }
            if self.dice.percent(5) {
                half_close(field, &commands)?;
            } else {
                pipeline(field, &mut client, &commands)?;
            }
        }
        Ok(())
    }

    fn ranked(&self) -> Vec<(&String, i64)> {
        let mut ranked: Vec<_> = self.scores.iter().map(|(member, score)| (member, *score)).collect();
        ranked.sort_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
        ranked
    }

    fn command(&mut self) -> (Command, Expected) {
        let key = format!("{}{}", self.prefix, self.dice.below(50));
        let member = format!("member {:06} with a name of some length", self.dice.below(self.scores.len() + 3));
        let old = self.strings.get(&key).cloned();
        let length = *self.dice.pick(&[&0, &5, &100, &3000, &70_000]);
        let value: Vec<u8> = self.dice.bytes(length);
        match self.dice.below(20) {
            0..=3 => {
                self.strings.insert(key.clone(), value.clone());
                (Command::new("SET").arg(key).arg(value), Expected::Simple("OK"))
            }
            4..=6 => (Command::new("GET").arg(key), Expected::Bulk(old)),
            7 => {
                self.strings.remove(&key);
                (Command::new("DEL").arg(key), Expected::Integer(i64::from(old.is_some())))
            }
            8 => {
                let string = self.strings.entry(key.clone()).or_default();
                string.extend_from_slice(&value);
                let len = string.len() as i64;
                if string.is_empty() {
                    // What was not there is there now, and empty.
                    self.strings.insert(key.clone(), Vec::new());
                }
                (Command::new("APPEND").arg(key).arg(value), Expected::Integer(len))
            }
            9 => (Command::new("STRLEN").arg(key), Expected::Integer(old.map_or(0, |old| old.len() as i64))),
            10 => {
                let keys: Vec<String> = (0..8).map(|number| format!("{}{number}", self.prefix)).collect();
                let values = keys.iter().map(|key| self.strings.get(key).cloned()).collect();
                (Command::new("MGET").args(keys), Expected::Array(values))
            }
            11..=12 => {
                let score = self.dice.below(1000) as i64;
                let is_new = self.scores.insert(member.clone(), score).is_none();
                (Command::new("ZADD").arg(self.set()).number(score).arg(member), Expected::Integer(i64::from(is_new)))
            }
            13 => {
                let was_there = self.scores.remove(&member).is_some();
                (Command::new("ZREM").arg(self.set()).arg(member), Expected::Integer(i64::from(was_there)))
            }
            14 => {
                let score = self.scores.get(&member).map(|score| score.to_string().into_bytes());
                (Command::new("ZSCORE").arg(self.set()).arg(member), Expected::Bulk(score))
            }
            15 => {
                let (low, high) = (self.dice.below(1000) as i64, self.dice.below(1000) as i64);
                let count = self.scores.values().filter(|score| (low..=high).contains(score)).count();
                (Command::new("ZCOUNT").arg(self.set()).number(low).number(high), Expected::Integer(count as i64))
            }
            16 => (Command::new("ZCARD").arg(self.set()), Expected::Integer(self.scores.len() as i64)),
            17 => {
                let rank = self.ranked().iter().position(|(own, _)| **own == member);
                let command = Command::new("ZRANK").arg(self.set()).arg(member);
                (command, rank.map_or(Expected::Bulk(None), |rank| Expected::Integer(rank as i64)))
            }
            18 => {
                let all = self.ranked().into_iter().map(|(member, _)| member.clone().into_bytes()).collect();
                (Command::new("ZRANGE").arg(self.set()).number(0).number(-1), Expected::Bulks(all))
            }
            _ => {
                let count = self.strings.range(format!("{}0", self.prefix)..format!("{}:", self.prefix)).count();
                let command =
                    Command::new("Q.COUNT").arg(format!("[{}0", self.prefix)).arg(format!("({}:", self.prefix));
                (command, Expected::Integer(count as i64))
            }
        }
    }

    /// Everything that it knows, asked anew.
    fn judge_all(&self, stormed: &Stormed) -> Judged {
        let mut client = Client::connect(stormed.server.address).map_err(|error| error.to_string())?;
        for (key, value) in &self.strings {
            let found = client.ask(&Command::new("GET").arg(key.clone())).map_err(|error| error.to_string())?;
            if found.text() != Some(value) {
                return Err(format!("{key} is not what was acknowledged"));
            }
        }
        let all = client
            .ask(&Command::new("ZRANGE").arg(self.set()).number(0).number(-1))
            .map_err(|error| error.to_string())?;
        let expected =
            Expected::Bulks(self.ranked().into_iter().map(|(member, _)| member.clone().into_bytes()).collect());
        if expected.is(&all) { Ok(()) } else { Err(format!("{} is not what was acknowledged", self.set())) }
    }
}

fn judge_answers(field: &SumField, client: &mut Client, commands: &[(Command, Expected)], sent: &str) -> Judged {
    for (number, (command, expected)) in commands.iter().enumerate() {
        match client.answer() {
            Answer::Reply { value, .. } if expected.is(&value) => {}
            Answer::Reply { raw, .. } => {
                let raw = quipu_suite::command::quoted(&raw);
                return Err(format!("{command} was answered {raw}"));
            }
            Answer::Silence(_) | Answer::Closed(_) | Answer::Garbage(_) => {
                let before = number.checked_sub(1).map_or(String::new(), |before| commands[before].0.to_string());
                return Err(format!("{command}, {number} of {} {sent}, after {before}, has no answer", commands.len()));
            }
        }
        field.commands.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn pipeline(field: &SumField, client: &mut Client, commands: &[(Command, Expected)]) -> Judged {
    let all: Vec<Command> = commands.iter().map(|(command, _)| command.clone()).collect();
    client.send(&encode_all(&all), &[]).map_err(|error| format!("sending: {error}"))?;
    judge_answers(field, client, commands, "in one packet")
}

/// Sends commands, says that no more will come, and wants all answers.
fn half_close(field: &SumField, commands: &[(Command, Expected)]) -> Judged {
    let mut client = Client::connect(field.address).map_err(|error| error.to_string())?;
    let all: Vec<Command> = commands.iter().map(|(command, _)| command.clone()).collect();
    client.send(&encode_all(&all), &[]).map_err(|error| format!("sending: {error}"))?;
    client.say_no_more().map_err(|error| error.to_string())?;
    judge_answers(field, &mut client, commands, "before a half-close")
}

fn one_of_the_crowd(field: &SumField, name: &str, seed: u64, keys: usize, value_bytes: usize) -> Judged {
    let mut dice = Dice::new(seed);
    match name {
        "abandon" => abandon(field, &mut dice),
        "list" => list(field, &mut dice),
        "noise" => noise(field, seed),
        "bytes" => bytes(field, &mut dice),
        "slow" => slow(field, &mut dice),
        _ => overwrite(field, &mut dice, keys, value_bytes),
    }
}

/// Begins iterations and never goes on with them.
fn abandon(field: &SumField, dice: &mut Dice) -> Judged {
    let mut client = Client::connect(field.address).map_err(|error| error.to_string())?;
    while !field.is_over() {
        let command = match dice.below(3) {
            0 => Command::new("SCAN 0 COUNT 10"),
            _ => Command::new("ZSCAN shared 0 COUNT 10"),
        };
        client.ask(&command).map_err(|error| error.to_string())?;
        pause(Duration::from_millis(dice.below(40) as u64));
    }
    Ok(())
}

/// Asks for everything, and now and then leaves before it comes.
fn list(field: &SumField, dice: &mut Dice) -> Judged {
    while !field.is_over() {
        let mut client = Client::connect(field.address).map_err(|error| error.to_string())?;
        let command = Command::new(dice.pick(&["KEYS *", "KEYS *9*", "ZRANGE shared 0 -1", "Q.RANGE - +"]));
        if dice.percent(30) {
            client.send(&command.encode(), &[]).map_err(|error| error.to_string())?;
            continue;
        }
        client.ask(&command).map_err(|error| error.to_string())?;
        pause(Duration::from_millis(dice.below(30) as u64));
    }
    Ok(())
}

/// All sorts of commands on keys that no client is judged by. Whatever they are answered, it is an answer.
fn noise(field: &SumField, seed: u64) -> Judged {
    let groups = [Group::Strings, Group::Bits, Group::Keys, Group::Expiry, Group::SortedSets];
    let mut stream = Stream::new(seed, &groups, 2);
    let mut client = Client::connect(field.address).map_err(|error| error.to_string())?;
    client.ask(&Command::new("SELECT 9")).map_err(|error| error.to_string())?;
    while !field.is_over() {
        let Some(Step::Pipeline { units, .. }) = stream.next_step() else { continue };
        for command in units.concat() {
            if NOT_FOR_NOISE.contains(&command.name().as_str()) {
                continue;
            }
            client.ask(&command).map_err(|error| format!("{command}: {error}"))?;
        }
    }
    // A bit far out makes a long string: what it left behind is not what the server holds back.
    client.ask(&Command::new("FLUSHDB")).map_err(|error| error.to_string())?;
    Ok(())
}

/// Bytes that are no commands, and halves of commands.
fn bytes(field: &SumField, dice: &mut Dice) -> Judged {
    while !field.is_over() {
        let mut stream = TcpStream::connect(field.address).map_err(|error| error.to_string())?;
        let head = *dice.pick(&[
            &"",
            &"*3\r\n$3\r\nSET\r\n",
            &"*1000000\r\n",
            &"$-5\r\n",
            &"*2\r\n$4\r\nPING\r\n$900000\r\n",
            &"*-1\r\n",
            &"GET ",
        ]);
        let length = dice.below(3000);
        let rest = dice.bytes(length);
        // The server may close while it is being written to.
        let _ = stream.write_all(&[head.as_bytes(), &rest].concat());
        if dice.percent(50) {
            let _ = stream.shutdown(Shutdown::Write);
            pause(Duration::from_millis(dice.below(10) as u64));
        }
    }
    Ok(())
}

/// Asks for a lot and does not read.
fn slow(field: &SumField, dice: &mut Dice) -> Judged {
    let mut stream = TcpStream::connect(field.address).map_err(|error| error.to_string())?;
    stream.set_nonblocking(true).map_err(|error| error.to_string())?;
    let many = Command::new("ZRANGE shared 0 -1").encode().repeat(20);
    while !field.is_over() {
        // When nothing more fits, it waits.
        let _ = stream.write(&many);
        pause(Duration::from_millis(50 + dice.below(100) as u64));
    }
    Ok(())
}

/// Writes everything anew, with what was there: the data does not grow.
fn overwrite(field: &SumField, dice: &mut Dice, keys: usize, value_bytes: usize) -> Judged {
    let mut client = Client::connect(field.address).map_err(|error| error.to_string())?;
    while !field.is_over() {
        let some: Vec<Command> = (0..200)
            .map(|_| Command::new("SET").arg(format!("string {:06}", dice.below(keys))).arg(vec![b'w'; value_bytes]))
            .collect();
        client.send(&encode_all(&some), &[]).map_err(|error| error.to_string())?;
        for command in some {
            if !matches!(client.answer(), Answer::Reply { value, .. } if value.is_simple("OK")) {
                return Err(format!("{command} was refused"));
            }
        }
    }
    Ok(())
}
