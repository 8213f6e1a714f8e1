//! `quipu shell`: commands at a prompt, with history and completion, or from a pipe as a script; to a database of
//! this process, or to a server elsewhere.

mod answer;
mod command;
mod completion;
mod help;
mod reading;
mod session;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::clock::{self, timed};
use crate::database;
use crate::failure::{Failure, Result};
use crate::files;
use crate::remote::{self, Login, Remote, Reply};
use command::Command;
use completion::Completion;
use session::Session;

const EXAMPLES: &str = "\
Examples:
  quipu shell --data air
  quipu shell --data air --table flights -c 'count 2013,7' -c 'quantile 0.5'
  echo 'count JFK,7' | quipu shell --data air --table flights.airport --json
  quipu shell --data new --create < script
  quipu shell --connect localhost:6379              commands of Redis, to a server

At the prompt, `help` teaches. A script ends at its first error, with the number of the line, and the exit code is 1.";

/// Asks and changes a database, by hand or by a script.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(long, value_name = "DIR", required_unless_present = "connect")]
    data: Option<PathBuf>,
    /// Speak to a server instead, in commands of Redis
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["data", "create", "read_only", "table", "json"])]
    connect: Option<String>,
    #[command(flatten)]
    login: Login,
    /// Create the database if there is none
    #[arg(long, conflicts_with = "read_only")]
    create: bool,
    /// Change nothing
    #[arg(long)]
    read_only: bool,
    /// The table to begin with; else the only one there is
    #[arg(long)]
    table: Option<String>,
    /// Run this command instead of reading any; may be given more than once
    #[arg(short, long = "command", value_name = "COMMAND")]
    commands: Vec<String>,
    /// Go on after an error of a script; the exit code is still 1
    #[arg(long)]
    keep_going: bool,
    /// Answer as JSON, one object a command
    #[arg(long)]
    json: bool,
    /// Where the lines typed are kept; else in the user's state directory
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let interactive = args.commands.is_empty() && io::stdin().is_terminal();
    if let Some(address) = &args.connect {
        return run_connected(args, address, interactive);
    }
    if args.login.is_given() {
        return Err(Failure::Usage("--user and --password are for a server: --connect names it".to_owned()));
    }
    let Some(data) = &args.data else { return Err(Failure::Usage("name a database: --data".to_owned())) };
    let db = if args.create { database::open_or_create(data)? } else { database::open(data, args.read_only)? };
    let mut session = Session::new(db, data.clone(), interactive);
    session.json = args.json;
    session.choose(args.table.as_deref())?;
    if interactive {
        return converse(&mut session, args.history.clone().or_else(files::history_file));
    }
    if args.commands.is_empty() {
        let unreadable = |error| Failure::new(format!("cannot read the script: {error}"));
        run_script(&mut session, io::stdin().lock().lines().map(|line| line.map_err(unreadable)), args.keep_going)
    } else {
        run_script(&mut session, args.commands.iter().cloned().map(Ok), args.keep_going)
    }
}

/// Runs one line. `true` if it was `quit`.
fn run_line(session: &mut Session, line: &str, out: &mut dyn Write) -> Result<bool> {
    let Some(command) = command::parse(line)? else { return Ok(false) };
    let (answer, duration) = timed(|| session.run(&command));
    let mut answer = answer?;
    if session.json {
        if session.timing {
            answer = answer.with("seconds", duration.as_secs_f64());
        }
        if !answer.json.is_empty() {
            writeln!(out, "{}", serde_json::Value::Object(answer.json))?;
        }
    } else {
        let time = session.timing.then(|| clock::show(duration));
        answer.print(out, time.as_deref().filter(|_| !matches!(command, Command::Help { .. } | Command::Quit)))?;
    }
    out.flush()?;
    Ok(matches!(command, Command::Quit))
}

/// Runs lines without a prompt, to the first error or all of them.
fn run_script(session: &mut Session, lines: impl Iterator<Item = Result<String>>, keep_going: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    let mut failures = 0;
    let mut number = 0;
    for line in lines {
        number += 1;
        let at_line = |error: Failure| error.context(format_args!("line {number}"));
        match run_line(session, &line.map_err(at_line)?, &mut out) {
            Ok(true) => break,
            Ok(false) => {}
            Err(error @ Failure::Error(_)) if keep_going => {
                eprintln!("quipu: {}", at_line(error));
                failures += 1;
            }
            Err(error) => return Err(at_line(error)),
        }
    }
    if session.in_transaction() {
        return Err(Failure::new(format!(
            "line {number}: the script ends within a transaction, which was rolled back"
        )));
    }
    match failures {
        0 => Ok(()),
        1 => Err(Failure::new("1 command failed")),
        count => Err(Failure::new(format!("{count} commands failed"))),
    }
}

/// Reads lines from a person until `quit` or the end of input.
fn converse(session: &mut Session, history: Option<PathBuf>) -> Result<()> {
    let terminal = |error: ReadlineError| Failure::new(format!("the terminal: {error}"));
    let config = Config::builder().completion_type(CompletionType::List).history_ignore_space(true).build();
    let mut editor: Editor<Completion, FileHistory> = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(Completion { table_names: session.table_names.clone() }));
    if let Some(history) = &history {
        // The first time there is none.
        let _ = editor.load_history(history);
    }
    writeln!(std::io::stdout(), "{}", session.greeting())?;
    loop {
        match editor.readline(&session.prompt()) {
            Ok(line) => {
                let _ = editor.add_history_entry(&line);
                match run_line(session, &line, &mut io::stdout()) {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
                    Err(error) => eprintln!("{error}"),
                }
            }
            Err(ReadlineError::Interrupted) => println!("(`quit` or Ctrl-D ends the shell)"),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        }
    }
    if session.in_transaction() {
        writeln!(std::io::stdout(), "the open transaction was rolled back")?;
    }
    if let Some(history) = &history
        && let Err(error) = editor.save_history(history)
    {
        eprintln!("quipu: cannot keep the history in {}: {error}", history.display());
    }
    Ok(())
}

const CONNECTED_HELP: &str = r#"Every line is a command of Redis, answered by the server:
  SET greeting "hello\n"       words stand between blanks; "..." knows \n \r \t \a \b \xHH \" \\
  SET place 'New York'         '...' takes all as it is, but for \'
  GET greeting
  HELLO 3                      answers with maps, sets and booleans

  help COMMAND                 what the server says about a command
  timing on|off                whether it is shown how long an answer took
  quit                         ends the shell, as exit and Ctrl-D do

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

/// A shell whose commands a server runs.
struct Connected {
    remote: Remote,
    /// The names of the server's commands, in lower case and in order.
    names: Vec<String>,
    timing: bool,
}

/// What came of a line.
enum Outcome {
    Done,
    /// The command was refused; people have been told already.
    Refused(String),
    Quit,
}

fn run_connected(args: &Args, address: &str, interactive: bool) -> Result<()> {
    let remote = Remote::connect(address, &args.login, None)?;
    let mut shell = Connected { remote, names: Vec::new(), timing: interactive };
    if interactive {
        let history = args.history.clone().or_else(|| Some(files::history_file()?.with_file_name("history-connected")));
        shell.converse(history)
    } else if args.commands.is_empty() {
        let unreadable = |error| Failure::new(format!("cannot read the script: {error}"));
        shell.run_script(io::stdin().lock().split(b'\n').map(|line| line.map_err(unreadable)), args.keep_going)
    } else {
        shell.run_script(args.commands.iter().map(|line| Ok(line.clone().into_bytes())), args.keep_going)
    }
}

impl Connected {
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
                writeln!(out, "{CONNECTED_HELP}")?;
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
        let (reply, duration) = timed(|| self.remote.ask(words));
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
                Outcome::Refused(_) if keep_going => failures += 1,
                Outcome::Refused(message) => return Err(at_line(Failure::new(message))),
            }
        }
        match failures {
            0 => Ok(()),
            1 => Err(Failure::new("1 command failed")),
            count => Err(Failure::new(format!("{count} commands failed"))),
        }
    }

    /// Reads lines from a person until `quit`, the end of input or that of the connection.
    fn converse(&mut self, history: Option<PathBuf>) -> Result<()> {
        let terminal = |error: ReadlineError| Failure::new(format!("the terminal: {error}"));
        // A server that wants a password first refuses this; then there is no completion.
        if let Reply::Array(names) = self.remote.ask(&["COMMAND", "LIST"])? {
            self.names = names.iter().filter_map(Reply::text).map(|name| name.to_ascii_lowercase()).collect();
            self.names.extend(["help", "timing", "quit"].map(str::to_owned));
            self.names.sort();
            self.names.dedup();
        }
        let config = Config::builder().completion_type(CompletionType::List).history_ignore_space(true).build();
        let mut editor: Editor<CommandCompletion, FileHistory> = Editor::with_config(config).map_err(terminal)?;
        editor.set_helper(Some(CommandCompletion { names: self.names.clone() }));
        if let Some(history) = &history {
            // The first time there is none.
            let _ = editor.load_history(history);
        }
        let prompt = format!("{}> ", self.remote.address());
        writeln!(io::stdout(), "quipu {}. `help` tells how, Tab completes.", env!("CARGO_PKG_VERSION"))?;
        let end = loop {
            match editor.readline(&prompt) {
                Ok(line) => {
                    if !is_secret(&line) {
                        let _ = editor.add_history_entry(&line);
                    }
                    match self.run_line(line.as_bytes(), &mut io::stdout()) {
                        Ok(Outcome::Quit) => break Ok(()),
                        Ok(Outcome::Done | Outcome::Refused(_)) => {}
                        Err(error) => break Err(error),
                    }
                }
                Err(ReadlineError::Interrupted) => println!("(`quit` or Ctrl-D ends the shell)"),
                Err(ReadlineError::Eof) => break Ok(()),
                Err(error) => break Err(terminal(error)),
            }
        };
        if let Some(history) = &history
            && let Err(error) = editor.save_history(history)
        {
            eprintln!("quipu: cannot keep the history in {}: {error}", history.display());
        }
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

/// Completes the names of a server's commands.
struct CommandCompletion {
    names: Vec<String>,
}

impl Helper for CommandCompletion {}

impl Highlighter for CommandCompletion {}

impl Hinter for CommandCompletion {
    type Hint = String;
}

impl Validator for CommandCompletion {}

impl Completer for CommandCompletion {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(command_candidates(&line[..position], &self.names))
    }
}

/// Where the last word of `line` begins, and which commands it may become, in capitals if it is.
fn command_candidates(line: &str, names: &[String]) -> (usize, Vec<String>) {
    let start = line
        .rfind(char::is_whitespace)
        .map_or(0, |blank| blank + line[blank..].chars().next().map_or(1, char::len_utf8));
    let (before, word) = line.split_at(start);
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
