//! Builds of indexes a step at a time, with writes between the steps.

use quipu::{Db, Options};
use quipu_testing::seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::{Column, DataType, Database, Isolation, Ordered, RowTransaction, TableSchema, Value, check};

/// A table of five rows, `a` being ten times `id`.
fn table_of_five() -> (Db, Database) {
    let db = Db::open("/rows", Options::without_files()).unwrap();
    let database = Database::open(&db).unwrap();
    let schema = TableSchema::new("t")
        .column(Column::new("id", DataType::I64))
        .column(Column::new("a", DataType::I64))
        .key(["id"]);
    let table = database.create_table(&schema).unwrap();
    (1..=5_i64).for_each(|id| assert!(table.insert((id, 10 * id)).is_ok()));
    (db, database)
}

fn set(database: &Database, id: i64, a: i64) {
    assert!(database.table("t").unwrap().update(id, &[("a", Value::Int(a.into()))]).unwrap());
}

/// A row changed between the commit that has writers note changes and the snapshot that the build reads, and again
/// afterwards: the note told of the entry before the first change, and the entry between the two stayed for ever. A
/// commit that waits for the disk is seen by others meanwhile, so the time between was that of a sync.
#[test]
fn found_an_index_kept_entries_of_rows_that_changed_before_its_snapshot() {
    let plain = IndexSchema::new("x", ["a"]);
    for declared in [plain.clone(), plain.clone().predicate("a >= 0"), plain.unique()] {
        let (db, database) = table_of_five();
        let build = database.shared().begin_build("t", declared, &BuildOptions::default()).unwrap();
        set(&database, 1, 11);
        // It takes what another row had.
        set(&database, 2, 12);
        set(&database, 3, 20);
        build.fill(&mut |_| Ok(())).unwrap();
        set(&database, 1, 111);
        set(&database, 4, 12_000);
        build.catch_up_and_complete();
        database.shared().drop_trees([build.missed]).unwrap();
        let snapshot = database.snapshot();
        let table = snapshot.table("t").unwrap();
        let index = table.index("x").unwrap();
        assert_eq!(index.len().unwrap(), 5);
        for (offset, a) in [12_i128, 20, 50, 111, 12_000].into_iter().enumerate() {
            let row = index.nth(.., offset as u64).unwrap().unwrap();
            assert_eq!(row.get("a").unwrap(), Value::Int(a));
        }
        assert_eq!(check(&db, &mut |_| ()).unwrap().problems.len(), 0);
    }
}

/// What a transaction noted before the notes were forgotten, and relied on, it notes again.
#[test]
fn a_transaction_that_relied_on_a_forgotten_note_conflicts() {
    let (db, database) = table_of_five();
    let build = database.shared().begin_build("t", IndexSchema::new("x", ["a"]), &BuildOptions::default()).unwrap();
    set(&database, 1, 11);
    let transaction = database.begin();
    transaction.table("t").unwrap().update(1_i64, &[("a", Value::Int(12))]).unwrap();
    build.fill(&mut |_| Ok(())).unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    build.catch_up_and_complete();
    database.shared().drop_trees([build.missed]).unwrap();
    assert_eq!(database.snapshot().table("t").unwrap().index("x").unwrap().len().unwrap(), 5);
    assert_eq!(check(&db, &mut |_| ()).unwrap().problems.len(), 0);
}

/// The index of a condition was not compared with its rows at the end of its build: wrong entries stayed unseen.
#[test]
fn a_build_that_has_more_entries_than_rows_that_belong_in_it_fails() {
    let plain = IndexSchema::new("x", ["a"]);
    for declared in [plain.clone(), plain.predicate("a > 20")] {
        let (db, database) = table_of_five();
        let build = database.shared().begin_build("t", declared, &BuildOptions::default()).unwrap();
        build.fill(&mut |_| Ok(())).unwrap();
        set(&database, 3, 31);
        set(&database, 2, 21);
        set(&database, 5, 1);
        let entries = db.open_table(&store::tree_name(build.tree)).unwrap().unwrap();
        entries.put(b"an entry of no row", b"").unwrap();
        let error = build.finish_from_here().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(" rows belong in it"), "{error}");
        assert!(database.table("t").unwrap().schema().unwrap().indexes.is_empty());
        assert_eq!(check(&db, &mut |_| ()).unwrap().problems.len(), 0);
    }
}

impl Build {
    /// Catches up, and makes the index ready.
    fn catch_up_and_complete(&self) {
        self.catch_up(&mut |_| Ok(())).and_then(|()| self.complete(None)).unwrap();
    }

    /// Catches up, and takes the index back if that fails.
    fn finish_from_here(self) -> Result<()> {
        let built = self.catch_up(&mut |_| Ok(())).and_then(|()| self.complete(None));
        match &built {
            Ok(()) => {
                let replaced = self.replaces.as_ref().map(|(_, tree)| *tree);
                self.shared.drop_trees([self.missed].into_iter().chain(replaced))?;
            }
            Err(_) => self.abandon()?,
        }
        built
    }
}

/// What writes beside a build: commits of one statement, and transactions that are open for a while.
struct Writers<'d> {
    database: &'d Database,
    open: Vec<RowTransaction<'static>>,
    random: StdRng,
    commits: u32,
}

impl Writers<'_> {
    fn value(&mut self) -> Value<'static> {
        match self.random.random_range(0..4) {
            0 => Value::Null,
            _ => Value::Int(self.random.random_range(0..40)),
        }
    }

    /// One change of a row in a transaction, which may be refused.
    fn change(&mut self, transaction: &RowTransaction<'_>) {
        let table = transaction.table("t").unwrap();
        let (id, a) = (self.random.random_range(0..12_i64), self.value());
        let b = self.random.random_range(0..3_i64);
        let result = match self.random.random_range(0..5) {
            0 => table.insert((id, a, b)).map(drop),
            1 => table.delete(id).map(drop),
            2 => table.put((id, a, b)).map(drop),
            3 => table.update(id, &[("b", Value::from(b))]).map(drop),
            _ => table.update(id, &[("a", a)]).map(drop),
        };
        let kind = result.as_ref().err().map(quipu::Error::kind);
        assert!(kind.is_none_or(|kind| [ErrorKind::Exists, ErrorKind::Conflict].contains(&kind)), "{result:?}");
    }

    /// Some of what writers do.
    fn write(&mut self) {
        for _ in 0..self.random.random_range(0..4) {
            match self.random.random_range(0..6) {
                0 if self.open.len() < 3 => {
                    let isolations = [Isolation::Serializable, Isolation::Snapshot, Isolation::ReadCommitted];
                    let transaction = self.database.begin_with(isolations[self.random.random_range(0..3)]);
                    self.change(&transaction);
                    self.open.push(transaction);
                }
                1 if !self.open.is_empty() => self.commit(),
                2 if !self.open.is_empty() => {
                    let transaction = self.open.remove(0);
                    self.change(&transaction);
                    self.open.push(transaction);
                }
                _ => {
                    let database = self.database.clone();
                    database
                        .write(|transaction| {
                            (0..self.random.random_range(1..4)).for_each(|_| self.change(transaction));
                            Ok(())
                        })
                        .unwrap();
                }
            }
        }
    }

    fn commit(&mut self) {
        let place = self.random.random_range(0..self.open.len());
        match self.open.remove(place).commit() {
            Ok(_) => self.commits += 1,
            Err(error) => assert!([ErrorKind::Conflict, ErrorKind::Exists].contains(&error.kind()), "{error:?}"),
        }
    }
}

/// Builds and rebuilds of indexes, step by step, with commits and open transactions between any two steps: an index
/// that is ready has the entries of its rows, and only these. Replay: SEED=7 cargo test -p quipu-rows --lib schedules
#[test]
fn schedules_of_builds_and_writers_leave_the_entries_of_the_rows() {
    let (mut built, mut refused, mut commits) = (0, 0, 0);
    for seed in seeds::seeds(150) {
        println!("SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let db = Db::open("/rows", Options { page_bytes: 256, ..Options::without_files() }).unwrap();
        let database = Database::open(&db).unwrap();
        let schema = TableSchema::new("t")
            .column(Column::new("id", DataType::I64))
            .column(Column::new("a", DataType::I64))
            .column(Column::new("b", DataType::I64))
            .key(["id"]);
        database.create_table(&schema).unwrap();
        let mut writers = Writers {
            database: &database,
            open: Vec::new(),
            random: StdRng::seed_from_u64(seed + 1_000_000),
            commits: 0,
        };
        (0..5).for_each(|_| writers.write());
        let plain = IndexSchema::new("x", ["a"]);
        let declared = match random.random_range(0..6) {
            0 => plain,
            1 => plain.predicate("a > 20"),
            2 => plain.unique(),
            3 => plain.unique().predicate("b = 1"),
            4 => IndexSchema::new("x", ["b desc", "a"]).predicate("a is null or a < 30").sum("a"),
            _ => IndexSchema::new("x", ["a % 7 desc"]).include(["b"]),
        };
        let options = BuildOptions {
            sort_bytes: random.random_range(50..400),
            ingest_rows: random.random_range(0..20),
            turn_rows: random.random_range(1..4),
        };
        for round in 0..3 {
            let mut declared = declared.clone();
            let known = database.table("t").unwrap().schema().unwrap().indexes;
            let replaces = (!known.is_empty()).then(|| {
                declared.name = "beside".to_owned();
                let names = database.tree_names().unwrap();
                let tree = names.iter().find(|(_, name)| *name == "t.x").map(|(tree, _)| tree.clone()).unwrap();
                ("x".to_owned(), store::tree_number(&tree).unwrap())
            });
            let mut build = database.shared().begin_build("t", declared, &options).unwrap();
            build.replaces = replaces;
            writers.write();
            let mut result = build.fill(&mut |_| {
                writers.write();
                Ok(())
            });
            writers.write();
            while result.is_ok() {
                match build.catch_up_some() {
                    Ok(true) if writers.random.random_range(0..10) > 0 => writers.write(),
                    other => {
                        result = other.map(drop);
                        break;
                    }
                }
            }
            let ended = match result {
                Ok(()) => build.finish_from_here(),
                Err(error) => build.abandon().and(Err(error)),
            };
            match ended {
                Ok(()) => built += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Exists, "{error:?}");
                    refused += 1;
                }
            }
            let problems = check(&db, &mut |_| ()).unwrap().problems;
            assert_eq!(problems, Vec::<String>::new(), "round {round} of {:?}", database.table("t").unwrap().schema());
            writers.write();
        }
        while !writers.open.is_empty() {
            writers.commit();
        }
        commits += writers.commits;
        assert_eq!(check(&db, &mut |_| ()).unwrap().problems, Vec::<String>::new());
    }
    println!("{built} indexes built, {refused} refused, {commits} commits of transactions that were open meanwhile");
}
