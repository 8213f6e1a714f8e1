//! Goal: a range that is read in chunks, from either end, has the rows of the range, whatever is skipped before; also
//! where each chunk is read of another version. Method: all chunks of all ranges of a small table and its index,
//! compared with its rows.

use quipu::{Db, Options, Result};
use quipu_rows::{Column, DataType, Database, IndexSchema, KeyRange, Ordered, Row, RowView, Span, TableSchema, Value};

const ROWS: i64 = 23;

fn set_up() -> Result<Database> {
    let database = Database::open(&Db::open("/cursors", Options::without_files())?)?;
    let schema = TableSchema::new("t")
        .column(Column::new("id", DataType::I64))
        .column(Column::new("n", DataType::I64))
        .key(["id"])
        .index(IndexSchema::new("by_n", ["n desc"]));
    let table = database.create_table(&schema)?;
    for id in 0..ROWS {
        table.insert((id, (id % 7 != 0).then_some(id % 5)))?;
    }
    Ok(database)
}

fn ids(rows: &[Row]) -> Vec<i64> {
    let id = |row: &Row| match row.get("id").unwrap() {
        Value::Int(id) => id as i64,
        other => panic!("{other}"),
    };
    rows.iter().map(id).collect()
}

fn all<O: Ordered>(order: &O, range: &KeyRange) -> Vec<i64> {
    let mut rows = Vec::new();
    let mut left = Some(range.clone());
    while let Some(range) = left {
        let (more, rest) = order.chunk(&range, 1_000, false).unwrap();
        rows.extend(more);
        left = rest;
    }
    ids(&rows)
}

fn compare<O: Ordered>(order: &O, range: &KeyRange) {
    let forward = all(order, range);
    let backward: Vec<i64> = forward.iter().rev().copied().collect();
    assert_eq!(forward.len() as u64, order.count(range).unwrap());
    for is_reversed in [false, true] {
        let rows = if is_reversed { &backward } else { &forward };
        for size in 1..6 {
            for skip in 0..rows.len() + 2 {
                let from = match is_reversed {
                    false => order.position_range(range, skip as u64).unwrap(),
                    true => order.position_range_back(range, skip as u64).unwrap(),
                };
                assert_eq!(from.is_some(), skip < rows.len() || skip == 0, "{skip} of {}", rows.len());
                let (mut left, mut found) = (from, Vec::new());
                while let Some(range) = left {
                    let (more, rest) = order.chunk(&range, size, is_reversed).unwrap();
                    assert!(more.len() == size || rest.is_none());
                    found.extend(ids(&more));
                    left = rest;
                }
                assert_eq!(found, rows.get(skip..).unwrap_or_default(), "{size} rows at a time after {skip}");
            }
        }
    }
    let (none, rest) = order.chunk(range, 0, false).unwrap();
    assert!(none.is_empty() && rest.as_ref() == Some(range));
}

#[test]
fn chunks_of_a_range_are_its_rows_from_either_end() {
    let database = set_up().unwrap();
    let now = database.snapshot();
    let table = now.table("t").unwrap();
    let index = table.index("by_n").unwrap();
    for span in [Span::all(), Span::ge(3).and_lt(20), Span::eq(5), Span::gt(7).and_le(7), Span::gt(100)] {
        compare(&table, &table.range_of(&span).unwrap());
    }
    for span in [Span::all(), Span::eq(3), Span::ge(3), Span::eq(Value::Null), Span::lt(2).with_nulls()] {
        compare(&index, &index.range_of(&span).unwrap());
        compare(index.entries(), &index.range_of(&span).unwrap());
    }
}

#[test]
fn a_cursor_goes_on_where_it_was_whatever_was_written_meanwhile() {
    let database = set_up().unwrap();
    let transaction = database.begin();
    let range = transaction.table("t").unwrap().range_of(Span::all()).unwrap();
    let (first, rest) = transaction.table("t").unwrap().chunk(&range, 10, false).unwrap();
    assert_eq!(ids(&first), (0..10).collect::<Vec<_>>());
    let table = transaction.table("t").unwrap();
    table.delete(9).unwrap();
    table.delete(10).unwrap();
    table.insert((-1, 0)).unwrap();
    let (second, rest) = table.chunk(&rest.unwrap(), 100, false).unwrap();
    assert_eq!((ids(&second), rest), ((11..ROWS).collect::<Vec<_>>(), None));
}

#[test]
fn tables_columns_and_indexes_keep_their_numbers() {
    let database = set_up().unwrap();
    let look = |name: &str| {
        let now = database.snapshot();
        let table = now.table(name).unwrap();
        let columns: Vec<Option<u32>> = (0..3).map(|place| table.column_number(place)).collect();
        (table.number(), columns, table.related().index("by_n"), table.version())
    };
    let (number, columns, index, version) = look("t");
    assert_eq!((number, columns, index), (1, vec![Some(1), Some(2), None], Some(2)));
    assert_eq!(database.snapshot().table("t").unwrap().entries("by_n").unwrap().number(), 2);
    database.rename_table("t", "u").unwrap();
    database
        .add_column("u", Column { sql_type: Some("varchar(20)".to_owned()), ..Column::new("name", DataType::TEXT) })
        .unwrap();
    database.drop_index("u", "by_n").unwrap();
    database.drop_column("u", "n").unwrap();
    let (number, columns, index, later) = look("u");
    assert_eq!((number, columns, index), (1, vec![Some(1), Some(3), None], None));
    assert!(later > version);
    let schema = database.table("u").unwrap().schema().unwrap();
    assert_eq!(schema.columns[1].sql_type.as_deref(), Some("varchar(20)"));
    assert_eq!(TableSchema::from_json(&schema.to_json()).unwrap(), schema);
}

/// Of chunks that a filter keeps a part of: all rows that it wants come once, in order, from either end, whatever the
/// limit; and an error comes when its row is reached.
#[test]
fn chunks_of_rows_that_are_wanted_are_those_of_a_filter() {
    let database = Database::open(&Db::open("/wanted", Options::without_files()).unwrap()).unwrap();
    let schema = TableSchema::new("numbers").key(["id"]).column(Column::new("id", DataType::I64));
    let schema = schema.column(Column::new("rest", DataType::I64)).column(Column::new("text", DataType::TEXT));
    let numbers = database.create_table(&schema.index(IndexSchema::new("rests", ["rest"]))).unwrap();
    for id in 0..500_i64 {
        numbers.insert((id, id % 7, format!("text {id}"))).unwrap();
    }
    let snapshot = database.snapshot();
    let table = snapshot.table("numbers").unwrap();
    let int = |view: &RowView<'_>, place| match view.value(place).unwrap() {
        Value::Int(int) => int,
        other => panic!("{other}"),
    };
    for (limit, is_reversed, wanted) in [(1, false, 3), (7, true, 0), (8, false, 6), (64, true, 3), (10_000, false, 9)]
    {
        for of_index in [false, true] {
            let mut found = Vec::new();
            let mut left = match of_index {
                true => Some(table.index("rests").unwrap().range_of(Span::ge(2)).unwrap()),
                false => Some(table.range_of(Span::ge(100)).unwrap()),
            };
            while let Some(range) = left {
                let mut asked = 0;
                let keeps = |view: &RowView<'_>| {
                    asked += 1;
                    assert_eq!(view.has(2), !of_index, "an entry of the index has no text");
                    Ok::<bool, quipu::Error>(int(view, 1) == wanted)
                };
                let (rows, rest) = match of_index {
                    true => table.index("rests").unwrap().chunk_where(&range, limit, is_reversed, keeps).unwrap(),
                    false => table.chunk_where(&range, limit, is_reversed, keeps).unwrap(),
                };
                assert!(asked <= limit && rows.len() <= asked);
                found.extend(rows.iter().map(|row| int(&row.view().unwrap(), 0)));
                left = rest;
            }
            let first = if of_index { 0 } else { 100 };
            let mut expected: Vec<i128> =
                (first..500).filter(|id| id % 7 == wanted && (!of_index || wanted >= 2)).collect();
            if is_reversed {
                expected.reverse();
            }
            assert_eq!(found, expected, "{limit} {is_reversed} {wanted} {of_index}");
        }
    }
    let fails_at = |bad: i128| {
        move |view: &RowView<'_>| match int(view, 0) {
            id if id == bad => Err(quipu::Error::new(quipu::ErrorKind::Invalid, "this one")),
            id => Ok(id % 2 == 0),
        }
    };
    let all = table.range_of(Span::all()).unwrap();
    let (rows, rest) = table.chunk_where(&all, 100, false, fails_at(5)).unwrap();
    assert_eq!(rows.len(), 3, "0, 2 and 4 come first");
    let rest = rest.unwrap();
    assert_eq!(table.count(&rest).unwrap(), 495);
    assert!(table.chunk_where(&rest, 100, false, fails_at(5)).is_err(), "then the error");
    assert!(table.chunk_where(&all, 100, true, fails_at(499)).is_err());
    assert_eq!(table.chunk_where(&all, 0, false, fails_at(0)).unwrap().0.len(), 0);
}
