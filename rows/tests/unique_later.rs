//! Goal: an index of unique values that is looked at later lets rows have the same values on the way, and never at the
//! end of what is one. Method: random statements, alone, together and in transactions with savepoints, beside a plain
//! map of the rows; each is refused just where two rows would have the same values, and changes nothing then. `check`
//! agrees.
//! Replay: SEED=... cargo test -p quipu-rows --test all unique_later::

use std::collections::BTreeMap;

use quipu::{Db, ErrorKind, Options, Result};
use quipu_rows::{
    Column, Constraint, DataType, Database, Deferral, IndexSchema, Ordered, RowTransaction, Span, TableSchema, Value,
    Violation, check,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use quipu_testing::seeds::seeds;

/// The values of each row, by its key.
type Rows = BTreeMap<i64, [Option<i64>; 2]>;

fn table(deferral: Deferral, nulls_equal: bool) -> TableSchema {
    let index = IndexSchema { nulls_equal, ..IndexSchema::new("ab", ["a", "b desc"]).unique_later(deferral) };
    TableSchema::new("t")
        .column(Column::new("id", DataType::I64))
        .column(Column::new("a", DataType::I64))
        .column(Column::new("b", DataType::I64))
        .key(["id"])
        .index(index)
}

/// Whether two rows have the same values.
fn are_repeated(rows: &Rows, nulls_equal: bool) -> bool {
    let is_same = |a: &[Option<i64>; 2], b: &[Option<i64>; 2]| a == b && (nulls_equal || a.iter().all(Option::is_some));
    rows.iter().any(|(id, values)| rows.iter().any(|(other, others)| other > id && is_same(values, others)))
}

fn value(number: Option<i64>) -> Value<'static> {
    number.map_or(Value::Null, Value::from)
}

/// A statement, done to rows and to the map of them.
fn one(transaction: &RowTransaction<'_>, rows: &mut Rows, random: &mut StdRng) -> Result<()> {
    let table = transaction.table("t")?;
    let id = random.random_range(0..8);
    let mut draw = || random.random_bool(0.85).then(|| random.random_range(0..3));
    let values = [draw(), draw()];
    let [a, b] = values.map(value);
    match random.random_range(0..5) {
        0 => {
            let was_there = rows.remove(&id).is_some();
            assert_eq!(table.delete(id)?, was_there);
        }
        1 => {
            let new = random.random_range(0..8);
            if rows.contains_key(&id) && !rows.contains_key(&new) {
                let moved = rows.remove(&id).expect("it is there");
                rows.insert(new, moved);
                table.update(id, &[("id", new.into())])?;
            }
        }
        2 => {
            if let Some(row) = rows.get_mut(&id) {
                row[1] = values[1];
                table.update(id, &[("b", b)])?;
            }
        }
        _ => {
            rows.insert(id, values);
            table.put((id, a, b))?;
        }
    }
    Ok(())
}

fn judge(transaction: &RowTransaction<'_>, rows: &Rows) {
    let table = transaction.table("t").unwrap();
    let index = table.index("ab").unwrap();
    assert_eq!(index.count(..).unwrap(), rows.len() as u64);
    let found: Rows = table
        .rows(..)
        .unwrap()
        .map(|row| {
            let row = row.unwrap();
            let number = |name: &str| match row.get(name).unwrap() {
                Value::Int(int) => Some(i64::try_from(int).unwrap()),
                _ => None,
            };
            (number("id").unwrap(), [number("a"), number("b")])
        })
        .collect();
    assert_eq!(found, *rows);
    let with = rows.values().filter(|values| values[0] == Some(1)).count();
    assert_eq!(index.count(Span::eq(1)).unwrap(), with as u64);
}

fn assert_repeated(error: &quipu::Error) {
    assert_eq!(error.kind(), ErrorKind::Exists, "{error:?}");
    let violation = Violation::of(error).expect("a violation");
    assert_eq!((violation.constraint, violation.name.as_deref()), (Constraint::Unique, Some("ab")));
}

/// Several statements as one, which is refused if two rows have the same values then.
fn together(transaction: &RowTransaction<'_>, rows: &mut Rows, deferral: (bool, bool), random: &mut StdRng) {
    let (is_deferred, nulls_equal) = deferral;
    let before = rows.clone();
    let count = random.random_range(1..4);
    let done: Result<()> = transaction.together(|| (0..count).try_for_each(|_| one(transaction, rows, random)));
    match !is_deferred && are_repeated(rows, nulls_equal) {
        true => {
            assert_repeated(&done.expect_err("two rows have the same values"));
            *rows = before;
        }
        false => done.unwrap(),
    }
    judge(transaction, rows);
}

/// Says when values are looked at; at once is refused if two rows have the same. Returns whether it is at the end now.
fn defer(
    transaction: &RowTransaction<'_>,
    rows: &Rows,
    (is_deferred, nulls_equal): (bool, bool),
    random: &mut StdRng,
) -> bool {
    let wanted = random.random();
    let done = transaction.defer_constraints(None, wanted);
    if !wanted && are_repeated(rows, nulls_equal) {
        assert_repeated(&done.expect_err("two rows have the same values"));
        return is_deferred;
    }
    done.unwrap();
    wanted
}

fn run(deferral: Deferral, nulls_equal: bool, random: &mut StdRng) {
    let db = Db::open("/unique-later", Options::without_files()).unwrap();
    let database = Database::open(&db).unwrap();
    database.create_table(&table(deferral, nulls_equal)).unwrap();
    let mut rows = Rows::new();
    for _ in 0..20 {
        let before = rows.clone();
        let transaction = database.begin();
        let mut is_deferred = deferral == Deferral::Deferred;
        for _ in 0..random.random_range(1..6) {
            match random.random_range(0..6) {
                0 => is_deferred = defer(&transaction, &rows, (is_deferred, nulls_equal), random),
                // What is said and found in between is undone, too.
                1 => {
                    let (savepoint, saved) = (transaction.savepoint(), rows.clone());
                    let mut said = is_deferred;
                    for _ in 0..random.random_range(1..4) {
                        together(&transaction, &mut rows, (said, nulls_equal), random);
                        said = defer(&transaction, &rows, (said, nulls_equal), random);
                    }
                    transaction.rollback_to(savepoint).unwrap();
                    rows = saved;
                }
                _ => together(&transaction, &mut rows, (is_deferred, nulls_equal), random),
            }
        }
        match are_repeated(&rows, nulls_equal) {
            true => {
                assert_repeated(&transaction.commit().expect_err("two rows have the same values"));
                rows = before;
            }
            false => transaction.commit().unwrap(),
        }
    }
    let checked = check(&db, &mut |_| ()).unwrap();
    assert!(checked.problems.is_empty(), "{:?}", checked.problems);
}

#[test]
fn values_are_unique_when_all_is_done() {
    for seed in seeds(32) {
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        for deferral in [Deferral::OnDemand, Deferral::Deferred] {
            for nulls_equal in [false, true] {
                run(deferral, nulls_equal, random);
            }
        }
    }
}

/// Two transactions take the same values: the second one is refused, since it relies on having them alone.
#[test]
fn one_of_two_transactions_has_a_value() {
    let database = Database::open(&Db::open("/two", Options::without_files()).unwrap()).unwrap();
    database.create_table(&table(Deferral::Deferred, false)).unwrap();
    let (first, second) = (database.begin(), database.begin());
    first.table("t").unwrap().insert((1, 1, 1)).unwrap();
    second.table("t").unwrap().insert((2, 1, 1)).unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(database.table("t").unwrap().len().unwrap(), 1);
}

/// An index of rows that there are is refused if two have the same values, and one that another process would build
/// beside writers is not made.
#[test]
fn rows_that_there_are_are_looked_at() {
    let database = Database::open(&Db::open("/there", Options::without_files()).unwrap()).unwrap();
    let plain = TableSchema { indexes: Vec::new(), ..table(Deferral::Deferred, false) };
    let rows = database.create_table(&plain).unwrap();
    for (id, a) in [(1, Some(1)), (2, Some(1)), (3, None), (4, None)] {
        rows.insert((id, a, Some(1))).unwrap();
    }
    let index = || IndexSchema::new("a", ["a"]).unique_later(Deferral::OnDemand);
    let made = database.write(|transaction| transaction.definitions().create_index("t", index()));
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Exists);
    rows.delete(2).unwrap();
    database.write(|transaction| transaction.definitions().create_index("t", index())).unwrap();
    let rows = database.table("t").unwrap();
    rows.insert((5, Some(1), Some(1))).unwrap_err();
    rows.insert((5, None::<i64>, Some(1))).unwrap();
    assert_eq!(database.create_index("t", index(), &mut |_| ()).unwrap_err().kind(), ErrorKind::Invalid);
}
