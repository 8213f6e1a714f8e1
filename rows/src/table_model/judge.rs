//! Judges whether a table, as it is seen, holds what the model says, and answers as it does.

use crate::{Decimal, OneMoment, Ordered, Span, TableIn, Value};
use rand::RngExt;
use rand::rngs::StdRng;

use super::model::{Index, Row, Sorted, Table};

/// What is asked, by the names of the public functions.
pub const ASKED: [&str; 24] = [
    "tables", "table", "schema", "get", "index", "entries", "rows", "len", "count", "nth", "nth_back", "first", "last",
    "page", "for_each", "tally", "groups", "rank", "quantile", "split", "cut", "values", "value", "check",
];

type Rows<'m> = Vec<&'m Row>;

/// The values of a row in the order of the columns.
pub fn values_of(table: &Table, row: &Row) -> Vec<Value<'static>> {
    table.columns.iter().map(|column| row[&column.id].clone()).collect()
}

/// The values of a row that was read.
///
/// # Errors
/// Those of its bytes.
pub fn values_in_order(row: &crate::Row) -> quipu::Result<Vec<Value<'static>>> {
    Ok(owned(row.values()?))
}

fn owned(values: Vec<Value<'_>>) -> Vec<Value<'static>> {
    values.into_iter().map(Value::into_owned).collect()
}

/// The sum of a column as the tables give it.
fn sum_of(rows: &[&Row], column: u32) -> Value<'static> {
    let (mut scale, mut sum) = (None, 0i128);
    for row in rows {
        match &row[&column] {
            Value::Int(int) => sum += int,
            Value::Decimal(decimal) => {
                scale = Some(decimal.scale());
                sum += decimal.units();
            }
            _ => {}
        }
    }
    scale.map_or(Value::Int(sum), |scale| Decimal::new(sum, scale).unwrap().into())
}

fn same_sum(found: &Value<'_>, expected: &Value<'_>) -> bool {
    match (found, expected) {
        // A sum of nothing has no scale in the model.
        (Value::Decimal(found), Value::Int(expected)) => found.units() == *expected,
        (found, expected) => found == expected,
    }
}

/// A row as an order sorts it: values, each with whether its column is descending.
type SortedRow = Vec<(Value<'static>, bool)>;

/// A random range, and what it has.
struct Asked<'m> {
    span: Span<'static>,
    rows: Rows<'m>,
    /// The rows among which a quantile is looked for.
    with_values: Rows<'m>,
}

/// A random range of an order: by values of the first columns of a row that is there, or nearly. Rows are in it for
/// which the comparisons are true, which they are not of NULL, as in SQL: `a < 3` is not true where `a` is NULL, but a
/// NULL that is named, as in `NULL <= a`, is a value like all others.
fn random_span<'m>(sorted: &[SortedRow], rows: &Rows<'m>, shape: usize, random: &mut StdRng) -> Asked<'m> {
    let order = |row: &[(Value<'static>, bool)], values: &[Value<'static>]| {
        let one = |((value, is_descending), wanted): (&(Value<'static>, bool), &Value<'static>)| {
            if *is_descending { wanted.cmp(value) } else { value.cmp(wanted) }
        };
        row.iter().zip(values).map(one).fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    let mut draw = || -> Vec<Value<'static>> {
        if rows.is_empty() {
            return Vec::new();
        }
        let row = &sorted[random.random_range(0..rows.len())];
        let len = random.random_range(1..=shape);
        let mut values: Vec<Value<'static>> = row[..len].iter().map(|(value, _)| value.clone()).collect();
        if let Some(Value::Int(int)) = values.last_mut()
            && random.random_range(0..3) == 0
        {
            *int += random.random_range(-1..=1);
        }
        values
    };
    let (low, high) = (draw(), draw());
    let beginning = low[..low.len().saturating_sub(1)].to_vec();
    let kind = if rows.is_empty() { 0 } else { random.random_range(0..10) };
    let (mut span, ends): (Span<'static>, [&[Value<'static>]; 2]) = match kind {
        0 => (Span::all(), [&[], &[]]),
        1 => (Span::eq(low.clone()), [&low, &low]),
        2 => (Span::ge(low.clone()), [&low, &[]]),
        3 => (Span::gt(low.clone()), [&low, &[]]),
        4 => (Span::le(low.clone()), [&[], &low]),
        5 => (Span::lt(low.clone()), [&[], &low]),
        6 => (Span::ge(low.clone()).and_lt(high.clone()), [&low, &high]),
        7 => (Span::gt(low.clone()).and_le(high.clone()), [&low, &high]),
        8 => (Span::eq(beginning.clone()).and(Span::lt(low.clone())), [&beginning, &low]),
        _ => (Span::ge(low.clone()).and(Span::eq(beginning.clone())), [&low, &beginning]),
    };
    let has_nulls = random.random_range(0..4) == 0;
    if has_nulls {
        span = span.with_nulls();
    }
    let is_in = |row: &[(Value<'static>, bool)]| {
        let (to_low, to_high, to_beginning) = (order(row, &low), order(row, &high), order(row, &beginning));
        match kind {
            0 => true,
            1 => to_low.is_eq(),
            2 => to_low.is_ge(),
            3 => to_low.is_gt(),
            4 => to_low.is_le(),
            5 => to_low.is_lt(),
            6 => to_low.is_ge() && to_high.is_lt(),
            7 => to_low.is_gt() && to_high.is_le(),
            8 => to_beginning.is_eq() && to_low.is_lt(),
            _ => to_beginning.is_eq() && to_low.is_ge(),
        }
    };
    // The first column in which the ends differ, and the values that they have there.
    let column = ends[0].iter().zip(ends[1]).take_while(|(a, b)| a == b).count();
    let mut named = ends.iter().filter_map(|values| values.get(column)).peekable();
    let has_value = named.peek().is_some();
    let names_null = named.any(Value::is_null);
    let is_null = |row: &SortedRow| row.get(column).is_some_and(|(value, _)| value.is_null());
    let (mut within, mut with_values) = (Vec::new(), Vec::new());
    for (row, sorted) in rows.iter().zip(sorted).filter(|(_, sorted)| is_in(sorted)) {
        let is_kept = has_nulls || names_null || !is_null(sorted);
        if is_kept || !has_value {
            within.push(*row);
        }
        if is_kept {
            with_values.push(*row);
        }
    }
    Asked { span, rows: within, with_values }
}

/// The place of a quantile among so many rows.
fn place_of_quantile(q: f64, rows: usize) -> Option<usize> {
    let last = rows.checked_sub(1)?;
    Some(((q * last as f64 + 0.5).floor() as usize).min(last))
}

/// Asks an order of rows everything, and compares.
fn judge_order(
    ordered: &impl Ordered,
    table: &Table,
    rows: &Rows<'_>,
    sorted: &[SortedRow],
    shape: usize,
    sum: Option<u32>,
    random: &mut StdRng,
) {
    let all = |rows: &[&Row]| rows.iter().map(|row| values_of(table, row)).collect::<Vec<_>>();
    let found: Vec<_> = ordered.rows(..).unwrap().map(|row| owned(row.unwrap().values().unwrap())).collect();
    assert_eq!(found, all(rows));
    assert_eq!(ordered.len().unwrap(), rows.len() as u64);
    for _ in 0..3 {
        let Asked { span, rows: within, with_values } = random_span(sorted, rows, shape, random);
        let context = || format!("{span} of {} rows of {}", rows.len(), table.name);
        let count = within.len() as u64;
        assert_eq!(ordered.count(&span).unwrap(), count, "{}", context());
        let found: Vec<_> =
            ordered.rows(&span).unwrap().rev().map(|row| owned(row.unwrap().values().unwrap())).collect();
        assert_eq!(found.into_iter().rev().collect::<Vec<_>>(), all(&within), "{}", context());
        let offset = random.random_range(0..=count);
        let values = |row: Option<crate::Row>| row.map(|row| owned(row.values().unwrap()));
        let expected = |offset: Option<u64>| {
            offset.and_then(|offset| within.get(offset as usize)).map(|row| values_of(table, row))
        };
        assert_eq!(values(ordered.nth(&span, offset).unwrap()), expected(Some(offset)), "{}", context());
        let back = count.checked_sub(offset + 1);
        assert_eq!(values(ordered.nth_back(&span, offset).unwrap()), expected(back), "{}", context());
        let q = random.random_range(0.0..=1.0);
        let at = place_of_quantile(q, with_values.len()).map(|at| values_of(table, with_values[at]));
        assert_eq!(values(ordered.quantile(&span, q).unwrap()), at, "{q} of {}", context());
        assert_eq!(values(ordered.first(&span).unwrap()), expected(Some(0)));
        assert_eq!(values(ordered.last(&span).unwrap()), expected(count.checked_sub(1)));
        let page = ordered.page(&span, offset, 3).unwrap();
        let found: Vec<_> = page.rows.iter().map(|row| owned(row.values().unwrap())).collect();
        let limit = within.len().min(offset as usize + 3);
        assert_eq!((found, page.total), (all(&within[offset as usize..limit]), count), "{}", context());
        let mut visited = 0;
        ordered
            .for_each(&span, |row| {
                assert_eq!(owned(row.values()?), values_of(table, within[visited]));
                visited += 1;
                Ok(true)
            })
            .unwrap();
        assert_eq!(visited, within.len());
        if let Some(column) = sum {
            let (rows, sum) = ordered.tally(&span).unwrap();
            assert_eq!(rows, count);
            assert!(same_sum(&sum, &sum_of(&within, column)), "{}: {sum}", context());
        }
        let columns = random.random_range(1..=shape);
        let groups: Vec<_> = ordered.groups(&span, columns).unwrap().map(|group| group.unwrap()).collect();
        let mut expected: Vec<(Vec<Value<'static>>, Vec<&Row>)> = Vec::new();
        for (row, sorted) in
            rows.iter().zip(sorted).filter(|(row, _)| within.iter().any(|other| std::ptr::eq(*other, **row)))
        {
            let values: Vec<Value<'static>> = sorted[..columns].iter().map(|(value, _)| value.clone()).collect();
            match expected.last_mut() {
                Some((last, rows)) if *last == values => rows.push(row),
                _ => expected.push((values, vec![row])),
            }
        }
        assert_eq!(groups.len(), expected.len(), "{}", context());
        for (group, (values, rows)) in groups.iter().zip(&expected) {
            assert_eq!((&group.values, group.rows), (values, rows.len() as u64), "{}", context());
            assert!(sum.is_none() || same_sum(group.sum.as_ref().unwrap(), &sum_of(rows, sum.unwrap())));
        }
    }
    if let Some(place) = rows.len().checked_sub(1).map(|last| random.random_range(0..=last)) {
        let values: Vec<Value<'static>> = sorted[place][..shape].iter().map(|(value, _)| value.clone()).collect();
        // Rows of a unique index that have a NULL may begin alike.
        let first = sorted.iter().position(|other| other[..shape] == sorted[place][..shape]);
        assert_eq!(Some(ordered.rank(values).unwrap()), first.map(|first| first as u64));
        let parts = ordered.split(.., 3).unwrap();
        assert_eq!(parts.len(), rows.len().min(3));
        let (before, after) = ordered.cut(.., place as u64).unwrap();
        let counts = (ordered.count(&before).unwrap(), ordered.count(&after.unwrap()).unwrap());
        assert_eq!(counts, (place as u64, (rows.len() - place) as u64));
    }
    let (all, none) = ordered.cut(.., rows.len() as u64).unwrap();
    assert_eq!((ordered.count(&all).unwrap(), none), (rows.len() as u64, None));
}

/// Compares a table with the model.
pub fn judge<T: OneMoment>(seen: &TableIn<'_, T>, table: &Table, random: &mut StdRng) {
    let names: Vec<&str> = seen.schema().columns.iter().map(|column| &*column.name).collect();
    assert_eq!(names, table.columns.iter().map(|column| &*column.name).collect::<Vec<_>>());
    let rows = table.in_order();
    let sorted: Vec<_> = rows.iter().map(|row| table.key_of(row)).collect();
    judge_order(seen, table, &rows, &sorted, table.key.len(), table.sum, random);
    for row in rows.iter().take(3) {
        let found = seen.get(table.key_values(row)).unwrap().unwrap();
        assert_eq!(owned(found.values().unwrap()), values_of(table, row));
        for column in &table.columns {
            assert_eq!(found.get(&column.name).unwrap(), row[&column.id]);
        }
    }
    let declared: Vec<&str> = seen.schema().indexes.iter().map(|index| &*index.name).collect();
    assert_eq!(declared, table.indexes.iter().map(|index| &*index.name).collect::<Vec<_>>());
    for index in &table.indexes {
        judge_index(seen, table, index, random);
    }
}

fn judge_index<T: OneMoment>(seen: &TableIn<'_, T>, table: &Table, index: &Index, random: &mut StdRng) {
    let rows = table.in_order_of(index);
    let sorted: Vec<_> = rows.iter().map(|row| table.sorted_by(index, row)).collect();
    let asked = seen.index(&index.name).unwrap();
    // What follows the columns of a unique index is no part of its key.
    let shape = if index.unique { index.sorted.len() } else { sorted.first().map_or(index.sorted.len(), Vec::len) };
    let shape = if index.unique && random.random() {
        shape
    } else {
        shape.min(index.sorted.len() + usize::from(!index.unique))
    };
    judge_order(&asked, table, &rows, &sorted, shape.max(1), index.sum, random);
    let mut entries = asked.entries().rows(..).unwrap();
    for row in &rows {
        let entry = entries.next().unwrap().unwrap();
        for (place, column) in table.columns.iter().enumerate() {
            let is_there = index.include.contains(&column.id)
                || table.key.iter().any(|(id, _)| *id == column.id)
                || index.sorted.iter().any(|(sorted, _)| *sorted == Sorted::Column(column.id));
            match entry.value(place) {
                Ok(value) => assert_eq!(value, row[&column.id], "{index:?} {}: {:?}", column.name, table.columns),
                Err(error) => assert!(!is_there, "{}: {error}", column.name),
            }
        }
        if index.unique && !sorted.is_empty() {
            let values = &table.sorted_by(index, row)[..index.sorted.len()];
            if !values.iter().any(|(value, _)| value.is_null()) {
                let values: Vec<Value<'static>> = values.iter().map(|(value, _)| value.clone()).collect();
                let found = asked.get(values).unwrap().unwrap();
                assert_eq!(owned(found.values().unwrap()), values_of(table, row));
            }
        }
    }
}
