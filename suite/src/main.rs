//! The program `quipu-suite`: one test of the server a command.

#![forbid(unsafe_code)]

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use quipu_suite::generate::Group;
use quipu_suite::pair::Pair;
use quipu_suite::process::{Launch, quipu_program};
use quipu_suite::{clock, differential, exceptions, kill, redis_py, transfers};

/// Tests of the server from outside.
#[derive(Debug, Parser)]
#[command(name = "quipu-suite", version, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sends the same random commands to Quipu and to redis-server 7.0, and compares the replies byte for byte
    Differential {
        #[command(flatten)]
        subject: Subject,
        /// Determines all that is sent; a fresh one by default
        #[arg(long)]
        seed: Option<u64>,
        /// How many commands to send
        #[arg(long, default_value_t = 100_000)]
        commands: u64,
        /// Stop after this time, whether all commands were sent or not
        #[arg(long)]
        seconds: Option<f64>,
        /// The version of the protocol
        #[arg(long, default_value = "both")]
        protocol: Protocol,
        /// Only these groups of commands, separated by commas
        #[arg(long, value_delimiter = ',', value_parser = Group::of_name)]
        only: Vec<Group>,
    },
    /// Prints what the differential test does not compare, and why
    Exceptions,
    /// Kills the server under load, again and again: what was acknowledged must be there
    Kill(Killing),
    /// Kills the server under pgbench's transactions, again and again: sums must agree, and no move be lost
    Transfers(Killing),
    /// Runs redis-py's own tests
    RedisPy {
        #[command(flatten)]
        subject: Subject,
        /// The version of the protocol
        #[arg(long, default_value = "both")]
        protocol: Protocol,
        /// The script that runs them, if not the one in the source tree
        #[arg(long)]
        script: Option<PathBuf>,
        /// Arguments for pytest, such as -k NAME
        #[arg(last = true)]
        pytest: Vec<String>,
    },
}

/// The server under test.
#[derive(Debug, Args)]
struct Subject {
    /// The program quipu; by default $QUIPU_BIN, or the one beside this program
    #[arg(long)]
    quipu: Option<PathBuf>,
    /// An argument more for `quipu serve`; may be repeated
    #[arg(long, allow_hyphen_values = true)]
    quipu_arg: Vec<String>,
    /// The program redis-server
    #[arg(long, default_value = "redis-server")]
    redis: PathBuf,
    /// Test redis-server instead of Quipu: shows what the test itself cannot tell apart
    #[arg(long)]
    self_check: bool,
}

/// What is killed, when, and under which load.
#[derive(Debug, Args)]
struct Killing {
    #[command(flatten)]
    subject: Subject,
    /// Determines when the server is killed, and what is written; a fresh one by default
    #[arg(long)]
    seed: Option<u64>,
    /// How long to go on
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// What the server promises for an acknowledged write
    #[arg(long, default_value = "os")]
    durability: Durability,
    /// Connections that write
    #[arg(long, default_value_t = 4)]
    writers: usize,
}

impl Killing {
    /// What is launched, and the seed, which is printed.
    fn launch(&self, append_only: bool) -> (Launch, u64) {
        let seed = self.seed.unwrap_or_else(clock::fresh_seed);
        println!("seed {seed}");
        (self.subject.launch(append_only, &["--durability", self.durability.word()]), seed)
    }
}

impl Subject {
    fn redis(&self, append_only: bool) -> Launch {
        Launch::Redis { program: self.redis.clone(), append_only }
    }

    fn launch(&self, append_only: bool, arguments: &[&str]) -> Launch {
        if self.self_check {
            return self.redis(append_only);
        }
        let program = quipu_program(self.quipu.as_deref());
        let arguments =
            arguments.iter().map(|word| (*word).to_string()).chain(self.quipu_arg.iter().cloned()).collect();
        Launch::Quipu { program, arguments }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Protocol {
    #[value(name = "2")]
    Two,
    #[value(name = "3")]
    Three,
    Both,
}

impl Protocol {
    fn versions(self) -> Vec<u8> {
        match self {
            Protocol::Two => vec![2],
            Protocol::Three => vec![3],
            Protocol::Both => vec![2, 3],
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Durability {
    /// Survives the process
    Os,
    /// Survives the machine
    Sync,
}

impl Durability {
    fn word(self) -> &'static str {
        match self {
            Durability::Os => "os",
            Durability::Sync => "sync",
        }
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("quipu-suite: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the test passed.
fn run(command: Command) -> io::Result<bool> {
    match command {
        Command::Differential { subject, seed, commands, seconds, protocol, only } => {
            let groups = if only.is_empty() { Group::ALL.to_vec() } else { only };
            let seed = seed.unwrap_or_else(clock::fresh_seed);
            println!("seed {seed}");
            let options = differential::Options { seed, commands, seconds, protocols: protocol.versions(), groups };
            let mut pair = Pair::start(subject.redis(false), subject.launch(false, &[]))?;
            let outcome = differential::run(&options, &mut pair)?;
            print!("{}", outcome.text);
            Ok(outcome.same)
        }
        Command::Exceptions => {
            print!("{}", exceptions::table());
            Ok(true)
        }
        Command::Kill(killing) => {
            let (launch, seed) = killing.launch(true);
            kill::run(&kill::Options { launch, seed, seconds: killing.seconds, writers: killing.writers })
        }
        Command::Transfers(killing) => {
            if killing.subject.self_check {
                return Err(io::Error::other("redis-server has no SQL"));
            }
            let (launch, seed) = killing.launch(false);
            let (seconds, writers) = (killing.seconds, killing.writers);
            transfers::run(&transfers::Options { launch, seed, seconds, rounds: 1, writers })
        }
        Command::RedisPy { subject, protocol, script, pytest } => {
            redis_py::run(&subject.launch(false, &[]), &protocol.versions(), &pytest, script.as_deref())
        }
    }
}
