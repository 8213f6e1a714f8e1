//! `quipu sql`: SQL at a prompt, or from a script; to a database of this process, or to a server.

mod address;
mod backend;
mod commands;
mod completion;
mod copying;
mod describe;
mod files;
mod local;
mod messages;
mod meta;
mod pages;
mod printer;
mod reports;
mod row_formats;
mod scram;
mod session;
mod source;
mod splitter;
mod transport;
mod wire;

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::rc::Rc;

use clap::ValueEnum;

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::counted;
use crate::history_files::state_file;
use crate::interrupts::Interrupts;
use address::Address;
use backend::{Backend, Transaction};
use completion::Names;
use local::Local;
use row_formats::Format;
use session::Shell;
use source::{Person, Script};
use wire::Connected;

const EXAMPLES: &str = "\
Examples:
  quipu sql --data air                                        at a prompt: \\? tells what there is, \\d shows the tables
  quipu sql --data air -c 'SELECT carrier, count(*) FROM flights GROUP BY carrier'
  quipu sql --data air --csv -c 'SELECT * FROM flights' > flights.csv
  quipu sql --data air --json -c 'SELECT * FROM flights LIMIT 3' | jq .carrier
  quipu sql --data new --create --on-error stop -f schema.sql
  quipu sql --data air -c \"\\copy flights from 'more.csv' csv header\"
  quipu sql --connect postgres://ann:secret@localhost:5432/quipu?sslmode=require
  PGPASSWORD=secret quipu sql --connect postgres://ann@localhost -f report.sql

A statement ends with a semicolon. PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, PGSSLMODE and PGSSLROOTCERT say what
a URL leaves out. The exit code is 0; 1 if a statement failed; 2 if the command line is wrong.";

/// Runs SQL, by hand or by a script.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    database: database::NamedOrServer,
    /// Speak to a server instead: of Quipu (`quipu serve --pg-port`), or of PostgreSQL
    #[arg(long, value_name = "URL", conflicts_with_all = ["dir", "data", "create", "read_only"])]
    connect: Option<String>,
    /// Create the database if it does not exist
    #[arg(long, conflicts_with = "read_only")]
    create: bool,
    /// Change nothing
    #[arg(long)]
    read_only: bool,
    /// Run these statements instead of reading any; may be given more than once
    #[arg(short, long = "command", value_name = "STATEMENTS", conflicts_with = "files")]
    commands: Vec<String>,
    /// Run the statements of this file; `-` is standard input; may be given more than once
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print rows as CSV, with a header
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print rows as JSON, an object a line
    #[arg(long)]
    json: bool,
    /// What an error does to the statements after it; either way the exit code is 1
    #[arg(long, value_name = "WHAT", default_value = "continue")]
    on_error: OnError,
    /// Where the statements typed are kept; else in the user's state directory
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// What becomes of statements after one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// They run
    Continue,
    /// They do not
    Stop,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // A database of this process runs statements by recursion.
    std::thread::scope(|scope| {
        let shell = std::thread::Builder::new().name("sql".to_owned()).stack_size(quipu_sql::STACK_BYTES);
        let shell = shell.spawn_scoped(scope, || run_here(args))?;
        shell.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_here(args: &Args) -> Result<()> {
    let is_interactive = args.commands.is_empty() && args.files.is_empty() && io::stdin().is_terminal();
    // It is dropped last.
    let _db;
    let backend: Box<dyn Backend> = match (&args.connect, args.database.dir()) {
        (Some(url), _) => Box::new(Connected::open(Address::parse(url)?)?),
        (None, Some(data)) => {
            let db = if args.create { database::open_or_create(data)? } else { database::open(data, args.read_only)? };
            let local = Local::open(&db, &data.display().to_string(), args.read_only)?;
            _db = db;
            Box::new(local)
        }
        (None, None) => return Err(Failure::Usage("name a database: --data or --connect".to_owned())),
    };
    let mut shell = Shell {
        backend,
        interrupts: Interrupts::take()?,
        format: match (args.csv, args.json) {
            (true, _) => Format::Csv,
            (_, true) => Format::Json,
            _ => Format::Aligned,
        },
        timing: false,
        restricted_by: None,
        is_interactive,
        stops_on_error: args.on_error == OnError::Stop,
        failures: 0,
        last: String::new(),
        depth: 0,
        names: Rc::new(RefCell::new(Names::default())),
        are_names_old: true,
    };
    if is_interactive {
        return converse(&mut shell, args.history.clone().or_else(|| state_file("history.sql")));
    }
    if !args.commands.is_empty() {
        shell.run_words(args.commands.clone())?;
    } else if args.files.is_empty() {
        shell.run(&mut Script::of_stdin())?;
    } else {
        for path in &args.files {
            if shell.run(&mut Script::open(path)?)? != session::Flow::GoOn {
                break;
            }
        }
    }
    if shell.backend.transaction() != Transaction::No {
        eprintln!("WARNING:  the transaction was not ended, and is rolled back");
    }
    match shell.failures {
        0 => Ok(()),
        count => Err(Failure::new(format!("{} failed", counted(count, "statement")))),
    }
}

/// Reads statements from a person until `\q` or Ctrl-D.
fn converse(shell: &mut Shell, history: Option<PathBuf>) -> Result<()> {
    shell
        .print(&format!("{}\nA statement ends with a semicolon; \\? tells what there is.\n", shell.backend.title()))?;
    let mut person = Person::new(Rc::clone(&shell.names), history)?;
    let result = shell.run(&mut person);
    person.save();
    if shell.backend.transaction() != Transaction::No {
        shell.print("The open transaction was rolled back.")?;
    }
    result.map(drop)
}
