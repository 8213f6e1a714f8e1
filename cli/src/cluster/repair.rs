//! `quipu cluster repair`: has every node compare its replicas with those of the others, and shows how far that is.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use serde_json::json;

use super::client::{Target, member_urls};
use crate::clock::{self, Stopwatch};
use crate::failure::{Failure, Result};
use crate::grid::{bytes, counted, thousands};

/// How often nodes are asked.
const EVERY: Duration = Duration::from_millis(200);

/// Compares all replicas now, and waits for the end. Nodes that do not answer are left out
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// Do not wait
    #[arg(long)]
    no_wait: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// What a node has done since its start, and what is left.
#[derive(Clone, Copy, Default)]
struct Work {
    left: u64,
    ranges: u64,
    rows: u64,
    bytes: u64,
}

impl Work {
    fn of_node(target: &Target, url: &str) -> Result<Work> {
        let report = target.report(url)?;
        let of = |name: &str| report[name].as_u64().unwrap_or(0);
        Ok(Work {
            left: of("repairs_left") + of("copies_left"),
            ranges: of("ranges_compared"),
            rows: of("rows_moved"),
            bytes: of("repair_bytes"),
        })
    }
}

/// A node that takes part, with its work before and now.
struct Worker {
    url: String,
    before: Work,
    now: Work,
}

/// Asks nodes how far they are. Those that do not answer are left out from then on: what is left is compared, and that
/// matters most where a node is lost.
fn look(target: &Target, workers: &mut Vec<Worker>, left_out: &mut Vec<String>) {
    workers.retain_mut(|worker| match Work::of_node(target, &worker.url) {
        Ok(now) => {
            worker.now = now;
            true
        }
        Err(failure) => {
            eprintln!("quipu: left out: {failure}");
            left_out.push(worker.url.clone());
            false
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "it looks now and then")]
pub(super) fn run(args: &Args) -> Result<()> {
    let target = &args.target;
    let first = target.report(&target.url)?;
    let watch = Stopwatch::start();
    let worker = |url| Worker { url, before: Work::default(), now: Work::default() };
    let (mut workers, mut left_out): (Vec<Worker>, Vec<String>) =
        (member_urls(&first).into_iter().map(worker).collect(), Vec::new());
    look(target, &mut workers, &mut left_out);
    for worker in &mut workers {
        worker.before = worker.now;
        let reply = target.ask(&worker.url, "POST", "/v0/repair")?;
        if reply.status != 202 {
            return Err(Failure::new(format!("{} answers {}: {}", worker.url, reply.status, reply.text())));
        }
    }
    if args.no_wait {
        return Ok(writeln!(std::io::stdout(), "begun by {}", counted(workers.len(), "node"))?);
    }
    let shows = std::io::stderr().is_terminal();
    loop {
        // A report may be a moment older than the request.
        std::thread::sleep(EVERY);
        look(target, &mut workers, &mut left_out);
        let left: u64 = workers.iter().map(|worker| worker.now.left).sum();
        if shows {
            eprint!("\r{} comparisons are left   ", thousands(left));
        }
        if left == 0 {
            break;
        }
    }
    if shows {
        eprint!("\r\x1b[K");
    }
    let done = |of: fn(&Work) -> u64| -> u64 {
        workers.iter().map(|worker| of(&worker.now).saturating_sub(of(&worker.before))).sum()
    };
    let (ranges, rows, sent) = (done(|work| work.ranges), done(|work| work.rows), done(|work| work.bytes));
    let mut out = std::io::stdout();
    if args.json {
        let report = json!({ "ranges_compared": ranges, "rows_moved": rows, "bytes": sent,
            "left_out": left_out, "seconds": watch.elapsed().as_secs_f64() });
        return Ok(writeln!(out, "{report}")?);
    }
    Ok(writeln!(
        out,
        "{} ranges compared, {} entities moved, {} of messages, in {}",
        thousands(ranges),
        thousands(rows),
        bytes(sent),
        clock::show(watch.elapsed())
    )?)
}
