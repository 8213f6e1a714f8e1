//! `quipu shell`: commands at a prompt, with history and completion, or from a pipe as a script; to a database of
//! this process, or to a server elsewhere.

mod answer;
mod command;
mod completion;
mod connected;
mod help;
pub(crate) mod lines;
mod reading;
mod session;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use quipu_rows::Database;

use crate::clock::{self, timed};
use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::counted;
use crate::history_files;
use crate::interrupts::{self, Interrupts, WholeLines};
use crate::remote::Login;
use command::Command;
use completion::candidates;
use lines::Lines;
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
    #[command(flatten)]
    database: database::NamedOrServer,
    /// Speak to a server instead, in commands of Redis
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["dir", "data", "create", "read_only", "table", "json"])]
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
        return connected::run(args, address, interactive);
    }
    if args.login.is_given() {
        return Err(Failure::Usage("--user and --password are for a server: --connect names it".to_owned()));
    }
    let Some(data) = args.database.dir() else {
        return Err(Failure::Usage("name a database: --data".to_owned()));
    };
    let db = if args.create { database::open_or_create(data)? } else { database::open(data, args.read_only)? };
    let mut session = Session::new(Database::open(&db)?, data.to_owned(), interactive)?;
    session.json = args.json;
    session.choose(args.table.as_deref())?;
    let interrupts = Interrupts::take()?;
    if interactive {
        return converse(&mut session, &interrupts, args.history.clone().or_else(history_files::history_file));
    }
    if args.commands.is_empty() {
        let unreadable = |error| Failure::new(format!("cannot read the script: {error}"));
        let lines = io::stdin().lock().lines().map(|line| line.map_err(unreadable));
        run_script(&mut session, &interrupts, lines, args.keep_going)
    } else {
        run_script(&mut session, &interrupts, args.commands.iter().cloned().map(Ok), args.keep_going)
    }
}

/// Runs one line, which Ctrl-C may stop. `true` if it was `quit`.
fn run_line(session: &mut Session, interrupts: &Interrupts, line: &str, out: &mut dyn Write) -> Result<bool> {
    interrupts.while_checking(|| {
        let result = run_unless_stopped(session, line, &mut WholeLines::to(out));
        // That the output refuses more is the error of a write.
        result.map_err(|error| if interrupts::is_stopped() { Failure::Stopped } else { error })
    })
}

fn run_unless_stopped(session: &mut Session, line: &str, out: &mut dyn Write) -> Result<bool> {
    let Some(command) = command::parse(line)? else { return Ok(false) };
    let (answer, duration) = timed(|| session.run(&command));
    let mut answer = answer?;
    if session.json {
        if session.timing {
            answer = answer.with("seconds", duration.as_secs_f64());
        }
        if let Some(json) = answer.json() {
            writeln!(out, "{json}")?;
        }
    } else {
        let time = session.timing.then(|| clock::show(duration));
        answer.print(out, time.as_deref().filter(|_| !matches!(command, Command::Help { .. } | Command::Quit)))?;
    }
    out.flush()?;
    Ok(matches!(command, Command::Quit))
}

/// Runs lines without a prompt, to the first error or all of them.
fn run_script(
    session: &mut Session,
    interrupts: &Interrupts,
    lines: impl Iterator<Item = Result<String>>,
    keep_going: bool,
) -> Result<()> {
    let mut out = io::stdout().lock();
    let mut failures = 0;
    let mut number = 0;
    for line in lines {
        number += 1;
        let at_line = |error: Failure| error.context(format_args!("line {number}"));
        let line = line.map_err(at_line)?;
        // A byte order mark begins some files.
        let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { &line };
        match run_line(session, interrupts, line, &mut out) {
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
    told(failures)
}

/// How many commands of a script failed, if any did.
fn told(failures: u64) -> Result<()> {
    match failures {
        0 => Ok(()),
        count => Err(Failure::new(format!("{} failed", counted(count, "command")))),
    }
}

/// Reads lines from a person until `quit` or the end of input.
fn converse(session: &mut Session, interrupts: &Interrupts, history: Option<PathBuf>) -> Result<()> {
    let table_names = session.table_names.clone();
    let mut lines = Lines::open(Box::new(move |line| candidates(line, &table_names.borrow())), history)?;
    writeln!(std::io::stdout(), "{}", session.greeting()?)?;
    while let Some(line) = lines.read(&session.prompt())? {
        lines.keep(&line);
        match run_line(session, interrupts, &line, &mut io::stdout()) {
            Ok(true) => break,
            Ok(false) => {}
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(error) => eprintln!("{error}"),
        }
    }
    if session.in_transaction() {
        writeln!(std::io::stdout(), "the open transaction was rolled back")?;
    }
    lines.save();
    Ok(())
}
