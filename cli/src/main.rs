//! The program `quipu`: one command a file.

#![forbid(unsafe_code)]

mod backup;
mod bench;
#[cfg(feature = "server")]
mod check;
mod clock;
#[cfg(feature = "server")]
mod cluster;
mod compact;
mod database;
mod demo;
mod export;
mod failure;
mod flights;
mod grid;
mod histogram;
mod history_files;
mod import;
mod info;
mod interrupts;
mod key;
#[cfg(not(all(feature = "bench", feature = "storm", feature = "server")))]
mod missing_commands;
mod progress;
mod query;
mod relation;
mod remote;
#[cfg(feature = "server")]
mod restore;
#[cfg(feature = "server")]
mod serve;
mod shell;
mod shell_words;
#[cfg(feature = "server")]
mod sql;
mod stats;
mod storm;
mod table_files;
mod top;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;
#[cfg(not(feature = "server"))]
use crate::missing_commands::of_the_server::{check, cluster, restore, serve, sql};

/// So that `/debug/profile/heap` can show who allocates.
#[cfg(feature = "server")]
#[global_allocator]
static ALLOCATOR: quipu_server::profile::Sampling = quipu_server::profile::Sampling;

const EXAMPLES: &str = "\
Examples:
  quipu demo                                                  a year of flights
  quipu import flights.csv --data air --table flights --key year,month,day,carrier,flight,origin
  quipu shell --data air                                      ask: `help` tells how
  quipu sql --data air                                        SQL at a prompt, or from a script
  quipu export --data air --table flights --prefix 2013,7 -o july.csv
  quipu check air                                             is everything whole?
  quipu backup air /mnt/usb/air                               a copy, and `quipu restore` the way back";

/// A database in which every tree is counted: how many, which row is number n, what is the rank, in one descent.
#[derive(Debug, Parser)]
#[command(name = "quipu", version, after_help = EXAMPLES, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Import(import::Args),
    Export(export::Args),
    Shell(shell::Args),
    Sql(sql::Args),
    Serve(Box<serve::Args>),
    Cluster(cluster::Args),
    Check(check::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Compact(compact::Args),
    Stats(stats::Args),
    Top(top::Args),
    /// Measures Quipu, and its peers if they are built in; without a workload, lists them
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::Args>),
    /// Tries to break a database, and checks every answer against a model
    #[command(after_help = storm::EXAMPLES)]
    Storm(Box<storm::Args>),
    #[command(hide = true)]
    DemoWriter(demo::WriterArgs),
}

#[cfg(feature = "server")]
fn arguments() -> Arguments {
    let (words, redis_style) = serve::take_redis_style(std::env::args_os().collect());
    let mut arguments = Arguments::parse_from(words);
    if let Command::Serve(args) = &mut arguments.command {
        args.redis_style = redis_style;
    }
    arguments
}

#[cfg(not(feature = "server"))]
fn arguments() -> Arguments {
    Arguments::parse()
}

fn main() -> ExitCode {
    // What imports rows computes the columns that SQL has declared so.
    #[cfg(feature = "server")]
    quipu_sql::compute_generated_columns();
    let arguments = arguments();
    let result = match &arguments.command {
        Command::Demo(args) => demo::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Shell(args) => shell::run(args),
        Command::Sql(args) => sql::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Check(args) => check::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Compact(args) => compact::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Top(args) => top::run(args),
        Command::Storm(args) => storm::run(args),
        Command::DemoWriter(args) => demo::run_writer(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::OutputClosed) {
                eprintln!("quipu: {failure}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
