//! A seeded workload over a database on a simulated disk, and the history it makes: what crash and fault tests share.
//!
//! The database numbers its commits without holes, so the state after a restart is fully told by the number of its last
//! commit: it must be that entry of the history, and the number must not be below what was acknowledged.

#![allow(dead_code, unused_imports, reason = "a fuzz target uses a part of it as well")]

use quipu::files::check;
use quipu::ingest::Overlap;
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{
    Bounds, Compression, Db, Durability, Error, ErrorKind, InnerPages, Measures, Options, ReadableTable, Result,
    RunLayout, SumField, Table, TableOptions, Tally, WritableTable, WriteBatch,
};
use quipu_testing::seeds::Tell;
pub(crate) use quipu_testing::seeds::with_seeds;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng, TryRng};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) const DIR: &str = "db";

/// Small pages, small log segments, no thread: everything that is rare happens often and always at the same step.
pub(crate) fn options(disk: &SimDisk) -> Options {
    Options {
        page_bytes: 256,
        run_page_bytes: 256,
        run_file_bytes: 1200,
        excised_rows_min: 2,
        log_segment_bytes: 8192,
        memory_bytes: 16 << 20,
        checkpoint_log_bytes: 0,
        background: false,
        durability: Durability::Sync,
        disk: Arc::new(disk.clone()),
        ..Options::default()
    }
}

pub(crate) fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs `test` with the steps that are this seed's share, or with the one from the environment. Every step is some
/// seed's.
pub(crate) fn with_steps(steps: u64, seed: u64, stride: u64, mut test: impl FnMut(u64)) {
    let given = environment("STEP");
    let range = given.map_or(0..steps, |step| step..step + 1);
    for step in range.filter(|step| given.is_some() || step % stride == seed % stride) {
        let tell = Tell::new(format!("STEP={step}"));
        test(step);
        drop(tell);
    }
}

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableImage {
    pub(crate) options: TableOptions,
    pub(crate) rows: Rc<Rows>,
}

/// What all tables hold, by name.
pub(crate) type Image = BTreeMap<String, TableImage>;

/// All states that the database went through, and how many of them it promised to keep.
#[derive(Clone)]
pub(crate) struct History {
    /// The state after each commit; the first is the empty database. The last may be one that was never acknowledged.
    pub(crate) images: Vec<Image>,
    /// The last commit acknowledged as durable.
    pub(crate) synced: usize,
    /// The last commit acknowledged at all.
    pub(crate) acknowledged: usize,
}

impl Default for History {
    fn default() -> Self {
        History { images: vec![Image::new()], synced: 0, acknowledged: 0 }
    }
}

impl History {
    pub(crate) fn last(&self) -> &Image {
        self.images.last().expect("there is always the empty one")
    }

    /// Every write is synced before it is acknowledged, or a sync has returned.
    fn acknowledge(&mut self, durability: Durability) {
        self.acknowledged = self.images.len() - 1;
        if durability == Durability::Sync {
            self.synced = self.acknowledged;
        }
    }

    /// Finds out whether the commit that failed is in, and forgets it if not. Memory must hold one or the other.
    pub(crate) fn after_failure(&mut self, db: &Db) {
        let sequence = db.stats().sequence as usize;
        assert!(
            sequence + 1 == self.images.len() || sequence + 2 == self.images.len(),
            "commit {sequence} of {}",
            self.images.len()
        );
        self.images.truncate(sequence + 1);
        verify(db, self.last());
    }

    /// Compares a database that was just opened, and takes its state as what there is.
    pub(crate) fn verify_opened(&mut self, db: &Db, at_least: usize) {
        let sequence = db.stats().sequence as usize;
        assert!(sequence >= at_least, "commits {} to {at_least} are lost", sequence + 1);
        assert!(
            sequence < self.images.len(),
            "commit {sequence} was never made; the last is {}",
            self.images.len() - 1
        );
        verify(db, &self.images[sequence]);
        self.images.truncate(sequence + 1);
        self.synced = sequence;
        self.acknowledged = sequence;
    }
}

fn hash_row(seed: u64, key: &[u8], value: &[u8]) -> u64 {
    use xxhash_rust::xxh3::xxh3_64_with_seed;
    xxh3_64_with_seed(value, xxh3_64_with_seed(key, seed.wrapping_add(key.len() as u64)))
}

/// The tally of rows, one by one.
pub(crate) fn recount<'r>(measures: &Measures, rows: impl Iterator<Item = (&'r Vec<u8>, &'r Vec<u8>)>) -> Tally {
    let mut tally = Tally::ZERO;
    for (key, value) in rows {
        tally.rows += 1;
        if measures.bytes {
            tally.bytes += (key.len() + value.len()) as i64;
        }
        if measures.hash {
            tally.hash = tally.hash.wrapping_add(hash_row(measures.hash_seed, key, value));
        }
        if let Some(field) = &measures.sum {
            tally.sum = tally.sum.wrapping_add(field.extract(value));
        }
    }
    tally
}

/// The database holds exactly this: rows, and every tally equal to a recount.
pub(crate) fn verify(db: &Db, image: &Image) {
    let names: Vec<String> = db.tables().iter().map(|table| table.name().to_owned()).collect();
    assert!(names.iter().eq(image.keys()), "tables {names:?}, expected {:?}", image.keys());
    for table in db.tables() {
        let expected = &image[table.name()];
        // The index is no part of the history: a rewrite changes it beside commits.
        let options = TableOptions { layout: expected.options.layout, ..table.options().clone() };
        assert_eq!(options, expected.options, "options of {}", table.name());
        verify_rows(&table, expected);
        let snapshot = db.snapshot();
        verify_rows(&snapshot.table(&table).unwrap(), expected);
    }
}

fn verify_rows(table: &impl ReadableTable, expected: &TableImage) {
    let (rows, measures) = (&*expected.rows, &expected.options.measures);
    let mut count = 0;
    let mut pairs = rows.iter();
    table
        .for_each(.., |key, value| {
            let pair = pairs.next();
            assert!(
                pair.is_some_and(|(k, v)| k == key && v == value),
                "row {count} is {:?} ({} bytes), expected {:?}",
                String::from_utf8_lossy(key),
                value.len(),
                pair.map(|(k, v)| (String::from_utf8_lossy(k), v.len()))
            );
            count += 1;
            true
        })
        .unwrap();
    assert_eq!(count, rows.len(), "rows are missing at the end");
    assert_eq!(table.len().unwrap(), rows.len() as u64);
    assert_eq!(table.tally(..).unwrap(), recount(measures, rows.iter()));
    for (rank, (key, value)) in rows.iter().enumerate().step_by(7) {
        assert_eq!(table.rank(key).unwrap(), rank as u64);
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
        assert_eq!(table.nth(.., rank as u64).unwrap().expect("a row").key[..], key[..]);
        assert_eq!(table.tally(..key).unwrap(), recount(measures, rows.range(..key.clone())));
    }
}

/// `check` finds nothing wrong in the files as they are.
pub(crate) fn assert_sound(disk: &SimDisk) {
    let report = check(DIR, &options(&disk.kill()), &mut |_| ()).unwrap();
    assert!(report.faults.is_empty(), "{:#?}", report.faults);
}

/// No file in the directory that the database does not know of.
pub(crate) fn assert_no_orphans(disk: &SimDisk) {
    let manifest = disk.read_file(format!("{DIR}/MANIFEST")).expect("a manifest");
    for path in disk.file_names().into_iter().filter(|path| path.starts_with(DIR)) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let known = matches!(name, "MANIFEST" | "LOCK")
            || name.starts_with("log-") && name != "log-new.quipu"
            || name.starts_with("run-") && manifest.windows(name.len()).any(|bytes| bytes == name.as_bytes());
        assert!(known, "{name} is an orphan");
    }
}

pub(crate) fn random_options(random: &mut impl Rng) -> TableOptions {
    let measures = Measures {
        bytes: random.random_bool(0.5),
        hash: random.random_bool(0.5),
        sum: random.random_bool(0.5).then_some(SumField::BigEndian { at: 0 }),
        // Not drawn, so that the scripts of seeds stay what they were.
        hash_seed: 0x51_1970,
    };
    let metadata = vec![b'n'; random.random_range(0..20)];
    // How runs are stored and held has no say in what happens, so it draws nothing of its own.
    let compression = |bit: usize| [Compression::None, Compression::Lz4][(metadata.len() >> bit) & 1];
    let inner_pages = [InnerPages::AsNeeded, InnerPages::Preloaded, InnerPages::Pinned][metadata.len() % 3];
    TableOptions {
        measures,
        compression: compression(0),
        upper_compression: compression(1),
        inner_pages,
        comment: "c".repeat(metadata.len() / 3),
        metadata,
        in_memory: random.random_bool(0.2),
        blind_writes: random.random_bool(0.5),
        layout: if random.random_bool(0.3) { RunLayout::Flat } else { RunLayout::Tree },
    }
}

pub(crate) fn random_key(random: &mut impl Rng) -> Vec<u8> {
    let mut key = format!("{:02}", random.random_range(0..60)).into_bytes();
    if key[1] == b'7' {
        key.resize(90, b'l');
    }
    key
}

fn random_value(random: &mut impl Rng) -> Vec<u8> {
    let length = match random.random_range(0..40) {
        0 => random.random_range(6000..20_000),
        1..=4 => random.random_range(60..600),
        5 => 0,
        _ => random.random_range(0..40),
    };
    let byte: u8 = random.random();
    (0..length).map(|index| byte.wrapping_add((index as u8).wrapping_mul(3))).collect()
}

fn random_durability(random: &mut impl Rng) -> Durability {
    [Durability::Sync, Durability::Os, Durability::None][random.random_range(0..3)]
}

/// A write of a transaction: the table's place, the range to remove or the key, and its value if it is put.
type Planned = (usize, Option<Bounds<'static>>, Vec<u8>, Option<Vec<u8>>);

/// A database being worked on.
pub(crate) struct Work {
    pub(crate) disk: SimDisk,
    pub(crate) history: History,
    /// `None` while it is being opened, and after that failed.
    pub(crate) db: Option<Db>,
    /// The one that the database was opened with.
    durability: Durability,
}

impl Work {
    pub(crate) fn new(disk: &SimDisk) -> Work {
        Work { disk: disk.clone(), history: History::default(), db: None, durability: Durability::Sync }
    }

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    /// Opens, or opens again. What is found must be the latest state that memory had, whatever its durability: nothing
    /// crashed.
    pub(crate) fn open(&mut self, random: &mut impl Rng) -> Result<()> {
        self.db = None;
        self.durability = random_durability(random);
        let db = Db::open(DIR, Options { durability: self.durability, ..options(&self.disk) })?;
        let acknowledged = self.history.acknowledged;
        self.history.verify_opened(&db, acknowledged);
        self.db = Some(db);
        Ok(())
    }

    /// Expects the next commit to make this of a table.
    fn expect(&mut self, name: &str, rows: Rows) {
        let mut image = self.history.last().clone();
        image.get_mut(name).expect("a table").rows = Rc::new(rows);
        self.history.images.push(image);
    }

    /// One random piece of work, by most measures one commit. An error leaves the state that the commit would have made
    /// as the last one.
    pub(crate) fn step(&mut self, random: &mut impl Rng) -> Result<()> {
        let image = self.history.last().clone();
        let names: Vec<&String> = image.keys().collect();
        let default = self.durability;
        if names.is_empty() || random.random_range(0..25) == 0 && names.len() < 4 {
            let name = format!("table {}", random.random_range(0..6));
            let options = random_options(random);
            let exists = image.contains_key(&name);
            if !exists {
                let mut image = image.clone();
                image.insert(name.clone(), TableImage { options: options.clone(), rows: Rc::default() });
                self.history.images.push(image);
            }
            match self.db().create_table(&name, options) {
                Err(error) if exists && error.kind() == ErrorKind::Exists => {}
                result => {
                    result?;
                    assert!(!exists);
                }
            }
            return self.forward(default, !exists);
        }
        let name = names[random.random_range(0..names.len())].clone();
        let mut rows = (*image[&name].rows).clone();
        let Some(table) = self.db().open_table(&name)? else { panic!("{name} is missing") };
        match random.random_range(0..100) {
            0..=29 => self.write_alone(random, &table, rows, default),
            30..=49 => self.transact(random, false),
            50..=57 => self.transact(random, true),
            58..=61 => self.edit(random, &table, rows),
            62..=65 => {
                let durability = random_durability(random);
                let mut batch = WriteBatch::new();
                let count = if random.random_range(0..4) == 0 { 80 } else { random.random_range(0..9) };
                for _ in 0..count {
                    let key = random_key(random);
                    if random.random_range(0..3) > 0 {
                        let value = random_value(random);
                        batch.put(&table, &key, &value[..value.len().min(100)]);
                        rows.insert(key, value[..value.len().min(100)].to_vec());
                    } else {
                        batch.delete(&table, &key);
                        rows.remove(&key);
                    }
                }
                self.expect(&name, rows);
                self.db().apply_with(durability, batch)?;
                self.forward_if_there(durability)
            }
            66..=71 => {
                let (mut low, mut high) = (random_key(random), random_key(random));
                if low > high {
                    std::mem::swap(&mut low, &mut high);
                }
                let gone: Vec<Vec<u8>> = rows.range(low.clone()..high.clone()).map(|(key, _)| key.clone()).collect();
                for key in &gone {
                    rows.remove(key);
                }
                if !gone.is_empty() {
                    self.expect(&name, rows);
                }
                assert_eq!(table.remove_range(&low..&high)?, gone.len() as u64);
                self.forward(default, !gone.is_empty())
            }
            72..=73 => {
                let mut image = image.clone();
                image.remove(&name);
                self.history.images.push(image);
                assert!(self.db().drop_table(&name)?);
                self.forward(default, true)
            }
            74..=80 => {
                let info = self.db().checkpoint()?;
                assert_eq!(info.sequence as usize, self.history.images.len() - 1);
                self.history.acknowledge(Durability::Sync);
                Ok(())
            }
            81..=82 => table.freeze(),
            83..=85 if table.options().in_memory => {
                assert_eq!(table.flush().map_err(|error| error.kind()), Err(ErrorKind::Invalid));
                Ok(())
            }
            83..=85 => table.flush(),
            86..=87 => table.thaw(),
            88 => table.compact(),
            89 => {
                let index = if random.random_bool(0.5) { RunLayout::Flat } else { RunLayout::Tree };
                table.rewrite(index, &mut |_| ())
            }
            90..=92 => self.ingest(random, &table, rows),
            93 => {
                self.db().sync()?;
                self.history.acknowledge(Durability::Sync);
                Ok(())
            }
            _ => {
                drop(table);
                self.open(random)
            }
        }
    }

    /// A commit was acknowledged, if there was one.
    fn forward(&mut self, durability: Durability, committed: bool) -> Result<()> {
        if committed {
            self.history.acknowledge(durability);
        }
        assert_eq!(self.db().stats().sequence as usize, self.history.images.len() - 1);
        Ok(())
    }

    /// As `forward`, after writes that may have come to nothing: then there was no commit, and the state is the one
    /// before.
    fn forward_if_there(&mut self, durability: Durability) -> Result<()> {
        let committed = self.db().stats().sequence as usize == self.history.images.len() - 1;
        if !committed {
            let image = self.history.images.pop();
            assert_eq!(image.as_ref(), self.history.images.last());
        }
        self.forward(durability, committed)
    }

    /// Brings rows in order, sometimes in place of others. Nothing else has a commit so large in so few steps.
    fn ingest(&mut self, random: &mut impl Rng, table: &Table, mut rows: Rows) -> Result<()> {
        let count = if random.random_range(0..4) == 0 { 80 } else { random.random_range(0..9) };
        let new: Rows = (0..count).map(|_| (random_key(random), random_value(random))).collect();
        let overlap = if random.random_bool(0.5) { Overlap::Refuse } else { Overlap::Replace };
        if table.options().in_memory {
            assert_eq!(table.begin_ingest(overlap).map(drop).unwrap_err().kind(), ErrorKind::Invalid);
            return Ok(());
        }
        let is_refused = overlap == Overlap::Refuse && new.keys().any(|key| rows.contains_key(key));
        if !new.is_empty() && !is_refused {
            rows.extend(new.clone());
            self.expect(table.name(), rows);
        }
        let mut ingest = table.begin_ingest(overlap)?;
        let pushed = new.iter().try_for_each(|(key, value)| ingest.push(key, value));
        match pushed.and_then(|()| ingest.commit()) {
            Err(error) if is_refused && error.kind() == ErrorKind::Exists => return Ok(()),
            result => assert_eq!(result?.rows, new.len() as u64),
        }
        assert!(!is_refused);
        self.forward(Durability::Sync, !new.is_empty())
    }

    /// Writes in place, to two tables by turns if there are two.
    fn edit(&mut self, random: &mut impl Rng, table: &Table, mut rows: Rows) -> Result<()> {
        let durability = random_durability(random);
        let mut plan = Vec::new();
        for _ in 0..if random.random_range(0..4) == 0 { 80 } else { random.random_range(0..9) } {
            let (key, other) = (random_key(random), random_key(random));
            match random.random_range(0..8) {
                0..=4 => {
                    let mut value = random_value(random);
                    value.truncate(100);
                    rows.insert(key.clone(), value.clone());
                    plan.push((key, None, Some(value)));
                }
                5..=6 => {
                    rows.remove(&key);
                    plan.push((key, None, None));
                }
                _ => {
                    let (low, high) = if key <= other { (key, other) } else { (other, key) };
                    rows.retain(|key, _| *key < low || *key >= high);
                    plan.push((low, Some(high), None));
                }
            }
        }
        self.expect(table.name(), rows);
        {
            let db = self.db.as_ref().expect("open");
            let ((), commit) = db.latched().write_with(|edit| {
                for (key, high, value) in &plan {
                    match (high, value) {
                        (Some(high), _) => drop(edit.remove_range(table, key..high)?),
                        (None, Some(value)) => drop(edit.put(table, key, value)?),
                        (None, None) => drop(edit.remove(table, key)?),
                    }
                }
                Ok(())
            })?;
            commit.wait(durability)?;
        }
        self.forward_if_there(durability)
    }

    fn write_alone(
        &mut self,
        random: &mut impl Rng,
        table: &Table,
        mut rows: Rows,
        durability: Durability,
    ) -> Result<()> {
        let (key, value) = (random_key(random), random_value(random));
        let live = rows.contains_key(&key);
        let kind = random.random_range(0..5);
        // A removal from a blind table does not ask whether there is something to remove.
        let is_blind = kind == 2 && table.options().blind_writes;
        let committed = match kind {
            0 => !live,
            _ if is_blind => true,
            1 | 2 => live,
            _ => true,
        };
        if kind == 2 {
            rows.remove(&key);
        } else {
            rows.insert(key.clone(), value.clone());
        }
        if committed {
            self.expect(table.name(), rows);
        }
        let result = match kind {
            0 => table.insert(&key, &value),
            1 => table.replace(&key, &value),
            2 => table.remove(&key).map(|was| assert!(was == live || was && is_blind)),
            _ => table.put(&key, &value),
        };
        match result {
            Err(error) if !committed && matches!(error.kind(), ErrorKind::Exists | ErrorKind::Missing) => {}
            result => result?,
        }
        if is_blind { self.forward_if_there(durability) } else { self.forward(durability, committed) }
    }

    /// A transaction over all tables, with a savepoint that is rolled back now and then.
    fn transact(&mut self, random: &mut impl Rng, optimistic: bool) -> Result<()> {
        let durability = random_durability(random);
        let mut image = self.history.last().clone();
        let tables: Vec<Table> = self.db().tables();
        let fails = random.random_range(0..6) == 0;
        // What to do is drawn before, as the history must know the outcome before the commit.
        let mut plan: Vec<Planned> = Vec::new();
        for _ in 0..random.random_range(0..12) {
            let (at, key) = (random.random_range(0..tables.len()), random_key(random));
            let slot = image.get_mut(tables[at].name()).expect("a table");
            let rows = Rc::make_mut(&mut slot.rows);
            match random.random_range(0..8) {
                0 => {
                    let bounds = Bounds::prefix(&key[..1]).into_owned();
                    rows.retain(|key, _| !bounds.contains(key));
                    plan.push((at, Some(bounds), key, None));
                }
                1 | 2 => {
                    rows.remove(&key);
                    plan.push((at, None, key, None));
                }
                _ => {
                    let value = random_value(random);
                    rows.insert(key.clone(), value.clone());
                    plan.push((at, None, key, Some(value)));
                }
            }
        }
        let undone = random_key(random);
        let savepoint_at = random.random_range(0..12);
        if !fails {
            self.history.images.push(image.clone());
        }
        let work = |tx: &quipu::Transaction| -> Result<()> {
            for (index, (at, bounds, key, value)) in plan.iter().enumerate() {
                let table = tx.table(&tables[*at])?;
                if index == savepoint_at {
                    let savepoint = tx.savepoint();
                    table.put(&undone, b"undone")?;
                    table.remove_range(Bounds::prefix(b"3"))?;
                    tx.rollback_to(savepoint)?;
                }
                match (bounds, value) {
                    (Some(bounds), _) => drop(table.remove_range(bounds)?),
                    (None, Some(value)) => table.put(key, value)?,
                    (None, None) => drop(table.remove(key)?),
                }
            }
            for table in &tables {
                let expected = &image[table.name()];
                assert_eq!(
                    tx.table(table)?.tally(..)?,
                    recount(&expected.options.measures, expected.rows.iter()),
                    "inside the transaction"
                );
            }
            if fails { Err(Error::new(ErrorKind::Invalid, "on purpose")) } else { Ok(()) }
        };
        let result = if optimistic {
            let tx = self.db().begin();
            work(&tx).and_then(|()| tx.commit_with(durability))
        } else {
            self.db().write_with(durability, work)
        };
        match result {
            Err(error) if fails && error.to_string() == "on purpose" => {}
            result => result?,
        }
        if fails { Ok(()) } else { self.forward_if_there(durability) }
    }
}

/// The work that is cut or made to fail at each of its steps; the same for the same seed until then.
pub(crate) fn script(work: &mut Work, seed: u64, length: usize) -> Result<()> {
    let random = &mut StdRng::seed_from_u64(seed);
    work.open(random)?;
    for _ in 0..length {
        work.step(random)?;
    }
    Ok(())
}

/// A life of openings, work, kills and power cuts over the same files; every opening finds what it must.
pub(crate) fn live(random: &mut impl Rng, lives: usize) {
    let mut work = Work::new(&SimDisk::new());
    let mut at_least = 0;
    for _ in 0..random.random_range(1..=lives) {
        let db = Db::open(DIR, options(&work.disk)).unwrap();
        work.history.verify_opened(&db, at_least);
        drop(db);
        work.open(random).unwrap();
        if random.random_bool(0.5) {
            work.disk.cut_at(work.disk.steps() + random.random_range(0..200));
        }
        for _ in 0..random.random_range(0..30) {
            if work.step(random).is_err() {
                break;
            }
        }
        let killed = random.random_bool(0.3) && !work.disk.power_is_off();
        drop(work.db.take());
        at_least = if killed { work.history.acknowledged } else { work.history.synced };
        work.disk = match random.random_range(0..3) {
            _ if killed => work.disk.kill(),
            0 => work.disk.crash_with(CrashMode::LoseAll, 0),
            1 => work.disk.crash_with(CrashMode::KeepAll, 0),
            _ => work.disk.crash(random.random()),
        };
    }
    if work.disk.read_file(format!("{DIR}/MANIFEST")).is_some() {
        assert_sound(&work.disk);
    }
}

/// Draws that are the bytes of a fuzzer, then zeros.
pub(crate) struct Lots<'b> {
    bytes: &'b [u8],
}

impl<'b> Lots<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Lots { bytes }
    }
}

impl TryRng for Lots<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut number = [0; 4];
        self.try_fill_bytes(&mut number)?;
        Ok(u32::from_le_bytes(number))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut number = [0; 8];
        self.try_fill_bytes(&mut number)?;
        Ok(u64::from_le_bytes(number))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        let (taken, rest) = self.bytes.split_at(out.len().min(self.bytes.len()));
        self.bytes = rest;
        out.fill(0);
        out[..taken.len()].copy_from_slice(taken);
        Ok(())
    }
}
