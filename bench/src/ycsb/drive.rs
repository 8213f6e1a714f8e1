//! Threads that ask one thing after the other, and what they found.

use std::sync::Barrier;

use super::mix::{Choice, Mix, Operation, Request};
use super::records::{Population, Values, digest, key_of};
use crate::clock::{Deadline, Spent, Stopwatch, nanos_of};
use crate::latencies::Latencies;
use crate::store::{Client, Result};

/// What a workload came to.
pub(crate) struct Outcome {
    pub(crate) spent: Spent,
    /// Whether all was done before the time was over.
    pub(crate) finished: bool,
    found: Found,
}

/// What one thread found, or all of them.
struct Found {
    latencies: [Latencies; Operation::COUNT],
    not_found: u64,
    errors: u64,
    first_error: Option<String>,
    /// Over everything that was read.
    digest: u64,
}

impl Outcome {
    /// How long each operation of this kind took, failed ones included.
    pub(crate) fn latencies(&self, operation: Operation) -> &Latencies {
        &self.found.latencies[operation as usize]
    }

    pub(crate) fn operations(&self) -> u64 {
        self.found.latencies.iter().map(Latencies::count).sum()
    }

    /// Reads and scans that met nothing.
    pub(crate) fn not_found(&self) -> u64 {
        self.found.not_found
    }

    /// Operations that failed, and reads that met something else than a value of the record.
    pub(crate) fn errors(&self) -> u64 {
        self.found.errors
    }

    /// What the first of them said.
    pub(crate) fn first_error(&self) -> Option<&str> {
        self.found.first_error.as_deref()
    }

    /// The same for stores that answered the same, if one thread asked.
    pub(crate) fn digest(&self) -> u64 {
        self.found.digest
    }
}

/// Inserts `records` records, to the end, whatever it takes.
pub(crate) fn load(
    clients: Vec<Box<dyn Client + '_>>,
    population: &Population,
    values: &Values,
    records: u64,
) -> Outcome {
    let threads = clients.len() as u64;
    let shares =
        (0..threads).map(|thread| std::iter::repeat_n(Request::INSERT, ((records + thread) / threads) as usize));
    drive(clients, shares.collect(), Choice::Zipfian, population, values, &Deadline::never())
}

/// Does what a workload asks, as far as the time allows: each client a share of `operations`, in a thread of its own.
pub(crate) fn run(
    clients: Vec<Box<dyn Client + '_>>,
    mix: &Mix,
    population: &Population,
    values: &Values,
    (operations, seed): (u64, u64),
    deadline: impl FnOnce() -> Deadline,
) -> Outcome {
    let shares = mix.draw(population.count(), operations, clients.len(), seed);
    let shares = shares.into_iter().map(Vec::into_iter).collect();
    drive(clients, shares, mix.choice, population, values, &deadline())
}

fn drive<R: ExactSizeIterator<Item = Request> + Send>(
    clients: Vec<Box<dyn Client + '_>>,
    shares: Vec<R>,
    choice: Choice,
    population: &Population,
    values: &Values,
    deadline: &Deadline,
) -> Outcome {
    let all: usize = shares.iter().map(R::len).sum();
    // Threads are there before the clock starts.
    let (ready, go) = (Barrier::new(clients.len() + 1), Barrier::new(clients.len() + 1));
    let (ready, go) = (&ready, &go);
    std::thread::scope(|scope| {
        let start = |(thread, (client, requests))| {
            let mut asker = Asker { client, choice, population, values: values.clone(), found: Found::nothing() };
            scope.spawn(move || {
                ready.wait();
                go.wait();
                asker.ask_all(requests, (thread as u64) << 48, deadline);
                asker.found
            })
        };
        let threads: Vec<_> = clients.into_iter().zip(shares).enumerate().map(start).collect();
        ready.wait();
        let watch = Stopwatch::start();
        go.wait();
        let mut found = Found::nothing();
        let each: Vec<Found> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        let spent = watch.stop();
        each.into_iter().for_each(|one| found.add(one));
        let done: u64 = found.latencies.iter().map(Latencies::count).sum();
        Outcome { spent, finished: done == all as u64, found }
    })
}

/// A thread's part.
struct Asker<'a> {
    client: Box<dyn Client + 'a>,
    choice: Choice,
    population: &'a Population,
    values: Values,
    found: Found,
}

impl Asker<'_> {
    /// Versions of values count from `first_version`, so that what threads write differs.
    fn ask_all(&mut self, requests: impl Iterator<Item = Request>, first_version: u64, deadline: &Deadline) {
        for (step, request) in requests.enumerate() {
            if deadline.passed_at(step as u64) {
                break;
            }
            let (done, nanos) = self.perform(&request, first_version + step as u64);
            self.found.latencies[request.operation as usize].record(nanos);
            if let Err(error) = done {
                self.found.errors += 1;
                self.found.first_error.get_or_insert_with(|| format!("{}: {error}", request.operation.name()));
            }
        }
    }

    /// Does what is asked. Returns how long the store took.
    fn perform(&mut self, request: &Request, version: u64) -> (Result<()>, u64) {
        let Asker { client, choice, population, values, found } = self;
        let is_new = request.operation == Operation::Insert;
        let number = if is_new { population.reserve() } else { request.number(*choice, population.count()) };
        let key = key_of(number);
        let (done, nanos) = match request.operation {
            Operation::Insert => {
                let value = values.make(number, version);
                nanos_of(|| client.put(&key, value))
            }
            Operation::Update => {
                let value = values.make(number, version);
                nanos_of(|| client.update(&key, value, version))
            }
            Operation::Read => nanos_of(|| found.read(&mut **client, values, number, &key)),
            Operation::Scan => nanos_of(|| found.scan(&mut **client, values, u64::from(request.scan_records), &key)),
            Operation::ReadModifyWrite => {
                let (read, read_nanos) = nanos_of(|| found.read(&mut **client, values, number, &key));
                let value = values.make(number, version);
                let (written, write_nanos) = nanos_of(|| client.update(&key, value, version));
                (read.and(written), read_nanos + write_nanos)
            }
        };
        if is_new && done.is_ok() {
            population.acknowledge(number);
        }
        (done, nanos)
    }
}

impl Found {
    fn nothing() -> Self {
        Found {
            latencies: std::array::from_fn(|_| Latencies::new()),
            not_found: 0,
            errors: 0,
            first_error: None,
            digest: 0,
        }
    }

    fn add(&mut self, other: Found) {
        for (mine, others) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.add(others);
        }
        self.not_found += other.not_found;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.digest = self.digest.wrapping_add(other.digest);
    }

    fn read(&mut self, client: &mut dyn Client, values: &Values, number: u64, key: &[u8]) -> Result<()> {
        let mut of_record = true;
        let there = client.get(key, &mut |value| {
            of_record = values.is_of(number, value);
            self.digest = self.digest.wrapping_add(digest(value));
        })?;
        self.not_found += u64::from(!there);
        if of_record { Ok(()) } else { Err(format!("record {number} has a value of another").into()) }
    }

    fn scan(&mut self, client: &mut dyn Client, values: &Values, records: u64, key: &[u8]) -> Result<()> {
        let (mut met, mut is_sound) = (0, true);
        client.scan(key, records, &mut |found, value| {
            is_sound &= values.has_length(value) && (met > 0 || found == key);
            self.digest = self.digest.wrapping_add(digest(found)).wrapping_add(digest(value));
            met += 1;
        })?;
        self.not_found += u64::from(met == 0);
        match is_sound && met <= records {
            true => Ok(()),
            false => {
                Err(format!("a scan from `{}` met {met} records, not those that are there", key.escape_ascii()).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::super::mix::MIXES;
    use super::*;

    /// A map that may lose records and mix values up.
    #[derive(Default)]
    struct Map {
        rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
        fails: bool,
    }

    impl Client for &Map {
        fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
            if self.fails {
                return Err("full".into());
            }
            self.rows.lock().unwrap().insert(key.to_vec(), value.to_vec());
            Ok(())
        }
        fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
            Ok(self.rows.lock().unwrap().get(key).map(|value| see(value)).is_some())
        }
        fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
            for (key, value) in self.rows.lock().unwrap().range(from.to_vec()..).take(limit as usize) {
                see(key, value);
            }
            Ok(())
        }
    }

    fn clients(map: &Map, threads: usize) -> Vec<Box<dyn Client + '_>> {
        (0..threads).map(|_| Box::new(map) as Box<dyn Client>).collect()
    }

    fn run_all(map: &Map, population: &Population, values: &Values, threads: usize) -> Vec<Outcome> {
        let all = MIXES.iter();
        all.map(|mix| run(clients(map, threads), mix, population, values, (500, 9), Deadline::never)).collect()
    }

    #[test]
    fn all_operations_are_done_and_find_what_is_there() {
        for threads in [1, 3] {
            let (map, population, values) = (Map::default(), Population::default(), Values::new(100));
            let loaded = load(clients(&map, threads), &population, &values, 200);
            assert_eq!((loaded.operations(), population.count()), (200, 200));
            let mut inserted = 0;
            for outcome in run_all(&map, &population, &values, threads) {
                assert!(outcome.finished && outcome.spent.wall_s > 0.0);
                assert_eq!((outcome.operations(), outcome.not_found(), outcome.errors()), (500, 0, 0));
                inserted += outcome.latencies(Operation::Insert).count();
            }
            assert!(inserted > 10);
            assert_eq!(map.rows.lock().unwrap().len() as u64, 200 + inserted);
            assert_eq!(population.count(), 200 + inserted);
        }
    }

    #[test]
    fn equal_stores_have_equal_digests_and_a_lost_record_is_seen() {
        let values = Values::new(100);
        let digests = |broken: fn(&mut BTreeMap<Vec<u8>, Vec<u8>>)| {
            let (map, population) = (Map::default(), Population::default());
            load(clients(&map, 1), &population, &values, 200);
            broken(&mut map.rows.lock().unwrap());
            let outcomes = run_all(&map, &population, &values, 1);
            let bad: u64 = outcomes.iter().map(|outcome| outcome.not_found() + outcome.errors()).sum();
            (outcomes.iter().map(Outcome::digest).collect::<Vec<_>>(), bad)
        };
        let sound = digests(|_| {});
        assert_eq!(sound.1, 0);
        assert_eq!(sound, digests(|_| {}));
        // The most popular record of 200 is number 100.
        let lost = digests(|rows| drop(rows.remove(&key_of(100)[..])));
        assert!(lost.1 > 0 && lost.0 != sound.0);
        let mixed_up = digests(|rows| drop(rows.insert(key_of(100).to_vec(), Values::new(100).make(7, 0).to_vec())));
        assert!(mixed_up.1 > 0);
    }

    #[test]
    fn failures_are_counted_and_the_first_is_told() {
        let (map, population) = (Map { fails: true, ..Map::default() }, Population::default());
        let outcome = load(clients(&map, 2), &population, &Values::new(16), 10);
        assert_eq!((outcome.errors(), outcome.first_error()), (10, Some("insert: full")));
        assert_eq!(population.count(), 0);
    }
}
