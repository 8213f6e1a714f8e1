//! `quipu cluster status`: every node, asked through one of them.

use std::io::Write;

use serde_json::{Value as Json, json};

use super::client::{Target, member_urls};
use crate::failure::Result;
use crate::grid::{Grid, bytes, thousands};

/// Shows all nodes of a cluster
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// Print JSON: the report of each node, or why there is none
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let first = args.target.report(&args.target.url)?;
    let mut reports = vec![first.clone()];
    for url in member_urls(&first).into_iter().skip(1) {
        reports.push(match args.target.report(&url) {
            Ok(report) => report,
            Err(failure) => json!({ "url": url, "ready": false, "trouble": failure.to_string() }),
        });
    }
    reports.sort_by(|a, b| a["url"].as_str().cmp(&b["url"].as_str()));
    let mut out = std::io::stdout();
    if args.json {
        return Ok(writeln!(out, "{}", Json::Array(reports))?);
    }
    let of = |name: &str| first[name].as_u64().unwrap_or(0);
    writeln!(
        out,
        "{} nodes, {} partitions, {} replicas of an entity by default, epoch {}\n",
        reports.len(),
        of("partitions"),
        of("replicas"),
        of("epoch")
    )?;
    print(&reports, &mut out)?;
    for line in of_change(&first) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// What a report says of a change of members and of the log that agrees on it.
fn of_change(report: &Json) -> Vec<String> {
    let list = |value: &Json| {
        let items = value.as_array().cloned().unwrap_or_default();
        items.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", ")
    };
    let mut lines = Vec::new();
    let change = &report["change"];
    if !change.is_null() {
        let mut line = format!("\na change is under way ({})", change["phase"].as_str().unwrap_or("?"));
        for (name, what) in [("come", "come"), ("leave", "leave"), ("waits_for", "waited for")] {
            let urls = list(&change[name]);
            if !urls.is_empty() {
                line.push_str(&format!("; {what}: {urls}"));
            }
        }
        lines.push(line);
    }
    let log = &report["log"];
    lines.push(match (log["trouble"].as_str(), log["leader"].as_u64()) {
        (Some(trouble), _) => format!("\n{trouble}"),
        (None, Some(leader)) => format!("\nnode n{leader} leads the log of the topology, term {}", log["term"]),
        (None, None) => "\nthe log of the topology has no leader: members cannot be changed now".to_owned(),
    });
    lines
}

/// A table of reports.
pub(super) fn print(reports: &[Json], out: &mut dyn Write) -> Result<()> {
    let columns = [("node", false), ("state", false), ("entities", true), ("hints", true), ("to copy", true)];
    let rest = [("to compare", true), ("repair", true), ("sees", false)];
    let mut grid = Grid::new(columns.into_iter().chain(rest));
    for report in reports {
        let number = |name: &str| report[name].as_u64().map_or(String::new(), thousands);
        let state = match (report["ready"].as_bool(), report["trouble"].as_str()) {
            (Some(true), _) => "ready".to_owned(),
            (_, Some(trouble)) => trouble.to_owned(),
            _ => "copying".to_owned(),
        };
        let sees =
            |peer: &Json| format!("{} {}", peer["url"].as_str().unwrap_or("?"), peer["health"].as_str().unwrap_or("?"));
        let peers = report["peers"].as_array().map(|peers| peers.iter().map(sees).collect::<Vec<_>>().join(", "));
        grid.push(vec![
            report["url"].as_str().unwrap_or("?").to_owned(),
            state,
            number("entities"),
            number("hints"),
            number("copies_left"),
            number("repairs_left"),
            report["repair_bytes"].as_u64().map_or(String::new(), bytes),
            peers.unwrap_or_default(),
        ]);
    }
    Ok(grid.print(out)?)
}
