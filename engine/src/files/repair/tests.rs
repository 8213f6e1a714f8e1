//! A log whose records are whole, and one of which cannot be applied: as after a defect in what applies them.

use std::sync::Arc;

use crate::catalog::record::{self, EntryState};
use crate::db::Db;
use crate::error::ErrorKind;
use crate::io::sim::SimDisk;
use crate::log::Room;
use crate::options::{Options, TableOptions};
use crate::read::readable::ReadableTable;
use crate::state::table_handle::Table;
use crate::state::writer::Writer;
use crate::tally::{Measures, Tally};
use crate::write::writable::WritableTable;

/// Logs that a key was inserted which the table has already, and what `then` adds as the next commit.
fn log_nonsense(table: &Table, then: impl FnOnce(&mut Vec<u8>)) {
    let shared = &table.shared;
    let mut turn = shared.writer().unwrap();
    turn.record.clear();
    record::put_entries_header(&mut turn.record, table.id(), 1);
    let weight = Tally { rows: 1, ..Tally::ZERO };
    record::put_entry(
        &mut turn.record,
        EntryState::Fresh,
        &75u32.to_be_bytes(),
        Some(b"last"),
        &weight,
        &Measures::ROWS,
    );
    let log =
        |turn: &mut Writer| drop(shared.log_commit(turn, |writer| shared.append_record(writer, Room::Common)).unwrap());
    log(&mut turn);
    turn.record.clear();
    then(&mut turn.record);
    if !turn.record.is_empty() {
        log(&mut turn);
    }
}

#[test]
fn a_record_that_cannot_be_applied_is_named_and_repair_builds_its_table_anew() {
    for (is_flushed, is_checkpointed) in [(false, false), (false, true), (true, false), (true, true)] {
        let disk = SimDisk::new();
        let options = Options { disk: Arc::new(disk.clone()), ..Options::without_files() };
        let db = Db::open("/db", options.clone()).unwrap();
        let [table, other, gone] = ["t", "other", "gone"].map(|name| db.ensure_table(name).unwrap());
        (0..100u32).for_each(|key| table.put(key.to_be_bytes(), b"value").unwrap());
        gone.put(b"key", b"value").unwrap();
        if is_flushed {
            table.flush().unwrap();
        }
        if is_checkpointed {
            db.checkpoint().unwrap();
        }
        (50..150u32).for_each(|key| table.put(key.to_be_bytes(), b"newer").unwrap());
        other.put(b"key", b"value").unwrap();
        db.drop_table("gone").unwrap();
        let late = db.create_table("late", TableOptions::default()).unwrap();
        late.put(b"key", b"value").unwrap();
        log_nonsense(&table, |_| ());
        assert_eq!(other.put(b"more", b"value").unwrap_err().kind(), ErrorKind::Poisoned);
        drop((table, other, gone, late, db));

        let error = Db::open("/db", options.clone()).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("commit 20"), "{error}");
        let faults = crate::files::check("/db", &options, &mut |_| ()).unwrap().faults;
        assert!(faults.len() == 1 && faults[0].contains("cannot be applied"), "{faults:?}");
        let report = crate::files::repair("/db", &options, &mut |_| ()).unwrap();
        assert!(report.lost.is_empty() && report.faults.is_empty(), "{report:?}");
        assert_eq!(report.rebuilt, [("t".to_owned(), Tally { rows: 150, ..Tally::ZERO })]);

        let db = Db::open("/db", options).unwrap();
        let names: Vec<String> = db.tables().iter().map(|table| table.name().to_owned()).collect();
        assert_eq!(names, ["late", "other", "t"]);
        let table = db.ensure_table("t").unwrap();
        assert_eq!(table.get(75u32.to_be_bytes()).unwrap().as_deref(), Some(&b"last"[..]));
        assert_eq!((table.len().unwrap(), db.ensure_table("late").unwrap().len().unwrap()), (150, 1));
        table.put(b"more", b"value").unwrap();
    }
}

#[test]
fn a_record_that_cannot_be_applied_to_a_table_that_is_dropped_later_is_passed_over_after_a_repair() {
    for is_flushed in [false, true] {
        let disk = SimDisk::new();
        let options = Options { disk: Arc::new(disk.clone()), ..Options::without_files() };
        let db = Db::open("/db", options.clone()).unwrap();
        let [table, other] = ["t", "other"].map(|name| db.ensure_table(name).unwrap());
        (0..100u32).for_each(|key| table.put(key.to_be_bytes(), b"value").unwrap());
        if is_flushed {
            table.flush().unwrap();
        }
        table.put(75u32.to_be_bytes(), b"newer").unwrap();
        other.put(b"key", b"value").unwrap();
        log_nonsense(&table, |record| record::put_drop_table(record, table.id()));
        drop((table, other, db));

        assert_eq!(Db::open("/db", options.clone()).unwrap_err().kind(), ErrorKind::Corrupt);
        let report = crate::files::repair("/db", &options, &mut |_| ()).unwrap();
        assert!(report.lost.is_empty() && report.rebuilt.is_empty() && report.faults.is_empty(), "{report:?}");
        let db = Db::open("/db", options).unwrap();
        let names: Vec<String> = db.tables().iter().map(|table| table.name().to_owned()).collect();
        assert_eq!(names, ["other"]);
        assert_eq!(db.ensure_table("other").unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}
