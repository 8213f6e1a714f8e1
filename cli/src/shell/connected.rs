//! The shell of a server elsewhere: each line is a command of Redis.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use super::lines::{Lines, split_last_word};
use super::{Args, told};
use crate::clock::{self, timed};
use crate::failure::{Failure, Result};
use crate::history_files;
use crate::info::Info;
use crate::interrupts::Interrupts;
use crate::remote::{self, Login, Remote, Reply};

const HELP: &str = r#"Every line is a command of Redis, answered by the server:
  SET greeting "hello\n"       words stand between blanks; "..." knows \n \r \t \a \b \xHH \" \\
  SET place 'New York'         '...' takes all as it is, but for \'
  GET greeting
  HELLO 3                      answers with maps, sets and booleans
  INFO cluster                 the nodes of the cluster, as this one sees them

  help COMMAND                 what the server says about a command
  timing on|off                whether it is shown how long an answer took
  quit                         ends the shell, as exit and Ctrl-D do; Ctrl-C ends the wait for an answer

A line that begins with # is a comment. Tab completes the names of commands. Lines with passwords are not kept."#;

/// Commands after which answers come unasked, or none at all: they need a program that expects that.
const STREAMING: [&str; 6] = ["monitor", "subscribe", "psubscribe", "ssubscribe", "sync", "psync"];

/// Commands whose answer is a text of many lines for people.
const TEXTUAL: [&str; 9] = [
    "info",
    "lolwut",
    "client list",
    "client info",
    "cluster info",
    "cluster nodes",
    "latency doctor",
    "memory doctor",
    "memory malloc-stats",
];

/// What is told when Ctrl-C has ended the wait for an answer.
const STOPPED: &str = "stopped by Ctrl-C, and connected anew: the server may have run the command; MULTI, WATCH, SELECT \
                       and CLIENT SETNAME must be said again";

/// A shell whose commands a server runs.
struct Connected<'a> {
    remote: Remote,
    login: &'a Login,
    interrupts: Interrupts,
    /// The names of the server's commands, in lower case and in order.
    names: Vec<String>,
    timing: bool,
}

/// What came of a line.
enum Outcome {
    Done,
    /// The command was refused; people have been told already.
    Refused(String),
    /// Ctrl-C has ended the wait for the answer, and with it the connection; there is another one.
    Stopped,
    Quit,
}

pub(super) fn run(args: &Args, address: &str, interactive: bool) -> Result<()> {
    let remote = Remote::connect(address, &args.login, None)?;
    let interrupts = Interrupts::take()?;
    let mut shell = Connected { remote, login: &args.login, interrupts, names: Vec::new(), timing: interactive };
    if interactive {
        let history =
            args.history.clone().or_else(|| Some(history_files::history_file()?.with_file_name("history-connected")));
        shell.converse(history)
    } else if args.commands.is_empty() {
        let unreadable = |error| Failure::new(format!("cannot read the script: {error}"));
        shell.run_script(io::stdin().lock().split(b'\n').map(|line| line.map_err(unreadable)), args.keep_going)
    } else {
        shell.run_script(args.commands.iter().map(|line| Ok(line.clone().into_bytes())), args.keep_going)
    }
}

impl Connected<'_> {
    /// Runs one line. An error means that the shell cannot go on.
    fn run_line(&mut self, line: &[u8], out: &mut dyn Write) -> Result<Outcome> {
        let outcome = match remote::words(line) {
            Ok(words) => self.run_words(&words, out)?,
            Err(error) => {
                writeln!(out, "(error) {error}")?;
                Outcome::Refused(error.to_string())
            }
        };
        out.flush()?;
        Ok(outcome)
    }

    fn run_words(&mut self, words: &[Vec<u8>], out: &mut dyn Write) -> Result<Outcome> {
        let lower: Vec<String> =
            words.iter().take(3).map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let refusal = match lower.as_slice() {
            [] => return Ok(Outcome::Done),
            [word, ..] if word.starts_with('#') => return Ok(Outcome::Done),
            ["quit" | "exit"] => return Ok(Outcome::Quit),
            ["help"] => {
                writeln!(out, "{HELP}")?;
                return Ok(Outcome::Done);
            }
            ["help", name] => return self.explain(name, out),
            ["timing", switch @ ("on" | "off")] => {
                self.timing = *switch == "on";
                return Ok(Outcome::Done);
            }
            [name, ..] if STREAMING.contains(name) => {
                Some(format!("{name} is not for this shell: answers come unasked"))
            }
            ["client", "reply", "off" | "skip"] => Some("this shell waits for every answer".to_owned()),
            _ => None,
        };
        if let Some(message) = refusal {
            writeln!(out, "(error) {message}")?;
            return Ok(Outcome::Refused(message));
        }
        let (interrupts, stop) = (self.interrupts.clone(), self.remote.stop()?);
        let ((reply, duration), is_stopped) = interrupts.while_running(stop, || timed(|| self.remote.ask(words)));
        if is_stopped {
            // The connection has ended, whether the answer came or not.
            self.remote = Remote::connect(self.remote.address(), self.login, None)?;
            return Ok(Outcome::Stopped);
        }
        let reply = match reply {
            // That is how this command is answered.
            Err(Failure::Error(_)) if lower[0] == "shutdown" => {
                writeln!(out, "the server has ended")?;
                return Ok(Outcome::Quit);
            }
            reply => reply?,
        };
        let both = lower[..lower.len().min(2)].join(" ");
        reply.print(out, TEXTUAL.contains(&both.as_str()) || TEXTUAL.contains(&lower[0]))?;
        if self.timing {
            writeln!(out, "({})", clock::show(duration))?;
        }
        match reply {
            Reply::Error(message) => Ok(Outcome::Refused(String::from_utf8_lossy(&message).into_owned())),
            _ => Ok(Outcome::Done),
        }
    }

    /// Shows what the server says about a command.
    fn explain(&mut self, name: &str, out: &mut dyn Write) -> Result<Outcome> {
        let docs = match self.remote.ask(&["COMMAND", "DOCS", name])? {
            Reply::Array(items) => items.into_iter().nth(1),
            Reply::Map(pairs) => pairs.into_iter().next().map(|(_, docs)| docs),
            _ => None,
        };
        let facts: Vec<(Reply, Reply)> = match docs {
            Some(Reply::Map(pairs)) => pairs,
            Some(Reply::Array(items)) => items.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
            _ => Vec::new(),
        };
        let fact = |wanted: &str| {
            let (_, value) = facts.iter().find(|(name, _)| name.text().as_deref() == Some(wanted))?;
            value.text().filter(|text| !text.is_empty())
        };
        match fact("summary") {
            Some(summary) => writeln!(out, "{}: {summary}", name.to_uppercase())?,
            None => {
                let message = format!("the server knows no command {name}");
                writeln!(out, "(error) {message}")?;
                return Ok(Outcome::Refused(message));
            }
        }
        for (wanted, title) in [("complexity", "complexity"), ("since", "since Redis"), ("group", "group")] {
            if let Some(text) = fact(wanted) {
                writeln!(out, "  {title}: {text}")?;
            }
        }
        Ok(Outcome::Done)
    }

    /// Runs lines without a prompt, to the first error or all of them.
    fn run_script(&mut self, lines: impl Iterator<Item = Result<Vec<u8>>>, keep_going: bool) -> Result<()> {
        let mut out = io::stdout().lock();
        let mut failures = 0;
        for (place, line) in lines.enumerate() {
            let at_line = |error: Failure| error.context(format_args!("line {}", place + 1));
            match self.run_line(&line.map_err(at_line)?, &mut out).map_err(at_line)? {
                Outcome::Done => {}
                Outcome::Quit => break,
                Outcome::Stopped => return Err(Failure::Stopped),
                Outcome::Refused(_) if keep_going => failures += 1,
                Outcome::Refused(message) => return Err(at_line(Failure::new(message))),
            }
        }
        told(failures)
    }

    /// What the server says of the cluster that it is a node of, if it is one.
    fn nodes(&mut self) -> Result<Option<String>> {
        let info = Info::parse(&self.remote.ask(&["INFO", "cluster"])?.text().unwrap_or_default());
        let Some((own, peers)) = info.nodes() else { return Ok(None) };
        let mut text = format!("A node of a cluster, {own}; `INFO cluster` shows how it stands. Its peers:");
        for (url, health) in peers {
            text.push_str(&format!("\n  {url} {health}"));
        }
        Ok(Some(text))
    }

    /// Reads lines from a person until `quit`, the end of input or that of the connection.
    fn converse(&mut self, history: Option<PathBuf>) -> Result<()> {
        // A server that wants a password first refuses this; then there is no completion.
        if let Reply::Array(names) = self.remote.ask(&["COMMAND", "LIST"])? {
            // Subcommands stand there as `config|get`, which is not how they are typed.
            let names = names.iter().filter_map(Reply::text).filter(|name| !name.contains('|'));
            self.names = names.map(|name| name.to_ascii_lowercase()).collect();
            self.names.extend(["help", "timing", "quit"].map(str::to_owned));
            self.names.sort();
            self.names.dedup();
        }
        let names = self.names.clone();
        let mut lines = Lines::open(Box::new(move |line| command_candidates(line, &names)), history)?;
        let prompt = format!("{}> ", self.remote.address());
        writeln!(io::stdout(), "quipu {}. `help` tells how, Tab completes.", env!("CARGO_PKG_VERSION"))?;
        if let Some(nodes) = self.nodes()? {
            writeln!(io::stdout(), "{nodes}")?;
        }
        let end = loop {
            match lines.read(&prompt) {
                Ok(Some(line)) => {
                    if !is_secret(&line) {
                        lines.keep(&line);
                    }
                    match self.run_line(line.as_bytes(), &mut io::stdout()) {
                        Ok(Outcome::Quit) => break Ok(()),
                        Ok(Outcome::Done | Outcome::Refused(_)) => {}
                        Ok(Outcome::Stopped) => eprintln!("{STOPPED}"),
                        Err(error) => break Err(error),
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        lines.save();
        end
    }
}

/// Whether a line may hold a password.
fn is_secret(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let mut words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    match words.next() {
        Some("auth" | "acl" | "migrate") => true,
        Some("hello") => words.any(|word| word == "auth"),
        Some("config") => words.any(|word| word.contains("requirepass") || word.contains("auth")),
        _ => false,
    }
}

/// Where the last word of `line` begins, and which commands it may become, in capitals if it is.
fn command_candidates(line: &str, names: &[String]) -> (usize, Vec<String>) {
    let (before, word) = split_last_word(line);
    let start = before.len();
    if !matches!(before.trim().to_ascii_lowercase().as_str(), "" | "help") {
        return (start, Vec::new());
    }
    let lower = word.to_ascii_lowercase();
    let in_capitals = word.chars().any(|character| character.is_ascii_uppercase());
    let fitting = names.iter().filter(|name| name.starts_with(&lower));
    let shown = |name: &String| if in_capitals { name.to_ascii_uppercase() } else { name.clone() };
    (start, fitting.map(|name| shown(name) + " ").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_completed_in_their_case() {
        let names = ["get", "getdel", "set"].map(str::to_owned);
        let complete = |line| {
            let (start, found) = command_candidates(line, &names);
            (start, found.concat())
        };
        assert_eq!(complete("ge"), (0, "get getdel ".to_owned()));
        assert_eq!(complete("help GETD"), (5, "GETDEL ".to_owned()));
        assert_eq!(complete("set ge"), (4, String::new()));
    }

    #[test]
    fn passwords_are_not_kept() {
        assert!(is_secret("AUTH secret") && is_secret("hello 3 AUTH a b") && is_secret("config set requirepass x"));
        assert!(!is_secret("get auth") && !is_secret("hello 3"));
    }
}
