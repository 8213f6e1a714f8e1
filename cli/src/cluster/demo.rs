//! `quipu cluster demo`: three nodes on this machine, flights as entities; one is killed, one is added; exact counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::client::{Reply, ask};
use super::status;
use crate::clock::{self, Stopwatch};
use crate::failure::{Failure, Result};
use crate::flights;
use crate::grid::{Grid, thousands};
use crate::table_files::csv::CsvReader;

/// Flights of one batch.
const BATCH: usize = 1000;
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

const EXPLANATION: &str = "\
It starts three nodes on this machine, each a process with a directory of its own; writes flights as entities, each to two of three \
replicas before it is answered; kills a node without warning in the middle and goes on; starts it again, waits until it has \
what it missed; adds a fourth node, which copies its share; and counts every carrier over the cluster through each node.";

/// Nodes at the start; one more joins them.
const FOUNDERS: usize = 3;

/// Shows a cluster of three that loses a node, gets it back, and grows by one
#[derive(Debug, clap::Args)]
#[command(after_help = EXPLANATION)]
pub(super) struct Args {
    /// Write about so many of the flights, spread over the year
    #[arg(long, value_name = "ROWS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1000..))]
    rows: u64,
    /// Print what happened as JSON
    #[arg(long)]
    json: bool,
}

/// The processes. They end with it.
struct Nodes<'d> {
    directory: &'d Path,
    ports: Vec<u16>,
    children: Vec<Option<Child>>,
}

impl<'d> Nodes<'d> {
    fn new(directory: &'d Path) -> Result<Nodes<'d>> {
        // All at once, so that they are different.
        let listeners: Vec<TcpListener> =
            (0..=FOUNDERS).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<Result<_>>()?;
        Ok(Nodes { directory, ports, children: (0..=FOUNDERS).map(|_| None).collect() })
    }

    fn url(&self, node: usize) -> String {
        format!("http://localhost:{}", self.ports[node])
    }

    fn start(&mut self, node: usize) -> Result<()> {
        let list = (0..FOUNDERS).map(|node| self.url(node)).collect::<Vec<_>>().join(",");
        let into = if node < FOUNDERS { "--cluster" } else { "--join" };
        let log = File::options().create(true).append(true).open(self.directory.join(format!("log-{node}")))?;
        let child = Command::new(std::env::current_exe()?)
            .args(["serve", "--http-port", &self.ports[node].to_string(), "--self-url", &self.url(node)])
            .args([into, &list, "--durability", "os", "--data"])
            .arg(self.directory.join(format!("node-{node}")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        self.children[node] = Some(child);
        Ok(())
    }

    fn kill(&mut self, node: usize) -> Result<()> {
        if let Some(mut child) = self.children[node].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    fn ask(&self, node: usize, method: &str, path: &str, body: &[u8]) -> Result<Reply> {
        ask(&self.url(node), method, path, body, None)
    }

    /// Waits until a node answers everything that it should.
    fn wait(&self, node: usize) -> Result<()> {
        self.until(&format!("node {node} is not ready"), || {
            Ok(self.ask(node, "GET", "/readyz", b"").is_ok_and(|reply| reply.status == 200))
        })
    }

    #[expect(clippy::disallowed_methods, reason = "it looks now and then")]
    fn until(&self, otherwise: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let watch = Stopwatch::start();
        while !holds()? {
            if watch.elapsed() > PATIENCE {
                return Err(Failure::new(format!("{otherwise} after {}", clock::show(PATIENCE))));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn report(&self, node: usize) -> Result<Json> {
        let reply = self.ask(node, "GET", "/v0/cluster", b"")?;
        serde_json::from_slice(&reply.body).map_err(|_| Failure::new("a node gives no report"))
    }
}

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// About `rows` flights, spread over the year: carrier, key, value.
fn flights(rows: u64) -> Result<Vec<(String, String, String)>> {
    let mut records = CsvReader::new(flights::input().reader, b',')?;
    let stride = flights::stride(rows);
    let mut flights = Vec::new();
    // The first line names the columns.
    records.advance()?;
    let mut number = 0;
    while records.advance()? {
        if number % stride == 0 {
            let field = |place: usize| records.field(place).map_or("", |field| field.text);
            let key = format!("{}/{:0>2}-{:0>2}/{}/{number:06}", field(9), field(1), field(2), field(10));
            let value = (0..records.len()).map(field).collect::<Vec<_>>().join(",");
            flights.push((field(9).to_owned(), key, value));
        }
        number += 1;
    }
    Ok(flights)
}

/// Writes flights through a node; those that were not acknowledged are written again. Returns how many times.
fn write(nodes: &Nodes<'_>, through: &[usize], flights: &[(String, String, String)]) -> Result<u64> {
    let mut again = 0;
    for (number, batch) in flights.chunks(BATCH).enumerate() {
        let mut left: Vec<&(String, String, String)> = batch.iter().collect();
        let watch = Stopwatch::start();
        while !left.is_empty() {
            let line = |(_, key, value): &&(String, String, String)| json!({ "op": "put", "id": key, "value": value });
            let body = left.iter().map(|flight| format!("{}\n", line(flight))).collect::<String>();
            let reply = nodes.ask(through[number % through.len()], "POST", "/v0/batch", body.as_bytes())?;
            let text = reply.text();
            let mut answers = text.lines();
            left.retain(|_| !answers.next().is_some_and(|answer| answer.contains("\"status\":201")));
            again += left.len() as u64;
            if watch.elapsed() > PATIENCE {
                return Err(Failure::new(format!("flights cannot be written: {text}")));
            }
        }
    }
    Ok(again)
}

/// What is shown, one step after the other.
struct Show<'a, 'd> {
    args: &'a Args,
    nodes: Nodes<'d>,
    flights: &'a [(String, String, String)],
}

/// How many writes had to be made again, and how many were kept for the node that was down.
struct Lost {
    again: u64,
    missed: u64,
}

/// How long the fourth node took to join, and how many flights it has.
struct Joined {
    after: Duration,
    share: String,
}

impl Show<'_, '_> {
    fn say(&self, text: &str) -> Result<()> {
        if !self.args.json {
            writeln!(std::io::stdout(), "{text}")?;
        }
        Ok(())
    }

    /// Three nodes meet, and get these flights.
    fn begin(&mut self, first: &[(String, String, String)]) -> Result<()> {
        let watch = Stopwatch::start();
        (0..FOUNDERS).try_for_each(|node| self.nodes.start(node))?;
        (0..FOUNDERS).try_for_each(|node| self.nodes.wait(node))?;
        self.say(&format!(
            "Three nodes have met in {}: {}.",
            clock::show(watch.elapsed()),
            (0..FOUNDERS).map(|node| self.nodes.url(node)).collect::<Vec<_>>().join(", ")
        ))?;
        let watch = Stopwatch::start();
        write(&self.nodes, &[0, 1, 2], first)?;
        let (count, took) = (thousands(first.len() as u64), watch.elapsed());
        self.say(&format!(
            "{count} flights written through all three, each to 2 of 3 replicas, in {}.",
            clock::show(took)
        ))
    }

    /// A node is killed, and the others get these flights.
    fn lose_a_node(&mut self, second: &[(String, String, String)]) -> Result<Lost> {
        let nodes = &mut self.nodes;
        nodes.kill(2)?;
        let watch = Stopwatch::start();
        let again = write(nodes, &[0, 1], second)?;
        let took = watch.elapsed();
        let kept = |node| Ok::<u64, Failure>(self.nodes.report(node)?["hints"].as_u64().unwrap_or(0));
        self.say(&format!(
            "Node 2 was killed. {} more flights written through the other two in {}; {} had to be written again.",
            thousands(second.len() as u64),
            clock::show(took),
            thousands(again)
        ))?;
        // A report is some moments old.
        self.nodes.until("nothing is kept for the node that is down", || Ok(kept(0)? + kept(1)? > 0))?;
        let missed = kept(0)? + kept(1)?;
        let alive = self.nodes.ask(0, "GET", "/v0/count?cluster=true", b"")?.text();
        self.say(&format!(
            "They keep {} writes for it, and count {alive} of {} flights.\n",
            thousands(missed),
            thousands(self.flights.len() as u64)
        ))?;
        Ok(Lost { again, missed })
    }

    /// The node comes back, and gets what it missed. Returns how long it took to be back.
    fn bring_it_back(&mut self) -> Result<Duration> {
        let watch = Stopwatch::start();
        self.nodes.start(2)?;
        self.nodes.wait(2)?;
        let back = watch.elapsed();
        // All three keep everything.
        self.nodes.until("the node has not what it missed", || {
            Ok(self.nodes.ask(2, "GET", "/v0/count", b"")?.text() == self.flights.len().to_string())
        })?;
        let own = self.nodes.ask(2, "GET", "/v0/count", b"")?.text();
        self.say(&format!(
            "Node 2 is back after {}, and has {own} flights after {}.\n",
            clock::show(back),
            clock::show(watch.elapsed())
        ))?;
        Ok(back)
    }

    /// A fourth node joins, and copies its share.
    fn add_a_node(&mut self) -> Result<Joined> {
        let watch = Stopwatch::start();
        let nodes = &mut self.nodes;
        nodes.start(FOUNDERS)?;
        nodes.until("the node that joins does not answer", || {
            Ok(nodes.ask(FOUNDERS, "GET", "/v0/status", b"").is_ok())
        })?;
        let order = json!({ "add": [{ "url": nodes.url(FOUNDERS) }] }).to_string();
        let reply = nodes.ask(0, "POST", "/v0/cluster", order.as_bytes())?;
        if reply.status != 202 {
            return Err(Failure::new(format!("no node can be added: {}", reply.text())));
        }
        nodes.wait(FOUNDERS)?;
        nodes.until("the change of members has not ended", || Ok(nodes.report(FOUNDERS)?["change"].is_null()))?;
        let after = watch.elapsed();
        let share = nodes.ask(FOUNDERS, "GET", "/v0/count", b"")?.text();
        let took = clock::show(after);
        self.say(&format!("Node 3 was added, and has copied its share, {share} flights, after {took}.\n"))?;
        Ok(Joined { after, share })
    }

    /// Counts the flights of each carrier through each node. Returns the table, and how many counts are wrong.
    fn count(&self, expected: &BTreeMap<&str, u64>) -> Result<(Grid, usize)> {
        let columns = [("node 0", true), ("node 1", true), ("node 2", true), ("node 3", true), ("file", true)];
        let mut grid = Grid::new(std::iter::once(("carrier", false)).chain(columns));
        let mut wrong = 0;
        for (carrier, expected) in expected {
            let path = format!("/v0/count?start={carrier}/&end={carrier}0&cluster=true");
            let counts: Vec<String> = (0..=FOUNDERS)
                .map(|node| Ok(self.nodes.ask(node, "GET", &path, b"")?.text()))
                .collect::<Result<_>>()?;
            wrong += counts.iter().filter(|count| **count != expected.to_string()).count();
            let shown = counts.iter().map(|count| count.parse::<u64>().map_or_else(|_| count.clone(), thousands));
            grid.push(std::iter::once((*carrier).to_owned()).chain(shown).chain([thousands(*expected)]).collect());
        }
        Ok((grid, wrong))
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let flights = flights(args.rows)?;
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    flights.iter().for_each(|(carrier, ..)| *expected.entry(carrier).or_default() += 1);
    let (first, second) = flights.split_at(flights.len() / 2);
    let directory = tempfile::tempdir()?;
    let mut show = Show { args, nodes: Nodes::new(directory.path())?, flights: &flights };
    show.begin(first)?;
    let lost = show.lose_a_node(second)?;
    let back = show.bring_it_back()?;
    let joined = show.add_a_node()?;
    let (grid, wrong) = show.count(&expected)?;
    let reports: Vec<Json> = (0..=FOUNDERS).map(|node| show.nodes.report(node)).collect::<Result<_>>()?;
    if args.json {
        let report = json!({
            "flights": flights.len(), "written_again": lost.again, "hints": lost.missed,
            "back_seconds": back.as_secs_f64(), "joined_seconds": joined.after.as_secs_f64(),
            "share": joined.share.parse::<u64>().unwrap_or(0), "carriers": expected.len(), "wrong_counts": wrong,
            "nodes": reports,
        });
        writeln!(std::io::stdout(), "{report}")?;
    } else {
        let mut out = std::io::stdout();
        writeln!(out, "Flights of each carrier, counted over the cluster through each node:\n")?;
        grid.print(&mut out)?;
        writeln!(out)?;
        status::print(&reports, &mut out)?;
    }
    match wrong {
        0 => show.say("\nEvery count is exact."),
        wrong => Err(Failure::new(format!("{wrong} counts are wrong"))),
    }
}
