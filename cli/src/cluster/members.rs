//! `quipu cluster add`, `remove`, `replace` and `abort`: changes who is a member, and shows how far that is.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value as Json, json};

use super::client::{Reply, Target, member_urls};
use super::status::of_the_dead;
use crate::clock::{self, Stopwatch};
use crate::failure::{Failure, Result};
use crate::grid::counted;

/// How often nodes are asked.
const EVERY: Duration = Duration::from_millis(200);

const ADD_HELP: &str = "\
The node is started first, with `quipu serve --join`: it waits until it is added, and an address at which no node waits
is refused. The others go on serving; it copies its share of the data from them, and then serves too. Add several at
once to copy only once.

Example:
  quipu serve --http-port 8004 --self-url http://d:8004 --data d --join http://a:8001,http://b:8002
  quipu cluster add http://d:8004 --url http://a:8001";

const REMOVE_HELP: &str = "\
A node that leaves serves until others have copied what it keeps; then it is told, and may be stopped. One that is gone
for good is removed with --dead: what only it had is lost. That can be said at any time: a change under way waits for it
no longer, and when that has ended the node is removed. A change needs more than half of the nodes that vote.

Examples:
  quipu cluster remove http://c:8003 --url http://a:8001
  quipu cluster remove http://c:8003 --dead --url http://a:8001";

const REPLACE_HELP: &str = "\
Examples:
  quipu cluster replace http://c:8003 http://d:8004 --url http://a:8001          c leaves when d has all
  quipu cluster replace http://c:8003 http://d:8004 --dead --url http://a:8001   c is gone for good";

const ABORT_HELP: &str = "\
Until the new replicas have copied all, the old ones are read from and written to as before, so nothing is lost. Nodes
that were to come are not members then, and need a new directory to be added again; nodes that were to leave stay.

Example:
  quipu cluster abort --url http://a:8001";

/// How a change is followed.
#[derive(Debug, clap::Args)]
struct Following {
    #[command(flatten)]
    target: Target,
    /// Do not wait until the data has moved
    #[arg(long)]
    no_wait: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// What the members that come are like.
#[derive(Debug, clap::Args)]
struct Likeness {
    /// The zone of what is added: replicas of an entity are spread over zones
    #[arg(long, value_name = "NAME", default_value = "")]
    zone: String,
    /// The share of the data of what is added, beside the 100 of others
    #[arg(long, value_name = "WEIGHT", default_value_t = 100)]
    weight: u32,
}

impl Likeness {
    fn member(&self, url: &str) -> Json {
        json!({ "url": url, "zone": self.zone, "weight": self.weight })
    }
}

/// Adds nodes to a cluster, and waits until they have their share of the data
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_HELP)]
pub(super) struct Add {
    /// The addresses of the nodes to add
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    likeness: Likeness,
    #[command(flatten)]
    following: Following,
}

/// Removes nodes from a cluster, and waits until others have their data
#[derive(Debug, clap::Args)]
#[command(after_help = REMOVE_HELP)]
pub(super) struct Remove {
    /// The addresses of the nodes that leave
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    /// They are gone for good: nothing is copied from them
    #[arg(long)]
    dead: bool,
    #[command(flatten)]
    following: Following,
}

/// Replaces a node by another, moving the data once
#[derive(Debug, clap::Args)]
#[command(after_help = REPLACE_HELP)]
pub(super) struct Replace {
    /// The address of the node that leaves
    old: String,
    /// The address of the node that comes; the same, if it has a new data directory
    new: String,
    /// The old one is gone for good: nothing is copied from it
    #[arg(long)]
    dead: bool,
    #[command(flatten)]
    likeness: Likeness,
    #[command(flatten)]
    following: Following,
}

/// Gives up the change of members under way, while its data are still being copied
#[derive(Debug, clap::Args)]
#[command(after_help = ABORT_HELP)]
pub(super) struct Abort {
    #[command(flatten)]
    following: Following,
}

pub(super) fn add(args: &Add) -> Result<()> {
    let add: Vec<Json> = args.nodes.iter().map(|url| args.likeness.member(url)).collect();
    change(&args.following, &json!({ "add": add }))
}

pub(super) fn remove(args: &Remove) -> Result<()> {
    let how = if args.dead { "dead" } else { "remove" };
    change(&args.following, &json!({ how: args.nodes }))
}

pub(super) fn abort(args: &Abort) -> Result<()> {
    change(&args.following, &json!({ "abort": true }))
}

pub(super) fn replace(args: &Replace) -> Result<()> {
    let how = if args.dead { "dead" } else { "remove" };
    change(&args.following, &json!({ how: [args.old], "add": [args.likeness.member(&args.new)] }))
}

/// Orders a change and follows it.
fn change(following: &Following, order: &Json) -> Result<()> {
    let Following { target, no_wait, json } = following;
    let watch = Stopwatch::start();
    let refused = |reply: Reply| {
        Failure::new(match reply.status {
            400 | 404 | 409 => reply.text(),
            status => format!("{} answers {status}: {}", target.url, reply.text()),
        })
    };
    let send = || target.send(&target.url, "POST", "/v0/cluster", order.to_string().as_bytes());
    let epoch_of = |reply: &Reply| {
        let begun = serde_json::from_slice::<Json>(&reply.body).ok();
        begun.and_then(|begun| begun["epoch"].as_u64()).unwrap_or(0)
    };
    let reply = send()?;
    if reply.status != 202 {
        return Err(refused(reply));
    }
    let epoch = epoch_of(&reply);
    let mut out = std::io::stdout();
    if *no_wait {
        let line = match json {
            true => json!({ "epoch": epoch }).to_string(),
            false => "the change has begun; `quipu cluster status` shows how far it is".to_owned(),
        };
        return Ok(writeln!(out, "{line}")?);
    }
    let (mut epoch, mut members) = follow(target, epoch)?;
    // Who was declared dead while another change was under way is still to be removed.
    while !order["dead"].is_null() {
        let again = send()?;
        match again.status {
            202 => (epoch, members) = follow(target, epoch_of(&again))?,
            404 => break,
            _ => return Err(refused(again)),
        }
    }
    if *json {
        let done = json!({ "epoch": epoch, "members": members, "seconds": watch.elapsed().as_secs_f64() });
        return Ok(writeln!(out, "{done}")?);
    }
    let took = clock::show(watch.elapsed());
    writeln!(out, "done in {took}: {}, {}", counted(members.len(), "node"), members.join(", "))?;
    for line in of_the_dead(&target.report(members.first().unwrap_or(&target.url))?) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Waits until a change has ended. Returns the epoch and the members.
#[expect(clippy::disallowed_methods, reason = "it looks now and then")]
fn follow(target: &Target, begun: u64) -> Result<(u64, Vec<String>)> {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{prefix:>12} [{bar:30}] {pos}/{len} partitions {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let (mut at, mut most, mut told) = (target.url.clone(), 0, String::new());
    loop {
        let report = match target.report(&at) {
            Ok(report) => report,
            // The node that was asked may leave.
            Err(failure) if at == target.url => return Err(failure),
            Err(_) => {
                at = target.url.clone();
                continue;
            }
        };
        let mut urls = member_urls(&report);
        urls.sort_unstable();
        let epoch = report["epoch"].as_u64().unwrap_or(0);
        let change = &report["change"];
        let reports: Vec<Json> = urls.iter().filter_map(|url| target.report(url).ok()).collect();
        // Its report may be a moment older than those of others.
        let is_over = || reports.iter().all(|report| report["change"].is_null());
        if change.is_null() && epoch >= begun && is_over() {
            bar.finish_and_clear();
            return Ok((epoch, urls));
        }
        let leaves = |url: &str| change["leave"].as_array().is_some_and(|leave| leave.iter().any(|left| left == url));
        if leaves(&at)
            && let Some(stays) = urls.iter().find(|url| !leaves(url))
        {
            at = stays.clone();
            continue;
        }
        let left: u64 = reports.iter().filter_map(|report| report["copies_left"].as_u64()).sum();
        most = most.max(left);
        bar.set_length(most);
        bar.set_position(most - left);
        bar.set_prefix(change["phase"].as_str().unwrap_or("begins").to_owned());
        let waits = change["waits_for"].as_array().cloned().unwrap_or_default();
        let waits: Vec<&str> = waits.iter().filter_map(Json::as_str).collect();
        let down = change["down"].as_array().cloned().unwrap_or_default();
        let down: Vec<&str> = down.iter().filter_map(Json::as_str).collect();
        let said = [("waits for", waits), ("no answer from", down)];
        let said = said.into_iter().filter(|(_, urls)| !urls.is_empty());
        let said = said.map(|(what, urls)| format!("{what} {}", urls.join(", "))).collect::<Vec<_>>().join("; ");
        // Where no bar is drawn, each news is a line.
        if bar.is_hidden() && said != told && !said.is_empty() {
            eprintln!("quipu: {}: {said}", bar.prefix());
        }
        told.clone_from(&said);
        bar.set_message(said);
        std::thread::sleep(EVERY);
    }
}
