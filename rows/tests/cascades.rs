//! Cascades from rows to those that refer to them, where several ways lead to one row.
//!
//! The random test: tables of few columns that refer to each other and to themselves by one column or two, with all
//! actions, and few values, so that cascades meet. After each statement no row refers to nothing and every index is
//! that of its rows; a statement that is refused has changed nothing; the same statements over the same rows with the
//! numbers of their keys the other way round come to the same, since the order of keys decides nothing.
//! Replay: SEED=... cargo test -p quipu-rows --test all cascades::

use quipu::{Db, Options};
use quipu_rows::{
    Action, Column, Constraint, DataType, Database, ForeignKey, IndexSchema, Ordered, Span, TableSchema, Value,
    Violation,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use quipu_testing::seeds::seeds;

fn database() -> Database {
    Database::open(&Db::open("/rows", Options::without_files()).unwrap()).unwrap()
}

fn int(name: &str) -> Column {
    Column::new(name, DataType::I64)
}

fn ints<const N: usize>(values: [Option<i64>; N]) -> Vec<Value<'static>> {
    values.into_iter().map(Value::from).collect()
}

fn assert_sound(database: &Database) {
    let found = quipu_rows::check(database.db(), &mut |_| ()).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}

fn rows(database: &Database, table: &str) -> Vec<Vec<Value<'static>>> {
    let now = database.snapshot();
    let table = now.table(table).unwrap();
    let rows = table
        .rows(..)
        .unwrap()
        .map(|row| row.unwrap().values().unwrap().into_iter().map(Value::into_owned).collect::<Vec<Value<'static>>>());
    rows.collect()
}

#[test]
fn a_row_whose_key_one_cascade_changes_is_met_by_the_other() {
    let database = database();
    database.create_table(&TableSchema::new("r").column(int("x")).key(["x"])).unwrap();
    let to_r = ForeignKey::new("to_r", ["g"], "r").on_update(Action::Cascade);
    let to_t = ForeignKey::new("to_t", ["h", "pid"], "t").references(["g", "id"]).on_update(Action::Cascade);
    let schema = ["g", "h", "id", "pid"].into_iter().fold(TableSchema::new("t"), |t, name| t.column(int(name)));
    let schema = schema.key(["h", "id"]).index(IndexSchema::new("by_g", ["g", "id"]).unique());
    database.create_table(&schema.foreign_key(to_r).foreign_key(to_t)).unwrap();
    let (r, t) = (database.table("r").unwrap(), database.table("t").unwrap());
    r.insert(1).unwrap();
    t.insert(ints([Some(1), Some(9), Some(5), None])).unwrap();
    t.insert(ints([Some(1), Some(1), Some(2), Some(5)])).unwrap();
    assert!(r.update(1, &[("x", 2.into())]).unwrap());
    assert_sound(&database);
    let expected = [ints([Some(2), Some(2), Some(2), Some(5)]), ints([Some(2), Some(9), Some(5), None])];
    assert_eq!(rows(&database, "t"), expected);
}

#[test]
fn a_cascade_over_keys_of_two_columns_works_whichever_row_has_the_smaller_key() {
    for (parent, child) in [(1, 2), (2, 1)] {
        let database = database();
        database.create_table(&TableSchema::new("tenants").column(int("x")).key(["x"])).unwrap();
        let of_tenant = ForeignKey::new("of_tenant", ["tenant"], "tenants").on_update(Action::Cascade);
        let of_parent = ForeignKey::new("of_parent", ["tenant", "parent"], "t").on_update(Action::Cascade);
        let schema = ["tenant", "id", "parent"].into_iter().fold(TableSchema::new("t"), |t, name| t.column(int(name)));
        let schema = schema.key(["tenant", "id"]).foreign_key(of_tenant).foreign_key(of_parent);
        database.create_table(&schema).unwrap();
        let (tenants, t) = (database.table("tenants").unwrap(), database.table("t").unwrap());
        tenants.insert(1).unwrap();
        t.insert(ints([Some(1), Some(parent), None])).unwrap();
        t.insert(ints([Some(1), Some(child), Some(parent)])).unwrap();
        assert!(tenants.update(1, &[("x", 7.into())]).unwrap(), "{parent} {child}");
        assert_sound(&database);
        assert_eq!(t.get((7, child)).unwrap().unwrap().get("parent").unwrap(), Value::from(parent));
    }
}

fn people(on_delete: Action, on_update: Action) -> (Database, quipu_rows::RowTable) {
    let database = database();
    let of_parent = ForeignKey::new("of_parent", ["parent"], "people").on_delete(on_delete).on_update(on_update);
    let schema = TableSchema::new("people").column(int("id")).column(int("parent")).key(["id"]);
    let table = database.create_table(&schema.foreign_key(of_parent)).unwrap();
    (database, table)
}

#[test]
fn a_range_counts_the_rows_that_went_with_others_of_it() {
    let (database, people) = people(Action::Cascade, Action::Restrict);
    people.insert(ints([Some(1), None])).unwrap();
    for id in 2..=10 {
        people.insert(ints([Some(id), Some(id - 1)])).unwrap();
    }
    // Rows 4 to 10 go, of which 4 and 5 are of the range.
    let removed = database.write(|transaction| transaction.table("people")?.delete_range(Span::ge(4).and_lt(6)));
    assert_eq!((removed.unwrap(), people.len().unwrap()), (2, 3));
    let removed = database.write(|transaction| transaction.table("people")?.delete_range(Span::all()));
    assert_eq!((removed.unwrap(), people.len().unwrap()), (3, 0));
    assert_sound(&database);
}

#[test]
fn rows_that_refer_to_each_other_alone_can_go_together() {
    let (database, people) = people(Action::Restrict, Action::Restrict);
    let ids = |parents: &[(i64, Option<i64>)]| {
        parents.iter().for_each(|(id, parent)| people.insert(ints([Some(*id), *parent])).unwrap());
    };
    ids(&[(1, None), (2, Some(1)), (3, Some(2)), (9, Some(3))]);
    let remove = || database.write(|transaction| transaction.table("people")?.delete_range(Span::lt(9)));
    let refused = remove().unwrap_err();
    let what = "table people, row (3): foreign key of_parent of table people: 1 row refers to (3)";
    assert_eq!(refused.to_string(), what);
    assert_eq!(people.len().unwrap(), 4);
    people.delete(9).unwrap();
    assert_eq!(remove().unwrap(), 3);
    assert_sound(&database);
}

#[test]
fn a_row_that_refers_to_itself_alone_changes_both_columns_at_once() {
    let (database, people) = people(Action::Restrict, Action::Restrict);
    people.insert(ints([Some(5), Some(5)])).unwrap();
    assert!(people.update(5, &[("id", 6.into()), ("parent", 6.into())]).unwrap());
    assert_eq!(rows(&database, "people"), [ints([Some(6), Some(6)])]);
    let refused = people.update(6, &[("id", 7.into())]).unwrap_err();
    assert!(refused.to_string().ends_with("1 row refers to (6)"), "{refused}");
    people.insert(ints([Some(8), Some(6)])).unwrap();
    let refused = people.update(6, &[("id", 7.into()), ("parent", 7.into())]).unwrap_err();
    assert!(refused.to_string().ends_with("1 row refers to (6)"), "{refused}");
    assert_sound(&database);
}

#[test]
fn a_row_that_restricts_another_goes_with_it_whichever_foreign_key_comes_first() {
    // `p` goes, and `a` and `b` with it; `b` refers to `a` and restricts its removal.
    for names in [["to_a", "to_p"], ["to_p", "to_a"]] {
        let database = database();
        let p = database.create_table(&TableSchema::new("p").column(int("id")).key(["id"])).unwrap();
        let a = TableSchema::new("a").column(int("id")).column(int("p")).key(["id"]);
        let to_p = ForeignKey::new("to_p", ["p"], "p").on_delete(Action::Cascade);
        let a = database.create_table(&a.foreign_key(to_p.clone())).unwrap();
        let mut b = TableSchema::new("b").column(int("id")).column(int("p")).column(int("a")).key(["id"]);
        for name in names {
            b = b.foreign_key(if name == "to_p" { to_p.clone() } else { ForeignKey::new("to_a", ["a"], "a") });
        }
        let b = database.create_table(&b).unwrap();
        p.insert(1).unwrap();
        a.insert(ints([Some(1), Some(1)])).unwrap();
        b.insert(ints([Some(1), Some(1), Some(1)])).unwrap();
        a.delete(1).unwrap_err();
        assert!(p.delete(1).unwrap());
        assert_eq!(b.len().unwrap() + a.len().unwrap(), 0);
        assert_sound(&database);
    }
}

/// A table of the random test: columns a, b, c and d, of which some are the key, and two unique indexes.
struct Drawn {
    schema: TableSchema,
    key: [usize; 2],
}

const COLUMNS: [&str; 4] = ["a", "b", "c", "d"];
const VALUES: i64 = 4;

/// Tables that refer to each other: the first has no foreign key, each other one or two to those before it and to
/// itself.
fn draw_schemas(random: &mut StdRng, actions: &[Action]) -> Vec<Drawn> {
    let mut drawn: Vec<Drawn> = Vec::new();
    for number in 0..3 {
        let name = format!("t{number}");
        let mut places = [0, 1, 2, 3];
        for place in 0..3 {
            places.swap(place, random.random_range(place..4));
        }
        let [first, second, third, fourth] = places.map(|place| COLUMNS[place]);
        let mut schema = COLUMNS.into_iter().fold(TableSchema::new(&*name), |schema, name| schema.column(int(name)));
        for column in &mut schema.columns {
            column.not_null = column.name == first || column.name == second;
        }
        let pairs = [[first, second], [second, third]];
        schema = schema.key(pairs[0]).index(IndexSchema::new(format!("{name}_u"), pairs[1]).unique());
        schema = schema.index(IndexSchema::new(format!("{name}_v"), [fourth]).unique());
        drawn.push(Drawn { schema, key: [places[0], places[1]] });
        for foreign in 0..if number == 0 { 0 } else { random.random_range(1..4) } {
            let parent = random.random_range(0..=number);
            let of_parent = &drawn[parent].schema;
            let references: Vec<String> = match random.random_range(0..3) {
                0 => of_parent.key.clone(),
                1 => of_parent.indexes[0].columns.clone(),
                _ => of_parent.indexes[1].columns.clone(),
            };
            let mut columns = COLUMNS;
            columns.swap(0, random.random_range(0..4));
            columns.swap(1, random.random_range(1..4));
            let table = of_parent.table.clone();
            let schema = &mut drawn[number].schema;
            let can_be_null = |name: &&str| !schema.key.iter().any(|key| key == name);
            let columns = &columns[..references.len()];
            let mut action = || match *actions.choose(random).unwrap() {
                Action::SetNull if !columns.iter().all(can_be_null) => Action::Cascade,
                action => action,
            };
            let key = ForeignKey::new(format!("{name}_f{foreign}"), columns.iter().copied(), table);
            let key = key.references(references).on_delete(action()).on_update(action());
            schema.foreign_keys.push(key);
        }
    }
    drawn
}

#[derive(Clone, Debug)]
enum Statement {
    Insert(Vec<Option<i64>>),
    Update(Vec<i64>, Vec<(usize, Option<i64>)>),
    Delete(Vec<i64>),
    DeleteRange(i64),
}

fn draw_statement(random: &mut StdRng, table: &Drawn, rows: &[Vec<Value<'static>>]) -> Statement {
    let mut value = |can_be_null: bool| match random.random_range(0..6) {
        0 if can_be_null => None,
        _ => Some(random.random_range(0..VALUES)),
    };
    let row: Vec<Option<i64>> = (0..4).map(|place| value(!table.key.contains(&place))).collect();
    let of_row = |row: &[Value<'_>], place: usize| match row[place] {
        Value::Int(number) => number as i64,
        _ => 0,
    };
    let key = match rows.choose(random) {
        Some(row) => table.key.map(|place| of_row(row, place)).to_vec(),
        None => table.key.map(|place| row[place].unwrap_or(0)).to_vec(),
    };
    match random.random_range(0..16) {
        0..6 => Statement::Insert(row),
        6..13 => {
            let places = (0..4).filter(|_| random.random_range(0..3) == 0);
            Statement::Update(key, places.map(|place| (place, row[place])).collect())
        }
        13..15 => Statement::Delete(key),
        _ => Statement::DeleteRange(key[0]),
    }
}

/// The number that stands for a value where all are the other way round.
fn turned(value: i64) -> i64 {
    VALUES - 1 - value
}

fn apply(database: &Database, table: &str, statement: &Statement, is_turned: bool) -> quipu::Result<u64> {
    let of = |value: i64| if is_turned { turned(value) } else { value };
    database.write(|transaction| {
        let table = transaction.table(table)?;
        match statement {
            Statement::Insert(row) => {
                table.insert(row.iter().map(|value| Value::from(value.map(of))).collect::<Vec<_>>()).map(|()| 1)
            }
            Statement::Update(key, changes) => {
                let key: Vec<Value<'_>> = key.iter().map(|value| Value::from(of(*value))).collect();
                let changes: Vec<(&str, Value<'_>)> =
                    changes.iter().map(|(place, value)| (COLUMNS[*place], Value::from(value.map(of)))).collect();
                table.update(key, &changes).map(u64::from)
            }
            Statement::Delete(key) => {
                let key: Vec<Value<'_>> = key.iter().map(|value| Value::from(of(*value))).collect();
                table.delete(key).map(u64::from)
            }
            Statement::DeleteRange(first) => table.delete_range(Span::eq(of(*first))),
        }
    })
}

fn all_rows(database: &Database, is_turned: bool) -> Vec<Vec<Vec<Value<'static>>>> {
    let turn = |value: Value<'static>| match value {
        Value::Int(number) if is_turned => Value::from(turned(number as i64)),
        other => other,
    };
    let sorted = |name: &str| {
        let rows = rows(database, name).into_iter().map(|row| row.into_iter().map(turn).collect::<Vec<_>>());
        let mut rows: Vec<Vec<Value<'static>>> = rows.collect();
        rows.sort();
        rows
    };
    ["t0", "t1", "t2"].map(sorted).to_vec()
}

/// Plays statements over drawn tables, and tells how many were done, refused for a foreign key, or refused otherwise.
fn play(seed: u64, actions: &[Action], is_order_compared: bool) -> [u64; 3] {
    println!("SEED={seed}");
    let random = &mut StdRng::seed_from_u64(seed);
    let drawn = draw_schemas(random, actions);
    let (database, mirror) = (database(), database());
    for table in &drawn {
        let made = database.create_table(&table.schema);
        assert_eq!(made.is_ok(), mirror.create_table(&table.schema).is_ok());
        made.unwrap_or_else(|error| panic!("{error}: {}", table.schema.to_json()));
    }
    let mut told = [0; 3];
    let mut before = all_rows(&database, false);
    for _ in 0..150 {
        let number = random.random_range(0..3);
        let statement = draw_statement(random, &drawn[number], &before[number]);
        let name = &drawn[number].schema.table;
        let result = apply(&database, name, &statement, false);
        assert_sound(&database);
        let after = all_rows(&database, false);
        let constraint = result.as_ref().err().map(|error| {
            assert_eq!(after, before, "a refused statement has changed rows: {statement:?}: {error}");
            Violation::of(error).unwrap_or_else(|| panic!("{statement:?}: {error}")).constraint
        });
        told[match constraint {
            None => 0,
            Some(Constraint::ForeignKey) => 1,
            Some(_) => 2,
        }] += 1;
        if is_order_compared {
            let turned = apply(&mirror, name, &statement, true);
            assert_eq!(turned.as_ref().ok(), result.as_ref().ok(), "{statement:?}: {result:?}, {turned:?}");
            assert_eq!(all_rows(&mirror, true), after, "{statement:?}");
        }
        before = after;
    }
    told
}

#[test]
fn no_row_refers_to_nothing_however_cascades_meet() {
    let mut told = [0; 3];
    for seed in seeds(60) {
        let of_seed = play(seed, &[Action::Cascade, Action::Cascade, Action::SetNull, Action::Restrict], false);
        told.iter_mut().zip(of_seed).for_each(|(sum, count)| *sum += count);
    }
    println!("{} statements done, {} refused for a foreign key, {} otherwise", told[0], told[1], told[2]);
}

#[test]
fn the_order_of_keys_does_not_decide_what_cascades_do() {
    let mut told = [0; 3];
    for seed in seeds(60) {
        let of_seed = play(seed, &[Action::Cascade, Action::Restrict], true);
        told.iter_mut().zip(of_seed).for_each(|(sum, count)| *sum += count);
    }
    println!("{} statements done, {} refused for a foreign key, {} otherwise", told[0], told[1], told[2]);
}

/// A range of an index goes as one of the table does: with its consequences, or not at all.
#[test]
fn a_range_of_an_index_goes_with_what_refers_to_its_rows() {
    for action in [Action::Cascade, Action::Restrict] {
        let database = database();
        let of_parent = ForeignKey::new("of_parent", ["parent"], "people").on_delete(action);
        let schema = TableSchema::new("people").column(int("id")).column(int("parent")).column(int("age")).key(["id"]);
        let schema = schema.index(IndexSchema::new("age", ["age"])).foreign_key(of_parent);
        let people = database.create_table(&schema).unwrap();
        // Each is the child of the one before, and ten years younger.
        for id in 1..=9 {
            people.insert(ints([Some(id), (id > 1).then(|| id - 1), Some(100 - 10 * id)])).unwrap();
        }
        let remove = |span: Span<'static>| {
            database.write(|transaction| transaction.table("people")?.index("age")?.delete_range(span))
        };
        assert_eq!(remove(Span::gt(90)).unwrap(), 0);
        match action {
            // Those of 40 and 50 are of the range, and all that are younger go with them.
            Action::Cascade => assert_eq!((remove(Span::ge(40).and_le(50)).unwrap(), people.len().unwrap()), (2, 4)),
            _ => {
                let error = remove(Span::ge(40).and_le(50)).unwrap_err();
                assert!(error.to_string().contains("1 row refers to (6)"), "{error}");
                assert_eq!(people.len().unwrap(), 9);
                assert_eq!((remove(Span::le(50)).unwrap(), people.len().unwrap()), (5, 4));
            }
        }
        assert_sound(&database);
    }
}
