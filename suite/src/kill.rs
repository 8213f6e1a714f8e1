//! `kill -9` under load: several connections write, the server is killed at a random moment and started again on the
//! same directory, and everything it acknowledged must be there.
//!
//! Writer `w` does operations 0, 1, 2, ... in order, and what the database holds after the first `p` of them is known
//! in closed form (`present`, `key_count`). After a crash the database must be in the state after some `p` that is at
//! least the number of acknowledged operations and at most the number of sent ones: a suffix of what was not
//! acknowledged may be lost, but there is no hole, no half of a transaction, and nothing that was not written (DBSIZE).
//!
//! Not here: lost power. The page cache survives the process, so `--durability sync` is tested here for its order and
//! its recovery only; what a disk may lose is the business of the engine's simulated disk.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command as Program;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::client::{Answer, Client};
use crate::clock::{self, Deadline};
use crate::command::{Command, encode_all};
use crate::dice::Dice;
use crate::process::{Launch, ServerProcess};

/// Operations repeat with this period: four SETs, two ZADDs, a transaction, and a DEL of the first SET.
const PERIOD: u64 = 8;
/// Probes in one write.
const PROBES: usize = 500;
/// Rounds of which all writes are looked up after each round; those of older ones are counted, and looked up in the
/// end.
const RECENT_ROUNDS: usize = 2;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub launch: Launch,
    /// Determines moments and pipelines; not what the machine makes of them.
    pub seed: u64,
    /// How long to go on: rounds are not cut short.
    pub seconds: f64,
    /// Connections that write.
    pub writers: usize,
}

/// How far a writer has come.
#[derive(Debug, Default)]
struct Progress {
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

/// Kills and restarts until the time is over; false if something was lost, after saying what.
///
/// # Errors
///
/// If the server cannot be started or stopped.
pub fn run(options: &Options) -> io::Result<bool> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let mut dice = Dice::new(options.seed);
    let deadline = Deadline::after(Duration::from_secs_f64(options.seconds));
    // How many operations of each writer the database holds, now and after the last rounds.
    let mut held = vec![0; options.writers];
    let mut marks = vec![held.clone()];
    let mut tally = Tally::default();
    let mut server = ServerProcess::start(&options.launch, &data, dir.path())?;
    while !deadline.passed() || tally.rounds == 0 {
        tally.rounds += 1;
        let progress = match load_and_kill(&mut server, &held, &mut dice)? {
            Ok(progress) => progress,
            Err(complaint) => return Ok(fail(&complaint, dir)),
        };
        if dice.percent(30) {
            // Dies again while it recovers, or a moment after.
            let mut again = ServerProcess::spawn(&options.launch, &data, dir.path())?;
            clock::pause(Duration::from_millis(dice.below(60) as u64));
            again.kill()?;
            tally.killed_in_recovery += 1;
        }
        server = ServerProcess::start(&options.launch, &data, dir.path())?;
        let floor = &marks[marks.len().saturating_sub(RECENT_ROUNDS)];
        match verify(server.address, &progress, floor, is_quipu(options)) {
            Ok(found) => {
                for (writer, one) in progress.iter().enumerate() {
                    tally.acknowledged += one.acknowledged.load(Ordering::SeqCst) - held[writer];
                    tally.unacknowledged_kept += found[writer] - one.acknowledged.load(Ordering::SeqCst);
                }
                held = found;
            }
            Err(complaint) => return Ok(fail(&complaint, dir)),
        }
        marks.push(held.clone());
        if dice.percent(30) {
            server.stop()?;
            if let Err(complaint) = check(&options.launch, &data) {
                return Ok(fail(&complaint, dir));
            }
            tally.stops += 1;
            server = ServerProcess::start(&options.launch, &data, dir.path())?;
        }
    }
    // In the end all that was ever written is looked up, before and after a stop of the polite kind.
    let all: Vec<Progress> =
        held.iter().map(|&count| Progress { sent: count.into(), acknowledged: count.into() }).collect();
    for stop in [false, true] {
        if stop {
            server.stop()?;
            if let Err(complaint) = check(&options.launch, &data) {
                return Ok(fail(&complaint, dir));
            }
            server = ServerProcess::start(&options.launch, &data, dir.path())?;
        }
        if let Err(complaint) = verify(server.address, &all, &vec![0; options.writers], is_quipu(options)) {
            return Ok(fail(&complaint, dir));
        }
    }
    println!(
        "nothing lost: {} rounds, {} of them killed in recovery again, {} polite stops; {} operations acknowledged, {} more kept; \
         seed {}",
        tally.rounds,
        tally.killed_in_recovery,
        tally.stops,
        tally.acknowledged,
        tally.unacknowledged_kept,
        options.seed
    );
    Ok(tally.acknowledged > 0)
}

/// What a run has done.
#[derive(Default)]
struct Tally {
    rounds: u64,
    killed_in_recovery: u64,
    stops: u64,
    acknowledged: u64,
    unacknowledged_kept: u64,
}

fn is_quipu(options: &Options) -> bool {
    matches!(options.launch, Launch::Quipu { .. })
}

fn fail(complaint: &str, dir: tempfile::TempDir) -> bool {
    println!("LOST: {complaint}\nthe directory is kept: {}", dir.keep().display());
    false
}

/// Lets all writers write, and kills the server at a random moment. What a writer has to complain about, if not of the
/// kill.
fn load_and_kill(
    server: &mut ServerProcess,
    held: &[u64],
    dice: &mut Dice,
) -> io::Result<Result<Vec<Progress>, String>> {
    let progress: Vec<Progress> =
        held.iter().map(|&count| Progress { sent: count.into(), acknowledged: count.into() }).collect();
    let address = server.address;
    let moment = Duration::from_millis(dice.below(600) as u64 + 2);
    let seeds: Vec<u64> = held.iter().map(|_| dice.seed()).collect();
    std::thread::scope(|scope| {
        let writers: Vec<_> = progress
            .iter()
            .zip(seeds)
            .enumerate()
            .map(|(writer, (progress, seed))| scope.spawn(move || write(address, writer as u64, progress, seed)))
            .collect();
        clock::pause(moment);
        server.kill()?;
        for writer in writers {
            if let Ok(Err(complaint)) = writer.join() {
                return Ok(Err(complaint));
            }
        }
        Ok(Ok(()))
    })
    .map(|result| result.map(|()| progress))
}

/// Writes pipelines until the connection fails.
fn write(address: SocketAddr, writer: u64, progress: &Progress, seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let Ok(mut client) = Client::connect(address) else { return Ok(()) };
    let mut next = progress.sent.load(Ordering::SeqCst);
    loop {
        let operations = next..next + 1 + dice.below(64) as u64;
        let batch: Vec<Command> = operations.clone().flat_map(|number| operation(writer, number)).collect();
        progress.sent.store(operations.end, Ordering::SeqCst);
        if client.send(&encode_all(&batch), &[]).is_err() {
            // Some of it may have arrived; none of it was acknowledged.
            return Ok(());
        }
        for number in operations.clone() {
            for command in operation(writer, number) {
                match client.answer() {
                    Answer::Reply { value, .. } if value.is_error() => {
                        return Err(format!("{command} of a writer was answered by {value:?}"));
                    }
                    Answer::Reply { .. } => {}
                    Answer::Silence(_) => return Err(format!("{command} of a writer was not answered in time")),
                    Answer::Closed(_) => return Ok(()),
                    Answer::Garbage(_) => return Err(format!("{command} of a writer was answered by no reply")),
                }
            }
            progress.acknowledged.store(number + 1, Ordering::SeqCst);
        }
        next = operations.end;
    }
}

/// The commands of an operation.
fn operation(writer: u64, number: u64) -> Vec<Command> {
    match number % PERIOD {
        0..=3 => vec![Command::new("SET").arg(set_key(writer, number)).arg(value(number))],
        4..=5 => vec![Command::new("ZADD").arg(sorted_set(writer)).number(number).arg(format!("m{number}"))],
        6 => vec![
            Command::new("MULTI"),
            Command::new("SET").arg(format!("pair:a:{writer}:{number}")).arg(value(number)),
            Command::new("SET").arg(format!("pair:b:{writer}:{number}")).arg(value(number)),
            Command::new("SET").arg(format!("last:{writer}")).number(number),
            Command::new("EXEC"),
        ],
        _ => vec![Command::new("DEL").arg(set_key(writer, number - 7))],
    }
}

/// What to ask in order to see an operation, and the text of the answer if it is there.
fn probes(writer: u64, number: u64) -> Vec<(Command, Vec<u8>)> {
    let get = |key: String| (Command::new("GET").arg(key), value(number));
    match number % PERIOD {
        0..=3 => vec![get(set_key(writer, number))],
        4..=5 => {
            let member = format!("m{number}");
            vec![(Command::new("ZSCORE").arg(sorted_set(writer)).arg(member), number.to_string().into_bytes())]
        }
        6 => vec![get(format!("pair:a:{writer}:{number}")), get(format!("pair:b:{writer}:{number}"))],
        _ => Vec::new(),
    }
}

fn set_key(writer: u64, number: u64) -> String {
    format!("kill:{writer}:{number}")
}

fn sorted_set(writer: u64) -> String {
    format!("kill:z:{writer}")
}

/// A value that tells its number, of a length that differs.
fn value(number: u64) -> Vec<u8> {
    let mut value = format!("{number}:").into_bytes();
    value.resize(value.len() + usize::try_from(number * 7 % 100).unwrap_or(0), b'v');
    value
}

/// Whether what operation `number` wrote is there after the first `count` operations.
fn present(number: u64, count: u64) -> bool {
    number < count && !(number.is_multiple_of(PERIOD) && number + 7 < count)
}

/// The `last` of a writer after its first `count` operations.
fn last(count: u64) -> Option<u64> {
    count.checked_sub(7).map(|past| past / PERIOD * PERIOD + 6)
}

/// Keys of a writer after its first `count` operations.
fn key_count(count: u64) -> u64 {
    let (periods, rest) = (count / PERIOD, count % PERIOD);
    let sets = 3 * periods + rest.min(4);
    let sorted_sets = u64::from(count > 4);
    let transactions = periods + u64::from(rest > 6);
    sets + sorted_sets + 2 * transactions + u64::from(transactions > 0)
}

/// How many operations of each writer the server holds. All from `floor` on are looked up, older ones are counted.
fn verify(address: SocketAddr, progress: &[Progress], floor: &[u64], is_quipu: bool) -> Result<Vec<u64>, String> {
    let mut client = Client::connect(address).map_err(|error| format!("no connection after the restart: {error}"))?;
    let mut held = Vec::new();
    for (writer, (progress, &floor)) in progress.iter().zip(floor).enumerate() {
        let writer = writer as u64;
        let (acknowledged, sent) = (progress.acknowledged.load(Ordering::SeqCst), progress.sent.load(Ordering::SeqCst));
        // A DEL shows in the SET that it undoes, which is at most a period older.
        let seen = look(&mut client, writer, floor.min(acknowledged.saturating_sub(PERIOD))..sent)?;
        let last_seen = ask_text(&mut client, &Command::new("GET").arg(format!("last:{writer}")))?;
        let explains = |count: u64| {
            last_seen == last(count).map(|number| number.to_string().into_bytes())
                && seen.iter().all(|(number, there)| *there == present(*number, count))
        };
        let Some(count) = (acknowledged..=sent).rev().find(|count| explains(*count)) else {
            let wrong = seen.iter().find(|(number, there)| *there != present(*number, acknowledged));
            return Err(format!(
                "writer {writer}: no state between {acknowledged} acknowledged and {sent} sent operations explains what is \
                 there; the first that is not as acknowledged: {wrong:?} (number, there); last: {last_seen:?}"
            ));
        };
        held.push(count);
    }
    let expected: u64 = held.iter().map(|&count| key_count(count)).sum();
    let mut counts = vec!["DBSIZE"];
    if is_quipu {
        counts.push("Q.COUNT");
    }
    for name in counts {
        let reply = client.ask(&Command::new(name)).map_err(|error| error.to_string())?;
        if reply.integer() != i64::try_from(expected).ok() {
            return Err(format!("{name} is {reply:?} instead of {expected}"));
        }
    }
    Ok(held)
}

/// Which operations of a range can be seen; all or none of the probes of one must answer, with the right text.
fn look(client: &mut Client, writer: u64, range: std::ops::Range<u64>) -> Result<Vec<(u64, bool)>, String> {
    let mut seen = Vec::new();
    let probes: Vec<(u64, Command, Vec<u8>)> = range
        .flat_map(|number| probes(writer, number).into_iter().map(move |(command, text)| (number, command, text)))
        .collect();
    for portion in probes.chunks(PROBES) {
        let commands: Vec<Command> = portion.iter().map(|(_, command, _)| command.clone()).collect();
        client.send(&encode_all(&commands), &[]).map_err(|error| error.to_string())?;
        for (number, command, text) in portion {
            let found = match client.answer() {
                Answer::Reply { value, .. } if !value.is_error() => value.text().map(<[u8]>::to_vec),
                other => return Err(format!("{command} was answered by {other:?}")),
            };
            let there = match found {
                None => false,
                Some(found) if found == *text => true,
                Some(found) => return Err(format!("{command} holds {:?}", found.escape_ascii().to_string())),
            };
            match seen.last() {
                Some(&(before, other)) if before == *number => {
                    if other != there {
                        return Err(format!("half of a transaction: {command} is there: {there}, the other: {other}"));
                    }
                }
                _ => seen.push((*number, there)),
            }
        }
    }
    Ok(seen)
}

fn ask_text(client: &mut Client, command: &Command) -> Result<Option<Vec<u8>>, String> {
    let reply = client.ask(command).map_err(|error| error.to_string())?;
    if reply.is_error() {
        Err(format!("{command} was answered by {reply:?}"))
    } else {
        Ok(reply.text().map(<[u8]>::to_vec))
    }
}

/// `quipu check` on a directory that no server uses.
pub(crate) fn check(launch: &Launch, data: &Path) -> Result<(), String> {
    let Launch::Quipu { program, .. } = launch else { return Ok(()) };
    let output =
        Program::new(program).arg("check").arg(data).output().map_err(|error| format!("cannot run check: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("quipu check ended with {}:\n{out}{err}", output.status))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_closed_form_is_what_the_operations_make() {
        let mut keys: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut members: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for count in 0..100 {
            let sorted_sets = u64::from(!members.is_empty());
            assert_eq!(key_count(count), keys.len() as u64 + sorted_sets, "after {count}");
            assert_eq!(last(count).map(|number| number.to_string().into_bytes()), keys.get("last:1").cloned());
            for number in 0..count {
                for (probe, text) in probes(1, number) {
                    let word = |index: usize| String::from_utf8(probe.words[index].clone()).unwrap();
                    let found = if probe.name() == "GET" { keys.get(&word(1)) } else { members.get(&word(2)) };
                    let expected = present(number, count).then_some(&text);
                    assert_eq!(found, expected, "{probe} after {count}");
                }
            }
            for command in operation(1, count) {
                let word = |index: usize| String::from_utf8(command.words[index].clone()).unwrap();
                match command.name().as_str() {
                    "SET" => drop(keys.insert(word(1), command.words[2].clone())),
                    "ZADD" => drop(members.insert(word(3), command.words[2].clone())),
                    "DEL" => assert!(keys.remove(&word(1)).is_some()),
                    _ => {}
                }
            }
        }
    }
}
