//! Chooses the key that finds the rows of a table: conditions become ranges of the primary key or of an index.

use std::sync::Arc;

use crate::bind::names::{KeyShape, TableShape};
use crate::functions::letter_cases::LetterCase;
use crate::plan::expression::{Comparison, Expr, Quantifier, SubqueryKind};
use crate::plan::query::{Body, Direction, Query};
use crate::plan::source::{Access, KeyColumn, KeyTerm, Several, SeveralRows, Source};
use crate::types::datum::{Array, Datum};
use crate::types::{BaseType, SqlType};

/// An order that is wanted: expressions and directions.
pub(super) type Wanted = [(Expr, Direction)];

/// A way to the rows of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub(super) access: Access,
    /// Which of the conditions it sees to.
    pub(super) consumed: Vec<usize>,
    /// How much it narrows the rows down.
    pub(super) score: u32,
    /// Whether its rows come in the wanted order, and whether from the end.
    pub(super) order: Option<bool>,
}

/// What is looked for.
pub(super) struct Search<'s> {
    pub(super) shape: &'s TableShape,
    /// The slot of the table's first column.
    pub(super) base: usize,
    pub(super) conditions: &'s [Expr],
    /// The slots of other tables whose values are known.
    pub(super) known: &'s [usize],
    pub(super) wanted: &'s Wanted,
    /// The places of the columns that are read, whatever the way.
    pub(super) reads: &'s [usize],
    /// What the indexes say in words, bound to this table.
    pub(super) words: &'s [IndexWords],
}

/// What an index says in words, over the slots of its table.
pub(super) struct IndexWords {
    /// The conditions of its rows; none if they could not be bound.
    pub(super) predicate: Option<Vec<Expr>>,
    /// The expressions that a search can compare with, by their places in the key.
    pub(super) expressions: Vec<(usize, Expr)>,
}

/// Rows of a sub-select with a limit that are few.
const FEW: i64 = 10_000;
/// The most pairs of values that two lists are made.
const PAIRS_MAX: usize = 256;

/// Several values for columns of a key.
struct Found {
    /// The condition that says so, if that is all that it says.
    condition: Option<usize>,
    several: Several,
}

impl Found {
    /// How much they narrow the rows down.
    fn score(&self) -> u32 {
        let each = match &self.several {
            Several::List(_) | Several::Array(_) => 9,
            Several::Rows(SeveralRows { subquery: Expr::Subquery(subquery), .. }) if gives_few(&subquery.query) => 8,
            // It may be too many.
            Several::Rows(_) => 3,
        };
        each * self.several.columns() as u32
    }
}

/// A column of a key that a search can use.
struct Part<'k> {
    column: &'k KeyColumn,
    holds: Holds<'k>,
}

/// What a column of a key holds.
enum Holds<'k> {
    /// The column of the table at this place.
    Column(usize),
    /// The value of an expression over its columns.
    Expression(&'k Expr),
}

impl Search<'_> {
    /// The best way.
    pub(super) fn best(&self) -> Way {
        let mut best = self.way(&self.shape.primary, &[]);
        for (index, words) in self.shape.indexes.iter().zip(self.words) {
            let is_usable = match (&index.predicate, &words.predicate) {
                (None, _) => true,
                (Some(_), Some(parts)) => parts.iter().all(|part| self.conditions.contains(part)),
                (Some(_), None) => false,
            };
            if !is_usable {
                continue;
            }
            let way = self.way(index, &words.expressions);
            // The rows of an index are looked up one by one, so without a reason the table itself is read.
            let has_reason = way.score > 0 || (way.order.is_some() && best.order.is_none());
            if has_reason && way.value() > best.value() {
                best = way;
            }
        }
        best
    }

    fn is_known(&self, expr: &Expr) -> bool {
        let mut slots = Vec::new();
        expr.add_slots(&mut slots);
        let is_fixed = |part: &Expr| matches!(part, Expr::Aggregate(_) | Expr::Window(_) | Expr::Default);
        slots.iter().all(|slot| self.known.contains(slot)) && !expr.any(&is_fixed) && !expr.is_volatile()
    }

    /// Whether an expression is what a column of a key holds.
    fn is_it(&self, expr: &Expr, part: &Part<'_>) -> bool {
        match part.holds {
            Holds::Column(place) => *expr == Expr::Slot(self.base + place) && is_as_in_keys(self.shape.types[place]),
            Holds::Expression(held) => expr == held,
        }
    }

    /// The same, perhaps as a wider type.
    fn is_held(&self, expr: &Expr, part: &Part<'_>) -> bool {
        match expr {
            _ if self.is_it(expr, part) => true,
            Expr::Cast { value, from, to, .. } => keeps_order(*from, *to) && self.is_held(value, part),
            _ => false,
        }
    }

    /// The comparison of a column of a key with something known, whichever side it stands on.
    fn comparison<'e>(&self, condition: &'e Expr, part: &Part<'_>) -> Option<(Comparison, &'e Expr)> {
        let Expr::Compare { comparison, sides, .. } = condition else { return None };
        let [a, b] = &**sides;
        if self.is_held(a, part) && self.is_known(b) {
            Some((*comparison, b))
        } else if self.is_held(b, part) && self.is_known(a) {
            Some((comparison.mirrored(), a))
        } else {
            None
        }
    }

    fn way(&self, key: &KeyShape, expressions: &[(usize, Expr)]) -> Way {
        let mut way = Way {
            access: Access { index: key.index.clone(), columns: key.columns.clone(), ..Access::default() },
            consumed: Vec::new(),
            score: 0,
            order: None,
        };
        if self.conditions.iter().any(is_never) {
            // No values, so no range of the key.
            way.access.several = Some(Several::List(Vec::new()));
            way.order = (!self.wanted.is_empty()).then_some(false);
            return way;
        }
        let parts: Vec<Part<'_>> = parts(key, expressions).collect();
        for (said, part) in parts.iter().enumerate() {
            if let Some((at, term)) = self.equal_term(part) {
                way.access.equal.push(term);
                way.consumed.push(at);
                way.score += 10;
                continue;
            }
            if let Some(found) = self.several(&parts[said..]) {
                way.score += found.score();
                way.consumed.extend(found.condition);
                way.access.several = Some(found.several);
                self.add_then(&mut way, &parts);
            }
            break;
        }
        let said = way.access.said();
        let has_null = way.access.equal.contains(&KeyTerm::Null);
        way.access.is_unique = key.is_unique && said >= key.own && way.access.several.is_none() && !has_null;
        if way.access.is_unique {
            way.score += 1_000;
        } else if let Some(part) = parts.get(said).filter(|_| !matches!(way.access.several, Some(Several::Rows(_)))) {
            self.add_range(&mut way, part);
            self.add_row_range(&mut way, &parts[said..]);
        }
        if key.index.is_some() {
            // Of some types a key has a sort key, which a value cannot be read from.
            let is_read = |column: &KeyColumn, place: usize| column.place == Some(place) && column.tells_value();
            let has = |place: &usize| {
                key.includes.contains(place)
                    || self.shape.primary.columns.iter().any(|column| is_read(column, *place))
                    || key.columns.iter().any(|column| is_read(column, *place))
            };
            way.access.is_covering = self.reads.iter().all(has);
        }
        way.order = self.order(&mut way.access, &parts);
        way
    }

    fn equal_term(&self, part: &Part<'_>) -> Option<(usize, KeyTerm)> {
        self.conditions.iter().enumerate().find_map(|(at, condition)| match condition {
            Expr::IsNull { value, is_negated: false } if self.is_held(value, part) => Some((at, KeyTerm::Null)),
            _ => match self.comparison(condition, part)? {
                (Comparison::Equal, value) => Some((at, KeyTerm::Value(value.clone()))),
                _ => None,
            },
        })
    }

    /// Several values of the first of these columns, or of it and those after it.
    fn several(&self, parts: &[Part<'_>]) -> Option<Found> {
        let first = parts.first()?;
        let all = |at: usize, several: Several| Some(Found { condition: Some(at), several });
        let exact = self.conditions.iter().enumerate().find_map(|(at, condition)| match condition {
            Expr::In { left, list, is_negated: false, .. }
                if self.is_held(left, first) && list.iter().all(|item| self.is_known(item)) =>
            {
                all(at, Several::List(list.iter().map(|item| vec![item.clone()]).collect()))
            }
            Expr::In { left, list, is_negated: false, .. } => {
                let Expr::Record(row, _) = &**left else { return None };
                let columns = self.columns_in(row.iter().map(|(_, value)| value), parts);
                let lists = list.iter().map(|item| self.values_in(item, &columns)).collect::<Option<Vec<_>>>()?;
                // What a key does not say of the rows is left to the filter.
                let condition = (columns.len() == row.len()).then_some(at);
                (!columns.is_empty()).then_some(Found { condition, several: Several::List(lists) })
            }
            Expr::Quantified {
                left,
                function: Quantifier::Comparison(Comparison::Equal),
                array,
                is_all: false,
                ..
            } if self.is_held(left, first) && self.is_known(array) => all(at, Several::Array((**array).clone())),
            Expr::Or(choices) => {
                let lists = self.alternatives(choices, parts)?;
                Some(Found { condition: Some(at), several: Several::List(lists) })
            }
            _ => None,
        });
        exact.or_else(|| self.conditions.iter().find_map(|condition| self.rows_of_subselect(condition, parts)))
    }

    /// Which of the values of a row are those of the first of these columns, one after the other.
    fn columns_in<'e>(&self, row: impl Iterator<Item = &'e Expr> + Clone, parts: &[Part<'_>]) -> Vec<usize> {
        parts.iter().map_while(|part| row.clone().position(|value| self.is_held(value, part))).collect()
    }

    /// The known values of a row at these places.
    fn values_in(&self, row: &Expr, columns: &[usize]) -> Option<Vec<Expr>> {
        let Expr::Record(row, _) = row else { return None };
        let value = |&at: &usize| Some(&row.get(at)?.1).filter(|value| self.is_known(value)).cloned();
        columns.iter().map(value).collect()
    }

    /// `column IN (SELECT ...)`, whose rows are looked up if they are few. The condition stays in the filter.
    fn rows_of_subselect(&self, condition: &Expr, parts: &[Part<'_>]) -> Option<Found> {
        let Expr::Subquery(subquery) = condition else { return None };
        let SubqueryKind::Quantified { left, comparison: Comparison::Equal, is_all: false } = &subquery.kind else {
            return None;
        };
        let is_known = subquery.arguments.iter().all(|argument| self.is_known(argument));
        if !is_known || !(gives_few(&subquery.query) || self.is_alone()) {
            return None;
        }
        let columns = self.columns_in(left.iter(), parts);
        if columns.is_empty() {
            return None;
        }
        // What it is compared with is not known before its rows are.
        let mut asked = (**subquery).clone();
        if let SubqueryKind::Quantified { left, .. } = &mut asked.kind {
            left.fill(Expr::Constant(Datum::Null));
        }
        let (table, subquery) = (Arc::clone(&self.shape.table), Expr::Subquery(Arc::new(asked)));
        let several = Several::Rows(SeveralRows { table, subquery, columns });
        Some(Found { condition: None, several })
    }

    /// Whether the table is read by itself, and once.
    fn is_alone(&self) -> bool {
        let own = self.base..self.base + self.shape.types.len();
        let is_other = |part: &Expr| match part {
            Expr::Slot(slot) => !own.contains(slot),
            Expr::Outer(_) => true,
            _ => false,
        };
        self.known.is_empty() && !self.conditions.iter().any(|condition| condition.any(&is_other))
    }

    /// What is said of the columns after those that have several values: one value each. Of lists of a few values, all
    /// pairs are values of both columns.
    fn add_then(&self, way: &mut Way, parts: &[Part<'_>]) {
        if matches!(way.access.several, Some(Several::Rows(_))) {
            return;
        }
        while let Some(part) = parts.get(way.access.said()) {
            if let Some((at, term)) = self.equal_term(part) {
                way.access.then.push(term);
                way.consumed.push(at);
                way.score += 10;
                continue;
            }
            let rest = std::slice::from_ref(part);
            let Some(Several::List(lists)) = way.access.several.as_mut().filter(|_| way.access.then.is_empty()) else {
                break;
            };
            let Some(Found { condition: Some(at), several: Several::List(more) }) = self.several(rest) else { break };
            if lists.len() * more.len() > PAIRS_MAX {
                break;
            }
            let pair = |list: &Vec<Expr>| more.iter().map(|value| [&list[..], value].concat()).collect::<Vec<_>>();
            *lists = lists.iter().flat_map(pair).collect();
            way.consumed.push(at);
            way.score += 9;
        }
    }

    /// Alternatives each of which says the same first columns, and nothing else.
    fn alternatives(&self, choices: &[Expr], parts: &[Part<'_>]) -> Option<Vec<Vec<Expr>>> {
        let mut lists: Vec<Vec<Expr>> = Vec::with_capacity(choices.len());
        for choice in choices {
            let conditions = match choice {
                Expr::And(conditions) => &conditions[..],
                condition => std::slice::from_ref(condition),
            };
            let mut values = Vec::new();
            for part in parts {
                let found = conditions.iter().find_map(|condition| match self.comparison(condition, part)? {
                    (Comparison::Equal, value) => Some(value.clone()),
                    _ => None,
                });
                match found {
                    Some(value) => values.push(value),
                    None => break,
                }
            }
            let is_alike = lists.first().is_none_or(|first| first.len() == values.len());
            if values.is_empty() || values.len() != conditions.len() || !is_alike {
                return None;
            }
            lists.push(values);
        }
        (!lists.is_empty()).then_some(lists)
    }

    /// What is said of the column after those that have one value.
    fn add_range(&self, way: &mut Way, part: &Part<'_>) {
        for (at, condition) in self.conditions.iter().enumerate() {
            match condition {
                Expr::IsNull { value, is_negated: true } if self.is_held(value, part) => {
                    way.access.is_not_null = true;
                    way.consumed.push(at);
                    way.score += u32::from(part.column.is_nullable);
                    continue;
                }
                Expr::Call { .. }
                    if way.access.prefix.is_none() && part.column.data_type == quipu_rows::DataType::TEXT =>
                {
                    if let Some((prefix, is_all)) = self.beginning(condition, part) {
                        way.access.prefix = Some(Expr::Constant(prefix));
                        way.score += 6;
                        if is_all {
                            way.consumed.push(at);
                        }
                    }
                    continue;
                }
                _ => {}
            }
            if let Some((comparison, value)) = self.comparison(condition, part) {
                way.add_end(at, RowRange { comparison, values: vec![value.clone()], is_all: true });
            }
        }
    }

    /// What a column begins with by LIKE, ILIKE, or LIKE of its text in one case: a text, or an array of texts; and
    /// whether that is all that the condition says.
    fn beginning(&self, condition: &Expr, part: &Part<'_>) -> Option<(Datum, bool)> {
        let (function, [text, pattern]) = call_of(condition)? else { return None };
        let pattern = text_of(pattern)?;
        let (case, pattern) = match (function, call_of(text)) {
            ("~~", _) if self.is_held(text, part) => (None, pattern),
            ("~~*", _) if self.is_held(text, part) => {
                (Some(LetterCase::Alike), LetterCase::Alike.of_text(&pattern).into())
            }
            ("~~", Some((function, [text]))) if self.is_held(text, part) => {
                (Some(LetterCase::of_function(function)?), pattern)
            }
            _ => return None,
        };
        let (prefix, is_whole) = prefix_of(&pattern)?;
        let Some(case) = case else { return Some((Datum::Text(prefix), is_whole)) };
        let (texts, is_all) = case.beginnings(&prefix);
        let texts = texts.into_iter().map(Datum::Text).collect();
        Some((Datum::Array(Array::new(BaseType::Text, texts).into()), is_whole && is_all))
    }

    /// What comparisons of rows say of the columns after those that have one value: `(a, b) > (1, 2)`.
    fn add_row_range(&self, way: &mut Way, parts: &[Part<'_>]) {
        for (at, condition) in self.conditions.iter().enumerate() {
            if let Some(range) = self.row_range(condition, parts) {
                way.add_end(at, range);
            }
        }
    }

    /// A comparison of a row of columns with a row of known values, as far as it is about columns of the key in their
    /// order and in one direction.
    fn row_range(&self, condition: &Expr, parts: &[Part<'_>]) -> Option<RowRange> {
        let Expr::Compare { comparison, sides, .. } = condition else { return None };
        let [Expr::Record(left, _), Expr::Record(right, _)] = &**sides else { return None };
        let is_known = |row: &[(SqlType, Expr)]| row.iter().all(|(_, part)| self.is_known(part));
        let (row, known, comparison) = match (is_known(left), is_known(right)) {
            (false, true) => (left, right, *comparison),
            (true, false) => (right, left, comparison.mirrored()),
            _ => return None,
        };
        let first = parts.first()?.column;
        let is_of_key = |((_, value), part): &(&(SqlType, Expr), &Part<'_>)| {
            self.is_held(value, part)
                && part.column.is_descending == first.is_descending
                && !part.column.data_type.ignores_case()
        };
        let length = row.iter().zip(parts).take_while(is_of_key).count();
        // NULL in a later column leaves the comparison open, but stands within the range.
        let is_all = length == row.len() && parts[1..length].iter().all(|part| !part.column.is_nullable);
        let values: Vec<Expr> = known[..length].iter().map(|(_, value)| value.clone()).collect();
        (length > 0).then_some(RowRange { comparison, values, is_all })
    }

    /// Whether the rows come in the wanted order, and then whether from the end.
    fn order(&self, access: &mut Access, parts: &[Part<'_>]) -> Option<bool> {
        if self.wanted.is_empty() {
            return None;
        }
        if access.is_unique {
            // One row is in any order, but not rows of others beside it.
            let mut slots = Vec::new();
            self.wanted.iter().for_each(|(expr, _)| expr.add_slots(&mut slots));
            let own = self.base..self.base + self.shape.types.len();
            return slots.iter().all(|slot| own.contains(slot)).then_some(false);
        }
        // Several ranges follow each other in the order of the columns that they say.
        let said = access.said();
        let mut columns = parts.iter().enumerate().peekable();
        let mut is_reversed = None;
        let mut nulls_apart = None;
        for (expr, direction) in self.wanted {
            // Columns that have one value are in any order.
            let mut fixed = parts.iter().enumerate().filter(|(at, _)| access.is_fixed(*at));
            if fixed.any(|(_, part)| self.is_it(expr, part)) {
                continue;
            }
            while columns.peek().is_some_and(|(at, _)| access.is_fixed(*at)) {
                columns.next();
            }
            let (at, part) = columns.next()?;
            let column = part.column;
            if !self.is_it(expr, part) || direction.is_caseless != column.data_type.ignores_case() {
                return None;
            }
            let reversed = direction.is_descending != column.is_descending;
            if *is_reversed.get_or_insert(reversed) != reversed {
                return None;
            }
            let has_nulls = column.is_nullable && (at > said || (at == said && !access.leaves_out_nulls()));
            if has_nulls {
                // In the tree NULL is less than all values.
                let is_first = direction.nulls_first;
                let comes_first = !direction.is_descending;
                if is_first != comes_first {
                    if at != said || access.several.is_some() {
                        return None;
                    }
                    nulls_apart = Some(at);
                }
            }
        }
        access.has_nulls_apart = nulls_apart.is_some();
        Some(is_reversed.unwrap_or(false))
    }
}

/// The columns of a key up to the first that a search cannot use.
fn parts<'k>(key: &'k KeyShape, expressions: &'k [(usize, Expr)]) -> impl Iterator<Item = Part<'k>> {
    key.columns.iter().enumerate().map_while(|(at, column)| {
        let holds = match column.place {
            Some(place) => Holds::Column(place),
            None => Holds::Expression(&expressions.iter().find(|(place, _)| *place == at)?.1),
        };
        Some(Part { column, holds })
    })
}

/// What a comparison, of a column or of a row of them, says of columns of a key.
struct RowRange {
    comparison: Comparison,
    values: Vec<Expr>,
    /// Whether that is all that the comparison says.
    is_all: bool,
}

impl Access {
    /// Whether rows with NULL in the column after those that have one value are left out.
    pub(super) fn leaves_out_nulls(&self) -> bool {
        self.low.is_some() || self.high.is_some() || self.prefix.is_some() || self.is_not_null
    }
}

impl Way {
    /// Ends the range at what a condition says, unless it has that end already.
    fn add_end(&mut self, condition: usize, RowRange { comparison, values, is_all }: RowRange) {
        let (end, is_included) = match comparison {
            Comparison::Greater => (&mut self.access.low, false),
            Comparison::GreaterOrEqual => (&mut self.access.low, true),
            Comparison::Less => (&mut self.access.high, false),
            Comparison::LessOrEqual => (&mut self.access.high, true),
            Comparison::Equal | Comparison::Unequal => return,
        };
        if end.is_none() {
            *end = Some((values, is_included || !is_all));
            self.score += 4;
            if is_all {
                self.consumed.push(condition);
            }
        }
    }

    fn value(&self) -> u32 {
        self.score * 2 + u32::from(self.order.is_some()) * 3 + u32::from(self.access.is_covering)
    }
}

/// Whether a sub-select reads no table, or gives no more rows than a small number.
fn gives_few(query: &Query) -> bool {
    let is_small = |limit: &Expr| match limit {
        Expr::Constant(Datum::Int(limit)) => *limit <= FEW,
        Expr::Parameter(_) => true,
        _ => false,
    };
    query.limit.as_ref().is_some_and(is_small) && !query.with_ties
        || match &query.body {
            Body::Values(_) => true,
            Body::Select(select) => match &select.source {
                Source::Once | Source::Nothing | Source::Function { .. } | Source::Value { .. } => true,
                Source::Filter { input, .. } => matches!(**input, Source::Function { .. }),
                _ => false,
            },
            Body::Set { .. } => false,
        }
}

/// Whether columns of a type compare without case and accents.
trait Caseless {
    fn ignores_case(&self) -> bool;
}

impl Caseless for quipu_rows::DataType {
    fn ignores_case(&self) -> bool {
        *self == quipu_rows::DataType::Text(quipu_rows::Collation::Unicode)
    }
}

/// Whether values are equal, and in the order, that they have in keys: JSON goes by its text there.
pub(super) fn is_as_in_keys(sql_type: SqlType) -> bool {
    sql_type.is_array || !matches!(sql_type.base, BaseType::Json | BaseType::Jsonb)
}

/// Whether values keep their order, and which are equal, when they become those of another type.
fn keeps_order(from: SqlType, to: SqlType) -> bool {
    use BaseType::{Char, Date, Float4, Float8, Int2, Int4, Int8, Name, Numeric, Text, Tid, Timestamp, Varchar};
    if from.is_array || to.is_array {
        return false;
    }
    matches!(
        (from.base, to.base),
        (Int2, Int2 | Int4 | Int8 | Numeric)
            | (Int4, Int4 | Int8 | Numeric)
            | (Int8, Int8 | Numeric)
            | (Numeric, Numeric)
            | (Float4, Float4 | Float8)
            | (Date, Timestamp)
            | (Text | Varchar | Name, Text | Varchar)
            | (Char, Char | Text | Varchar)
            | (Int2 | Int4 | Int8, Tid)
    ) && to.modifier == -1
}

/// Whether no row keeps a condition, as one can see: `false`, `1 = 0`, a comparison with NULL.
fn is_never(condition: &Expr) -> bool {
    match condition {
        Expr::Constant(value) => matches!(value, Datum::Bool(false) | Datum::Null),
        Expr::Compare { comparison, sides, .. } => match &**sides {
            [Expr::Constant(Datum::Null), _] | [_, Expr::Constant(Datum::Null)] => true,
            [Expr::Constant(Datum::Int(a)), Expr::Constant(Datum::Int(b))] => !comparison.agrees(a.cmp(b)),
            _ => false,
        },
        _ => false,
    }
}

/// The name of the function that an expression calls, and the arguments.
fn call_of(expr: &Expr) -> Option<(&str, &[Expr])> {
    let Expr::Call { call, arguments } = expr else { return None };
    Some((call.0.function.name, arguments))
}

/// Whether rows compute the same values for an expression in words of their own: of a text in one case, and of the day
/// of a timestamp.
pub(super) fn is_same_in_rows(expr: &Expr) -> bool {
    let is_slot = |expr: &Expr| match expr {
        Expr::Cast { value, from, to, .. } => keeps_order(*from, *to) && matches!(**value, Expr::Slot(_)),
        expr => matches!(expr, Expr::Slot(_)),
    };
    match (expr, call_of(expr)) {
        (_, Some((function, [text]))) => LetterCase::of_function(function).is_some() && is_slot(text),
        (Expr::Cast { value, from, to, .. }, _) => {
            (from.base, to.base) == (BaseType::Timestamp, BaseType::Date) && matches!(**value, Expr::Slot(_))
        }
        _ => false,
    }
}

/// The text that an expression always is: a literal, or one in another case.
fn text_of(expr: &Expr) -> Option<Arc<str>> {
    if let Expr::Constant(Datum::Text(text)) = expr {
        return Some(text.clone());
    }
    let (function, [argument]) = call_of(expr)? else { return None };
    Some(LetterCase::of_function(function)?.of_text(&text_of(argument)?).into())
}

/// What all texts that match a pattern begin with, and whether that is all that the pattern says.
fn prefix_of(pattern: &str) -> Option<(Arc<str>, bool)> {
    let end = pattern.find(['%', '_', '\\'])?;
    if end == 0 {
        return None;
    }
    Some((pattern[..end].into(), &pattern[end..] == "%"))
}
