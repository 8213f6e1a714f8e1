//! Aggregates that come out of the tallies of a tree: of all rows that a key's range has, or of groups that are a key's
//! first columns.

use std::collections::HashMap;
use std::sync::Arc;

use crate::bind::access::is_as_in_keys;
use crate::bind::names::{KeyShape, TableShape};
use crate::plan::expression::Expr;
use crate::plan::query::{Aggregate, Counted, CountedAnswer, Grouping};
use crate::plan::source::{Access, Scan, Source};
use crate::types::{BaseType, SqlType};

/// How the groups come about without a look at their rows. May choose another index of the same rows for it.
pub(super) fn counted(
    grouping: &Grouping,
    source: &mut Source,
    tables: &HashMap<String, Arc<TableShape>>,
) -> Option<Counted> {
    let Source::Scan(scan) = source else { return None };
    if scan.filter.is_some() || scan.sample.is_some() || grouping.sets.len() != 1 {
        return None;
    }
    let shape = tables.get(&*scan.table)?;
    if let Some(counted) = of_key(grouping, scan, key_of(shape, &scan.access)?) {
        return Some(counted);
    }
    if let Some((other, counted)) = without_nulls(grouping, scan, key_of(shape, &scan.access)?) {
        **scan = other;
        return Some(counted);
    }
    if !scan.access.is_whole() {
        return None;
    }
    // All rows are in each index that has no condition.
    let indexes = shape.indexes.iter().filter(|index| index.predicate.is_none());
    for key in std::iter::once(&shape.primary).chain(indexes) {
        let access = Access { index: key.index.clone(), columns: key.columns.clone(), ..Access::default() };
        let other = Scan { access, ..(**scan).clone() };
        if let Some(counted) = of_key(grouping, &other, key) {
            **scan = other;
            return Some(counted);
        }
        if let Some((other, counted)) = without_nulls(grouping, &other, key) {
            **scan = other;
            return Some(counted);
        }
    }
    None
}

/// The same rows but for those with NULL in the next column of the key, where no aggregate looks at these.
fn without_nulls(grouping: &Grouping, scan: &Scan, key: &KeyShape) -> Option<(Scan, Counted)> {
    if !grouping.groups.is_empty() || scan.access.leaves_out_nulls() {
        return None;
    }
    let next = key.columns.get(scan.access.said())?.place?;
    let passes_over = |aggregate: &Aggregate| match (aggregate.call.aggregate.name, aggregate.arguments.last()) {
        ("count" | "min" | "max" | "percentile_disc", Some(Expr::Slot(slot))) => *slot == scan.base + next,
        _ => false,
    };
    if !grouping.aggregates.iter().all(passes_over) {
        return None;
    }
    let mut other = scan.clone();
    other.access.is_not_null = true;
    let counted = of_key(grouping, &other, key)?;
    Some((other, counted))
}

fn key_of<'t>(shape: &'t TableShape, access: &Access) -> Option<&'t KeyShape> {
    match &access.index {
        None => Some(&shape.primary),
        Some(name) => shape.indexes.iter().find(|index| index.index.as_ref() == Some(name)),
    }
}

fn of_key(grouping: &Grouping, scan: &Scan, key: &KeyShape) -> Option<Counted> {
    let mut groups = Vec::new();
    for group in &grouping.groups {
        let Expr::Slot(slot) = group else { return None };
        let place = slot.checked_sub(scan.base).filter(|place| is_as_in_keys(scan.types[*place]))?;
        groups.push(key.columns.iter().position(|column| column.place == Some(place))?);
    }
    let columns = groups.iter().map(|column| column + 1).max().unwrap_or(0);
    // All of the first columns make a group, but those that have one value anyway.
    let is_fixed = |column: usize| column < scan.access.equal.len();
    let is_whole_group = (0..columns).all(|column| groups.contains(&column) || is_fixed(column));
    if !is_whole_group || (columns > 0 && scan.access.has_nulls_apart) {
        return None;
    }
    // A range that ends within a column would cut its groups only if that column is not one of theirs.
    let has_range = scan.access.leaves_out_nulls() || scan.access.several.is_some();
    if columns > 0 && has_range && scan.access.said() + scan.access.said_by_ends() > columns {
        return None;
    }
    let mut answers = Vec::new();
    for aggregate in &grouping.aggregates {
        answers.push(answer(aggregate, scan, key, columns)?);
    }
    Some(Counted { columns, groups, answers })
}

fn answer(aggregate: &Aggregate, scan: &Scan, key: &KeyShape, columns: usize) -> Option<CountedAnswer> {
    let name = aggregate.call.aggregate.name;
    if aggregate.filter.is_some() {
        return None;
    }
    let column = |expr: &Expr| match expr {
        Expr::Slot(slot) => slot.checked_sub(scan.base),
        // The value of the key is the value of the cast.
        Expr::Cast { value, from, to, .. } if is_same_value(*from, *to) => match &**value {
            Expr::Slot(slot) => slot.checked_sub(scan.base),
            _ => None,
        },
        _ => None,
    };
    let next = key.columns.get(scan.access.said());
    match (name, &aggregate.arguments[..]) {
        ("count", []) => Some(CountedAnswer::Rows),
        ("count", [Expr::Constant(value)]) if !value.is_null() && !aggregate.is_distinct => Some(CountedAnswer::Rows),
        ("count", [argument]) if !aggregate.is_distinct => {
            let place = column(argument)?;
            let is_never_null = scan.not_null.contains(&place) || !is_nullable(place, key);
            let is_left_out = next.is_some_and(|next| next.place == Some(place)) && scan.access.leaves_out_nulls();
            let is_fixed = key.columns[..scan.access.equal.len()].iter().any(|column| column.place == Some(place))
                && !scan.access.equal.contains(&crate::plan::source::KeyTerm::Null);
            (is_never_null || is_left_out || is_fixed).then_some(CountedAnswer::Rows)
        }
        ("sum", [argument]) if !aggregate.is_distinct => {
            let place = column(argument)?;
            // NULL counts as 0, and a sum of no value is NULL: so the column must always have one.
            (key.sum == Some(place) && !is_nullable_in(scan, place, key)).then_some(CountedAnswer::Sum)
        }
        ("min" | "max", [argument]) if columns == 0 && scan.access.several.is_none() => {
            let place = column(argument)?;
            let next = next.filter(|next| next.place == Some(place))?;
            // NULL stands where the least values are, in either direction.
            if next.is_nullable && !scan.access.leaves_out_nulls() && name == "min" {
                return None;
            }
            Some(CountedAnswer::Edge { is_last: (name == "max") != next.is_descending })
        }
        // Of an array of parts each has a value of its own.
        ("percentile_disc", [_, _]) if aggregate.call.returns.is_array => None,
        ("percentile_disc", [part, argument]) if columns == 0 && scan.access.is_one_range() => {
            let place = column(argument)?;
            let next = next.filter(|next| next.place == Some(place))?;
            if next.is_nullable && !scan.access.leaves_out_nulls() {
                return None;
            }
            let [(_, direction)] = aggregate.order[..] else { return None };
            let is_reversed = direction.is_descending != next.is_descending;
            Some(CountedAnswer::Quantile { part: part.clone(), is_reversed })
        }
        _ => None,
    }
}

/// Whether a cast changes nothing of a value, not even its order among others.
fn is_same_value(from: SqlType, to: SqlType) -> bool {
    use BaseType::{Int2, Int4, Int8, Name, Text, Varchar};
    let is_alike = matches!(
        (from.base, to.base),
        (Int2, Int2 | Int4 | Int8) | (Int4, Int4 | Int8) | (Int8, Int8) | (Text | Varchar | Name, Text | Varchar)
    );
    is_alike && !from.is_array && !to.is_array && to.modifier == -1
}

/// Whether a column of a key can be NULL; one that the key does not have may be.
fn is_nullable(place: usize, key: &KeyShape) -> bool {
    key.columns.iter().find(|column| column.place == Some(place)).is_none_or(|column| column.is_nullable)
}

fn is_nullable_in(scan: &Scan, place: usize, key: &KeyShape) -> bool {
    !scan.not_null.contains(&place) && is_nullable(place, key)
}
