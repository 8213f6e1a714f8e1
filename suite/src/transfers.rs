//! `kill -9` under pgbench's transactions: connections move money between accounts, tellers and branches and write each
//! move down, the server is killed at a random moment and started again, and the sums must agree.
//!
//! What must hold after each kill:
//! 1. The balance of each account, teller and branch is what the history says of it.
//! 2. A move whose commit was acknowledged is in the history, once; one that was rolled back, or never sent, is not.
//! 3. Counts are the rows that a scan finds, and those that an index finds.
//!
//! Beside them there are clients that vanish with rows locked, stop reading, and cancel.
//!
//! Each move has a number of its own in the history's `filler`. Lost power is not here: see `kill`.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use crate::clock::{self, Deadline};
use crate::dice::Dice;
use crate::kill::check;
use crate::postgres::{PgAnswer, PgClient, is_fatal};
use crate::process::{Launch, ServerProcess, free_port};

/// What pgbench has of each at its scale 1; fewer accounts, so that they meet.
const BRANCHES: usize = 2;
const TELLERS: usize = 20;
const ACCOUNTS: usize = 300;
/// What others may be in the way with: the transaction is to be done again.
const TRY_AGAIN: &[&str] = &["40001", "40P01"];

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server, but for its port for clients of PostgreSQL.
    pub launch: Launch,
    /// Determines moments and transactions; not what the machine makes of them.
    pub seed: u64,
    /// How long to go on: rounds are not cut short.
    pub seconds: f64,
    /// Rounds at least.
    pub rounds: u64,
    /// Connections that move money.
    pub writers: usize,
}

/// The moves of a writer.
#[derive(Debug, Default)]
struct Moves {
    acknowledged: BTreeSet<String>,
    /// Sent with their commit, of which there was no answer.
    unknown: BTreeSet<String>,
}

/// What a run has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Kills under load.
    pub rounds: u64,
    /// Kills while it recovered.
    pub killed_in_recovery: u64,
    /// Polite stops.
    pub stops: u64,
    /// Moves that were acknowledged.
    pub acknowledged: u64,
    /// Moves that are there without an acknowledgement.
    pub kept: u64,
}

/// Kills and restarts until the time is over; false if something was lost, after saying what.
///
/// # Errors
/// If the server cannot be started or stopped.
pub fn run(options: &Options) -> io::Result<bool> {
    let done = match judge(options)? {
        Ok(done) => done,
        Err(complaint) => {
            println!("LOST: {complaint}");
            return Ok(false);
        }
    };
    println!(
        "no move lost: {} rounds, {} of them killed in recovery again, {} polite stops; {} moves acknowledged, {} more \
         kept; seed {}",
        done.rounds, done.killed_in_recovery, done.stops, done.acknowledged, done.kept, options.seed
    );
    Ok(done.acknowledged > 0)
}

/// Kills and restarts until the time is over. What was done, or what is wrong; then the directory is kept.
///
/// # Errors
/// If the server cannot be started or stopped.
pub fn judge(options: &Options) -> io::Result<Result<Done, String>> {
    let dir = tempfile::tempdir()?;
    match storm(options, dir.path())? {
        Ok(done) => Ok(Ok(done)),
        Err(complaint) => Ok(Err(format!("{complaint}; the directory is kept: {}", dir.keep().display()))),
    }
}

fn storm(options: &Options, dir: &Path) -> io::Result<Result<Done, String>> {
    let data = dir.join("data");
    let mut dice = Dice::new(options.seed);
    let deadline = Deadline::after(Duration::from_secs_f64(options.seconds));
    let port = free_port()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let launch = options.launch.with_arguments(&["--pg-port", &port.to_string()]);
    let start = || ServerProcess::start(&launch, &data, dir);
    let mut server = start()?;
    if let Some(complaint) = create(address)? {
        return Ok(Err(complaint));
    }
    let (mut done, mut moves) = (Done::default(), Moves::default());
    while done.rounds < options.rounds || !deadline.passed() {
        done.rounds += 1;
        match move_and_kill(&mut server, address, done.rounds, options.writers, &mut dice)? {
            Ok(new) => {
                done.acknowledged += new.acknowledged.len() as u64;
                moves.acknowledged.extend(new.acknowledged);
                moves.unknown = new.unknown;
            }
            Err(complaint) => return Ok(Err(complaint)),
        }
        if dice.percent(30) {
            let mut again = ServerProcess::spawn(&launch, &data, dir)?;
            clock::pause(Duration::from_millis(dice.below(60) as u64));
            again.kill()?;
            done.killed_in_recovery += 1;
        }
        server = start()?;
        if dice.percent(25) {
            server.stop()?;
            if let Err(complaint) = check(&launch, &data) {
                return Ok(Err(complaint));
            }
            done.stops += 1;
            server = start()?;
        }
        match compare(address, &moves)? {
            Ok(found) => {
                done.kept += (found.len() - moves.acknowledged.len()) as u64;
                moves.acknowledged = found;
            }
            Err(complaint) => return Ok(Err(complaint)),
        }
    }
    Ok(Ok(done))
}

/// Creates pgbench's tables, with an index. What went wrong, if something did.
fn create(address: SocketAddr) -> io::Result<Option<String>> {
    let mut client = connect(address)?;
    let text = format!(
        "CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int NOT NULL, filler char(88));
         CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int NOT NULL, tbalance int NOT NULL, filler char(84));
         CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int NOT NULL, filler char(84));
         CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
         CREATE INDEX pgbench_history_aid ON pgbench_history (aid);
         INSERT INTO pgbench_branches SELECT g, 0 FROM generate_series(1, {BRANCHES}) g;
         INSERT INTO pgbench_tellers SELECT g, g % {BRANCHES} + 1, 0 FROM generate_series(1, {TELLERS}) g;
         INSERT INTO pgbench_accounts SELECT g, g % {BRANCHES} + 1, 0 FROM generate_series(1, {ACCOUNTS}) g"
    );
    Ok(client.ask(&text)?.error.map(|(code, message)| format!("the tables cannot be made: {code} {message}")))
}

/// Connects. The port may be opened a moment after that of other clients.
fn connect(address: SocketAddr) -> io::Result<PgClient> {
    let patience = Deadline::after(Duration::from_secs(20));
    loop {
        match PgClient::connect(address) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !patience.passed() => {
                clock::pause(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// Lets all writers move money, and kills the server at a random moment. What a writer has to complain about, if not of
/// the kill.
fn move_and_kill(
    server: &mut ServerProcess,
    address: SocketAddr,
    round: u64,
    writers: usize,
    dice: &mut Dice,
) -> io::Result<Result<Moves, String>> {
    let moment = Duration::from_millis(dice.below(800) as u64 + 20);
    let seeds: Vec<u64> = (0..writers).map(|_| dice.seed()).collect();
    let pests: Vec<u64> = (0..writers / 2).map(|_| dice.seed()).collect();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..)
            .zip(seeds)
            .map(|(writer, seed)| scope.spawn(move || Writer::new(writer, round, seed).go(address)))
            .collect();
        let pests: Vec<_> = pests.into_iter().map(|seed| scope.spawn(move || pester(address, seed))).collect();
        clock::pause(moment);
        server.kill()?;
        for pest in pests {
            if let Ok(Err(complaint)) = pest.join() {
                return Ok(Err(complaint));
            }
        }
        let mut all = Moves::default();
        for writer in writers {
            match writer.join() {
                Ok(Ok(moves)) => {
                    all.acknowledged.extend(moves.acknowledged);
                    all.unknown.extend(moves.unknown);
                }
                Ok(Err(complaint)) => return Ok(Err(complaint)),
                Err(_) => return Ok(Err("a writer has panicked".to_owned())),
            }
        }
        Ok(Ok(all))
    })
}

/// A connection that moves money.
struct Writer {
    name: String,
    dice: Dice,
    moves: Moves,
}

/// A client that does what it should not: it vanishes in the midst of a transaction with rows locked, stops reading,
/// cancels what it has just begun, or leaves a portal open. None of its changes is ever committed.
fn pester(address: SocketAddr, seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    loop {
        match pester_once(address, &mut dice) {
            Ok(None) => {}
            Ok(Some(complaint)) => return Err(complaint),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error.to_string()),
            // The server is killed, or the connection was cancelled.
            Err(_) => return Ok(()),
        }
    }
}

fn pester_once(address: SocketAddr, dice: &mut Dice) -> io::Result<Option<String>> {
    let mut client = PgClient::connect(address)?;
    let account = dice.below(ACCOUNTS) + 1;
    let take = format!("BEGIN; UPDATE pgbench_accounts SET abalance = 1000000 WHERE aid = {account}");
    let many = "SELECT a.*, b.* FROM pgbench_accounts a, pgbench_accounts b";
    let answer = match dice.below(5) {
        0 => client.ask(&take)?,
        1 => {
            let answer = client.ask(&take)?;
            client.begin(many)?;
            clock::pause(Duration::from_millis(dice.below(30) as u64));
            answer
        }
        2 => {
            let key = client.cancel_key();
            client.begin(&format!("SET statement_timeout = '5s'; {many}"))?;
            clock::pause(Duration::from_millis(dice.below(10) as u64));
            key.cancel()?;
            client.answer(b"")?
        }
        3 => {
            let query = "SELECT * FROM pgbench_accounts WHERE aid > $1 ORDER BY aid FOR UPDATE";
            client.ask("BEGIN; SET LOCAL lock_timeout = '20ms'")?;
            client.execute(query, &[&account.to_string()], 3, 2)?
        }
        _ => client.copy_in("COPY pgbench_history FROM STDIN", b"1\t1\tnot a number\t1\t\\N\tx\n")?,
    };
    let expected = ["00000", "22P02", "40001", "40P01", "55P03", "57014"];
    Ok((!expected.contains(&answer.code())).then(|| format!("a pest was answered by {:?}", answer.error)))
}

/// How a transaction has ended.
enum Ended {
    Committed,
    RolledBack,
}

impl Writer {
    fn new(number: usize, round: u64, seed: u64) -> Writer {
        Writer { name: format!("{round}-{number}"), dice: Dice::new(seed), moves: Moves::default() }
    }

    /// Moves until the connection fails.
    fn go(mut self, address: SocketAddr) -> Result<Moves, String> {
        let Ok(mut client) = PgClient::connect(address) else { return Ok(self.moves) };
        for number in 0.. {
            let key = format!("{}-{number}", self.name);
            // Unknown until there is an answer to its commit; a transaction that was not sent whole has none.
            self.moves.unknown.insert(key.clone());
            match self.transfer(&mut client, &key) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error.to_string()),
                Err(error) if is_fatal(&error) => return Err(error.to_string()),
                Err(_) => return Ok(self.moves),
                Ok(Err(complaint)) => return Err(complaint),
                Ok(Ok(Ended::RolledBack)) => drop(self.moves.unknown.remove(&key)),
                Ok(Ok(Ended::Committed)) => {
                    self.moves.unknown.remove(&key);
                    self.moves.acknowledged.insert(key);
                }
            }
        }
        Ok(self.moves)
    }

    /// A transaction of pgbench: statement by statement, in one text, or as prepared statements.
    fn transfer(&mut self, client: &mut PgClient, key: &str) -> io::Result<Result<Ended, String>> {
        let account = self.dice.below(ACCOUNTS) + 1;
        let teller = self.dice.below(TELLERS) + 1;
        let branch = self.dice.below(BRANCHES) + 1;
        let delta = self.dice.within(-5000..=5000);
        let rolls_back = self.dice.percent(10);
        let prepared = [
            ("BEGIN".to_owned(), vec![]),
            (
                "UPDATE pgbench_accounts SET abalance = abalance + $1::int WHERE aid = $2".to_owned(),
                vec![delta.to_string(), account.to_string()],
            ),
            ("SELECT abalance FROM pgbench_accounts WHERE aid = $1".to_owned(), vec![account.to_string()]),
            (
                "UPDATE pgbench_tellers SET tbalance = tbalance + $1::int WHERE tid = $2".to_owned(),
                vec![delta.to_string(), teller.to_string()],
            ),
            (
                "UPDATE pgbench_branches SET bbalance = bbalance + $1::int WHERE bid = $2".to_owned(),
                vec![delta.to_string(), branch.to_string()],
            ),
            (
                format!("INSERT INTO pgbench_history VALUES ({teller}, {branch}, $1, $2, CURRENT_TIMESTAMP, '{key}')"),
                vec![account.to_string(), delta.to_string()],
            ),
            (if rolls_back { "ROLLBACK" } else { "COMMIT" }.to_owned(), vec![]),
        ];
        let spelled = |(text, values): &(String, Vec<String>)| {
            let numbered = values.iter().enumerate();
            numbered.fold(text.clone(), |text, (place, value)| text.replace(&format!("${}", place + 1), value))
        };
        let way = self.dice.below(3);
        let mut last = PgAnswer::default();
        if way == 0 {
            last = client.ask(&prepared.iter().map(spelled).collect::<Vec<_>>().join("; "))?;
        }
        for statement in prepared.iter().filter(|_| way > 0) {
            let parameters: Vec<&str> = statement.1.iter().map(String::as_str).collect();
            last = match way {
                1 => client.ask(&spelled(statement))?,
                _ => client.execute(&statement.0, &parameters, 0, 1)?,
            };
            if last.error.is_some() {
                break;
            }
        }
        if let Some((code, message)) = last.error {
            if !TRY_AGAIN.contains(&code.as_str()) {
                return Ok(Err(format!("{key} was answered by {code} {message}")));
            }
            let undone = client.ask("ROLLBACK")?;
            return Ok(match undone.error {
                None => Ok(Ended::RolledBack),
                Some((code, message)) => Err(format!("ROLLBACK was answered by {code} {message}")),
            });
        }
        if last.status != 'I' {
            return Ok(Err(format!("after {key} the status is {}", last.status)));
        }
        Ok(Ok(if rolls_back { Ended::RolledBack } else { Ended::Committed }))
    }
}

/// Queries of what does not agree: they have no rows.
const DISAGREEMENTS: &[&str] = &[
    "SELECT aid, abalance FROM pgbench_accounts a
     WHERE abalance <> (SELECT coalesce(sum(delta), 0) FROM pgbench_history h WHERE h.aid = a.aid)",
    "SELECT tid, tbalance FROM pgbench_tellers t
     WHERE tbalance <> (SELECT coalesce(sum(delta), 0) FROM pgbench_history h WHERE h.tid = t.tid)",
    "SELECT bid, bbalance FROM pgbench_branches b
     WHERE bbalance <> (SELECT coalesce(sum(delta), 0) FROM pgbench_history h WHERE h.bid = b.bid)",
    "SELECT a, b, c FROM (SELECT (SELECT sum(abalance) FROM pgbench_accounts) a,
         (SELECT sum(tbalance) FROM pgbench_tellers) b, (SELECT sum(bbalance) FROM pgbench_branches) c) s
     WHERE a <> b OR b <> c",
    "SELECT filler, count(*) FROM pgbench_history GROUP BY filler HAVING count(*) > 1",
    "SELECT n FROM (SELECT count(*) n, count(aid) m FROM pgbench_history) s
     WHERE n <> m OR n <> (SELECT count(*) FROM pgbench_history WHERE aid BETWEEN 1 AND 1000000)",
];

/// The moves that are there, or what is wrong.
fn compare(address: SocketAddr, moves: &Moves) -> io::Result<Result<BTreeSet<String>, String>> {
    let mut client = connect(address)?;
    for query in DISAGREEMENTS {
        let answer = client.ask(query)?;
        if answer.error.is_some() || !answer.rows.is_empty() {
            return Ok(Err(format!("{query}\n{answer:?}")));
        }
    }
    let answer = client.ask("SELECT rtrim(filler::text) FROM pgbench_history")?;
    let found: BTreeSet<String> = answer.texts().into_iter().map(str::to_owned).collect();
    let counted = client.ask("SELECT count(*) FROM pgbench_history")?.number();
    if counted != Some(found.len() as i64) {
        return Ok(Err(format!("{counted:?} rows are counted, and {} are there", found.len())));
    }
    if let Some(lost) = moves.acknowledged.difference(&found).next() {
        return Ok(Err(format!("move {lost} was acknowledged, and is not there")));
    }
    let known = |key: &&String| !moves.acknowledged.contains(*key) && !moves.unknown.contains(*key);
    if let Some(wrong) = found.iter().find(known) {
        return Ok(Err(format!("move {wrong} was rolled back or never sent, and is there")));
    }
    Ok(Ok(found))
}
