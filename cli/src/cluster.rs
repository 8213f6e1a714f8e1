//! `quipu cluster`: how a cluster stands, a repair on request, and a demonstration.

mod client;
mod demo;
mod repair;
mod status;

use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  quipu cluster demo                                three nodes here, one of which is killed
  quipu cluster status --url http://a:8001          every node, asked through one of them
  quipu cluster repair --url http://a:8001          compare all replicas now

A node of a cluster is started with: quipu serve --http-port P --self-url URL --data DIR --cluster URL,URL,...";

/// Shows how a cluster stands, has replicas compared, demonstrates
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Status(status::Args),
    Repair(repair::Args),
    Demo(demo::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Status(args) => status::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Demo(args) => demo::run(args),
    }
}
