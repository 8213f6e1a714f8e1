//! Goal: in every interleaving of the latch, the writer's turn and the registry of snapshots, a snapshot is one state
//! of the history and stays it, and no page is freed that it can see. Method: `shuttle` runs the threads of a tiny
//! workload one at a time and chooses at every lock and atomic who is next. The same test body runs on random schedules
//! and on ones with few preemptions (PCT), which find what needs a particular order. Replay: SHUTTLE_RANDOM_SEED=...
//! cargo test -p quipu --features shuttle --test shuttle; a failure also prints its schedule.

use quipu::io::sim::SimDisk;
use quipu::{Db, Durability, ErrorKind, Measures, Options, ReadableTable, Table, TableOptions, WritableTable};
use shuttle::sync::Arc;
use shuttle::thread;

const ROWS: u32 = 24;

fn options() -> Options {
    Options {
        page_bytes: 256,
        run_page_bytes: 256,
        log_segment_bytes: 8192,
        memory_bytes: 1 << 20,
        background: false,
        durability: Durability::Os,
        disk: std::sync::Arc::new(SimDisk::new()),
        ..Options::default()
    }
}

struct Tables {
    db: Db,
    left: Table,
    right: Table,
}

fn tables() -> Arc<Tables> {
    let db = Db::open("db", options()).unwrap();
    let options = TableOptions { measures: Measures { hash: true, ..Measures::ROWS }, ..TableOptions::default() };
    let left = db.create_table("left", options.clone()).unwrap();
    let right = db.create_table("right", options).unwrap();
    db.write(|tx| (0..ROWS).try_for_each(|row| tx.table(&left)?.put(row.to_be_bytes(), [7; 20]))).unwrap();
    Arc::new(Tables { db, left, right })
}

/// Rows are in one table or the other, and every tally is that of the rows.
fn read_twice(tables: &Tables) {
    let snapshot = tables.db.snapshot();
    let mut before = None;
    for _ in 0..2 {
        let (left, right) = (snapshot.table(&tables.left).unwrap(), snapshot.table(&tables.right).unwrap());
        let rows: Vec<_> = left.range(..).chain(right.range(..)).map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), ROWS as usize);
        assert_eq!(left.len().unwrap() + right.len().unwrap(), u64::from(ROWS));
        let now = (left.tally(..).unwrap(), right.tally(..).unwrap(), rows);
        if let Some(before) = before.replace(now.clone()) {
            assert_eq!(before, now, "a snapshot has changed");
        }
        thread::yield_now();
    }
    // A live read is one moment too.
    assert!(tables.left.count(..).unwrap() <= u64::from(ROWS));
}

/// Moves rows from left to right: a few, which is applied in place, or by removal of a range.
fn move_rows(tables: &Tables, from: u32, count: u32) {
    let work = |tx: &quipu::Transaction| -> quipu::Result<()> {
        for row in from..from + count {
            if tx.table(&tables.left)?.remove(row.to_be_bytes())? {
                tx.table(&tables.right)?.insert(row.to_be_bytes(), [7; 20])?;
            }
        }
        Ok(())
    };
    if from.is_multiple_of(2) {
        return tables.db.write(work).unwrap();
    }
    loop {
        let tx = tables.db.begin();
        work(&tx).unwrap();
        match tx.commit() {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            result => return result.unwrap(),
        }
    }
}

fn snapshots_against_writers() {
    let tables = tables();
    let mut threads = Vec::new();
    for from in [0, 5] {
        let tables = tables.clone();
        threads.push(thread::spawn(move || {
            move_rows(&tables, from, 3);
            move_rows(&tables, from + 8, 2);
        }));
    }
    for _ in 0..2 {
        let tables = tables.clone();
        threads.push(thread::spawn(move || read_twice(&tables)));
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(tables.right.len().unwrap(), 10);
    // With no reader left, everything that was kept for snapshots is free again after a write.
    tables.left.remove_range(..).unwrap();
    tables.right.remove_range(..).unwrap();
    tables.left.put("k", "v").unwrap();
    tables.right.put("k", "v").unwrap();
    assert_eq!(tables.db.stats().snapshots, 0);
}

/// Range removals and large commits, which copy under a protected version, checkpoints, and layers that come and go.
fn snapshots_against_structure() {
    let tables = tables();
    let mut threads = Vec::new();
    {
        let tables = tables.clone();
        threads.push(thread::spawn(move || {
            tables.left.freeze().unwrap();
            move_rows(&tables, 2, 2);
            tables.left.thaw().unwrap();
        }));
    }
    {
        let tables = tables.clone();
        threads.push(thread::spawn(move || {
            // More entries than are applied in place.
            tables
                .db
                .write(|tx| {
                    let (left, right) = (tx.table(&tables.left)?, tx.table(&tables.right)?);
                    let rows: Vec<_> = left.range(..).collect::<quipu::Result<_>>()?;
                    for row in &rows {
                        left.remove(&row.key)?;
                        right.put(&row.key, &row.value)?;
                    }
                    for row in 100..140u32 {
                        left.put(row.to_be_bytes(), "v")?;
                    }
                    left.remove_range(&100u32.to_be_bytes()..&140u32.to_be_bytes()).map(|_| ())
                })
                .unwrap();
        }));
    }
    {
        let tables = tables.clone();
        threads.push(thread::spawn(move || {
            tables.db.checkpoint().unwrap();
        }));
    }
    for _ in 0..2 {
        let tables = tables.clone();
        threads.push(thread::spawn(move || read_twice(&tables)));
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(tables.left.len().unwrap() + tables.right.len().unwrap(), u64::from(ROWS));
}

#[test]
fn snapshots_against_writers_in_random_schedules() {
    shuttle::check_random(snapshots_against_writers, 2000);
}

#[test]
fn snapshots_against_writers_in_schedules_of_few_preemptions() {
    shuttle::check_pct(snapshots_against_writers, 2000, 3);
}

#[test]
fn snapshots_against_structure_in_random_schedules() {
    shuttle::check_random(snapshots_against_structure, 1500);
}

#[test]
fn snapshots_against_structure_in_schedules_of_few_preemptions() {
    shuttle::check_pct(snapshots_against_structure, 1500, 3);
}

/// Readers that have the latch and have not registered yet, while `retire` takes the trees away that they are about to
/// read.
fn readers_against(retire: fn(&Tables)) {
    let tables = tables();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let tables = tables.clone();
            thread::spawn(move || {
                for _ in 0..3 {
                    let snapshot = tables.db.snapshot();
                    thread::yield_now();
                    let Ok(left) = snapshot.table(&tables.left) else { break };
                    let rows: Vec<_> = left.range(..).map(|row| row.unwrap()).collect();
                    assert!(rows.len() == ROWS as usize && rows.iter().all(|row| row.value[..] == [7; 20]));
                }
            })
        })
        .collect();
    retire(&tables);
    readers.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_drop_frees_no_page_of_a_reader_that_is_about_to_register() {
    let test = || readers_against(|tables| assert!(tables.db.drop_table("left").unwrap()));
    shuttle::check_random(test, 2000);
    shuttle::check_pct(test, 2000, 3);
}

#[test]
fn a_flush_frees_no_page_of_a_reader_that_is_about_to_register() {
    let test = || readers_against(|tables| tables.left.flush().unwrap());
    shuttle::check_random(test, 2000);
    shuttle::check_pct(test, 3000, 3);
}

/// A rewrite that begins while the table is in memory, and has its turn once a flush has put it on disk.
fn a_rewrite_beside_the_first_flush() {
    let disk = SimDisk::new();
    let options = Options { disk: std::sync::Arc::new(disk.clone()), ..options() };
    let db = Db::open("db", options.clone()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let put = |table: &Table, keys: std::ops::Range<u32>| {
        keys.for_each(|key| table.put(key.to_be_bytes(), [7; 20]).unwrap());
    };
    put(&table, 0..ROWS);
    let threads = [
        thread::spawn({
            let table = table.clone();
            move || table.flush().unwrap()
        }),
        thread::spawn({
            let table = table.clone();
            move || table.rewrite(quipu::RunLayout::Tree, &mut |_| ()).unwrap()
        }),
        thread::spawn({
            let table = table.clone();
            move || put(&table, ROWS..2 * ROWS)
        }),
    ];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(table);
    db.close().unwrap();
    let db = Db::open("db", Options { disk: std::sync::Arc::new(disk.kill()), ..options }).unwrap();
    assert_eq!(db.ensure_table("t").unwrap().count(..).unwrap(), 2 * u64::from(ROWS));
}

#[test]
fn a_rewrite_beside_the_first_flush_loses_no_row() {
    shuttle::check_random(a_rewrite_beside_the_first_flush, 1000);
    shuttle::check_pct(a_rewrite_beside_the_first_flush, 1000, 3);
}
