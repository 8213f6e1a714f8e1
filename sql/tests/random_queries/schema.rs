//! Random tables, their rows and their indexes.

use super::draw::{Draw, Family, Kind};

#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// The columns of the primary key.
    pub(super) key: Vec<&'static str>,
    /// Foreign keys and conditions.
    constraints: Vec<String>,
}

/// Tables, and the statements that make them.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) tables: Vec<Table>,
    /// Tables and their rows.
    pub(super) base: Vec<String>,
    /// Indexes, which change no answer.
    pub(super) indexes: Vec<String>,
}

/// Names of columns, which tables share, with the kinds that each may have.
const NAMES: [(&str, &[Kind]); 9] = [
    ("a", &[Kind::Int, Kind::Int, Kind::Int, Kind::Big, Kind::Small, Kind::Numeric, Kind::Float]),
    ("b", &[Kind::Int, Kind::Int, Kind::Big]),
    ("c", &[Kind::Text, Kind::Text, Kind::Varchar]),
    ("d", &[Kind::Numeric]),
    ("e", &[Kind::Date, Kind::Date, Kind::Timestamp]),
    ("f", &[Kind::Bool]),
    ("g", &[Kind::Float]),
    ("h", &[Kind::Text]),
    ("i", &[Kind::Big, Kind::Small]),
];

impl Schema {
    pub(super) fn draw(draw: &mut Draw) -> Schema {
        let mut schema = Schema { tables: Vec::new(), base: Vec::new(), indexes: Vec::new() };
        for number in 0..2 + draw.below(3) {
            let table = Table::draw(draw, number, &schema.tables);
            schema.base.push(table.definition());
            let rows = if draw.chance(10) { 0 } else { 1 + draw.below(9) };
            for id in 0..rows {
                schema.base.push(format!("INSERT INTO {} VALUES ({})", table.name, table.row(draw, id).join(", ")));
            }
            for number in 0..draw.below(5) {
                let index = table.index(draw, number);
                // A unique index may refuse rows, so it belongs to the tables.
                match index.starts_with("CREATE UNIQUE") {
                    true => schema.base.push(index),
                    false => schema.indexes.push(index),
                }
            }
            schema.tables.push(table);
        }
        schema
    }
}

impl Table {
    fn draw(draw: &mut Draw, number: usize, others: &[Table]) -> Table {
        let mut columns = vec![Column { name: "id", kind: Kind::Int }];
        for (name, kinds) in draw.some(&NAMES, 6) {
            columns.push(Column { name, kind: draw.one_of(kinds) });
        }
        let mut key = vec!["id"];
        if draw.chance(30) {
            key.insert(draw.below(2), columns[1].name);
        } else if draw.chance(15) {
            key.clear();
        }
        let mut constraints = Vec::new();
        let parents: Vec<&Table> = others.iter().filter(|other| other.key == ["id"]).collect();
        if let Some(parent) = parents.first()
            && draw.chance(40)
        {
            columns.push(Column { name: "p", kind: Kind::Int });
            let deleted = draw.pick(&["", " ON DELETE CASCADE", " ON DELETE SET NULL", " ON DELETE RESTRICT"]);
            let updated = draw.pick(&["", " ON UPDATE CASCADE", " ON UPDATE SET NULL"]);
            constraints.push(format!("FOREIGN KEY (p) REFERENCES {} (id){deleted}{updated}", parent.name));
        }
        if draw.chance(20) {
            let column = draw.one_of(&columns[1..]);
            let (name, value) = (column.name, column.kind.constant(draw));
            constraints.push(format!("CHECK ({name} {} {value})", draw.pick(&["<>", "<>", "<=", ">="])));
        }
        Table { name: format!("t{number}"), columns, key, constraints }
    }

    fn definition(&self) -> String {
        let mut parts: Vec<String> =
            self.columns.iter().map(|column| format!("{} {}", column.name, column.kind.name())).collect();
        if !self.key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", self.key.join(", ")));
        }
        parts.extend(self.constraints.iter().cloned());
        format!("CREATE TABLE {} ({})", self.name, parts.join(", "))
    }

    /// The values of a row, whose `id` is given.
    pub(super) fn row(&self, draw: &mut Draw, id: usize) -> Vec<String> {
        self.columns
            .iter()
            .map(|column| match column.name {
                "id" => id.to_string(),
                name if self.key.contains(&name) => column.kind.constant(draw),
                _ => column.kind.stored(draw),
            })
            .collect()
    }

    fn index(&self, draw: &mut Draw, number: usize) -> String {
        let mut parts = Vec::new();
        for column in draw.some(&self.columns, 3) {
            let mut part = match draw.chance(20) {
                true => indexed(draw, column.kind.family(), column.name),
                false => column.name.to_owned(),
            };
            part.push_str(draw.pick(&["", "", "", " DESC", " DESC NULLS LAST", " NULLS FIRST"]));
            parts.push(part);
        }
        let mut unique = "";
        if draw.chance(20) && !parts.iter().any(|part| part.starts_with("id")) {
            parts.push("id".to_owned());
            unique = "UNIQUE ";
        }
        let mut filter = String::new();
        if draw.chance(20) {
            let column = draw.one_of(&self.columns);
            filter = match draw.below(3) {
                0 => format!(" WHERE {} IS NOT NULL", column.name),
                1 => format!(" WHERE {} > {}", column.name, column.kind.constant(draw)),
                _ => format!(" WHERE {} = {}", column.name, column.kind.constant(draw)),
            };
        }
        let name = &self.name;
        format!("CREATE {unique}INDEX {name}_{number} ON {name} ({}){filter}", parts.join(", "))
    }
}

/// An expression over a column that indexes have, and queries ask for.
pub(super) fn indexed(draw: &mut Draw, family: Family, column: &str) -> String {
    match family {
        Family::Text => draw.pick(&["lower({})", "upper({})", "substr({}, 1, 2)"]),
        Family::Number => draw.pick(&["({} + 1)", "abs({})", "(- {})"]),
        Family::Bool => draw.pick(&["(NOT {})", "({} IS TRUE)"]),
        Family::Moment => draw.pick(&["date_trunc('month', {}::timestamp)", "({}::date)"]),
    }
    .replace("{}", column)
}
