//! Opening a table and asking: gets, scans and positions of the table at rest, overwriting a part of it, and the same
//! again.

use serde_json::{Value, json};

use super::Job;
use crate::clock::{Deadline, Stopwatch, nanos_of};
use crate::latencies::Latencies;
use crate::machine::Resident;
use crate::rows::{Draw, Key, Rows, fingerprint};
use crate::store::{Reader, Result, Store, StoreKind};
use crate::ycsb::digest;

/// The most calls of one question.
const ASKED_MAX: u64 = 1_000_000;
const SCANS: u64 = 10_000;
const SCAN_ROWS: u64 = 100;
/// Keys of a call that gets many.
const KEYS_TOGETHER: u64 = 1000;
/// Answers that are compared with what was written.
const CHECKED: u64 = 1000;
/// Answers that are handed out.
const COMPARED: usize = 3;
/// Of so many rows one is overwritten.
const ROWS_AN_OVERWRITE: u64 = 10;

/// When a question was asked.
pub(crate) const MOMENTS: [&str; 2] = ["at rest", "after overwriting"];

/// What was asked in one process.
struct Asking<'a> {
    job: &'a Job,
    rows: Rows,
    store: &'a dyn Store,
    /// Whether the values are those that were loaded.
    is_at_rest: bool,
    /// Runs since a question began.
    watch: Stopwatch,
    /// The most memory seen, looked at after each question.
    peak: Resident,
    figures: Vec<Value>,
}

/// Opens the table, asks, and tells how long it took, how much memory, and the first answers.
pub(crate) fn ask(job: &Job, kind: &StoreKind) -> Result<Value> {
    let before = Resident::now();
    let rows = job.all_rows();
    let (opened, open_nanos) = nanos_of(|| {
        let store = job.open(kind)?;
        let is_found = store.client()?.get(&rows.key(0), &mut |_| ())?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((store, is_found))
    });
    let (store, is_found) = opened?;
    if !is_found {
        return Err(format!("{} has forgotten its first row", kind.name).into());
    }
    let opened_memory = Resident::now();
    let mut asking = Asking {
        job,
        rows,
        store: &*store,
        is_at_rest: true,
        watch: Stopwatch::start(),
        peak: before,
        figures: Vec::new(),
    };
    asking.reads()?;
    asking.overwrite()?;
    asking.is_at_rest = false;
    asking.reads()?;
    Ok(json!({
        "open_ns": open_nanos,
        "opened_own": opened_memory.own_bytes.saturating_sub(before.own_bytes),
        "own": asking.peak.own_bytes.saturating_sub(before.own_bytes),
        "file": asking.peak.file_bytes.saturating_sub(before.file_bytes),
        "figures": asking.figures,
    }))
}

impl Asking<'_> {
    fn reads(&mut self) -> Result<()> {
        self.hits()?;
        if self.is_at_rest {
            self.misses()?;
            self.full_scan()?;
        }
        self.short_scans()?;
        let Asking { job, rows, store, .. } = *self;
        store.read(&mut |reader| {
            if reader.has_get_many() {
                self.hits_together(reader)?;
            }
            let (half, thousand) = (rows.count() / 2, rows.count().min(1000));
            let range = |wanted: u64| move |draw: &mut Draw| rows.range_of(draw, wanted, rows.count());
            let count = |reader: &dyn Reader, (from, to): (Key, Key)| reader.count(&from, &to);
            self.position(reader, "count of 1,000 rows", range(thousand), count)?;
            self.position(reader, "count of half the rows", range(half), count)?;
            self.position(reader, "rank", |draw| rows.key(draw.below(rows.count())), |reader, key| reader.rank(&key))?;
            self.position(reader, "nth", |draw| draw.below(rows.count()), |reader, offset| reader.nth(offset))?;
            if reader.has_get_many() {
                self.offsets_together(reader)?;
            }
            Ok(())
        })?;
        debug_assert_eq!(job.rows, rows.count());
        Ok(())
    }

    fn draw(&self) -> Draw {
        Draw::new(self.job.seed ^ 0x5eed)
    }

    /// A question begins, and may take so many seconds.
    fn begin(&mut self, seconds: f64) -> Deadline {
        self.watch = Stopwatch::start();
        Deadline::after(seconds)
    }

    /// Notes a figure: calls of which each was timed, and whether all that were wanted were made.
    fn tell(&mut self, question: &str, latencies: &Latencies, rows_a_call: u64, is_finished: bool, answers: &[u64]) {
        self.peak = self.peak.max(Resident::now());
        let has_p99 = latencies.count() >= 100;
        self.figures.push(json!({
            "question": question,
            "moment": MOMENTS[usize::from(!self.is_at_rest)],
            "asked": latencies.count(),
            "per_s": rows_a_call as f64 * 1e9 / latencies.average_nanos(),
            "cpu_ns": self.watch.stop().cpu_s * 1e9 / (latencies.count() * rows_a_call) as f64,
            "median_ns": latencies.median_nanos(),
            "p99_ns": has_p99.then(|| latencies.p99_nanos()),
            "is_finished": is_finished,
            "answers": answers,
        }));
    }

    fn hits(&mut self) -> Result<()> {
        let (rows, deadline) = (self.rows, self.begin(self.job.seconds));
        let mut client = self.store.client()?;
        let mut draw = self.draw();
        let mut latencies = Latencies::new();
        while latencies.count() < ASKED_MAX && !deadline.passed_at(latencies.count()) {
            let number = draw.below(rows.count());
            let key = rows.key(number);
            let mut sum = 0;
            let (is_found, nanos) = nanos_of(|| client.get(&key, &mut |value| sum = digest(value)));
            let is_right = latencies.count() >= CHECKED || !self.is_at_rest || sum == digest_of_row(&rows, number);
            if !is_found? || !is_right {
                return Err(format!("{}: row {number} is not what was written", self.job.store).into());
            }
            latencies.record(nanos);
        }
        drop(client);
        self.tell("get, hit", &latencies, 1, true, &[]);
        Ok(())
    }

    /// Gets many keys in one call.
    fn hits_together(&mut self, reader: &dyn Reader) -> Result<()> {
        let (rows, deadline) = (self.rows, self.begin(self.job.seconds));
        let mut draw = self.draw();
        let mut latencies = Latencies::new();
        while latencies.count() < ASKED_MAX / KEYS_TOGETHER && !deadline.passed() {
            let numbers: Vec<u64> = (0..KEYS_TOGETHER).map(|_| draw.below(rows.count())).collect();
            let keys: Vec<Key> = numbers.iter().map(|number| rows.key(*number)).collect();
            let (sum, nanos) = nanos_of(|| reader.get_many(&keys));
            let (sum, is_checked) = (sum?, self.is_at_rest && latencies.count() == 0);
            if is_checked && sum != sum_of_rows(&rows, &numbers) {
                return Err(format!("{}: values got together are not what was written", self.job.store).into());
            }
            latencies.record(nanos);
        }
        self.tell("get, hit, 1,000 keys a call", &latencies, KEYS_TOGETHER, true, &[]);
        Ok(())
    }

    /// Asks for the rows at many offsets in one call.
    fn offsets_together(&mut self, reader: &dyn Reader) -> Result<()> {
        let (rows, deadline) = (self.rows, self.begin(self.job.seconds / 2.0));
        let mut draw = self.draw();
        let mut latencies = Latencies::new();
        while latencies.count() < ASKED_MAX / 10 / KEYS_TOGETHER && !deadline.passed() {
            let offsets: Vec<u64> = (0..KEYS_TOGETHER).map(|_| draw.below(rows.count())).collect();
            let (sum, nanos) = nanos_of(|| reader.nth_many(&offsets));
            let (sum, is_first) = (sum?, latencies.count() == 0);
            let single = |sum: u64, offset: &u64| -> Result<u64> { Ok(sum.wrapping_add(reader.nth(*offset)?)) };
            if is_first && sum != offsets.iter().try_fold(0, single)? {
                return Err(format!("{}: rows at offsets asked together are others", self.job.store).into());
            }
            latencies.record(nanos);
        }
        self.tell("nth, 1,000 offsets a call", &latencies, KEYS_TOGETHER, true, &[]);
        Ok(())
    }

    fn misses(&mut self) -> Result<()> {
        let (absent, deadline) = (self.rows.next_part(), self.begin(self.job.seconds));
        let mut client = self.store.client()?;
        let mut draw = self.draw();
        let mut latencies = Latencies::new();
        while latencies.count() < ASKED_MAX && !deadline.passed_at(latencies.count()) {
            let key = absent.key(draw.below(absent.count()));
            let (is_found, nanos) = nanos_of(|| client.get(&key, &mut |_| ()));
            if is_found? {
                return Err(format!("{}: a row that was not written", self.job.store).into());
            }
            latencies.record(nanos);
        }
        drop(client);
        self.tell("get, miss", &latencies, 1, true, &[]);
        Ok(())
    }

    fn full_scan(&mut self) -> Result<()> {
        self.begin(self.job.seconds);
        let mut client = self.store.client()?;
        let (mut count, mut sum) = (0, 0_u64);
        let (scanned, nanos) = nanos_of(|| {
            client.scan(&[0; super::KEY_BYTES], u64::MAX, &mut |key, value| {
                count += 1;
                sum = sum.wrapping_add(digest(key)).wrapping_add(digest(value));
            })
        });
        scanned?;
        drop(client);
        if count != self.rows.count() {
            return Err(format!("{}: a scan of {count} rows", self.job.store).into());
        }
        let mut latencies = Latencies::new();
        latencies.record(nanos);
        self.tell("full scan, rows", &latencies, count, true, &[sum]);
        Ok(())
    }

    fn short_scans(&mut self) -> Result<()> {
        let (rows, deadline) = (self.rows, self.begin(self.job.seconds));
        let mut client = self.store.client()?;
        let mut draw = self.draw();
        let mut latencies = Latencies::new();
        let mut answers = Vec::new();
        while latencies.count() < SCANS && !deadline.passed() {
            let key = rows.key(draw.below(rows.count()));
            let (mut keys, mut values) = (0_u64, 0_u64);
            let mut see = |key: &[u8], value: &[u8]| {
                keys = keys.wrapping_add(digest(key));
                values = values.wrapping_add(digest(value));
            };
            let (scanned, nanos) = nanos_of(|| client.scan(&key, SCAN_ROWS, &mut see));
            scanned?;
            latencies.record(nanos);
            if answers.len() < COMPARED {
                // How much was overwritten in time differs.
                answers.push(if self.is_at_rest { keys.wrapping_add(values) } else { keys });
            }
            std::hint::black_box(values);
        }
        drop(client);
        self.tell("scan of 100 rows", &latencies, 1, latencies.count() == SCANS, &answers);
        Ok(())
    }

    fn position<Q>(
        &mut self,
        reader: &dyn Reader,
        question: &str,
        mut choose: impl FnMut(&mut Draw) -> Q,
        ask: impl Fn(&dyn Reader, Q) -> Result<u64>,
    ) -> Result<()> {
        // Stores that scan need seconds for one.
        let (mut draw, deadline) = (self.draw(), self.begin(self.job.seconds / 2.0));
        let mut latencies = Latencies::new();
        let mut answers = Vec::new();
        while answers.len() < COMPARED || (latencies.count() < ASKED_MAX / 10 && !deadline.passed()) {
            let asked = choose(&mut draw);
            let (answer, nanos) = nanos_of(|| ask(reader, asked));
            let answer = answer?;
            latencies.record(nanos);
            if answers.len() < COMPARED {
                answers.push(answer);
            }
        }
        self.tell(question, &latencies, 1, true, &answers);
        Ok(())
    }

    /// Overwrites rows with new values, each a commit of its own.
    fn overwrite(&mut self) -> Result<()> {
        let (rows, deadline) = (self.rows, self.begin(self.job.seconds));
        let wanted = (rows.count() / ROWS_AN_OVERWRITE).max(1);
        let mut client = self.store.client()?;
        let mut draw = self.draw();
        let mut values = rows.next_part().cursor();
        let mut latencies = Latencies::new();
        while latencies.count() < wanted && !deadline.passed_at(latencies.count()) {
            let key = rows.key(draw.below(rows.count()));
            let Some((_, value)) = values.advance() else { break };
            let (put, nanos) = nanos_of(|| client.put(&key, value));
            put?;
            latencies.record(nanos);
        }
        drop(client);
        self.tell("overwrite", &latencies, 1, latencies.count() == wanted, &[]);
        Ok(())
    }
}

fn digest_of_row(rows: &Rows, number: u64) -> u64 {
    rows.part(number, 1).cursor().advance().map_or(0, |(_, value)| digest(value))
}

/// What [`Reader::get_many`] answers for these rows.
fn sum_of_rows(rows: &Rows, numbers: &[u64]) -> u64 {
    let value_of = |number: &u64| rows.part(*number, 1).cursor().advance().map_or(0, |(_, value)| fingerprint(value));
    numbers.iter().map(value_of).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_known_by_itself() {
        let rows = Rows::new(3, 100, 8, 100);
        let mut cursor = rows.cursor();
        for number in 0..100 {
            let (key, value) = cursor.advance().unwrap();
            assert_eq!(
                (fingerprint(key), digest(value)),
                (fingerprint(&rows.key(number)), digest_of_row(&rows, number))
            );
        }
    }
}
