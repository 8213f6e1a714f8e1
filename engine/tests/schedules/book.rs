//! The book of a schedule: for each writer its own rows after each of its commits, and the ledger, in which some
//! commits of all writers are numbered.

use std::collections::BTreeMap;

use quipu::io::sim::SimDisk;
use quipu::{Db, Options, ReadableTable, Snapshot, Table};

/// A writer's rows of one table; `None` if there is no such table.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
/// A writer's rows of all tables.
pub(crate) type Image = BTreeMap<&'static str, Option<Rows>>;

/// The first byte of the keys of writer `number`.
pub(crate) fn prefix(number: usize) -> u8 {
    b'a' + number as u8
}

#[derive(Clone, Default)]
pub(crate) struct Writer {
    /// After each commit; the last one may be on its way.
    pub(crate) images: Vec<Image>,
    /// Commits that were acknowledged, and those that were durable by then.
    pub(crate) acknowledged: usize,
    pub(crate) synced: usize,
}

#[derive(Clone, Default)]
pub(crate) struct Promises(Vec<(usize, usize)>);

/// A copy of the disk, and what had been promised when it was taken.
pub(crate) struct Crash {
    pub(crate) disk: SimDisk,
    pub(crate) is_kill: bool,
    pub(crate) promises: Promises,
}

#[derive(Default)]
pub(crate) struct Book {
    pub(crate) writers: Vec<Writer>,
    /// The writer and the number of its commit, in the order of those that have a number in the ledger.
    pub(crate) ledger: Vec<(usize, usize)>,
    pub(crate) crashes: Vec<Crash>,
}

impl Book {
    /// What there was by now, to judge a snapshot that was taken before: others write on meanwhile.
    pub(crate) fn so_far(&self) -> Book {
        let mut writers = self.writers.clone();
        // Handles are of the present tables: one that has come or gone since cannot be asked.
        writers.iter_mut().flat_map(|writer| &mut writer.images).for_each(|image| {
            image.retain(|name, _| super::work::SHARED.contains(name));
        });
        Book { writers, ledger: self.ledger.clone(), crashes: Vec::new() }
    }

    pub(crate) fn promises(&self) -> Promises {
        Promises(self.writers.iter().map(|writer| (writer.acknowledged, writer.synced)).collect())
    }

    /// Opens what a crash has left, and compares it with what was promised.
    pub(crate) fn judge(&self, crash: &Crash, options: &Options) {
        let Promises(promised) = &crash.promises;
        let at_least =
            promised.iter().map(|(acknowledged, synced)| if crash.is_kill { *acknowledged } else { *synced });
        let at_least: Vec<usize> = at_least.collect();
        judge_files(crash.disk.clone(), options, |db| self.judge_rows(&db.snapshot(), db, &at_least));
    }

    /// Compares what a snapshot shows with what there was: of each writer `at_least` so many commits.
    pub(crate) fn judge_rows(&self, snapshot: &Snapshot, db: &Db, at_least: &[usize]) {
        let found = image_of(snapshot, db);
        let ledger = ledger_of(snapshot, db);
        assert!(ledger.len() <= self.ledger.len(), "the ledger has entries that nobody has made");
        assert_eq!(ledger[..], self.ledger[..ledger.len()], "the ledger is no prefix of what was written");
        for (number, writer) in self.writers.iter().enumerate() {
            let low = ledger.iter().filter(|(of, _)| *of == number).map(|(_, commit)| *commit).max().unwrap_or(0);
            let beyond = self.ledger[ledger.len()..].iter().find(|(of, _)| *of == number);
            let high = beyond.map_or(usize::MAX, |(_, commit)| *commit - 1);
            let (from, to) = (low.max(at_least[number]), high.min(writer.images.len() - 1));
            let mut own = own_of(&found, number);
            own.retain(|name, _| writer.images[0].contains_key(name));
            let is_there = (from..=to).any(|commit| writer.images[commit] == own);
            assert!(
                is_there,
                "writer {number} has none of its states {from} to {to}, but {:?}: {own:?}",
                writer.images.iter().position(|image| *image == own)
            );
        }
    }
}

/// Opens the database on a disk, has it judged, and checks its files.
pub(crate) fn judge_files(disk: SimDisk, options: &Options, judge: impl FnOnce(&Db)) {
    let options = Options { disk: std::sync::Arc::new(disk), ..options.clone() };
    let db = Db::open(super::work::DIR, options.clone()).unwrap();
    judge(&db);
    for table in db.tables() {
        let total = table.tally(..).unwrap();
        let rows: Vec<_> = table.range(..).map(|row| row.unwrap()).collect();
        assert_eq!(total.rows, rows.len() as i64, "{}", table.name());
    }
    db.close().unwrap();
    let report = quipu::files::check(super::work::DIR, &options, &mut |_| ()).unwrap();
    assert_eq!(report.faults, Vec::<String>::new());
}

/// All rows of all tables but the ledger.
fn image_of(snapshot: &Snapshot, db: &Db) -> BTreeMap<String, Rows> {
    let tables: Vec<Table> = db.tables().into_iter().filter(|table| table.name() != super::work::LEDGER).collect();
    let rows_of = |table: &Table| {
        let view = snapshot.table(table).ok()?;
        let rows = view.range(..).map(|row| row.unwrap());
        Some((table.name().to_owned(), rows.map(|row| (row.key.to_vec(), row.value.to_vec())).collect()))
    };
    tables.iter().filter_map(rows_of).collect()
}

/// The part of it that one writer has written.
fn own_of(found: &BTreeMap<String, Rows>, number: usize) -> Image {
    let names = super::work::SHARED.iter().copied().chain(super::work::OWN.get(number).copied());
    let own = |name: &str| {
        let rows = found.get(name)?.iter().filter(|(key, _)| key[0] == prefix(number));
        Some(rows.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    names.map(|name| (name, own(name))).collect()
}

fn ledger_of(snapshot: &Snapshot, db: &Db) -> Vec<(usize, usize)> {
    let Some(ledger) = db.open_table(super::work::LEDGER).unwrap() else { return Vec::new() };
    let Ok(view) = snapshot.table(&ledger) else { return Vec::new() };
    let entries = view.range(..).map(|row| row.unwrap()).enumerate();
    let entry = |(number, row): (usize, quipu::Entry)| {
        assert_eq!(row.key[..], (number as u64).to_be_bytes(), "the ledger has a hole");
        (usize::from(row.value[0]), usize::from(row.value[1]))
    };
    entries.map(entry).collect()
}
