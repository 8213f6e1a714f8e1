//! `quipu top`: what a server does now, from the difference of two looks at its `INFO`.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use crate::clock::Stopwatch;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, bytes, thousands};
use crate::info::Info;
use crate::remote::{Login, Remote, Reply};

const EXAMPLES: &str = "\
Examples:
  quipu top
  quipu top --connect db.example.com:6379 --interval 5
  quipu top --once --json | jq .commands_per_s";

/// How long a server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How many commands are shown.
const COMMANDS_SHOWN: usize = 10;
/// Clears the screen and what was scrolled off it, and goes to its first place.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Shows what a server does, refreshed every second: commands, hits, bytes, memory, the busiest commands, and of a node
/// of a cluster how it and its peers stand
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    connect: String,
    #[command(flatten)]
    login: Login,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Print one look and end
    #[arg(long)]
    once: bool,
    /// Print JSON, an object a look
    #[arg(long)]
    json: bool,
}

/// A time between a hundredth of a second and a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds from 0.01 to 86400".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupted = watch_interrupts()?;
    let mut remote = Remote::connect(&args.connect, &args.login, Some(ANSWER_TIMEOUT))?;
    let mut out = std::io::stdout();
    let clears = out.is_terminal() && !args.once && !args.json;
    let mut before = look(&mut remote)?;
    let mut stopwatch = Stopwatch::start();
    loop {
        if interrupted.recv_timeout(args.interval).is_ok() {
            return Ok(());
        }
        let after = look(&mut remote)?;
        let view = View { before: &before, after: &after, seconds: stopwatch.elapsed().as_secs_f64().max(1e-6) };
        stopwatch = Stopwatch::start();
        // One write a look, so that the screen does not flicker.
        let mut page = Vec::new();
        if args.json {
            writeln!(page, "{}", view.json(remote.address()))?;
        } else {
            page.extend_from_slice(if clears { CLEAR.as_bytes() } else { b"" });
            view.print(remote.address(), &mut page)?;
            if !clears && !args.once {
                page.push(b'\n');
            }
        }
        out.write_all(&page)?;
        out.flush()?;
        if args.once {
            return Ok(());
        }
        before = after;
    }
}

/// Tells of Ctrl-C; a second one ends the process at once.
fn watch_interrupts() -> Result<Receiver<()>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT]).map_err(failed)?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for (number, signal) in signals.forever().enumerate() {
            if number > 0 || sender.send(()).is_err() {
                std::process::exit(128 + signal);
            }
        }
    });
    Ok(receiver)
}

/// One look at a server.
fn look(remote: &mut Remote) -> Result<Info> {
    let words = [
        "INFO",
        "server",
        "clients",
        "memory",
        "stats",
        "commandstats",
        "latencystats",
        "keyspace",
        "quipu",
        "cluster",
    ];
    let reply = remote.ask(&words)?;
    match (reply.text(), reply) {
        (Some(text), _) => Ok(Info::parse(&text)),
        (None, Reply::Error(message)) => Err(Failure::new(String::from_utf8_lossy(&message))),
        (None, _) => Err(Failure::new(format!("{} answers INFO with something else than text", remote.address()))),
    }
}

/// What a command did between two looks.
struct Busy<'s> {
    name: &'s str,
    /// All calls since the server began.
    calls: u64,
    calls_per_s: f64,
    /// The mean of the calls between the looks; 0 if there was none.
    us_per_call: f64,
    percentiles: Vec<(&'s str, f64)>,
}

/// Two looks, and the time between them.
struct View<'s> {
    before: &'s Info,
    after: &'s Info,
    seconds: f64,
}

impl<'s> View<'s> {
    /// How much a count grew each second; a count that was reset did not grow.
    fn rate(&self, name: &str) -> f64 {
        self.after.count(name).saturating_sub(self.before.count(name)) as f64 / self.seconds
    }

    /// The part of reads that found their key, if there were any.
    fn hit_ratio(&self) -> Option<f64> {
        let (hits, misses) = (self.rate("keyspace_hits"), self.rate("keyspace_misses"));
        (hits + misses > 0.0).then(|| hits / (hits + misses))
    }

    /// The commands that were called most, first between the looks, then at all.
    fn busiest(&self) -> Vec<Busy<'s>> {
        let after = self.after;
        let busy = |(name, _): (&'s str, &'s str)| {
            let (calls, us) = after.calls(name);
            let (calls_before, us_before) = self.before.calls(name);
            let new_calls = calls.saturating_sub(calls_before);
            Busy {
                name,
                calls,
                calls_per_s: new_calls as f64 / self.seconds,
                us_per_call: if new_calls == 0 { 0.0 } else { (us - us_before).max(0.0) / new_calls as f64 },
                percentiles: after.percentiles(name),
            }
        };
        let mut commands: Vec<Busy<'s>> = after.with_prefix("cmdstat_").map(busy).collect();
        commands.sort_by(|a, b| b.calls_per_s.total_cmp(&a.calls_per_s).then(b.calls.cmp(&a.calls)));
        commands.truncate(COMMANDS_SHOWN);
        commands
    }

    /// Writes a screen for people.
    fn print(&self, address: &str, out: &mut dyn Write) -> std::io::Result<()> {
        let after = self.after;
        let version = match after.text("quipu_version") {
            "" => format!("redis {}", after.text("redis_version")),
            version => format!("quipu {version}"),
        };
        let per_second = |name: &str| thousands(self.rate(name).round() as i64);
        let bytes_per_second = |name: &str| bytes(self.rate(name).round() as u64);
        let hits = self.hit_ratio().map_or(String::new(), |ratio| format!(", {:.1}% hits", 100.0 * ratio));
        let limit = match after.count("maxmemory") {
            0 => String::new(),
            limit => format!(" of {} at most", bytes(limit)),
        };
        let log = if after.text("log_bytes").is_empty() {
            String::new()
        } else {
            let (size, replay) = (bytes(after.count("log_bytes")), bytes(after.count("log_bytes_to_replay")));
            let commits = per_second("commits");
            format!("log       {size}, a restart reads {replay} of it; {commits} commits/s\n")
        };
        let disk = match after.count("run_bytes") {
            0 => String::new(),
            run_bytes => format!(
                "disk      {} in {} runs, {} of {} of pages in memory, {}/s read; {} clients wait\n",
                bytes(run_bytes),
                thousands(after.count("runs")),
                bytes(after.count("cache_bytes")),
                bytes(after.count("cache_bytes_max")),
                per_second("cache_misses"),
                thousands(after.count("parked_clients")),
            ),
        };
        let cluster = after.nodes().map_or_else(String::new, |(own, peers)| {
            let state = match (after.count("quipu_node_ready"), after.text("quipu_node_trouble")) {
                (1, _) => "ready",
                (_, "") => "copying",
                (_, trouble) => trouble,
            };
            let peers: Vec<String> = peers.iter().map(|(url, health)| format!("{url} {health}")).collect();
            format!(
                "node      {own}, {state}; {} entities, {} hints, {} partitions to copy, {} comparisons left\n\
                 sees      {}{}\n",
                thousands(after.count("quipu_entities")),
                thousands(after.count("quipu_hints")),
                thousands(after.count("quipu_copies_left")),
                thousands(after.count("quipu_repairs_left")),
                peers.join(", "),
                if after.count("quipu_changes_members") > 0 { "; members change" } else { "" },
            )
        });
        write!(
            out,
            "{version} at {address}, up {}\n\n\
             {cluster}\
             commands  {}/s, {} errors/s\n\
             reads     {} found/s, {} missed/s{hits}\n\
             network   {}/s in, {}/s out\n\
             clients   {}, {} new/s\n\
             keys      {}, {} expired/s\n\
             memory    {}{limit}, the process {}\n\
             {disk}{log}\n",
            uptime(after.count("uptime_in_seconds")),
            per_second("total_commands_processed"),
            per_second("total_error_replies"),
            per_second("keyspace_hits"),
            per_second("keyspace_misses"),
            bytes_per_second("total_net_input_bytes"),
            bytes_per_second("total_net_output_bytes"),
            thousands(after.count("connected_clients")),
            per_second("total_connections_received"),
            thousands(after.keys()),
            per_second("expired_keys"),
            bytes(after.count("used_memory")),
            bytes(after.count("used_memory_rss")),
        )?;
        self.grid().print(out)
    }

    /// The busiest commands; the percentiles are those since the server began.
    fn grid(&self) -> Grid {
        let commands = self.busiest();
        let longest = commands.iter().map(|busy| &busy.percentiles).max_by_key(|percentiles| percentiles.len());
        let names: Vec<&str> = longest.into_iter().flatten().map(|(name, _)| *name).collect();
        let fixed = [("command", false), ("calls/s", true), ("calls", true), ("mean µs", true)];
        let fixed = fixed.into_iter().map(|(name, right)| (name.to_owned(), right));
        let mut grid = Grid::new(fixed.chain(names.iter().map(|name| (format!("{name} µs"), true))));
        for busy in commands {
            let mut row = vec![
                busy.name.to_owned(),
                thousands(busy.calls_per_s.round() as i64),
                thousands(busy.calls),
                if busy.us_per_call > 0.0 { format!("{:.1}", busy.us_per_call) } else { String::new() },
            ];
            row.extend(names.iter().map(|name| {
                let value = busy.percentiles.iter().find(|(other, _)| other == name);
                value.map_or(String::new(), |(_, us)| format!("{us:.1}"))
            }));
            grid.push(row);
        }
        grid
    }

    /// The same for programs.
    fn json(&self, address: &str) -> Json {
        let after = self.after;
        let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
        let rate = |name: &str| rounded(self.rate(name));
        let commands: Vec<Json> = (self.busiest().iter())
            .map(|busy| {
                let percentiles: Map<String, Json> =
                    busy.percentiles.iter().map(|(name, us)| ((*name).to_owned(), json!(us))).collect();
                json!({
                    "command": busy.name, "calls": busy.calls, "calls_per_s": rounded(busy.calls_per_s),
                    "us_per_call": rounded(busy.us_per_call), "percentiles_us": percentiles,
                })
            })
            .collect();
        let cluster = after.nodes().map(|(own, peers)| {
            let peers: Vec<Json> = peers.iter().map(|(url, health)| json!({ "url": url, "health": health })).collect();
            json!({
                "url": own, "ready": after.count("quipu_node_ready") == 1, "trouble": after.text("quipu_node_trouble"),
                "epoch": after.count("quipu_epoch"), "entities": after.count("quipu_entities"),
                "hints": after.count("quipu_hints"), "copies_left": after.count("quipu_copies_left"),
                "repairs_left": after.count("quipu_repairs_left"),
                "members_change": after.count("quipu_changes_members") > 0, "peers": peers,
            })
        });
        json!({
            "address": address, "version": after.text("quipu_version"),
            "uptime_s": after.count("uptime_in_seconds"), "seconds": rounded(self.seconds),
            "commands_per_s": rate("total_commands_processed"), "errors_per_s": rate("total_error_replies"),
            "hits_per_s": rate("keyspace_hits"), "misses_per_s": rate("keyspace_misses"),
            "hit_ratio": self.hit_ratio().map(rounded),
            "bytes_in_per_s": rate("total_net_input_bytes"), "bytes_out_per_s": rate("total_net_output_bytes"),
            "clients": after.count("connected_clients"), "connections_per_s": rate("total_connections_received"),
            "keys": after.keys(), "expired_per_s": rate("expired_keys"),
            "memory_bytes": after.count("used_memory"), "process_bytes": after.count("used_memory_rss"),
            "memory_bytes_max": after.count("maxmemory"), "memtable_bytes_max": after.count("memtable_bytes_max"),
            "cache_bytes": after.count("cache_bytes"), "cache_bytes_max": after.count("cache_bytes_max"),
            "runs": after.count("runs"), "run_bytes": after.count("run_bytes"), "pages_read_per_s": rate("cache_misses"),
            "parked_clients": after.count("parked_clients"), "commits_per_s": rate("commits"),
            "log_bytes": after.count("log_bytes"), "log_bytes_to_replay": after.count("log_bytes_to_replay"),
            "commands": commands, "cluster": cluster,
        })
    }
}

/// Seconds as `3d 04:05:06`.
fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let time = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days}d {time}") } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences() {
        let before = Info::parse("# Stats\r\ntotal_commands_processed:10\r\ncmdstat_get:calls=5,usec=10\r\n");
        let after = Info::parse(
            "total_commands_processed:30\r\ncmdstat_get:calls=9,usec=30,usec_per_call=3.33\r\n\
             cmdstat_set:calls=90,usec=1\r\nlatency_percentiles_usec_get:p50=1.5,p99.9=7.25\r\ndb0:keys=3,expires=0\r\ndb12:keys=4,expires=0\r\n",
        );
        let view = View { before: &before, after: &after, seconds: 2.0 };
        assert_eq!((view.rate("total_commands_processed"), after.keys()), (10.0, 7));
        let busiest = view.busiest();
        assert_eq!((busiest[0].name, busiest[0].calls_per_s), ("set", 45.0));
        assert_eq!((busiest[1].name, busiest[1].us_per_call), ("get", 5.0));
        assert_eq!(busiest[1].percentiles, [("p50", 1.5), ("p99.9", 7.25)]);
        let reset = View { before: &after, after: &before, seconds: 1.0 };
        assert_eq!((reset.rate("total_commands_processed"), reset.hit_ratio()), (0.0, None));
        assert_eq!((uptime(61), uptime(90_061)), ("00:01:01".to_owned(), "1d 01:01:01".to_owned()));
    }
}
