//! `quipu cluster`: how a cluster stands, who is a member, a repair on request, and a demonstration.

mod client;
mod demo;
mod members;
mod repair;
mod status;

use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  quipu cluster demo                                three nodes here, one of which is killed
  quipu cluster status --url http://a:8001          every node, asked through one of them
  quipu cluster repair --url http://a:8001          compare all replicas now
  quipu cluster add http://d:8004 --url http://a:8001
  quipu cluster remove http://b:8002 --url http://a:8001
  quipu cluster replace http://c:8003 http://d:8004 --url http://a:8001
  quipu cluster abort --url http://a:8001           give up the change of members under way

A node of a cluster is started with: quipu serve --http-port P --self-url URL --data DIR --cluster URL,URL,...
One that is added later with --join URL,URL,... instead of --cluster.";

/// Shows the state of a cluster, changes its members, compares replicas, runs a demonstration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Status(status::Args),
    Add(members::Add),
    Remove(members::Remove),
    Replace(members::Replace),
    Abort(members::Abort),
    Repair(repair::Args),
    Demo(demo::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Status(args) => status::run(args),
        Command::Add(args) => members::add(args),
        Command::Remove(args) => members::remove(args),
        Command::Replace(args) => members::replace(args),
        Command::Abort(args) => members::abort(args),
        Command::Repair(args) => repair::run(args),
        Command::Demo(args) => demo::run(args),
    }
}
