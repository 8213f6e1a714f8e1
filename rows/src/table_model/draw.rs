//! Random tables, rows, statements and changes.

use crate::{Action, DataType, Date, Decimal, Value};
use rand::RngExt;
use rand::rngs::StdRng;

use super::model::{Check, Column, ColumnId, ForeignKey, Index, Model, Row, Sorted, Table, TableId, Which};

const TYPES: [DataType; 7] = [
    DataType::I32,
    DataType::I64,
    DataType::TEXT,
    DataType::Decimal { precision: 6, scale: 2 },
    DataType::Bool,
    DataType::Date,
    DataType::F64,
];

/// Numbers that no two names share.
#[derive(Clone, Debug, Default)]
pub struct Names {
    next: u32,
}

impl Names {
    pub fn next(&mut self, what: &str) -> String {
        format!("{what}{}", self.number())
    }

    pub fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

pub fn pick<'p, T>(random: &mut StdRng, from: &'p [T]) -> Option<&'p T> {
    if from.is_empty() { None } else { Some(&from[random.random_range(0..from.len())]) }
}

pub fn chance(random: &mut StdRng, of: u32) -> bool {
    random.random_range(0..of) == 0
}

/// A value that is there often, so that rows meet.
pub fn value(random: &mut StdRng, column: &Column) -> Value<'static> {
    if chance(random, if column.not_null { 60 } else { 5 }) {
        return Value::Null;
    }
    if chance(random, 80) {
        return Value::from("of another type".as_bytes().to_vec());
    }
    match column.data_type {
        DataType::I32 | DataType::I64 => Value::Int(random.random_range(-2..7)),
        DataType::TEXT => Value::from(["", "a", "A", "b", "ab", "aB", "a\0"][random.random_range(0..7)]),
        DataType::Decimal { scale, .. } => Decimal::new(random.random_range(-3..4) * 50, scale).unwrap().into(),
        DataType::Bool => Value::Bool(random.random()),
        DataType::Date => Date::from_days(16_000 + random.random_range(0..4)).unwrap().into(),
        _ => Value::Float([0.5, -1.5, f64::INFINITY, 1e300][random.random_range(0..4)]),
    }
}

/// A value as an expression.
pub fn literal(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => format!("'{text}'"),
        Value::Date(date) => format!("DATE '{date}'"),
        Value::Float(float) if float.is_finite() => format!("{float:e}"),
        Value::Float(_) => "FLOAT 'inf'".to_owned(),
        other => crate::text_of(other).into_owned(),
    }
}

pub fn column(random: &mut StdRng, names: &mut Names) -> Column {
    let data_type = TYPES[random.random_range(0..TYPES.len())];
    let mut column =
        Column { id: names.number(), name: names.next("c"), data_type, not_null: false, default: Value::Null };
    column.not_null = chance(random, 3);
    if chance(random, 2) {
        column.default = default(random, &column);
    }
    column
}

/// A value that a column may have as its default; NULL stands for none.
pub fn default(random: &mut StdRng, column: &Column) -> Value<'static> {
    let drawn = value(random, column);
    if column.data_type.accept(drawn.clone()).is_ok() { drawn } else { Value::Null }
}

pub fn table(random: &mut StdRng, names: &mut Names, model: &Model) -> Table {
    let mut columns: Vec<Column> = (0..random.random_range(2..6)).map(|_| column(random, names)).collect();
    let mut key = Vec::new();
    for column in columns.iter_mut().take(random.random_range(1..3)) {
        column.not_null = true;
        key.push((column.id, random.random()));
    }
    let sum = summable(&columns, random);
    let mut table = Table {
        name: names.next("t"),
        columns,
        key,
        sum,
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        rows: Vec::new(),
    };
    for _ in 0..random.random_range(0..3) {
        table.indexes.extend(index(random, names, &table));
    }
    table.checks.extend(check(random, names, &table));
    if chance(random, 2) {
        // A column that may refer to another table.
        if let Some((_, parent)) = pick(random, &model.tables.iter().collect::<Vec<_>>()) {
            let [(id, _)] = parent.key[..] else { return table };
            let data_type = parent.column(id).data_type;
            let (id, name) = (names.number(), names.next("c"));
            table.columns.push(Column { id, name, data_type, not_null: false, default: Value::Null });
        }
    }
    table
}

fn summable(columns: &[Column], random: &mut StdRng) -> Option<ColumnId> {
    let columns: Vec<&Column> = columns.iter().filter(|column| column.data_type.is_summable()).collect();
    pick(random, &columns).filter(|_| random_half(columns.len())).map(|column| column.id)
}

fn random_half(number: usize) -> bool {
    !number.is_multiple_of(3)
}

pub fn index(random: &mut StdRng, names: &mut Names, table: &Table) -> Option<Index> {
    let mut sorted: Vec<(Sorted, bool)> = Vec::new();
    for _ in 0..random.random_range(1..4) {
        let column = pick(random, &table.columns)?;
        let drawn = match column.data_type {
            DataType::TEXT if chance(random, 3) => Sorted::Lower(column.id),
            DataType::I32 | DataType::I64 if chance(random, 4) => Sorted::Rest(column.id),
            _ => Sorted::Column(column.id),
        };
        if !sorted.iter().any(|(other, _)| *other == drawn) {
            sorted.push((drawn, random.random()));
        }
    }
    let mut include = Vec::new();
    if chance(random, 3) {
        include.extend(pick(random, &table.columns).map(|column| column.id));
    }
    let which = if !chance(random, 3) {
        None
    } else {
        let column = pick(random, &table.columns)?;
        match column.data_type {
            DataType::I32 | DataType::I64 if random.random() => {
                Some(Which::Greater(column.id, random.random_range(-2..3)))
            }
            _ => Some(Which::NotNull(column.id)),
        }
    };
    let sum = if chance(random, 2) { summable(&table.columns, random) } else { None };
    Some(Index { name: names.next("i"), sorted, unique: chance(random, 3), include, which, sum })
}

pub fn check(random: &mut StdRng, names: &mut Names, table: &Table) -> Option<Check> {
    let ints: Vec<&Column> =
        table.columns.iter().filter(|column| matches!(column.data_type, DataType::I32 | DataType::I64)).collect();
    let column = pick(random, &ints)?.id;
    Some(Check { name: names.next("k"), column, bound: random.random_range(-4..0) })
}

/// A foreign key to a table that is older, so that there are no circles.
pub fn foreign_key(random: &mut StdRng, names: &mut Names, model: &Model, id: TableId) -> Option<ForeignKey> {
    let table = &model.tables[&id];
    if !table.foreign_keys.is_empty() {
        return None;
    }
    let mut found = Vec::new();
    for (&parent, other) in model.tables.range(..id) {
        let mut unique = Vec::new();
        if let [(column, _)] = other.key[..] {
            unique.push(column);
        }
        for index in other.indexes.iter().filter(|index| index.unique && index.which.is_none()) {
            if let [(Sorted::Column(column), _)] = index.sorted[..] {
                unique.push(column);
            }
        }
        for referred in unique {
            let wanted = other.column(referred).data_type;
            let columns = table.columns.iter().filter(|column| column.data_type == wanted);
            found.extend(columns.map(|column| (column.id, column.not_null, parent, referred)));
        }
    }
    let &(column, not_null, parent, referred) = pick(random, &found)?;
    let mut action = || match random.random_range(0..3) {
        0 => Action::Restrict,
        1 if !not_null => Action::SetNull,
        _ => Action::Cascade,
    };
    let (on_delete, on_update) = (action(), action());
    Some(ForeignKey {
        name: names.next("f"),
        columns: vec![column],
        parent,
        references: vec![referred],
        on_delete,
        on_update,
    })
}

pub fn row(random: &mut StdRng, table: &Table, model: &Model) -> Row {
    let mut row: Row = table.columns.iter().map(|column| (column.id, value(random, column))).collect();
    for foreign_key in &table.foreign_keys {
        // A row that is there, most of the time.
        if let Some(parent) = pick(random, &model.tables[&foreign_key.parent].rows).filter(|_| !chance(random, 6)) {
            for (own, other) in foreign_key.columns.iter().zip(&foreign_key.references) {
                row.insert(*own, parent[other].clone());
            }
        }
    }
    row
}
