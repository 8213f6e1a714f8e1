//! Goal: tables, snapshots and transactions equal a `BTreeMap` in everything they can be asked, whatever happened:
//! single writes, batches, transactions with nested savepoints, frozen layers, checkpoints, restarts, tables dropped
//! and made again. Method: one random walk over all of it at tiny pages; every reader goes through the same comparison
//! (`crate::model_map::compare`); snapshots are held across. Replay: SEED=... cargo test -p quipu --test all model::

use std::collections::BTreeMap;

use crate::model_map::{
    Model, any_index, bounds, compare, cursor_survives_removal, key, open, options, rng, seeds, value, write, write_as,
};
use quipu::ingest::{Ingested, Overlap};
use quipu::io::sim::SimDisk;
use quipu::latched::{Action, LatchedWrite, PageFaults};
use quipu::{
    Compression, Db, Durability, ErrorKind, InnerPages, Measures, ReadableTable, Savepoint, Snapshot, SumField, Table,
    TableOptions, Transaction, WritableTable, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const NAMES: [&str; 3] = ["accounts", "orders", "t"];

/// What the database should hold.
#[derive(Clone, Default)]
struct World {
    tables: BTreeMap<String, (TableOptions, Model)>,
}

impl World {
    fn model(&mut self, name: &str) -> &mut Model {
        &mut self.tables.get_mut(name).expect("a table of the world").1
    }
}

fn measures(rng: &mut StdRng) -> Measures {
    Measures {
        bytes: rng.random(),
        hash: rng.random(),
        hash_seed: rng.random(),
        sum: [None, Some(SumField::BigEndian { at: 0 }), Some(SumField::LittleEndian { at: 2 })]
            [rng.random_range(0..3)],
    }
}

struct Run {
    disk: SimDisk,
    db: Db,
    world: World,
    snapshots: Vec<(Snapshot, World, Vec<Table>)>,
    rng: StdRng,
}

impl Run {
    fn new(seed: u64) -> Run {
        let disk = SimDisk::new();
        Run { db: open(&disk), disk, world: World::default(), snapshots: Vec::new(), rng: rng(seed) }
    }

    fn any_table(&mut self) -> Option<Table> {
        let names: Vec<&String> = self.world.tables.keys().collect();
        if names.is_empty() {
            return None;
        }
        let name = names[self.rng.random_range(0..names.len())].clone();
        Some(self.db.open_table(&name).unwrap().expect("the world has the table"))
    }

    fn compare_all(&mut self) {
        let found: Vec<String> = self.db.tables().iter().map(|table| table.name().to_owned()).collect();
        assert_eq!(found, self.world.tables.keys().cloned().collect::<Vec<_>>());
        let snapshot = self.db.snapshot();
        for table in self.db.tables() {
            let (options, model) = &self.world.tables[table.name()];
            assert_eq!(table.options(), options);
            compare(&table, model, &options.measures, &mut self.rng);
            compare(&snapshot.table(&table).unwrap(), model, &options.measures, &mut self.rng);
        }
    }

    fn compare_snapshot(&mut self, number: usize) {
        let (snapshot, world, tables) = &self.snapshots[number];
        assert_eq!(snapshot.tables().len(), world.tables.len());
        for table in tables {
            let (options, model) = &world.tables[table.name()];
            let view = snapshot.table(table).unwrap();
            compare(&view, model, &options.measures, &mut self.rng);
            let pages = snapshot.held_pages();
            let lending = snapshot.table_through(table, &pages).unwrap();
            for (key, value) in model.iter().take(5) {
                assert_eq!(lending.get_ref(key).unwrap(), Some(&**value));
            }
        }
    }

    /// Random reads, writes and savepoints in one transaction, on a copy of the world that is returned.
    fn work(&mut self, transaction: &Transaction) -> World {
        let mut world = self.world.clone();
        let mut savepoints: Vec<(Savepoint, World)> = Vec::new();
        let steps = [1, 3, 10, 150][self.rng.random_range(0..4)];
        for _ in 0..steps {
            let Some(table) = self.any_table() else { break };
            let rng = &mut self.rng;
            let inside = transaction.table(&table).unwrap();
            let measures = table.options().measures;
            match rng.random_range(0..40) {
                0..=2 => savepoints.push((transaction.savepoint(), world.clone())),
                3 if !savepoints.is_empty() => {
                    let depth = rng.random_range(0..savepoints.len());
                    transaction.rollback_to(savepoints[depth].0).unwrap();
                    world = savepoints[depth].1.clone();
                    for (gone, _) in savepoints.drain(depth + 1..) {
                        assert_eq!(transaction.rollback_to(gone).unwrap_err().kind(), ErrorKind::Invalid);
                    }
                    compare(&inside, world.model(table.name()), &measures, rng);
                }
                4 if !savepoints.is_empty() => {
                    let depth = rng.random_range(0..savepoints.len());
                    let released = savepoints[depth].0;
                    transaction.release(released).unwrap();
                    savepoints.truncate(depth);
                    assert_eq!(transaction.release(released).unwrap_err().kind(), ErrorKind::Invalid);
                    compare(&inside, world.model(table.name()), &measures, rng);
                }
                5 => compare(&inside, world.model(table.name()), &measures, rng),
                6 => cursor_survives_removal(&inside, world.model(table.name()), rng),
                _ => write(&inside, world.model(table.name()), rng),
            }
        }
        // What was not counted is asked for at the commit.
        let is_compared = self.rng.random();
        for table in self.db.tables().into_iter().filter(|_| is_compared) {
            let inside = transaction.table(&table).unwrap();
            let measures = table.options().measures;
            compare(&inside, world.model(table.name()), &measures, &mut self.rng);
        }
        world
    }

    fn batch(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.rng.random_range(0..100) {
            let Some(table) = self.any_table() else { return };
            let key = key(&mut self.rng);
            if self.rng.random_bool(0.6) {
                let value = value(&mut self.rng);
                batch.put(&table, &key, &value);
                self.world.model(table.name()).insert(key, value);
            } else {
                batch.delete(&table, &key);
                self.world.model(table.name()).remove(&key);
            }
        }
        self.db.apply(batch).unwrap();
    }

    /// Writes in place: every step of a latched write sees those before it. Where a page is missing, what was done
    /// since the savepoint is taken back, the page is loaded, and it goes on from there.
    fn write_latched(&mut self) {
        let db = self.db.clone();
        // Chosen before: while the latch is held, the database answers no other thread.
        let tables: Vec<Table> = (0..self.rng.random_range(0..12)).filter_map(|_| self.any_table()).collect();
        // A step that is done again does the same.
        let steps: Vec<(Table, u64)> = tables.into_iter().map(|table| (table, self.rng.random())).collect();
        let mut faults = PageFaults::default();
        let mut begun = 0;
        loop {
            let mut latched = db.latched().write().unwrap();
            latched.lend(&faults);
            latched.set_savepoint();
            let (mut saved, mut next) = (self.world.clone(), begun);
            let mut result = Ok(());
            while result.is_ok() && next < steps.len() {
                let (table, seed) = &steps[next];
                result = self.write_in_place(&mut latched, table, &mut StdRng::seed_from_u64(*seed));
                if result.is_ok() {
                    next += 1;
                    match self.rng.random_range(0..5) {
                        0 => {
                            latched.rollback_to_savepoint().unwrap();
                            self.world = saved.clone();
                        }
                        1..=2 => {
                            latched.set_savepoint();
                            (saved, begun) = (self.world.clone(), next);
                        }
                        _ => {}
                    }
                }
            }
            match result {
                Ok(()) if self.rng.random() => return latched.commit().unwrap().wait(Durability::Os).unwrap(),
                Ok(()) => return,
                Err(error) => assert_eq!(error.kind(), ErrorKind::PageFault),
            }
            latched.rollback_to_savepoint().unwrap();
            self.world = saved;
            latched.take_faults(&mut faults);
            drop(latched);
            assert!(!faults.is_empty());
            db.latched().load(&mut faults).unwrap();
        }
    }

    fn write_in_place(&mut self, latched: &mut LatchedWrite<'_>, table: &Table, rng: &mut StdRng) -> quipu::Result<()> {
        let (key, value) = (key(rng), value(rng));
        let model = &mut self.world.tables.get_mut(table.name()).expect("a table of the world").1;
        // A blind table may not know, and then takes the key for live.
        let is_blind = table.options().blind_writes;
        match rng.random_range(0..7) {
            0 => {
                let is_new = latched.put(table, &key, &value)?;
                let was_live = model.insert(key, value).is_some();
                assert!(is_new != was_live || !is_new && is_blind);
            }
            1 => {
                let fresh = !model.contains_key(&key);
                assert_eq!(latched.insert(table, &key, &value)?, fresh);
                model.entry(key).or_insert(value);
            }
            2 => {
                let is_removed = latched.remove(table, &key)?;
                let was_live = model.remove(&key).is_some();
                assert!(is_removed == was_live || is_removed && is_blind);
            }
            3 => {
                let high = self::key(rng);
                let gone: Vec<_> = model.keys().filter(|k| **k >= key && **k < high).cloned().collect();
                assert_eq!(latched.remove_range(table, &key..&high)?, gone.len() as u64);
                gone.iter().for_each(|key| drop(model.remove(key)));
            }
            4..=5 => {
                let keys: Vec<_> = (0..rng.random_range(0..50)).map(|_| self::key(rng)).collect();
                let lot: u64 = rng.random();
                let updated = latched.update_many(table, &keys, |number, old, new| {
                    let key = &keys[number];
                    assert_eq!(old, model.get(key).map(|value| &value[..]));
                    match (lot >> (number % 60)) & 3 {
                        0 => Action::Keep,
                        1 => {
                            model.remove(key);
                            Action::Remove
                        }
                        _ => {
                            new.extend_from_slice(old.unwrap_or(b"first"));
                            new.truncate(200);
                            new.push(number as u8);
                            model.insert(key.clone(), new.clone());
                            Action::Put
                        }
                    }
                });
                updated.map_err(|(number, error)| {
                    assert_eq!(number, 0, "all pages are asked for before the first row is written");
                    error
                })?;
            }
            _ => {
                let view = latched.table(table)?;
                let rows = model.len() as u64;
                assert_eq!(view.len()?, rows);
                assert_eq!(view.get_ref(&key)?, model.get(&key).map(|value| &**value));
                assert_eq!(view.count(&key[..]..)?, model.range(key.clone()..).count() as u64);
                let offset = rng.random_range(0..rows + 2);
                let nth = model.iter().nth(offset as usize);
                assert_eq!(view.nth(.., offset)?.map(|row| row.key.to_vec()), nth.map(|(key, _)| key.clone()));
                let mut walk = model.range(key.clone()..);
                let mut left = rng.random_range(1..200);
                let mut outcome = Ok(());
                view.for_each(&key[..].., |key, value| {
                    let expected = walk.next().map(|(key, value)| (&key[..], &value[..]));
                    if Some((key, value)) != expected {
                        outcome = Err(format!("{key:?} in the place of {expected:?}"));
                    }
                    left -= 1;
                    left > 0 && outcome.is_ok()
                })?;
                assert_eq!(outcome, Ok(()));
            }
        }
        Ok(())
    }

    /// Brings rows in order; reads and writes go on while it is open, outside of its range.
    fn ingest(&mut self) {
        let Some(table) = self.any_table() else { return };
        let mut new = Model::new();
        for _ in 0..self.rng.random_range(0..60) {
            new.insert(key(&mut self.rng), value(&mut self.rng));
        }
        let overlap = if self.rng.random() { Overlap::Refuse } else { Overlap::Replace };
        if table.options().in_memory {
            assert_eq!(table.begin_ingest(overlap).map(drop).unwrap_err().kind(), ErrorKind::Invalid);
            return;
        }
        let model = self.world.model(table.name());
        let taken = overlap == Overlap::Refuse && new.keys().any(|key| model.contains_key(key));
        let mut ingest = table.begin_ingest(overlap).unwrap();
        let pushed = new.iter().try_for_each(|(key, value)| ingest.push(key, value));
        match self.rng.random_range(0..4) {
            0 => drop(ingest),
            _ => {
                let replaced = new.keys().filter(|key| model.contains_key(*key)).count() as u64;
                let result = pushed.and_then(|()| ingest.commit());
                if taken {
                    assert_eq!(result.unwrap_err().kind(), ErrorKind::Exists);
                } else {
                    assert_eq!(result.unwrap(), Ingested { rows: new.len() as u64, replaced });
                    self.world.model(table.name()).extend(new);
                }
            }
        }
    }

    fn create_or_drop(&mut self) {
        let name = NAMES[self.rng.random_range(0..NAMES.len())];
        if self.world.tables.contains_key(name) {
            assert_eq!(self.db.create_table(name, TableOptions::default()).unwrap_err().kind(), ErrorKind::Exists);
            if self.rng.random_range(0..3) == 0 {
                let table = self.db.ensure_table(name).unwrap();
                assert!(self.db.drop_table(name).unwrap());
                assert_eq!(table.len().unwrap_err().kind(), ErrorKind::Missing);
                assert_eq!(table.put("k", "v").unwrap_err().kind(), ErrorKind::Missing);
                self.world.tables.remove(name);
            }
        } else {
            assert!(!self.db.drop_table(name).unwrap());
            let metadata = vec![b'n'; self.rng.random_range(0..300)];
            let in_memory = self.rng.random_range(0..4) == 0;
            let blind = self.rng.random_range(0..2) == 0;
            let index = any_index(&mut self.rng);
            let compression = [Compression::None, Compression::Lz4];
            let options = TableOptions {
                measures: measures(&mut self.rng),
                comment: "c".repeat(metadata.len() % 3),
                metadata,
                in_memory,
                blind_writes: blind,
                layout: index,
                compression: compression[self.rng.random_range(0..2)],
                upper_compression: compression[self.rng.random_range(0..2)],
                inner_pages: [InnerPages::AsNeeded, InnerPages::Preloaded, InnerPages::Pinned]
                    [self.rng.random_range(0..3)],
            };
            self.db.create_table(name, options.clone()).unwrap();
            self.world.tables.insert(name.to_owned(), (options, Model::new()));
        }
    }

    fn reopen(mut self) -> Run {
        for number in 0..self.snapshots.len() {
            self.compare_snapshot(number);
        }
        let Run { disk, db, world, snapshots, mut rng } = self;
        drop(snapshots);
        db.close().unwrap();
        if rng.random_range(0..3) == 0 {
            let report = quipu::files::check("/db", &options(&disk), &mut |_| ()).unwrap();
            assert_eq!(report.faults, Vec::<String>::new());
            for (name, tally) in report.tables {
                assert_eq!(tally.rows, world.tables[&name].1.len() as i64);
            }
        }
        let db = open(&disk);
        let mut run = Run { disk, db, world, snapshots: Vec::new(), rng };
        run.compare_all();
        run
    }

    fn step(mut self) -> Run {
        match self.rng.random_range(0..100) {
            0..=44 => {
                if let Some(table) = self.any_table() {
                    for _ in 0..self.rng.random_range(1..10) {
                        let is_blind = table.options().blind_writes;
                        write_as(&table, self.world.model(table.name()), &mut self.rng, is_blind);
                    }
                }
            }
            45..=49 => {
                if let Some(table) = self.any_table() {
                    cursor_survives_removal(&table, self.world.model(table.name()), &mut self.rng);
                }
            }
            50..=53 => self.batch(),
            54..=57 => self.write_latched(),
            58..=65 => {
                let db = self.db.clone();
                let commits = self.rng.random_range(0..3) > 0;
                let mut after = None;
                let result = db.write(|transaction| {
                    after = Some(self.work(transaction));
                    if commits { Ok(7) } else { Err(quipu::Error::new(ErrorKind::Exists, "no, after all")) }
                });
                assert_eq!(result.ok(), commits.then_some(7));
                if commits {
                    self.world = after.expect("the closure ran");
                }
            }
            66..=73 => {
                let transaction = self.db.begin();
                let after = self.work(&transaction);
                match self.rng.random_range(0..4) {
                    0 => transaction.rollback(),
                    1 => drop(transaction),
                    _ => {
                        transaction.commit().expect("nobody else writes");
                        self.world = after;
                    }
                }
            }
            74..=75 => {
                if let Some(table) = self.any_table() {
                    table.freeze().unwrap();
                }
            }
            76..=78 => {
                if let Some(table) = self.any_table() {
                    let flushed = table.flush();
                    assert_eq!(flushed.is_err(), table.options().in_memory);
                }
            }
            79 if self.rng.random() => self.ingest(),
            79 => {
                if let Some(table) = self.any_table() {
                    table.thaw().unwrap();
                }
            }
            80 if self.rng.random() => {
                if let Some(table) = self.any_table() {
                    let bounds = bounds(&mut self.rng);
                    table.resolve_blind_writes(&bounds).unwrap();
                    let exact = table.count_interval(&bounds).unwrap();
                    assert_eq!(exact.low, exact.high, "all of {bounds:?} is resolved");
                }
            }
            80 => {
                if let Some(table) = self.any_table() {
                    if self.rng.random() {
                        table.compact().unwrap();
                    } else {
                        let index = any_index(&mut self.rng);
                        table.rewrite(index, &mut |_| ()).unwrap();
                        let world = self.world.tables.get_mut(table.name()).expect("the table is there");
                        world.0.layout = index;
                        assert_eq!(*self.db.ensure_table(table.name()).unwrap().options(), world.0);
                    }
                }
            }
            81..=83 => {
                let info = self.db.checkpoint().unwrap();
                assert_eq!(info.sequence, self.db.stats().sequence);
            }
            84..=89 => self.create_or_drop(),
            90..=94 => {
                self.snapshots.push((self.db.snapshot(), self.world.clone(), self.db.tables()));
                if self.snapshots.len() > 4 {
                    let number = self.rng.random_range(0..4);
                    self.compare_snapshot(number);
                    self.snapshots.swap_remove(number);
                }
            }
            95..=96 => self = self.reopen(),
            _ => self.compare_all(),
        }
        self
    }
}

#[test]
fn everything_equals_a_map() {
    for seed in seeds(4) {
        let mut run = Run::new(seed);
        for _ in 0..200 {
            run = run.step();
        }
        run.compare_all();
        drop(run.reopen());
    }
}

/// Every row is drawn equally often: 4,000 draws of 5 rows out of 20 take each row 1,000 times, give or take 27 (one
/// standard deviation).
#[test]
fn samples_are_uniform() {
    let db = crate::model_map::fresh();
    let table = db.ensure_table("t").unwrap();
    for number in 0..30u32 {
        table.put(number.to_be_bytes(), "").unwrap();
        if number == 15 {
            table.freeze().unwrap();
        }
    }
    let mut rng = StdRng::seed_from_u64(11);
    let mut drawn = [0u32; 30];
    let mut pairs = [[0u32; 30]; 30];
    for _ in 0..4000 {
        let rows = table.sample(&5u32.to_be_bytes()..&25u32.to_be_bytes(), 5, &mut rng).unwrap();
        let numbers: Vec<usize> = rows.iter().map(|row| row.key[3] as usize).collect();
        for (place, &number) in numbers.iter().enumerate() {
            drawn[number] += 1;
            numbers[place + 1..].iter().for_each(|&other| pairs[number][other] += 1);
        }
    }
    for (number, &times) in drawn.iter().enumerate() {
        let expected = if (5..25).contains(&number) { 840..1160 } else { 0..1 };
        assert!(expected.contains(&times), "row {number} was drawn {times} times");
    }
    // A pair has the chance 5 * 4 / (20 * 19): 210 times, give or take 14.
    for (first, row) in pairs.iter().enumerate().take(25).skip(5) {
        for (second, &times) in row.iter().enumerate().take(25).skip(first + 1) {
            assert!((125..295).contains(&times), "rows {first} and {second} were drawn together {times} times");
        }
    }
}

/// A released savepoint stays released when a new one takes its depth.
#[test]
fn a_released_savepoint_is_not_the_next_one() {
    let db = crate::model_map::fresh();
    let table = db.ensure_table("t").unwrap();
    let transaction = db.begin();
    let inside = transaction.table(&table).unwrap();
    let first = transaction.savepoint();
    inside.put("a", "1").unwrap();
    transaction.release(first).unwrap();
    let second = transaction.savepoint();
    inside.put("b", "2").unwrap();
    assert_eq!(transaction.rollback_to(first).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(transaction.release(first).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(inside.len().unwrap(), 2);
    transaction.rollback_to(second).unwrap();
    assert_eq!(inside.len().unwrap(), 1);
}

/// A range over a table is of one moment; one over a transaction sees what it writes ahead of the walk, and walks on
/// over what it removes.
#[test]
fn a_walk_goes_on_while_rows_change() {
    let db = crate::model_map::fresh();
    let table = db.ensure_table("t").unwrap();
    for number in 0..500u32 {
        table.put(number.to_be_bytes(), "").unwrap();
    }
    let mut walked = 0;
    for entry in table.range(..) {
        assert!(table.remove(&*entry.unwrap().key).unwrap());
        walked += 1;
    }
    assert_eq!((walked, table.len().unwrap()), (500, 0));
}

/// Once a commit looped for ever: keys out of line that ascend below a last key "z" were cut off from it, and what they
/// share, which they do not save, no longer fitted their page as its prefix.
#[test]
fn long_keys_that_ascend_before_a_short_one_find_room() {
    for value_len in 0..20 {
        let db = crate::model_map::fresh();
        let table = db.ensure_table("t").unwrap();
        table.put("z", "").unwrap();
        let mut model = Model::from([(b"z".to_vec(), Vec::new())]);
        for number in 0..40u8 {
            let (key, value) = ([&[b'x'; 200][..], &[number]].concat(), vec![number; value_len]);
            table.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
        compare(&table, &model, &Measures::ROWS, &mut rng(1));
    }
}

/// Once a restart panicked: what long keys share was cut off as the prefix of their page, though keys out of line do
/// not get shorter by it.
#[test]
fn long_keys_that_share_much_come_back_from_a_checkpoint() {
    for value_len in 0..20 {
        let disk = SimDisk::new();
        let db = open(&disk);
        let table = db.ensure_table("t").unwrap();
        let mut model = Model::new();
        for number in 0..60u8 {
            let (key, value) = ([&[b'x'; 200][..], &[number]].concat(), vec![number; value_len]);
            table.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
        db.checkpoint().unwrap();
        drop(table);
        db.close().unwrap();
        let db = open(&disk);
        compare(&db.ensure_table("t").unwrap(), &model, &Measures::ROWS, &mut rng(1));
    }
}
