//! The work of the threads of a schedule, drawn from its seed.

use std::ops::Range;
use std::sync::Mutex;

use quipu::ingest::Overlap;
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{
    Compression, Db, Durability, ErrorKind, InnerPages, Measures, Options, ReadableTable, RunLayout, Snapshot, Table,
    TableOptions, Transaction, WritableTable, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shuttle::sync::Arc;
use shuttle::thread;

use super::book::{Book, Crash, Image, Rows, Writer, judge_files, prefix};
use super::disk::{AtStep, ScheduledDisk};

pub(crate) const DIR: &str = "db";
/// Tables that all writers write to.
pub(crate) const SHARED: [&str; 3] = ["plain", "blind", "flat"];
/// A table that its writer creates and drops.
pub(crate) const OWN: [&str; 3] = ["own-a", "own-b", "own-c"];
/// Where some commits have a number.
pub(crate) const LEDGER: &str = "ledger";
/// Copies of the disk that are taken in a schedule, at most.
const CRASHES_MAX: usize = 12;
/// One step of the disk in so many has a copy taken.
const STEPS_PER_CRASH: u32 = 24;

/// How much was done.
pub(crate) struct Done {
    pub(crate) crash_points: u64,
    pub(crate) commits: u64,
    pub(crate) jobs: u64,
}

struct World {
    db: Db,
    ledger: Table,
    shared: Vec<Table>,
    book: std::sync::Arc<Mutex<Book>>,
    /// Keys that a writer may have in a table.
    keys: u8,
    /// Whether a commit is durable when it is acknowledged.
    is_synced: bool,
}

fn options(random: &mut StdRng) -> Options {
    Options {
        page_bytes: 256,
        run_page_bytes: 256,
        run_file_bytes: [600, 1200, 1 << 20][random.random_range(0..3)],
        excised_rows_min: 2,
        log_segment_bytes: 8192,
        memory_bytes: 4 << 20,
        memtable_bytes: [0, 16 << 10, 64 << 10][random.random_range(0..3)],
        cache_bytes: [0, 4096, 1 << 20][random.random_range(0..3)],
        checkpoint_log_bytes: [0, 8192][random.random_range(0..2)],
        background: false,
        durability: [Durability::Sync, Durability::Os][random.random_range(0..2)],
        ..Options::default()
    }
}

fn table_options(name: &str, random: &mut StdRng) -> TableOptions {
    let lz4 = |random: &mut StdRng| if random.random_bool(0.5) { Compression::Lz4 } else { Compression::None };
    TableOptions {
        measures: Measures { bytes: random.random_bool(0.5), hash: true, ..Measures::ROWS },
        blind_writes: name == "blind",
        layout: if name == "flat" { RunLayout::Flat } else { RunLayout::Tree },
        compression: lz4(random),
        upper_compression: lz4(random),
        inner_pages: [InnerPages::AsNeeded, InnerPages::Preloaded, InnerPages::Pinned][random.random_range(0..3)],
        ..TableOptions::default()
    }
}

/// Runs one schedule. In a run of `shuttle`.
pub(crate) fn schedule(seed: u64) -> Done {
    let mut random = StdRng::seed_from_u64(seed);
    let plain = options(&mut random);
    let book = std::sync::Arc::new(Mutex::new(Book::default()));
    let disk = ScheduledDisk::new(SimDisk::new(), crashes_at_drawn_steps(&book, seed));
    let sim = disk.disk.clone();
    let db = Db::open(DIR, Options { disk: std::sync::Arc::new(disk), ..plain.clone() }).unwrap();
    let ledger = db.ensure_table(LEDGER).unwrap();
    let shared = SHARED.map(|name| db.create_table(name, table_options(name, &mut random)).unwrap()).to_vec();
    // What follows may be lost, but not that there are these tables.
    db.sync().unwrap();
    let writers = random.random_range(1..=3);
    let none = || SHARED.iter().map(|name| (*name, Some(Rows::new())));
    for number in 0..writers {
        let images = vec![none().chain([(OWN[number], None)]).collect()];
        book.lock().unwrap().writers.push(Writer { images, ..Writer::default() });
    }
    let world = {
        let is_synced = plain.durability == Durability::Sync;
        let keys = KEYS[random.random_range(0..KEYS.len())];
        Arc::new(World { db, ledger, shared, book: book.clone(), keys, is_synced })
    };
    (0..writers).for_each(|number| fill(&world, number, &mut random));
    let mut threads = Vec::new();
    let mut spawn = |work: fn(&World, usize, StdRng), number: usize| {
        let (world, random) = (world.clone(), StdRng::seed_from_u64(random.random()));
        threads.push(thread::spawn(move || work(&world, number, random)));
    };
    (0..writers).for_each(|number| spawn(write, number));
    spawn(read, 0);
    (0..2).for_each(|number| spawn(maintain, number));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    finish(&world);
    drop(world);
    let book = std::sync::Arc::into_inner(book).map(|book| book.into_inner().unwrap()).unwrap_or_default();
    let all: Vec<usize> = book.writers.iter().map(|writer| writer.acknowledged).collect();
    judge_files(sim.kill(), &plain, |db| book.judge_rows(&db.snapshot(), db, &all));
    book.crashes.iter().for_each(|crash| book.judge(crash, &plain));
    Done {
        crash_points: book.crashes.len() as u64 + 1,
        commits: all.iter().sum::<usize>() as u64,
        jobs: 2 * JOBS as u64,
    }
}

/// Takes copies of the disk at drawn steps, from when there are writers on.
fn crashes_at_drawn_steps(book: &std::sync::Arc<Mutex<Book>>, seed: u64) -> AtStep {
    let (book, mut random) = (std::sync::Arc::downgrade(book), StdRng::seed_from_u64(!seed));
    std::sync::Arc::new(Mutex::new(move |disk: &SimDisk| {
        let Some(book) = book.upgrade() else { return };
        let mut book = book.lock().unwrap();
        let is_due = !book.writers.is_empty() && random.random_range(0..STEPS_PER_CRASH) == 0;
        if !is_due || book.crashes.len() >= CRASHES_MAX {
            return;
        }
        let is_kill = random.random_bool(0.3);
        let mode = [CrashMode::LoseAll, CrashMode::Random, CrashMode::Random][random.random_range(0..3)];
        let disk = if is_kill { disk.kill() } else { disk.crash_with(mode, random.random()) };
        let promises = book.promises();
        book.crashes.push(Crash { disk, is_kill, promises });
    }))
}

/// All threads have ended: nothing is held back any more, and the files are those that are needed.
fn finish(world: &World) {
    let book = world.book.lock().unwrap();
    let all: Vec<usize> = book.writers.iter().map(|writer| writer.images.len() - 1).collect();
    book.judge_rows(&world.db.snapshot(), &world.db, &all);
    drop(book);
    let stats = world.db.stats();
    assert_eq!((stats.snapshots, stats.poisoned, &stats.failures[..]), (0, false, &[][..]));
    world.db.sync().unwrap();
}

/// What a writer has before others begin: half of its keys, some of them in a run.
fn fill(world: &World, number: usize, random: &mut StdRng) {
    if world.keys == KEYS[0] {
        return;
    }
    for (place, table) in world.shared.iter().enumerate() {
        for half in 0..2 {
            let mut image = world.book.lock().unwrap().writers[number].images.last().unwrap().clone();
            let mut batch = WriteBatch::new();
            for key in (half..world.keys).step_by(4) {
                let (key, value) = (vec![prefix(number), key], vec![number as u8; 30]);
                batch.put(table, &key, &value);
                image.get_mut(SHARED[place]).unwrap().as_mut().unwrap().insert(key, value);
            }
            let mut book = world.book.lock().unwrap();
            book.writers[number].images.push(image);
            drop(book);
            world.db.apply_with(Durability::Sync, batch).unwrap();
            let mut book = world.book.lock().unwrap();
            let writer = &mut book.writers[number];
            (writer.acknowledged, writer.synced) = (writer.images.len() - 1, writer.images.len() - 1);
            drop(book);
            if random.random_bool(0.7) {
                table.flush().unwrap();
            }
        }
    }
}

/// A writer's thread: `number` is its own.
fn write(world: &World, number: usize, mut random: StdRng) {
    for _ in 0..random.random_range(2..10) {
        commit(world, number, &mut random);
    }
}

/// One change of a writer's rows.
#[derive(Clone)]
enum Change {
    Put(usize, Vec<u8>, Vec<u8>),
    Remove(usize, Vec<u8>),
    RemoveRange(usize, Range<Vec<u8>>),
}

impl Change {
    fn draw(number: usize, keys: u8, random: &mut StdRng) -> Change {
        let table = random.random_range(0..SHARED.len());
        let key = vec![prefix(number), random.random_range(0..keys)];
        match random.random_range(0..20) {
            0 => Change::RemoveRange(table, own_range(number)),
            1 => {
                let to = vec![prefix(number), random.random_range(0..=keys)];
                Change::RemoveRange(table, key.clone().min(to.clone())..key.max(to))
            }
            2..5 => Change::Remove(table, key),
            kind => {
                let len = if kind == 5 { random.random_range(200..700) } else { random.random_range(0..40) };
                Change::Put(table, key, vec![random.random(); len])
            }
        }
    }

    fn apply(&self, image: &mut Image) {
        let (Change::Put(table, ..) | Change::Remove(table, _) | Change::RemoveRange(table, _)) = self;
        let Some(Some(rows)) = image.get_mut(SHARED[*table]) else { return };
        match self {
            Change::Put(_, key, value) => drop(rows.insert(key.clone(), value.clone())),
            Change::Remove(_, key) => drop(rows.remove(key)),
            Change::RemoveRange(_, range) => rows.retain(|key, _| !range.contains(key)),
        }
    }
}

/// Rows of one table in the order of their keys.
fn ingested(number: usize, keys: u8, random: &mut StdRng) -> Vec<Change> {
    let table = random.random_range(0..SHARED.len());
    let stride = random.random_range(1..=keys as usize / 2);
    let numbers = (random.random_range(0..keys)..keys).step_by(stride);
    let row = |key| Change::Put(table, vec![prefix(number), key], vec![random.random(); random.random_range(0..60)]);
    numbers.map(row).collect()
}

fn own_range(number: usize) -> Range<Vec<u8>> {
    vec![prefix(number)]..vec![prefix(number) + 1]
}

/// Makes drawn changes in `transaction`, with counts that must be those of the image they began with.
fn change_in(
    world: &World,
    transaction: &Transaction,
    number: usize,
    before: &Image,
    changes: &[Change],
) -> quipu::Result<()> {
    for change in changes {
        let (Change::Put(place, ..) | Change::Remove(place, _) | Change::RemoveRange(place, _)) = change;
        let table = transaction.table(&world.shared[*place])?;
        match change {
            Change::Put(_, key, value) => table.put(key, value)?,
            Change::Remove(_, key) => drop(table.remove(key)?),
            Change::RemoveRange(_, range) => drop(table.remove_range(range)?),
        }
    }
    let mut after = before.clone();
    changes.iter().for_each(|change| change.apply(&mut after));
    for (place, name) in SHARED.iter().enumerate() {
        let (table, expected) = (transaction.table(&world.shared[place])?, after[name].as_ref().unwrap());
        assert_eq!(table.count(&own_range(number))?, expected.len() as u64, "a count in a transaction");
        if changes.len() % 2 == 0 {
            let rows = table.range(&own_range(number)).map(|row| row.map(|row| (row.key.to_vec(), row.value.to_vec())));
            assert_eq!(rows.collect::<quipu::Result<Rows>>()?, *expected, "a range in a transaction");
        }
    }
    Ok(())
}

/// One commit, in one of the ways there are.
fn commit(world: &World, number: usize, random: &mut StdRng) {
    let way = random.random_range(0..9);
    let changes: Vec<Change> = match way {
        0 | 1 => vec![Change::draw(number, world.keys, random)],
        8 => ingested(number, world.keys, random),
        _ => (0..random.random_range(1..6)).map(|_| Change::draw(number, world.keys, random)).collect(),
    };
    let (before, mut after) = {
        let book = world.book.lock().unwrap();
        let before = book.writers[number].images.last().unwrap().clone();
        (before.clone(), before)
    };
    let is_own = way == 7;
    if is_own {
        let own = after.get_mut(OWN[number]).unwrap();
        *own = if own.is_some() { None } else { Some(Rows::new()) };
    } else {
        changes.iter().for_each(|change| change.apply(&mut after));
    }
    let commit = {
        let mut book = world.book.lock().unwrap();
        let images = &mut book.writers[number].images;
        images.push(after);
        images.len() - 1
    };
    let db = &world.db;
    match way {
        0 | 1 => match &changes[0] {
            Change::Put(table, key, value) => world.shared[*table].put(key, value).unwrap(),
            Change::Remove(table, key) => drop(world.shared[*table].remove(key).unwrap()),
            Change::RemoveRange(table, range) => drop(world.shared[*table].remove_range(range).unwrap()),
        },
        2 => {
            let ((), committed) = db
                .latched()
                .write_with(|edit| {
                    for change in &changes {
                        match change {
                            Change::Put(table, key, value) => drop(edit.put(&world.shared[*table], key, value)?),
                            Change::Remove(table, key) => drop(edit.remove(&world.shared[*table], key)?),
                            Change::RemoveRange(table, range) => {
                                let _ = edit.remove_range(&world.shared[*table], range)?;
                            }
                        }
                    }
                    Ok(())
                })
                .unwrap();
            thread::yield_now();
            committed.wait(Durability::Sync).unwrap();
        }
        3 if changes.iter().all(|change| !matches!(change, Change::RemoveRange(..))) => {
            let mut batch = WriteBatch::new();
            for change in &changes {
                match change {
                    Change::Put(table, key, value) => batch.put(&world.shared[*table], key, value),
                    Change::Remove(table, key) => batch.delete(&world.shared[*table], key),
                    Change::RemoveRange(..) => unreachable!("left out above"),
                }
            }
            db.apply(batch).unwrap();
        }
        4 => loop {
            let transaction = db.begin();
            change_in(world, &transaction, number, &before, &changes).unwrap();
            match transaction.commit() {
                Err(error) if error.kind() == ErrorKind::Conflict => thread::yield_now(),
                result => break result.unwrap(),
            }
        },
        7 => match db.open_table(OWN[number]).unwrap() {
            Some(_) => assert!(db.drop_table(OWN[number]).unwrap()),
            None => drop(db.ensure_table(OWN[number]).unwrap()),
        },
        8 => {
            // No other writer has keys between those of one writer, so nothing is in its way.
            let Change::Put(place, ..) = &changes[0] else { unreachable!("only rows are ingested") };
            let mut ingest = world.shared[*place].begin_ingest(Overlap::Replace).unwrap();
            for change in &changes {
                let Change::Put(_, key, value) = change else { unreachable!("only rows are ingested") };
                ingest.push(key, value).unwrap();
                if changes.len() % 2 == 0 {
                    thread::yield_now();
                }
            }
            ingest.commit().unwrap();
        }
        _ => db
            .write(|transaction| {
                change_in(world, transaction, number, &before, &changes)?;
                let ledger = transaction.table(&world.ledger)?;
                let next = ledger.len()?;
                ledger.insert(next.to_be_bytes(), [number as u8, commit as u8])?;
                let mut book = world.book.lock().unwrap();
                assert_eq!(book.ledger.len() as u64, next);
                book.ledger.push((number, commit));
                Ok(())
            })
            .unwrap(),
    }
    let mut book = world.book.lock().unwrap();
    let is_synced = way == 2 || way == 8 || world.is_synced;
    let writer = &mut book.writers[number];
    writer.acknowledged = commit;
    if is_synced {
        writer.synced = commit;
    }
}

/// A reader's thread: snapshots, and what must hold of all of them.
fn read(world: &World, _: usize, mut random: StdRng) {
    for _ in 0..3 {
        let at_least: Vec<usize> =
            world.book.lock().unwrap().writers.iter().map(|writer| writer.acknowledged).collect();
        let snapshot = world.db.snapshot();
        for _ in 0..random.random_range(1..3) {
            thread::yield_now();
            look(world, &snapshot);
        }
        let book = world.book.lock().unwrap().so_far();
        book.judge_rows(&snapshot, &world.db, &at_least);
        let table = &world.shared[random.random_range(0..SHARED.len())];
        let rows = table.range(..).map(|row| row.unwrap()).count() as u64;
        assert!(rows <= 3 * u64::from(world.keys) && table.count(..).unwrap() <= 3 * u64::from(world.keys));
    }
}

/// Whatever a snapshot is asked has the same answer each time, and positions are those of the rows.
fn look(world: &World, snapshot: &Snapshot) {
    for table in &world.shared {
        let view = snapshot.table(table).unwrap();
        let rows: Vec<_> = view.range(..).map(|row| row.unwrap()).collect();
        assert_eq!(view.len().unwrap(), rows.len() as u64);
        for (offset, row) in rows.iter().enumerate() {
            assert_eq!(view.rank(&row.key).unwrap(), offset as u64);
            assert_eq!(view.get(&row.key).unwrap().as_deref(), Some(&row.value[..]));
        }
        if let Some(last) = rows.len().checked_sub(1) {
            assert_eq!(view.nth(.., last as u64).unwrap().as_ref(), Some(&rows[last]));
        }
    }
}

/// Jobs that each of the two threads of background work does.
const JOBS: usize = 8;
/// Keys that a writer may have in a table, in schedules of little and of much.
const KEYS: [u8; 2] = [12, 80];

/// A thread of background work.
fn maintain(world: &World, number: usize, mut random: StdRng) {
    for job in 0..JOBS {
        let table = &world.shared[random.random_range(0..SHARED.len())];
        match random.random_range(0..12) {
            0..4 => table.flush().unwrap(),
            4 => drop(world.db.checkpoint().unwrap()),
            5 | 6 => table.compact().unwrap(),
            7 => {
                let index = if random.random_bool(0.5) { RunLayout::Flat } else { RunLayout::Tree };
                table.rewrite(index, &mut |_| ()).unwrap();
            }
            8 => drop(table.resolve_blind_writes(..).unwrap()),
            9 => drop(table.preload(InnerPages::Pinned).unwrap()),
            10 => drop(world.db.backup(format!("backup-{number}-{job}")).unwrap()),
            _ => world.db.do_due_work(random.random_bool(0.5)),
        }
    }
}
