//! Goal: what a process opens is not used in one that is forked from it, where it would write the same bytes of the
//! log. Method: forks, with the background threads at work; the child answers by its exit status.

use quipu::ingest::Overlap;
use quipu::{Db, Durability, ErrorKind, Options, ReadableTable, Result, Table, WritableTable};

/// Forks: the number of the child, and nothing in the child.
fn fork() -> Option<i32> {
    // SAFETY: the child uses what the calling thread owns, and leaves by `exit_with`.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "fork");
    (id > 0).then_some(id)
}

/// Ends the child with the status that `work` returns.
fn exit_with(work: impl FnOnce() -> i32) -> ! {
    let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
    // SAFETY: it ends the process at once.
    unsafe { libc::_exit(status) }
}

/// The exit status of a forked process.
fn status_of(id: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` lives as long as the call.
    assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
    assert!(libc::WIFEXITED(status), "ended by a signal: {status}");
    libc::WEXITSTATUS(status)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn filled(db: &Db, numbers: std::ops::Range<u32>) -> Table {
    let table = db.ensure_table("t").unwrap();
    numbers.for_each(|number| table.put(key(number), [b'v'; 50]).unwrap());
    table
}

/// Whether a call was refused, as one of another process.
fn is_refused<T>(result: Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::Invalid && error.to_string().contains("was forked"))
}

#[test]
fn a_forked_process_is_refused_and_the_parent_loses_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let table = filled(&db, 0..100);
    table.flush().unwrap();
    filled(&db, 100..200);
    let (snapshot, late) = (db.snapshot(), db.begin());
    late.table(&table).unwrap().put("late", b"").unwrap();
    let mut ingest = table.begin_ingest(Overlap::Refuse).unwrap();
    ingest.push(&key(1_000_000), b"ingested").unwrap();
    let held = db.clone();
    let pending = held.pending_commits();
    let backup = dir.path().join("backup");
    let Some(child) = fork() else {
        exit_with(move || {
            let begun = db.begin();
            let refused = [
                is_refused(table.put(key(5), b"of the child")),
                is_refused(table.delete(key(5))),
                is_refused(db.write(|transaction| transaction.table(&table)?.put(key(5), b""))),
                is_refused(db.latched().write()),
                is_refused(begun.table(&table)),
                is_refused(late.table(&table)),
                is_refused(late.commit()),
                is_refused(ingest.push(&key(1_000_001), b"")),
                is_refused(ingest.commit()),
                is_refused(db.checkpoint()),
                is_refused(table.flush()),
                is_refused(table.compact()),
                is_refused(db.backup(&backup)),
                is_refused(db.sync()),
                is_refused(pending.wait(Durability::Sync)) || pending.is_durable(Durability::Sync),
                is_refused(db.create_table("other", Default::default())),
                is_refused(db.open_table("t")),
                is_refused(table.len()),
                is_refused(table.get(key(5))),
                is_refused(db.snapshot().table(&table)),
                is_refused(snapshot.table(&table)),
                is_refused(snapshot.clone().table(&table)),
                is_refused(db.latched().read().table(&table)),
                is_refused(db.clone().close()),
            ];
            drop((snapshot, begun, table, db));
            refused.iter().position(|refused| !refused).map_or(0, |place| 1 + place as i32)
        })
    };
    // The child moved nothing: the parent has its own.
    filled(&db, 200..300);
    assert_eq!(status_of(child), 0, "the place of the call that was not refused");
    filled(&db, 300..2000);
    assert_eq!(ingest.commit().unwrap().rows, 1, "dropping it in the child has left its file");
    assert_eq!(late.commit().map_err(|error| error.kind()), Ok(()));
    assert_eq!(snapshot.table(&table).unwrap().len().unwrap(), 200);
    drop((snapshot, table, held));
    db.close().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), 2002);
    drop(db);
    assert!(quipu::files::check(dir.path().join("db"), &Options::default(), &mut |_| ()).unwrap().faults.is_empty());
}

#[test]
fn a_fork_inside_of_a_write_commits_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let table = filled(&db, 0..10);
    let mut child = 0;
    let written = db.write(|transaction| {
        transaction.table(&table)?.put(key(10), b"")?;
        let Some(id) = fork() else { exit_with(|| i32::from(!is_refused(transaction.table(&table)))) };
        child = id;
        Ok(())
    });
    written.unwrap();
    assert_eq!(status_of(child), 0);
    // A child that goes on to the end of the closure.
    let mut parent = Some(0);
    let written = db.write(|transaction| {
        transaction.table(&table)?.put(key(11), b"")?;
        parent = fork();
        Ok(())
    });
    let Some(child) = parent else { exit_with(|| i32::from(!is_refused(written))) };
    written.unwrap();
    assert_eq!(status_of(child), 0);
    let mut latched = db.latched().write().unwrap();
    latched.put(&table, b"latched", b"").unwrap();
    let Some(child) = fork() else { exit_with(move || i32::from(!is_refused(latched.commit()))) };
    assert_eq!(status_of(child), 0);
    latched.commit().unwrap().wait(Durability::Sync).unwrap();
    drop(table);
    db.close().unwrap();
    assert_eq!(Db::open(dir.path(), Options::default()).unwrap().ensure_table("t").unwrap().len().unwrap(), 13);
}

#[test]
fn a_forked_process_that_lives_on_does_not_keep_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    filled(&db, 0..10);
    let (reader, writer) = std::io::pipe().unwrap();
    let Some(child) = fork() else {
        exit_with(move || {
            drop(writer);
            std::io::Read::read(&mut { &reader }, &mut [0]).map_or(1, |_| 0)
        })
    };
    drop(db);
    let again = Db::open(dir.path(), Options::default()).expect("the parent has closed it");
    assert_eq!(again.ensure_table("t").unwrap().len().unwrap(), 10);
    drop(writer);
    assert_eq!(status_of(child), 0);
}

#[test]
fn a_forked_process_opens_databases_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let inherited = Db::open(&first, Options::default()).unwrap();
    let table = filled(&inherited, 0..10);
    let Some(child) = fork() else {
        exit_with(move || {
            let own = Db::open(&second, Options::default()).unwrap();
            filled(&own, 0..20);
            let Some(grandchild) = fork() else {
                exit_with(|| i32::from(!is_refused(own.ensure_table("t")) || !is_refused(table.len())))
            };
            let of_a_grandchild = status_of(grandchild);
            let is_right = own.ensure_table("t").unwrap().len().unwrap() == 20 && is_refused(table.len());
            drop((table, inherited));
            own.close().unwrap();
            of_a_grandchild + 2 * i32::from(!is_right)
        })
    };
    assert_eq!(status_of(child), 0);
    assert_eq!(Db::open(&second, Options::default()).unwrap().ensure_table("t").unwrap().len().unwrap(), 20);
    filled(&inherited, 10..20);
    assert_eq!(table.len().unwrap(), 20);
}
