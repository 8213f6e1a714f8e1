//! The differential test: epochs of random steps on two empty servers, until the first difference, which is then
//! shrunk.

use std::io;
use std::time::Duration;

use crate::clock::{Deadline, Stopwatch};
use crate::dice::Dice;
use crate::frames;
use crate::generate::{Group, Stream};
use crate::pair::{Difference, Pair};
use crate::report;
use crate::shrink::shrink;
use crate::step::Step;

/// Commands of an epoch. After each, the servers are emptied and the connections made anew, so that databases stay
/// small and a difference has a short history.
const EPOCH_COMMANDS: usize = 3000;
/// What shrinking may cost.
const SHRINK_TRIALS: usize = 3000;
const SHRINK_TIME: Duration = Duration::from_secs(120);
/// Damaged requests for each round of frames.
const MUTATED_FRAMES: usize = 300;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Determines all that is sent.
    pub seed: u64,
    /// How many commands to send; epochs are never cut short, so a few more are.
    pub commands: u64,
    /// When to stop, even if fewer commands were sent.
    pub seconds: Option<f64>,
    /// The versions of the protocol to speak, by turns.
    pub protocols: Vec<u8>,
    /// The groups to choose from.
    pub groups: Vec<Group>,
}

/// What a run showed.
#[derive(Debug)]
pub struct Outcome {
    /// The text to print.
    pub text: String,
    /// Whether all replies were the same.
    pub same: bool,
}

/// Runs until the first difference, or the end.
///
/// # Errors
///
/// If a server does not answer at all, although the one under test runs.
pub fn run(options: &Options, pair: &mut Pair) -> io::Result<Outcome> {
    compare_all(options, pair).or_else(|error| match pair.subject_end() {
        Some(end) => {
            let text = format!("DIFFERENCE: the server under test has ended with {end}\n{}", reproduce(options));
            Ok(Outcome { text, same: false })
        }
        None => Err(error),
    })
}

fn compare_all(options: &Options, pair: &mut Pair) -> io::Result<Outcome> {
    let stopwatch = Stopwatch::start();
    let deadline =
        options.seconds.map_or(Deadline::never(), |seconds| Deadline::after(Duration::from_secs_f64(seconds)));
    let mut dice = Dice::new(options.seed);
    let mut frames_compared = 0;
    if options.groups.contains(&Group::Protocol) {
        pair.renew(2)?;
        let (reference, subject) = pair.addresses();
        let (count, difference) = frames::compare(reference, subject, &mut dice, MUTATED_FRAMES)?;
        frames_compared = count;
        if let Some(difference) = difference {
            let text = format!("DIFFERENCE in framing\n{difference}\n{}", reproduce(options));
            return Ok(Outcome { text, same: false });
        }
    }
    let mut sent = 0_u64;
    let mut epochs = 0_usize;
    while sent < options.commands && !deadline.passed() {
        let protocol = options.protocols[epochs % options.protocols.len()];
        let mut stream = Stream::new(dice.seed(), &options.groups, protocol);
        epochs += 1;
        pair.renew(protocol)?;
        let mut history = Vec::new();
        let mut count = 0;
        while count < EPOCH_COMMANDS {
            let Some(step) = stream.next_step() else {
                // Only frames were asked for.
                return Ok(Outcome { text: format!("same replies to {frames_compared} frames\n"), same: true });
            };
            count += step.command_count();
            let result = pair.perform(&step);
            history.push(step);
            if let Err(difference) = result {
                let text = explain(pair, protocol, &history, *difference)?;
                return Ok(Outcome { text: format!("{text}\nepoch {epochs}; {}", reproduce(options)), same: false });
            }
        }
        sent += count as u64;
    }
    let names: Vec<&str> = options.groups.iter().flat_map(|group| group.commands()).copied().collect();
    let mut text = report::commands(&pair.replies, &names);
    let replies: u64 = pair.replies.values().map(|(count, _)| count).sum();
    text.push_str(&format!(
        "\nsame: {replies} replies to {sent} commands in {epochs} epochs, and {frames_compared} frames, in {:.1} s, seed {}\n",
        stopwatch.seconds(),
        options.seed
    ));
    Ok(Outcome { text, same: true })
}

/// Shrinks the history of a difference, and tells what it shows.
fn explain(pair: &mut Pair, protocol: u8, history: &[Step], first: Difference) -> io::Result<String> {
    if let Some(end) = pair.subject_end() {
        eprintln!("the server under test has ended with {end}");
    }
    eprintln!("difference at step {} ({}); shrinking ...", history.len(), first.command);
    let deadline = Deadline::after(SHRINK_TIME);
    let replies = pair.replies.clone();
    let name = first.command.name();
    // Silence costs each trial this long.
    pair.patience = Duration::from_secs(2);
    let mut shown = None;
    let shortest = shrink(history.to_vec(), SHRINK_TRIALS, |candidate| {
        if deadline.passed() {
            return false;
        }
        // Another difference than the one that was found is not what the history is to explain.
        let found = replay(pair, protocol, candidate).filter(|found| found.command.name() == name);
        let fails = found.is_some();
        shown = found.or(shown.take());
        fails
    });
    pair.replies = replies;
    // The last trial that failed is the shortest history; but it is the answers of that history that are to be shown.
    match replay(pair, protocol, &shortest) {
        Some(difference) => Ok(report::difference(&difference, &shortest, history.len())),
        None if shown.is_some() => {
            Ok(report::difference(&first, &shortest, history.len()) + "\n(shown again by some replays only)\n")
        }
        None => {
            let last = &history[history.len().saturating_sub(40)..];
            Ok(report::difference(&first, last, history.len())
                + "\n(no replay shows it again: these are the last steps)\n")
        }
    }
}

/// The first difference of a history on empty servers. A server that cannot be reached any more counts as none.
fn replay(pair: &mut Pair, protocol: u8, history: &[Step]) -> Option<Difference> {
    pair.renew(protocol).ok()?;
    history.iter().find_map(|step| pair.perform(step).err()).map(|difference| *difference)
}

fn reproduce(options: &Options) -> String {
    let protocol = if options.protocols.len() > 1 { "both".to_string() } else { options.protocols[0].to_string() };
    let groups: Vec<&str> = options.groups.iter().map(|group| group.name()).collect();
    format!(
        "again: quipu-suite differential --seed {} --commands {} --protocol {protocol} --only {}\n",
        options.seed,
        options.commands,
        groups.join(",")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::command::Command;
    use crate::value::Value;

    type Store = Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>;

    /// A server that knows SET, GET and FLUSHALL, and answers OK to all else. If `forgetful`, it forgets `s:1` when
    /// `s:2` is set.
    fn fake_server(forgetful: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let store = Store::default();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let store = store.clone();
                std::thread::spawn(move || serve(stream, &store, forgetful));
            }
        });
        address
    }

    fn serve(mut stream: TcpStream, store: &Store, forgetful: bool) {
        let (mut received, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            received.extend_from_slice(&piece[..count]);
            while let Ok(Some((value, length))) = Value::decode(&received) {
                received.drain(..length);
                let words: Vec<Vec<u8>> =
                    value.items().unwrap().iter().map(|word| word.text().unwrap().to_vec()).collect();
                let mut store = store.lock().unwrap();
                let mut reply = b"+OK\r\n".to_vec();
                match (words[0].to_ascii_uppercase().as_slice(), words.len()) {
                    (b"SET", 3) => {
                        if forgetful && words[1] == b"s:2" {
                            store.remove(&b"s:1"[..]);
                        }
                        store.insert(words[1].clone(), words[2].clone());
                    }
                    (b"GET", 2) => {
                        reply = match store.get(&words[1]) {
                            Some(value) => {
                                [format!("${}\r\n", value.len()).as_bytes(), value.as_slice(), b"\r\n"].concat()
                            }
                            None => b"$-1\r\n".to_vec(),
                        }
                    }
                    (b"FLUSHALL", _) => store.clear(),
                    _ => {}
                }
                drop(store);
                if stream.write_all(&reply).is_err() {
                    return;
                }
            }
        }
    }

    fn options(seed: u64) -> Options {
        Options { seed, commands: 20_000, seconds: None, protocols: vec![2, 3], groups: vec![Group::Strings] }
    }

    #[test]
    fn equal_servers_are_found_equal() {
        let mut pair = Pair::at(fake_server(false), fake_server(false)).unwrap();
        let outcome = run(&Options { commands: 3000, ..options(1) }, &mut pair).unwrap();
        assert!(outcome.same, "{}", outcome.text);
        assert!(outcome.text.contains("SET"), "{}", outcome.text);
    }

    #[test]
    fn a_planted_difference_is_found_and_shrunk_to_three_commands() {
        let mut pair = Pair::at(fake_server(false), fake_server(true)).unwrap();
        let outcome = run(&options(2), &mut pair).unwrap();
        assert!(!outcome.same);
        let history: Vec<&str> = outcome.text.lines().filter(|line| line.starts_with("client ")).collect();
        assert_eq!(history.len(), 3, "{}", outcome.text);
        assert!(
            outcome.text.contains("DIFFERENCE: ") && outcome.text.contains("subject:   \"$-1\\r\\n\""),
            "{}",
            outcome.text
        );
        assert!(outcome.text.contains("--seed 2"), "{}", outcome.text);
    }

    #[test]
    fn a_hand_written_history_is_replayed() {
        let mut pair = Pair::at(fake_server(false), fake_server(true)).unwrap();
        let steps = |texts: &[&str]| -> Vec<Step> {
            texts.iter().map(|text| Step::single(0, vec![Command::new(text)])).collect()
        };
        assert_eq!(replay(&mut pair, 2, &steps(&["SET s:1 a", "GET s:1", "SET s:2 b", "GET s:2"])), None);
        let difference = replay(&mut pair, 2, &steps(&["SET s:1 a", "SET s:2 b", "GET s:1"])).unwrap();
        assert_eq!(difference.command, Command::new("GET s:1"));
        assert_eq!(difference.reference, "\"$1\\r\\na\\r\\n\"");
    }
}
