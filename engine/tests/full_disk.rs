//! Goal: a full disk is a state that ends. What makes the database grow is refused, what frees space is done, by every
//! kind of write, on the database that is open; then it grows again. And it opens on the disk that it has filled.

use std::sync::Arc;

use quipu::io::sim::SimDisk;
use quipu::latched::Action;
use quipu::{
    Db, Error, ErrorKind, Options, ReadableTable, Table, TableOptions, TableTransaction, Transaction, WritableTable,
};

const SEGMENT_BYTES: usize = 16 << 10;

fn options(disk: &SimDisk) -> Options {
    Options { disk: Arc::new(disk.clone()), log_segment_bytes: SEGMENT_BYTES, ..Options::without_files() }
}

/// Writes until the disk takes no more, and gives no more space from then on. Returns the number of rows.
fn fill(disk: &SimDisk, table: &Table) -> u32 {
    table.put("first", "row").unwrap();
    disk.set_capacity(disk.used_bytes() + 5 * SEGMENT_BYTES as u64);
    for number in 0u32.. {
        if let Err(error) = table.put(number.to_be_bytes(), [7; 220]) {
            assert_is_full(&error);
            disk.set_capacity(disk.used_bytes());
            return number;
        }
    }
    unreachable!("the disk has a limit")
}

fn assert_is_full(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let text = error.to_string();
    assert!(text.contains("free some space on the disk") && !text.contains("reopen"), "{text}");
}

/// Ways to remove the rows of a table.
type Removal = fn(&Db, &Table, u32) -> quipu::Result<()>;

const REMOVALS: [(&str, Removal); 6] = [
    ("one by one", |_, table, rows| (0..rows).try_for_each(|number| table.remove(number.to_be_bytes()).map(|_| ()))),
    ("a range", |_, table, _| table.remove_range(..).map(|_| ())),
    ("a transaction", |db, table, rows| {
        db.write(|tx| {
            let table = tx.table(table)?;
            (0..rows).try_for_each(|number| table.remove(number.to_be_bytes()).map(|_| ()))
        })
    }),
    ("an optimistic transaction", |db, table, _| {
        let tx = db.begin();
        tx.table(table)?.remove_range(..)?;
        tx.commit()
    }),
    ("latched", |db, table, rows| {
        let mut latched = db.latched().write_to_free()?;
        for number in 0..rows {
            latched.update(table, &number.to_be_bytes(), |_, _| Action::Remove)?;
        }
        latched.commit()?.wait(quipu::Durability::Sync)
    }),
    ("a latched range", |db, table, _| {
        let mut latched = db.latched().write_to_free()?;
        latched.remove_range(table, ..)?;
        latched.commit()?.wait(quipu::Durability::Sync)
    }),
];

#[test]
fn rows_are_removed_from_an_open_database_on_a_full_disk_and_it_grows_again() {
    for (name, remove) in REMOVALS {
        for in_memory in [true, false] {
            let disk = SimDisk::new();
            let db = Db::open("/db", Options { memtable_bytes: 1 << 20, ..options(&disk) }).unwrap();
            let table = db.create_table("t", TableOptions { in_memory, ..Default::default() }).unwrap();
            let rows = fill(&disk, &table);
            assert!(rows > 200, "{rows}");
            // What grows is refused again and again, by every kind of write, and what only reads is not.
            for _ in 0..50 {
                assert_is_full(&table.put("more", [1; 20_000]).unwrap_err());
                assert_is_full(&db.latched().write().err().unwrap());
                let latched = db.latched().write_to_free().unwrap();
                assert_eq!(latched.table(&table).unwrap().len().unwrap(), u64::from(rows) + 1);
            }
            remove(&db, &table, rows).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(table.len().unwrap() <= 1, "{name}");
            db.checkpoint().unwrap_or_else(|error| panic!("{name}: {error}"));
            for number in 0..rows / 2 {
                table.put(number.to_be_bytes(), [8; 200]).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            let left = table.len().unwrap();
            drop((table, db));
            let db = Db::open("/db", options(&disk.kill())).unwrap();
            assert_eq!(db.open_table("t").unwrap().unwrap().len().unwrap(), left, "{name}");
        }
    }
}

#[test]
fn what_grows_does_not_take_the_space_that_is_kept_for_removals() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    let rows = fill(&disk, &table);
    // Removals go into the segment that is kept for them. There is room in it, and still nothing may grow.
    let mut removed = 0;
    for number in 0..rows / 2 {
        assert!(table.remove(number.to_be_bytes()).unwrap());
        removed += 1;
        if let Err(error) = table.put("more", [1; 10]) {
            assert_is_full(&error);
        }
    }
    assert_is_full(&table.put("more", [1; 10]).unwrap_err());
    assert_is_full(&db.write(|tx| tx.table(&table)?.put("more", [1; 10])).unwrap_err());
    assert_is_full(&db.create_table("more", TableOptions::default()).unwrap_err());
    let mut latched = db.latched().write_to_free().unwrap();
    assert_is_full(&latched.put(&table, b"more", &[1; 10]).unwrap_err());
    drop(latched);
    let left = u64::from(rows - removed) + 1 + u64::from(table.get("more").unwrap().is_some());
    assert_eq!(table.remove_range(..).unwrap(), left);
    disk.set_capacity(u64::MAX);
    table.put("more", [1; 10]).unwrap();
}

/// Rows were removed one by one until the log had no room for a removal, and then not even all of them could go.
#[test]
fn found_removals_of_rows_took_the_room_of_those_of_tables() {
    for way in ["alone", "latched", "in a transaction"] {
        let disk = SimDisk::new();
        let db = Db::open("/db", options(&disk)).unwrap();
        let (table, other) = (db.ensure_table("t").unwrap(), db.ensure_table("other").unwrap());
        for number in 0..5000u32 {
            other.put(number.to_be_bytes(), []).unwrap();
        }
        fill(&disk, &table);
        let remove = |number: u32| match way {
            "alone" => other.remove(number.to_be_bytes()).map(|_| ()),
            "latched" => {
                let mut latched = db.latched().write_to_free()?;
                latched.remove(&other, &number.to_be_bytes())?;
                latched.commit()?.wait(quipu::Durability::Sync)
            }
            _ => db.write(|tx| tx.table(&other)?.remove(number.to_be_bytes()).map(|_| ())),
        };
        let refused = (0..5000).find_map(|number| remove(number).err()).expect("the room has an end");
        assert_is_full(&refused);
        assert!(other.len().unwrap() > 1000, "{way}: it came too late for a test");
        assert!(table.remove_range(..).unwrap() > 0);
        db.drop_table("other").unwrap();
        disk.set_capacity(disk.used_bytes() + 4096);
        db.checkpoint().unwrap();
        table.put("again", "row").unwrap();
    }
}

/// Small rows that tell of removals go where these go, and room for all that can be asked for first.
#[test]
fn rows_that_serve_to_free_space_go_where_removals_go() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    let rows = fill(&disk, &table);
    let before = disk.steps();
    let mut latched = db.latched().write_to_free().unwrap();
    assert_eq!(disk.steps(), before, "nothing is asked before there is something to write");
    assert_is_full(&latched.reserve(&table, 1, SEGMENT_BYTES).unwrap_err());
    let lack = latched.lack().expect("it is told");
    assert!(lack.bytes > SEGMENT_BYTES && lack.reason.contains("free some space on the disk"), "{lack:?}");
    latched.reserve_to_free(&table, 4, 1000).unwrap();
    assert!(latched.remove(&table, &0u32.to_be_bytes()).unwrap());
    assert!(latched.put_to_free(&table, b"removed", b"0").unwrap());
    latched.commit().unwrap().wait(quipu::Durability::Sync).unwrap();
    assert_is_full(&db.latched().check_space(SEGMENT_BYTES).unwrap_err());
    let durability = quipu::Durability::Sync;
    let more = |tx: &Transaction, is_to_free: bool| {
        match is_to_free {
            true => tx.reserve_to_free(1, 100)?,
            false => tx.reserve(1, SEGMENT_BYTES)?,
        }
        let table = tx.table(&table)?;
        if is_to_free {
            table.write_to_free();
        }
        table.put("removed", "more")
    };
    assert_is_full(&db.write_to_free(durability, |tx| more(tx, false)).unwrap_err());
    db.write_to_free(durability, |tx| more(tx, true)).unwrap();
    assert_eq!(db.begin().reserve(1, 1).unwrap_err().kind(), ErrorKind::Invalid);
    drop(db);
    let db = Db::open("/db", options(&disk.kill())).unwrap();
    let table = db.ensure_table("t").unwrap();
    assert_eq!(table.get("removed").unwrap().as_deref(), Some(&b"more"[..]));
    assert_eq!(table.len().unwrap(), u64::from(rows) + 1);
}

#[test]
fn a_database_opens_on_the_disk_that_it_has_filled_as_often_as_it_is_killed() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut left = u64::from(fill(&disk, &table)) + 1;
    drop((table, db));
    let full = disk.used_bytes();
    let mut disk = disk.kill();
    for round in 0..20u32 {
        disk.set_capacity(full);
        let db = Db::open("/db", options(&disk)).unwrap();
        let table = db.ensure_table("t").unwrap();
        assert_eq!(table.len().unwrap(), left);
        assert!(table.remove(round.to_be_bytes()).unwrap());
        left -= 1;
        drop((table, db));
        disk = if round % 2 == 0 { disk.kill() } else { disk.crash(u64::from(round)) };
        assert!(disk.used_bytes() <= full);
    }
}

/// What is rolled back is not written, so what follows it is a write as any other.
#[test]
fn rolling_back_to_a_savepoint_takes_back_that_writes_serve_to_free_space() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    fill(&disk, &table);
    let commit = |work: &dyn Fn(&Transaction, &TableTransaction<'_>) -> quipu::Result<()>| {
        let tx = db.begin();
        work(&tx, &tx.table(&table)?)?;
        tx.commit()
    };
    let said_and_undone = commit(&|tx, rows| {
        let savepoint = tx.savepoint();
        rows.write_to_free();
        rows.put("dropped", "row")?;
        tx.rollback_to(savepoint)?;
        rows.put("more", [7; 1000])
    });
    assert_is_full(&said_and_undone.unwrap_err());
    let said_before_and_again = |tx: &Transaction, rows: &TableTransaction<'_>| {
        rows.write_to_free();
        let savepoint = tx.savepoint();
        rows.write_to_free();
        tx.rollback_to(savepoint)?;
        rows.put("more", [7; 1000])
    };
    commit(&said_before_and_again).unwrap();
    let said_and_released = |tx: &Transaction, rows: &TableTransaction<'_>| {
        let (outer, inner) = (tx.savepoint(), tx.savepoint());
        rows.write_to_free();
        tx.release(inner)?;
        rows.put("yet more", [7; 1000])?;
        tx.release(outer)
    };
    commit(&said_and_released).unwrap();
    assert!(table.get("more").unwrap().is_some() && table.get("yet more").unwrap().is_some());
}

/// The background thread asked the full disk for the log's next file each time that a writer woke it.
#[test]
fn a_full_disk_is_asked_for_space_with_a_pause_however_many_writers_are_refused() {
    let disk = SimDisk::new();
    let options = Options { memtable_bytes: 256 << 10, background: true, log_segment_bytes: 1 << 20, ..options(&disk) };
    let db = Db::open("/db", options).unwrap();
    let table = db.ensure_table("t").unwrap();
    disk.set_capacity(disk.used_bytes());
    let refused = (0u32..).find_map(|number| table.put(number.to_be_bytes(), [7; 700]).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    let before = disk.steps();
    for _ in 0..50_000 {
        assert_eq!(table.put("more", [7; 10_000]).unwrap_err().kind(), ErrorKind::Full);
    }
    let steps = disk.steps() - before;
    assert!(steps < 300, "{steps} steps of the disk for nothing");
    disk.set_capacity(u64::MAX);
    while table.put("more", "row").is_err() {
        std::thread::yield_now();
    }
}

/// A job, a notebook or a shell that opens the database for each row.
#[test]
fn sessions_that_write_a_row_each_do_not_make_the_database_grow_by_a_file() {
    let mut disk = SimDisk::new();
    let mut sizes = Vec::new();
    for round in 0..60u32 {
        let db = Db::open("/db", options(&disk)).unwrap();
        let table = db.ensure_table("t").unwrap();
        table.put(round.to_be_bytes(), "row").unwrap();
        assert_eq!(table.len().unwrap(), u64::from(round) + 1);
        drop(table);
        if round % 3 == 0 {
            db.close().unwrap();
        } else {
            drop(db);
        }
        disk = disk.kill();
        sizes.push(disk.used_bytes());
    }
    assert_eq!(sizes[5], sizes[59], "{sizes:?}");
}

/// A database of 12 MB filled a disk of 40 MiB, and refused every write when it was emptied again: the files of its log
/// had become so long that the disk had no space for another.
#[test]
fn a_database_that_was_emptied_takes_writes_on_the_small_disk_that_it_filled() {
    for capacity in [24 << 20, 40 << 20, 60 << 20] {
        let disk = SimDisk::new();
        disk.set_capacity(capacity);
        let options = || Options { log_segment_bytes: Options::default().log_segment_bytes, ..options(&disk) };
        let mut db = Db::open("/db", options()).unwrap();
        for round in 0..3 {
            let table = db.ensure_table("t").unwrap();
            let full = (0u32..).find_map(|number| table.put(number.to_be_bytes(), [7; 2000]).err()).unwrap();
            assert_is_full(&full);
            // Rows that take no space, as a server removes them.
            let rows = table.count(..).unwrap();
            assert!(rows > capacity / 16_000, "round {round}: {rows} rows filled {capacity} bytes");
            table.remove_range(..).unwrap();
            db.checkpoint().unwrap();
            table.put("after", "row").unwrap();
            drop(table);
            drop(db);
            db = Db::open("/db", options()).unwrap();
            db.ensure_table("t").unwrap().put("after that", "row").unwrap();
        }
    }
}
