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

/// What was done, summed over all nodes.
#[derive(Clone, Copy, Default)]
struct Sum {
    left: u64,
    ranges: u64,
    rows: u64,
    bytes: u64,
}

fn sum(target: &Target, urls: &[String]) -> Result<Sum> {
    let mut sum = Sum::default();
    for url in urls {
        let report = target.report(url)?;
        let of = |name: &str| report[name].as_u64().unwrap_or(0);
        sum.left += of("repairs_left") + of("copies_left");
        sum.ranges += of("ranges_compared");
        sum.rows += of("rows_moved");
        sum.bytes += of("repair_bytes");
    }
    Ok(sum)
}

#[expect(clippy::disallowed_methods, reason = "it looks now and then")]
pub(super) fn run(args: &Args) -> Result<()> {
    let target = &args.target;
    let first = target.report(&target.url)?;
    let watch = Stopwatch::start();
    // What is left is compared: that matters most where a node is lost.
    let (mut urls, mut left_out) = (Vec::new(), Vec::new());
    for url in member_urls(&first) {
        match target.report(&url) {
            Ok(_) => urls.push(url),
            Err(failure) => {
                eprintln!("quipu: left out: {failure}");
                left_out.push(url);
            }
        }
    }
    let before = sum(target, &urls)?;
    for url in &urls {
        let reply = target.ask(url, "POST", "/v0/repair")?;
        if reply.status != 202 {
            return Err(Failure::new(format!("{url} answers {}: {}", reply.status, reply.text())));
        }
    }
    if args.no_wait {
        return Ok(writeln!(std::io::stdout(), "begun by {}", counted(urls.len(), "node"))?);
    }
    let shows = std::io::stderr().is_terminal();
    // A report may be a moment older than the request.
    std::thread::sleep(EVERY);
    let done = loop {
        let now = sum(target, &urls)?;
        if shows {
            eprint!("\r{} comparisons are left   ", thousands(now.left));
        }
        if now.left == 0 {
            break now;
        }
        std::thread::sleep(EVERY);
    };
    if shows {
        eprint!("\r\x1b[K");
    }
    let (ranges, rows) = (done.ranges.wrapping_sub(before.ranges), done.rows.wrapping_sub(before.rows));
    let sent = done.bytes.wrapping_sub(before.bytes);
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
