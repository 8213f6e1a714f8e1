//! The command line, shared by the `quipu-bench` binary and `quipu bench`.

use std::path::PathBuf;

use crate::store::Durability;

/// What to measure, and how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The workload, or `all`; with none, lists them
    pub workload: Option<String>,

    /// What a workload asks of its child process
    #[arg(hide = true)]
    pub child_arguments: Vec<String>,

    /// Row counts, as in `100k,1M` (each workload has its own default)
    #[arg(long, visible_alias = "records", value_delimiter = ',', value_parser = parse_count)]
    pub rows: Vec<u64>,

    /// Bytes of rows of the tables of `memory-disk`, as in `1G,10G`
    #[arg(long, value_delimiter = ',', value_parser = parse_count)]
    pub data_bytes: Vec<u64>,

    /// Adds 10 million rows to the row counts
    #[arg(long)]
    pub large: bool,

    /// Stops each figure after that many seconds (those that wait for a disk after two at most)
    #[arg(long, default_value_t = 6.0)]
    pub seconds: f64,

    /// Runs of each figure; the median is shown. Stores take turns, so that a slow minute hits all of them
    #[arg(long, default_value_t = 3)]
    pub repeat: usize,

    /// Only these stores, as in `quipu,lmdb`
    #[arg(long, value_delimiter = ',')]
    pub stores: Vec<String>,

    /// Only the methods or questions whose name contains this
    #[arg(long)]
    pub only: Option<String>,

    /// Requests sent at once over a connection to a server
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,

    /// What servers promise before they answer a write, as in `os,sync`
    #[arg(long, value_delimiter = ',', default_value = "os", value_parser = parse_durability)]
    pub durability: Vec<Durability>,

    /// The program `quipu` to measure as a server; default: QUIPU_BIN, else the one in the directory of this program
    #[arg(long)]
    pub quipu: Option<PathBuf>,

    /// One more program `tarantool`, measured beside the one on the search path
    #[arg(long)]
    pub tarantool: Option<PathBuf>,

    /// Threads of figures with many threads; default: 16, and one line each for 1 and 2 in `ycsb`
    #[arg(long, value_delimiter = ',', value_parser = parse_threads)]
    pub threads: Vec<usize>,

    /// Seed of keys and of questions
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Where stores keep their files; default: QUIPU_BENCH_DIR, else the system's temporary directory
    #[arg(long)]
    pub dir: Option<PathBuf>,

    /// Prints one JSON object per figure instead of tables
    #[arg(long)]
    pub json: bool,

    /// The smallest sizes: shows that the workload runs, not how fast
    #[arg(long)]
    pub smoke: bool,

    /// What only `ycsb` asks.
    #[command(flatten)]
    pub ycsb: YcsbOptions,

    /// What only `tpcc` asks.
    #[command(flatten)]
    pub tpcc: TpccOptions,

    /// What only `replication` asks.
    #[command(flatten)]
    pub replication: ReplicationOptions,
}

/// What the workload `replication` asks.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options of replication (servers: --stores quipu,redis,etcd)")]
pub struct ReplicationOptions {
    /// Writes plots of latencies by percentile, as SVG, into this directory
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,

    /// Also searches for the highest rate that is held with a 99th percentile below 10 ms
    #[arg(long)]
    pub highest: bool,
}

/// What the workload `tpcc` asks.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options of tpcc (terminals without think time: --threads)")]
pub struct TpccOptions {
    /// Warehouses, of about 75 MB each; default: 2
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub warehouses: Option<u32>,

    /// Ten terminals a warehouse, with the keying and think times of the specification: reports the efficiency
    #[arg(long)]
    pub think_time: bool,

    /// Memory for rows and caches, in percent of all rows, as in `50,10,2`; default: everything is in memory
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100))]
    pub cache_percent: Vec<u32>,
}

/// What the workload `ycsb` asks, and, of sizes of caches, `disk`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    next_help_heading = "Options of ycsb (records: --rows, thread counts: --threads, one workload: --only A) and disk (--cache-bytes)"
)]
pub struct YcsbOptions {
    /// Operations of each workload, over all threads; default: as many as records
    #[arg(long, value_parser = parse_count)]
    pub operations: Option<u64>,

    /// Length of a value: 16 bytes or more
    #[arg(long, default_value = "1000", value_parser = parse_value_bytes)]
    pub value_bytes: usize,

    /// Cache of each store that takes such a setting, as in `64M,1G`: one set of tables for each
    #[arg(long, value_delimiter = ',', default_value = "64M", value_parser = parse_count)]
    pub cache_bytes: Vec<u64>,

    /// Tables of ten typed fields instead of one value: a read reads all, an update writes one; --stores then means
    /// `quipu,quipu-flat,sqlite`
    #[arg(long, conflicts_with = "resp")]
    pub typed: bool,

    /// Asks servers over RESP, one request at a time and thread, instead of stores in this process; --stores then means
    /// `quipu,redis`
    #[arg(long)]
    pub resp: bool,
}

impl Options {
    /// The smallest sizes of a workload.
    pub fn smoke(workload: &str) -> Self {
        Options {
            workload: Some(workload.to_owned()),
            child_arguments: Vec::new(),
            rows: Vec::new(),
            data_bytes: Vec::new(),
            large: false,
            seconds: 0.2,
            repeat: 1,
            stores: Vec::new(),
            only: None,
            batch: 100,
            durability: vec![Durability::Os],
            quipu: None,
            tarantool: None,
            threads: Vec::new(),
            seed: 1,
            dir: None,
            json: false,
            smoke: true,
            ycsb: YcsbOptions {
                operations: None,
                value_bytes: 1000,
                cache_bytes: vec![64_000_000],
                typed: false,
                resp: false,
            },
            tpcc: TpccOptions::default(),
            replication: ReplicationOptions::default(),
        }
    }

    /// The row counts to run: what was asked for, else `smoke` or the `usual` ones.
    pub(crate) fn row_counts(&self, usual: &[u64], smoke: u64) -> Vec<u64> {
        let mut counts = match (self.rows.is_empty(), self.smoke) {
            (false, _) => self.rows.clone(),
            (true, true) => vec![smoke],
            (true, false) => usual.to_vec(),
        };
        if self.large && !counts.contains(&10_000_000) {
            counts.push(10_000_000);
        }
        counts
    }

    /// Threads of a figure with many of them.
    pub(crate) fn many_threads(&self) -> usize {
        self.threads.first().copied().unwrap_or(if self.smoke { 4 } else { 16 })
    }

    /// The thread counts to run: what was asked for, else the `usual` ones.
    pub(crate) fn thread_counts(&self, usual: &[usize]) -> Vec<usize> {
        if self.threads.is_empty() { usual.to_vec() } else { self.threads.clone() }
    }

    /// Whether `--only` leaves this method or question in.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }

    /// The time limit of a figure that waits for a disk, in seconds.
    pub(crate) fn sync_seconds(&self) -> f64 {
        self.seconds.min(2.0)
    }
}

/// `1500`, `100k`, `1M`, `2G`.
fn parse_count(text: &str) -> Result<u64, String> {
    let unit = match text.as_bytes().last() {
        Some(b'k' | b'K') => 1_000,
        Some(b'm' | b'M') => 1_000_000,
        Some(b'g' | b'G') => 1_000_000_000,
        _ => 1,
    };
    let digits = if unit == 1 { text } else { &text[..text.len() - 1] };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a count such as 1500, 100k or 1M"))?;
    number.checked_mul(unit).filter(|count| *count > 0).ok_or_else(|| format!("`{text}` is out of range"))
}

fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=1024).contains(threads));
    threads.ok_or_else(|| format!("`{text}` is not a number of threads from 1 to 1024"))
}

fn parse_value_bytes(text: &str) -> Result<usize, String> {
    let bytes = parse_count(text)?;
    if (16..=1 << 20).contains(&bytes) { Ok(bytes as usize) } else { Err("values have 16 bytes to 1 MiB".to_owned()) }
}

/// What a server may promise.
fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "os" => Ok(Durability::Os),
        "sync" => Ok(Durability::Sync),
        other => Err(format!("`{other}` is neither `os` nor `sync`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_suffixes() {
        assert_eq!(parse_count("1500"), Ok(1500));
        assert_eq!(parse_count("100k"), Ok(100_000));
        assert_eq!(parse_count("2M"), Ok(2_000_000));
        assert_eq!(parse_count("3g"), Ok(3_000_000_000));
        assert!(parse_count("0").is_err());
        assert!(parse_count("many").is_err());
    }

    #[test]
    fn asked_row_counts_win() {
        let mut options = Options::smoke("positions");
        assert_eq!(options.row_counts(&[5, 6], 1), [1]);
        options.smoke = false;
        assert_eq!(options.row_counts(&[5, 6], 1), [5, 6]);
        assert!(options.wants("rank"));
        options.only = Some("count".to_owned());
        assert!(options.wants("count of half") && !options.wants("rank"));
        options.rows = vec![7];
        options.large = true;
        assert_eq!(options.row_counts(&[5, 6], 1), [7, 10_000_000]);
    }
}
