//! A server whose keys are more than its memory holds, beside stores in this process: random gets and overwrites in
//! batches, what a client of one connection can have.
//!
//! Each store is loaded in random order and left alone until it stands still, without a call to flush or to compact,
//! as a server gets none. Then it is asked for random keys, told to overwrite random keys, left alone, and asked again.
//! Caches are a tenth of the data, memtables 64 MiB. Whenever a contestant has come to rest its files are read once, so
//! that they are in the system's memory for all stores, however they were written: what is measured is the work of
//! reading, not the disk.
//!
//! A batch is a pipeline of commands to the server; of a store it is a transaction, or one call for many keys, if it
//! has one. Timed is from the first byte sent to the last one received, or the call. Every answer is compared with what
//! was written last: of the server all of it, of stores the sum of the values' first eight bytes in a batch.
//!
//! Not here: several connections and single requests (`ycsb --resp`, `offset-tree`), and a cold disk.

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::clock::{Deadline, Stopwatch, nanos_of, thread_cpu_s};
use crate::report::{Cell, Table};
use crate::rows::{Draw, Key, Rows, fingerprint};
use crate::socket::{Batch, Connection, Figure, Running, Server, median_of, resp, rest};
use crate::store::{Durability, Result, Setup, Store, StoreKind};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "server-disk",
    about: "a server of more keys than memory over RESP, beside stores in this process: load, gets, overwrites",
    run,
    child: None,
};

/// The server's name for `--stores`, where others are stores in this process.
const SERVER: &str = "quipu-server";
/// Who is measured if none is named: those of them that are there.
const USUAL: [&str; 3] = [SERVER, "quipu", "rocksdb"];
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
/// Bytes of rows for each byte of cache.
const DATA_A_CACHE: u64 = 10;
/// The server's memtables: as much as the stores have.
const MEMTABLE_BYTES: u64 = 64 << 20;
/// As little as the server takes, so that the smallest table lies on disk too.
const MEMTABLE_BYTES_MIN: u64 = 256 << 10;
/// Gets, and overwrites, of a turn, at most.
const REQUESTS_MAX: u64 = 2_000_000;

/// What is measured, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Load,
    Get,
    Overwrite,
    GetAgain,
}

impl Step {
    const ALL: [Step; 4] = [Step::Load, Step::Get, Step::Overwrite, Step::GetAgain];

    fn name(self) -> &'static str {
        match self {
            Step::Load => "load",
            Step::Get => "GET",
            Step::Overwrite => "SET",
            Step::GetAgain => "GET, overwritten",
        }
    }

    fn writes(self) -> bool {
        [Step::Load, Step::Overwrite].contains(&self)
    }
}

/// Who is measured.
enum Contestant<'a> {
    Server(Server),
    Store(&'a StoreKind),
}

impl Contestant<'_> {
    fn name(&self) -> &'static str {
        match self {
            Contestant::Server(_) => SERVER,
            Contestant::Store(kind) => kind.name,
        }
    }

    fn is_there(&self) -> bool {
        match self {
            Contestant::Server(server) => server.is_there(),
            Contestant::Store(_) => true,
        }
    }

    fn note(&self) -> String {
        match self {
            Contestant::Server(server) => server.note(),
            Contestant::Store(kind) => format!("{}.", kind.settings),
        }
    }
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let contestants = contestants(bench)?;
    for rows in bench.options.row_counts(&[10_000_000], 5_000) {
        for &durability in &bench.options.durability {
            let size = Size { bench, contestants: &contestants, rows, durability };
            show(size.table(&size.measure()?));
        }
    }
    Ok(())
}

/// Those that `--stores` names, the server first; else the usual ones.
fn contestants<'a>(bench: &'a Bench<'_>) -> Result<Vec<Contestant<'a>>> {
    let named = &bench.options.stores;
    let shelf: Vec<&StoreKind> =
        bench.stores.iter().filter(|kind| kind.durable && kind.holds(KEY_BYTES, VALUE_BYTES)).collect();
    let is_known = |name: &str| name == SERVER || shelf.iter().any(|kind| kind.name == name);
    if let Some(unknown) = named.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = [SERVER].into_iter().chain(shelf.iter().map(|kind| kind.name)).collect();
        return Err(format!("there is no `{unknown}`; there are {}", known.join(", ")).into());
    }
    let is_wanted = |name: &str| match &named[..] {
        [] => USUAL.contains(&name),
        named => named.iter().any(|asked| asked == name),
    };
    let server = is_wanted(SERVER).then(|| Contestant::Server(Server::quipu(SERVER, bench.options)));
    let stores = shelf.into_iter().filter(|kind| is_wanted(kind.name)).map(Contestant::Store);
    Ok(server.into_iter().chain(stores).collect())
}

/// All that is measured at one number of rows.
struct Size<'a> {
    bench: &'a Bench<'a>,
    contestants: &'a [Contestant<'a>],
    rows: u64,
    durability: Durability,
}

/// Figures of one contestant: of each step, turn by turn.
type Figures = [Vec<Figure>; Step::ALL.len()];

impl Size<'_> {
    fn turns(&self) -> usize {
        self.bench.options.repeat.max(1)
    }

    fn batch(&self) -> u64 {
        u64::from(self.bench.options.batch)
    }

    fn data_bytes(&self) -> u64 {
        self.rows * (KEY_BYTES + VALUE_BYTES) as u64
    }

    fn cache_bytes(&self) -> u64 {
        self.data_bytes() / DATA_A_CACHE
    }

    fn measure(&self) -> Result<Vec<Figures>> {
        let mut figures: Vec<Figures> = self.contestants.iter().map(|_| Figures::default()).collect();
        for turn in 0..self.turns() {
            for place in 0..self.contestants.len() {
                let number = (place + turn) % self.contestants.len();
                let contestant = &self.contestants[number];
                if !contestant.is_there() {
                    continue;
                }
                let name = contestant.name();
                let mut course = self.begin(contestant, turn)?;
                for step in Step::ALL {
                    let what = format_args!("{} rows, {}, {name}, turn {}", self.rows, step.name(), turn + 1);
                    self.bench.progress(what);
                    let figure = course.step(step).map_err(|error| format!("{name}, {}: {error}", step.name()))?;
                    figures[number][step as usize].push(figure);
                }
            }
        }
        Ok(figures)
    }

    /// Opens a contestant, empty.
    fn begin(&self, contestant: &Contestant<'_>, turn: usize) -> Result<Course<'_>> {
        let open = match contestant {
            Contestant::Server(server) => {
                let memtable_bytes = if self.bench.options.smoke { MEMTABLE_BYTES_MIN } else { MEMTABLE_BYTES };
                let memory = [("--memtable-bytes", memtable_bytes), ("--cache-bytes", self.cache_bytes())];
                let arguments: Vec<String> =
                    memory.into_iter().flat_map(|(name, bytes)| [name.to_owned(), bytes.to_string()]).collect();
                let running = server.start_with(self.bench, self.durability, &arguments)?;
                Open::Server { connection: running.connect()?, running }
            }
            Contestant::Store(kind) => {
                let dir = self.bench.place.fresh()?;
                let (durability, cache_bytes) = (self.durability, self.cache_bytes());
                let store = (kind.open)(dir.path(), Setup { durability, cache_bytes, in_memory: false })?;
                Open::Store { store, dir }
            }
        };
        let seed = self.bench.options.seed + turn as u64;
        let keys = Keyspace::new(Rows::new(seed, self.rows, KEY_BYTES, VALUE_BYTES));
        Ok(Course { size: self, open, keys, draw: Draw::new(seed ^ 0x5eed) })
    }

    fn table(&self, figures: &[Figures]) -> Table {
        let title = format!(
            "{} rows of {KEY_BYTES} + {VALUE_BYTES} bytes in batches of {}, a cache of {}",
            Cell::Count(self.rows),
            self.batch(),
            Cell::Bytes(self.cache_bytes() as f64)
        );
        let columns = [
            "who",
            "load, rows/s",
            "GET/s",
            "SET/s",
            "GET/s, overwritten",
            "CPU, load",
            "CPU, GET",
            "CPU, SET",
            "GET, 99 %",
            "SET, 99 %",
        ];
        let mut table = Table::new(title, &columns).with_bars("GET/s", 0);
        for (contestant, figures) in self.contestants.iter().zip(figures) {
            let of = |step: Step, value: fn(&Figure) -> f64, cell: fn(f64) -> Cell| {
                median_of(&figures[step as usize], value).map_or(Cell::Missing, cell)
            };
            let mut cells = vec![Cell::text(contestant.name())];
            cells.extend(Step::ALL.map(|step| of(step, Figure::requests_per_s, Cell::PerSecond)));
            cells.extend([Step::Load, Step::Get, Step::Overwrite].map(|step| of(step, Figure::cpu_nanos, Cell::Nanos)));
            cells.extend(
                [Step::Get, Step::Overwrite].map(|step| of(step, |figure| figure.statistic("99 %"), Cell::Nanos)),
            );
            table.push(cells);
        }
        table.note(format!(
            "Medians of {} turns. Overwritten: once what the SETs left to do was done. CPU: of a row or request; of \
             the server's process without the client, of stores without the making of questions; of load and SET with \
             all work in the background until nothing is left. 99 %: time per request, over batches. The times \
             of the stores include the making of rows that they write. For gets all files are in the system's memory.",
            self.turns()
        ));
        for contestant in self.contestants {
            table.note(contestant.note());
        }
        table
    }
}

/// The keys of a contestant, and what was written to each last.
struct Keyspace {
    rows: Rows,
    /// All that may overwrite them.
    rewrites: Rows,
    /// Of each key, the number of its last rewrite, from 1 on; 0 if there was none.
    last: Vec<u32>,
}

impl Keyspace {
    fn new(rows: Rows) -> Self {
        Keyspace { rows, rewrites: rows.rewrites(REQUESTS_MAX), last: vec![0; rows.count() as usize] }
    }

    /// The rows that the requests `first` to `first + count` of a step write.
    fn written_by(&mut self, step: Step, first: u64, count: u64) -> Rows {
        if step != Step::Overwrite {
            return self.rows.part(first, count);
        }
        for number in first..first + count {
            self.last[self.rewrites.rewritten(number) as usize] = number as u32 + 1;
        }
        self.rewrites.part(first, count)
    }

    /// Lends the value that key `number` has.
    fn with_value<T>(&self, number: u64, see: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let row = match self.last[number as usize] {
            0 => self.rows.part(number, 1),
            rewrite => self.rewrites.part(u64::from(rewrite) - 1, 1),
        };
        row.cursor().advance().map(|(_, value)| see(value))
    }
}

/// One that is open.
enum Open {
    Server { connection: Connection, running: Running },
    Store { store: Box<dyn Store>, dir: tempfile::TempDir },
}

impl Open {
    /// Where its files are.
    fn dir(&self) -> &Path {
        match self {
            Open::Server { running, .. } => running.dir(),
            Open::Store { dir, .. } => dir.path(),
        }
    }
}

/// One contestant's turn.
struct Course<'a> {
    size: &'a Size<'a>,
    open: Open,
    keys: Keyspace,
    /// Which keys are asked for.
    draw: Draw,
}

impl Course<'_> {
    fn step(&mut self, step: Step) -> Result<Figure> {
        let options = self.size.bench.options;
        let requests = if step == Step::Load { self.size.rows } else { REQUESTS_MAX.min(self.size.rows) };
        let deadline = if step == Step::Load { Deadline::never() } else { Deadline::after(options.seconds) };
        let (batch, rests) = (self.size.batch(), step.writes() && !options.smoke);
        let Course { open, keys, draw, .. } = self;
        let figure = match open {
            Open::Server { connection, running } => {
                let cpu_before_s = running.cpu_s();
                let fill = &mut |batch: &mut Batch, number| push(step, batch, number, keys, draw);
                let mut figure = Figure::measure(running, connection, requests, batch, &deadline, fill)?;
                if rests {
                    rest(|| running.cpu_s())?;
                    figure.cpu_s = running.cpu_s() - cpu_before_s;
                }
                figure
            }
            Open::Store { store, .. } => {
                let (watch, thread_before_s) = (Stopwatch::start(), thread_cpu_s());
                let (mut figure, mut in_calls_s) = (Figure::default(), 0.0);
                while figure.requests < requests && !(figure.requests > 0 && deadline.passed()) {
                    let count = batch.min(requests - figure.requests);
                    let call = Call::new(step, figure.requests, count, keys, draw);
                    let before_s = thread_cpu_s();
                    let (answer, nanos) = nanos_of(|| call.make(&**store));
                    in_calls_s += thread_cpu_s() - before_s;
                    call.check(answer?)?;
                    figure.record(count, nanos);
                }
                if rests {
                    rest(|| watch.stop().cpu_s)?;
                }
                // Without what this thread did beside the calls.
                let beside_s = thread_cpu_s() - thread_before_s - in_calls_s;
                figure.cpu_s = watch.stop().cpu_s - beside_s;
                figure
            }
        };
        if step.writes() {
            read_files(open.dir())?;
        }
        Ok(figure)
    }
}

/// Adds request `number` of a step to a server's batch.
fn push(step: Step, batch: &mut Batch, number: u64, keys: &mut Keyspace, draw: &mut Draw) {
    if step.writes() {
        let mut row = keys.written_by(step, number, 1).cursor();
        if let Some((key, value)) = row.advance() {
            batch.push(|out, answer| {
                resp::command(out, &[b"SET", key, value]);
                resp::status(answer, "OK");
            });
        }
    } else {
        let number = draw.below(keys.rows.count());
        batch.push(|out, answer| {
            resp::command(out, &[b"GET", &keys.rows.key(number)]);
            keys.with_value(number, |value| resp::bulk(answer, value));
        });
    }
}

/// What a store is called for once, with the answer that it must give.
enum Call {
    Write(Rows),
    Get { keys: Vec<Key>, sum: u64 },
}

impl Call {
    /// The requests `first` to `first + count` of a step.
    fn new(step: Step, first: u64, count: u64, keys: &mut Keyspace, draw: &mut Draw) -> Self {
        if step.writes() {
            return Call::Write(keys.written_by(step, first, count));
        }
        let numbers: Vec<u64> = (0..count).map(|_| draw.below(keys.rows.count())).collect();
        let values = numbers.iter().filter_map(|number| keys.with_value(*number, fingerprint));
        let sum = values.fold(0, u64::wrapping_add);
        Call::Get { keys: numbers.iter().map(|number| keys.rows.key(*number)).collect(), sum }
    }

    fn make(&self, store: &dyn Store) -> Result<u64> {
        match self {
            Call::Write(rows) => store.put_bulk(*rows),
            Call::Get { keys, .. } => {
                let mut sum = 0;
                store.read(&mut |reader| {
                    sum = reader.get_many(keys)?;
                    Ok(())
                })?;
                Ok(sum)
            }
        }
    }

    fn check(&self, answer: u64) -> Result<()> {
        match self {
            Call::Write(rows) if answer != rows.count() => Err(format!("{answer} of {} rows", rows.count()).into()),
            Call::Get { sum, .. } if answer != *sum => Err("the values are not those that were written".into()),
            _ => Ok(()),
        }
    }
}

/// Reads all files of a directory, so that they are in the system's memory. Some may be removed meanwhile.
fn read_files(dir: &Path) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            read_files(&path)?;
            continue;
        }
        match std::fs::OpenOptions::new().read(true).open(&path) {
            Ok(mut file) => while file.read(&mut buffer)? > 0 {},
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_value_that_was_written_last() {
        let mut keys = Keyspace::new(Rows::new(1, 10, KEY_BYTES, VALUE_BYTES));
        let loaded = keys.with_value(3, <[u8]>::to_vec).unwrap();
        assert_eq!(keys.rows.part(3, 1).cursor().advance().unwrap().1, loaded);
        let mut rows = keys.written_by(Step::Overwrite, 0, 200).cursor();
        let mut last = std::collections::BTreeMap::new();
        while let Some((key, value)) = rows.advance() {
            last.insert(key.to_vec(), value.to_vec());
        }
        assert_eq!(last.len(), 10);
        for number in 0..10 {
            assert_eq!(keys.with_value(number, <[u8]>::to_vec), last.remove(&keys.rows.key(number)[..]));
        }
    }

    #[test]
    fn a_wrong_answer_is_found() {
        let mut keys = Keyspace::new(Rows::new(1, 10, KEY_BYTES, VALUE_BYTES));
        let mut draw = Draw::new(1);
        let get = Call::new(Step::Get, 0, 5, &mut keys, &mut draw);
        let Call::Get { sum, .. } = get else { panic!("a get") };
        assert!(get.check(sum).is_ok() && get.check(sum + 1).is_err());
        let write = Call::new(Step::Load, 0, 5, &mut keys, &mut draw);
        assert!(write.check(5).is_ok() && write.check(4).is_err());
    }
}
