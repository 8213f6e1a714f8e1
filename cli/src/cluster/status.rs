//! `quipu cluster status`: every node, asked through one of them.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value as Json, json};

use super::client::{Target, member_urls};
use crate::failure::{Failure, Result};
use crate::grid::{Grid, bytes, counted, thousands};

/// Shows all nodes of a cluster. Its exit code is 0 if all are ready, and 1 if one is not, or a dead one has places
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
    let verdict = verdict(&reports).map_or(Ok(()), |verdict| Err(Failure::new(verdict)));
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", Json::Array(reports))?;
        return verdict;
    }
    let of = |name: &str| first[name].as_u64().unwrap_or(0);
    writeln!(
        out,
        "{}, {}, {} of an entity by default, epoch {}\n",
        counted(reports.len(), "node"),
        counted(of("partitions"), "partition"),
        counted(of("replicas"), "replica"),
        of("epoch")
    )?;
    print(&reports, &mut out)?;
    for line in of_change(&first).into_iter().chain(of_the_dead(&first)) {
        writeln!(out, "{line}")?;
    }
    verdict
}

/// What is to be done about members that were declared dead and are still members, where no change is under way.
pub(super) fn of_the_dead(report: &Json) -> Vec<String> {
    let dead = report["dead"].as_array().filter(|_| report["change"].is_null());
    let line = |url: &str| {
        format!(
            "{url} was declared dead and still has its places, so writes of its keys have a replica less: \
             `quipu cluster remove --dead {url}` has others take them"
        )
    };
    dead.into_iter().flatten().filter_map(Json::as_str).map(line).collect()
}

/// What is said where not all nodes are ready.
fn verdict(reports: &[Json]) -> Option<String> {
    let unready: Vec<&str> =
        reports.iter().filter(|report| report["ready"] != true).filter_map(|report| report["url"].as_str()).collect();
    let (count, all) = (unready.len(), reports.len());
    if count > 0 {
        return Some(format!("{count} of {all} nodes are not ready: {}", unready.join(", ")));
    }
    let has_dead = reports.iter().any(|report| !of_the_dead(report).is_empty());
    has_dead.then(|| "a member that was declared dead still has its places".to_owned())
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
        for (name, what) in
            [("come", "come"), ("leave", "leave"), ("waits_for", "waited for"), ("down", "no answer from")]
        {
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

/// A table of reports, and below it what is wrong, whole.
pub(super) fn print(reports: &[Json], out: &mut dyn Write) -> Result<()> {
    let columns = [("node", false), ("state", false), ("version", false), ("up", true), ("zone", false)];
    let data = [("weight", true), ("disk free", true), ("entities", true), ("hints", true), ("to copy", true)];
    let rest = [("to compare", true), ("repair", true), ("compared", true)];
    let mut grid = Grid::new(columns.into_iter().chain(data).chain(rest));
    let mut lines = Vec::new();
    for report in reports {
        let number = |name: &str| report[name].as_u64().map_or(String::new(), thousands);
        let text = |name: &str| report[name].as_str().unwrap_or_default().to_owned();
        let age = |name: &str| report[name].as_u64().map(age);
        let is_there = !report["node"].is_null();
        let state = match (report["ready"].as_bool(), is_there) {
            (Some(true), _) => "ready",
            (_, true) => "not ready",
            _ => "no answer",
        };
        grid.push(vec![
            text("url"),
            state.to_owned(),
            text("version"),
            age("uptime_s").unwrap_or_default(),
            text("zone"),
            number("weight"),
            report["disk"]["free_bytes"].as_u64().map_or(String::new(), bytes),
            number("entities"),
            number("hints"),
            number("copies_left"),
            number("repairs_left"),
            report["repair_bytes"].as_u64().map_or(String::new(), bytes),
            match (is_there, age("repaired_s_ago")) {
                (true, None) => "not yet".to_owned(),
                (_, age) => age.map_or(String::new(), |age| format!("{age} ago")),
            },
        ]);
        lines.extend(troubles(report));
    }
    lines.extend(differing_clocks(reports));
    lines.extend(differing_grace(reports));
    grid.print(out)?;
    if !lines.is_empty() {
        writeln!(out)?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}

/// A time of many seconds, in the largest unit of which there are two.
fn age(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= 2 * unit).unwrap_or((1, "s"));
    format!("{} {}", seconds / unit.0, unit.1)
}

/// A difference of clocks that is told.
const SKEW_MS: i64 = 5_000;

/// What is wrong with a node and with those that it sees, a line each.
fn troubles(report: &Json) -> Vec<String> {
    let url = report["url"].as_str().unwrap_or("?");
    let mut lines = Vec::new();
    let why = report["unready"].as_str().or_else(|| report["trouble"].as_str());
    lines.extend(why.map(|why| format!("{url}: {why}")));
    if report["poisoned"] == true {
        lines.push(format!("{url}: a write to the log failed, and no write is taken any more: see /healthz"));
    }
    if let Some(without) = report["partitions_without_quorum"].as_u64().filter(|without| *without > 0) {
        lines.push(format!("{url}: {without} of {} partitions lack a quorum", report["partitions"]));
    }
    for peer in report["peers"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let health = peer["health"].as_str().unwrap_or("?");
        let trouble = peer["trouble"].as_str().filter(|trouble| !trouble.is_empty());
        if health != "up" || trouble.is_some() {
            let why = trouble.map_or(String::new(), |trouble| format!(" ({trouble})"));
            lines.push(format!("{url} sees {} {health}{why}", peer["url"].as_str().unwrap_or("?")));
        }
    }
    lines
}

/// The clocks that differ by much: a line for each two nodes, which says who is ahead.
fn differing_clocks(reports: &[Json]) -> Vec<String> {
    let mut skews_ms = BTreeMap::new();
    for report in reports {
        for peer in report["peers"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let (Some(url), Some(other)) = (report["url"].as_str(), peer["url"].as_str()) else { continue };
            let Some(skew_ms) = peer["skew_ms"].as_i64().filter(|skew_ms| skew_ms.abs() >= SKEW_MS) else { continue };
            let (fast, slow) = if skew_ms > 0 { (other, url) } else { (url, other) };
            // Both say it, if both answer.
            skews_ms.entry((fast, slow)).or_insert(skew_ms.abs());
        }
    }
    let line = |((fast, slow), skew_ms): ((&str, &str), i64)| {
        format!("{fast} has a clock {} s ahead of that of {slow}", skew_ms / 1000)
    };
    skews_ms.into_iter().map(line).collect()
}

/// What is said where nodes keep tombstones for different times.
fn differing_grace(reports: &[Json]) -> Option<String> {
    let mut nodes: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for report in reports {
        let (Some(url), Some(grace_s)) = (report["url"].as_str(), report["grace_s"].as_u64()) else { continue };
        nodes.entry(grace_s).or_default().push(url);
    }
    let each: Vec<String> = nodes.iter().map(|(grace_s, urls)| format!("{grace_s} on {}", urls.join(", "))).collect();
    (each.len() > 1).then(|| {
        format!(
            "--cluster-grace-s differs: {}; tombstones stay for longer than they need to until it is the same on all nodes",
            each.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of two nodes said the same of the other.
    #[test]
    fn clocks_that_differ_are_said_once_for_two_nodes() {
        let peer = |url: &str, skew_ms: i64| json!({ "url": url, "skew_ms": skew_ms });
        let reports = [
            json!({ "url": "http://a:1", "peers": [peer("http://b:1", 9_900), peer("http://c:1", 100)] }),
            json!({ "url": "http://b:1", "peers": [peer("http://a:1", -9_800), peer("http://c:1", -9_700)] }),
            json!({ "url": "http://c:1", "ready": false }),
        ];
        assert_eq!(
            differing_clocks(&reports),
            [
                "http://b:1 has a clock 9 s ahead of that of http://a:1",
                "http://b:1 has a clock 9 s ahead of that of http://c:1",
            ]
        );
    }

    #[test]
    fn grace_periods_that_differ_are_said() {
        let report = |url: &str, grace_s: u64| json!({ "url": url, "grace_s": grace_s });
        let gone = json!({ "url": "http://d:1", "ready": false });
        let same = [report("http://a:1", 86_400), report("http://b:1", 86_400), gone];
        assert_eq!(differing_grace(&same), None);
        let [a, b, gone] = same;
        let text = differing_grace(&[a, report("http://c:1", 600), b, gone]).unwrap();
        assert!(text.contains("600 on http://c:1; 86400 on http://a:1, http://b:1;"), "{text}");
    }

    #[test]
    fn ages_have_the_unit_that_fits() {
        assert_eq!(
            [0, 119, 120, 7199, 7200, 172_799, 172_800].map(age),
            ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]
        );
    }

    #[test]
    fn what_is_wrong_is_said_whole() {
        let why = "64 of 64 partitions have fewer than 2 of 3 replicas that answer; ".repeat(3);
        let peer = |url: &str, health: &str| json!({ "url": url, "health": health, "trouble": "" });
        let report = json!({
            "node": 0, "url": "http://a:1", "ready": false, "unready": why, "partitions": 64, "uptime_s": 61,
            "partitions_without_quorum": 64, "peers": [peer("http://b:1", "up"), peer("http://c:1", "down")],
        });
        let gone = json!({ "url": "http://c:1", "ready": false, "trouble": "cannot ask http://c:1: refused" });
        let mut out = Vec::new();
        print(&[report.clone(), gone.clone()], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("not ready") && text.contains("no answer") && text.contains(&why), "{text}");
        assert!(text.contains("http://a:1 sees http://c:1 down\n") && !text.contains("sees http://b:1"), "{text}");
        assert!(verdict(&[report, gone]).is_some_and(|text| text.contains("2 of 2 nodes")));
        assert_eq!(verdict(&[json!({ "url": "http://a:1", "ready": true, "dead": [] })]), None);
        let report = json!({ "url": "http://a:1", "ready": true, "dead": ["http://d:1"], "change": null });
        assert!(of_the_dead(&report)[0].contains("quipu cluster remove --dead http://d:1"));
        assert!(verdict(&[report]).is_some());
    }
}
