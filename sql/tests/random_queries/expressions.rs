//! Random expressions and predicates over the columns that a place of a statement sees. None of them fails, whatever
//! the rows are.

use super::draw::{Draw, Family, Kind};
use super::schema::{Table, indexed};

/// A column as an expression names it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) text: String,
    pub(super) kind: Kind,
}

/// What an expression may name: columns, and tables for its sub-selects.
pub(super) struct Scope<'s> {
    pub(super) items: Vec<Item>,
    pub(super) tables: &'s [Table],
}

/// All columns of a table under another name.
pub(super) fn items_of(table: &Table, alias: &str) -> Vec<Item> {
    let item = |column: &super::schema::Column| Item { text: format!("{alias}.{}", column.name), kind: column.kind };
    table.columns.iter().map(item).collect()
}

const COMPARISONS: [&str; 7] = ["=", "=", "=", "<", "<=", ">", ">="];
const KINDS: [Kind; 7] = [Kind::Int, Kind::Big, Kind::Numeric, Kind::Float, Kind::Text, Kind::Bool, Kind::Date];

impl Scope<'_> {
    fn column(&self, draw: &mut Draw, family: Family) -> Option<Item> {
        let fitting: Vec<&Item> = self.items.iter().filter(|item| item.kind.family() == family).collect();
        (!fitting.is_empty()).then(|| fitting[draw.below(fitting.len())].clone())
    }

    /// An expression, and its kind.
    pub(super) fn any(&self, draw: &mut Draw, depth: usize) -> (String, Kind) {
        let kind = match self.items.is_empty() || draw.chance(20) {
            true => draw.one_of(&KINDS),
            false => self.items[draw.below(self.items.len())].kind,
        };
        (self.value(draw, kind.family(), depth), kind)
    }

    /// An expression of a family of kinds.
    pub(super) fn value(&self, draw: &mut Draw, family: Family, depth: usize) -> String {
        let column = self.column(draw, family).map(|item| item.text);
        if let Some(column) = &column
            && (depth == 0 || draw.chance(60))
        {
            return if draw.chance(10) { indexed(draw, family, column) } else { column.clone() };
        }
        if depth == 0 || draw.chance(30) {
            return self.constant(draw, family);
        }
        let deeper = |draw: &mut Draw| self.value(draw, family, depth - 1);
        match draw.below(9) {
            0 => format!("coalesce({}, {})", deeper(draw), deeper(draw)),
            1 => format!("nullif({}, {})", deeper(draw), deeper(draw)),
            2 => {
                let condition = self.predicate(draw, depth - 1);
                format!("CASE WHEN {condition} THEN {} ELSE {} END", deeper(draw), deeper(draw))
            }
            3 => format!("{}({}, {})", draw.pick(&["greatest", "least"]), deeper(draw), deeper(draw)),
            4 => self.scalar(draw, family, depth - 1),
            _ => match family {
                Family::Number => match draw.below(5) {
                    0 => format!("(- {})", deeper(draw)),
                    1 => format!("abs({})", deeper(draw)),
                    2 => format!("({} + 1)", deeper(draw)),
                    3 => format!("length({})", self.value(draw, Family::Text, depth - 1)),
                    _ => format!("({} {} {})", deeper(draw), draw.pick(&["+", "-"]), deeper(draw)),
                },
                Family::Text => match draw.below(5) {
                    0 => format!("lower({})", deeper(draw)),
                    1 => format!("upper({})", deeper(draw)),
                    2 => format!("substr({}, 1, 2)", deeper(draw)),
                    3 => format!("({} || {})", deeper(draw), deeper(draw)),
                    _ => format!("({})::text", self.any(draw, depth - 1).0),
                },
                Family::Bool => format!("({})", self.predicate(draw, depth - 1)),
                Family::Moment => match draw.below(2) {
                    0 => format!("({})::date", deeper(draw)),
                    _ => format!("date_trunc('month', {})", deeper(draw)),
                },
            },
        }
    }

    fn constant(&self, draw: &mut Draw, family: Family) -> String {
        let kind = match family {
            Family::Number => draw.one_of(&[Kind::Int, Kind::Int, Kind::Numeric]),
            Family::Text => Kind::Text,
            Family::Bool => Kind::Bool,
            Family::Moment => draw.one_of(&[Kind::Date, Kind::Timestamp]),
        };
        if draw.chance(5) {
            return match family {
                Family::Number => "NULL::int".to_owned(),
                Family::Text => "NULL::text".to_owned(),
                Family::Bool => "NULL::boolean".to_owned(),
                Family::Moment => "NULL::date".to_owned(),
            };
        }
        kind.constant(draw)
    }

    /// The scope of a sub-select, and its FROM.
    fn inside(&self, draw: &mut Draw) -> (Scope<'_>, String, Vec<Item>) {
        let table = &self.tables[draw.below(self.tables.len())];
        let alias = format!("s{}", draw.below(1000));
        let own = items_of(table, &alias);
        let mut items = own.clone();
        items.extend(own.iter().cloned());
        items.extend(self.items.iter().cloned());
        (Scope { items, tables: self.tables }, format!("{} {alias}", table.name), own)
    }

    fn scalar(&self, draw: &mut Draw, family: Family, depth: usize) -> String {
        let (scope, from, own) = self.inside(draw);
        let own = Scope { items: own, tables: self.tables };
        let filter = if draw.chance(80) { format!(" WHERE {}", scope.predicate(draw, depth)) } else { String::new() };
        match family {
            Family::Number if draw.chance(40) => format!("(SELECT count(*) FROM {from}{filter})"),
            Family::Number if draw.chance(30) => {
                format!("(SELECT sum({}) FROM {from}{filter})", own.value(draw, family, 0))
            }
            Family::Bool => format!("(SELECT bool_or({}) FROM {from}{filter})", own.value(draw, family, 0)),
            _ if draw.chance(30) => {
                // PostgreSQL sorts by no constant.
                let value = format!("coalesce({0}, {0})", own.value(draw, family, 0));
                format!("(SELECT {value} FROM {from}{filter} ORDER BY {value} LIMIT 1)")
            }
            _ => {
                let function = draw.pick(&["min", "max"]);
                format!("(SELECT {function}({}) FROM {from}{filter})", own.value(draw, family, 0))
            }
        }
    }

    fn family(&self, draw: &mut Draw) -> Family {
        match self.items.is_empty() || draw.chance(5) {
            true => draw.one_of(&[Family::Number, Family::Text, Family::Bool, Family::Moment]),
            false => self.items[draw.below(self.items.len())].kind.family(),
        }
    }

    /// Constants of an IN list.
    fn list(&self, draw: &mut Draw, family: Family) -> String {
        let count = 1 + draw.below(4);
        let mut list: Vec<String> = (0..count).map(|_| self.constant(draw, family)).collect();
        if draw.chance(10) {
            list.push("NULL".to_owned());
        }
        list.join(", ")
    }

    /// A predicate.
    pub(super) fn predicate(&self, draw: &mut Draw, depth: usize) -> String {
        let family = self.family(draw);
        if depth > 0 && draw.chance(45) {
            let deeper = |draw: &mut Draw| self.predicate(draw, depth - 1);
            return match draw.below(12) {
                0..=2 => format!("({} AND {})", deeper(draw), deeper(draw)),
                3..=5 => format!("({} OR {})", deeper(draw), deeper(draw)),
                6 => format!("NOT ({})", deeper(draw)),
                7 => {
                    let (scope, from, _) = self.inside(draw);
                    let not = draw.pick(&["", "NOT "]);
                    format!("{not}EXISTS (SELECT 1 FROM {from} WHERE {})", scope.predicate(draw, depth - 1))
                }
                8 | 9 => {
                    let (scope, from, own) = self.inside(draw);
                    let own = Scope { items: own, tables: self.tables };
                    let (value, not) = (self.value(draw, family, 0), draw.pick(&["", "NOT "]));
                    let inner = own.value(draw, family, 0);
                    let filter = match draw.chance(70) {
                        true => format!(" WHERE {}", scope.predicate(draw, depth - 1)),
                        false => String::new(),
                    };
                    match draw.chance(75) {
                        true => format!("{value} {not}IN (SELECT {inner} FROM {from}{filter})"),
                        false => {
                            let (how, all) = (draw.one_of(&COMPARISONS), draw.pick(&["ANY", "ALL"]));
                            format!("{value} {how} {all} (SELECT {inner} FROM {from}{filter})")
                        }
                    }
                }
                10 => format!("({}) IS {}", deeper(draw), draw.pick(&["TRUE", "NOT TRUE", "UNKNOWN", "NOT FALSE"])),
                _ => format!("CASE WHEN {} THEN {} ELSE {} END", deeper(draw), deeper(draw), deeper(draw)),
            };
        }
        let value = self.value(draw, family, depth.min(1));
        match draw.below(16) {
            0..=4 => format!("{value} {} {}", draw.one_of(&COMPARISONS), self.constant(draw, family)),
            5 | 6 => format!("{value} {} {}", draw.one_of(&COMPARISONS), self.value(draw, family, depth.min(1))),
            7 => format!("{value} <> {}", self.value(draw, family, 0)),
            8 => {
                let (not, low, high) =
                    (draw.pick(&["", "", "NOT "]), self.constant(draw, family), self.constant(draw, family));
                format!("{value} {not}BETWEEN {low} AND {high}")
            }
            9 | 10 => {
                let not = draw.pick(&["", "", "NOT "]);
                format!("{value} {not}IN ({})", self.list(draw, family))
            }
            11 | 12 => format!("{value} IS {}NULL", draw.pick(&["", "NOT "])),
            13 => {
                let (not, other) = (draw.pick(&["", "NOT "]), self.value(draw, family, 0));
                format!("{value} IS {not}DISTINCT FROM {other}")
            }
            14 => self.row(draw),
            _ => match family {
                Family::Text => {
                    let pattern = draw.pick(&["'a%'", "'ab%'", "'%b'", "'a_'", "'a'", "'%'", "'a\\%%'", "'B%'"]);
                    format!("{value} {}LIKE {pattern}", draw.pick(&["", "", "NOT "]))
                }
                Family::Bool => format!("{value} IS {}", draw.pick(&["TRUE", "NOT TRUE", "FALSE", "UNKNOWN"])),
                Family::Number => {
                    let cast = draw.pick(&["text", "text", "float8"]);
                    let right = if cast == "text" { "'1'" } else { draw.pick(&["1", "1.5", "2"]) };
                    format!("({value})::{cast} {} {right}", draw.one_of(&COMPARISONS))
                }
                Family::Moment => format!("extract(day FROM {value}) {} 2", draw.one_of(&COMPARISONS)),
            },
        }
    }

    /// A comparison of rows.
    fn row(&self, draw: &mut Draw) -> String {
        let (first, second) = (self.family(draw), self.family(draw));
        let left = format!("({}, {})", self.value(draw, first, 0), self.value(draw, second, 0));
        let constants = |draw: &mut Draw| format!("({}, {})", self.constant(draw, first), self.constant(draw, second));
        match draw.below(3) {
            0 => format!("{left} IN ({}, {})", constants(draw), constants(draw)),
            1 => format!("{left} NOT IN ({}, {})", constants(draw), constants(draw)),
            _ => format!("{left} {} {}", draw.one_of(&COMPARISONS), constants(draw)),
        }
    }
}
