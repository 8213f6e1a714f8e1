//! Equalities that follow from others: of `a = b AND b = c`, that `a = c`; of `a = b AND b = 5`, that `a = 5`. They
//! show more keys by which tables can be found. PostgreSQL calls such columns an equivalence class.

use crate::bind::from::Item;
use crate::plan::expression::{Comparison, Expr};
use crate::types::BaseType;

/// The most columns that are known to be equal of which pairs are added.
const COLUMNS_MAX: usize = 8;

/// Columns that have the same value in each row that is kept, and that value, if a constant or a parameter says it.
#[derive(Debug, Default)]
struct Class {
    slots: Vec<usize>,
    value: Option<Expr>,
}

/// The table of a column, and the type of its values.
fn column_of(units: &[Item], slot: usize) -> Option<(usize, BaseType)> {
    units.iter().enumerate().find_map(|(at, unit)| match unit {
        Item::Table { shape, base, .. } => {
            let column = slot.checked_sub(*base).and_then(|place| shape.columns.get(place))?;
            Some((at, column.sql_type.base))
        }
        _ => None,
    })
}

fn sides_of(condition: &Expr) -> Option<&[Expr; 2]> {
    match condition {
        Expr::Compare { comparison: Comparison::Equal, is_caseless: false, sides } => Some(sides),
        _ => None,
    }
}

fn equality(a: Expr, b: Expr) -> Expr {
    Expr::Compare { comparison: Comparison::Equal, is_caseless: false, sides: Box::new([a, b]) }
}

fn classes(units: &[Item], conditions: &[Expr]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for condition in conditions {
        let Some([Expr::Slot(a), Expr::Slot(b)]) = sides_of(condition) else { continue };
        let (Some((_, of_a)), Some((_, of_b))) = (column_of(units, *a), column_of(units, *b)) else { continue };
        // Another type may compare in another way.
        if of_a != of_b {
            continue;
        }
        let place = |slot: &usize| classes.iter().position(|class| class.slots.contains(slot));
        match (place(a), place(b)) {
            (Some(of_a), Some(of_b)) if of_a == of_b => {}
            (Some(of_a), Some(of_b)) => {
                let slots = std::mem::take(&mut classes[of_b].slots);
                classes[of_a].slots.extend(slots);
            }
            (Some(at), None) => classes[at].slots.push(*b),
            (None, Some(at)) => classes[at].slots.push(*a),
            (None, None) => classes.push(Class { slots: vec![*a, *b], value: None }),
        }
    }
    for condition in conditions {
        let (slot, value) = match sides_of(condition) {
            Some([Expr::Slot(slot), value @ (Expr::Constant(_) | Expr::Parameter(_))]) => (slot, value),
            Some([value @ (Expr::Constant(_) | Expr::Parameter(_)), Expr::Slot(slot)]) => (slot, value),
            _ => continue,
        };
        if let Some(class) = classes.iter_mut().find(|class| class.slots.contains(slot)) {
            class.value.get_or_insert_with(|| value.clone());
        }
    }
    classes
}

/// Adds the equalities that follow from conditions which all rows of an inner join keep.
pub(super) fn add_implied(units: &[Item], conditions: &mut Vec<Expr>) {
    let mut implied = Vec::new();
    for Class { slots, value } in classes(units, conditions) {
        if slots.len() > COLUMNS_MAX {
            continue;
        }
        for (at, &a) in slots.iter().enumerate() {
            if let Some(value) = &value {
                implied.push(equality(Expr::Slot(a), value.clone()));
                continue;
            }
            for &b in &slots[at + 1..] {
                let is_of_two = column_of(units, a).map(|(unit, _)| unit) != column_of(units, b).map(|(unit, _)| unit);
                if is_of_two {
                    implied.push(equality(Expr::Slot(a), Expr::Slot(b)));
                }
            }
        }
    }
    for condition in implied {
        let Some([a, b]) = sides_of(&condition) else { continue };
        let is_same = |known: &Expr| sides_of(known).is_some_and(|[c, d]| (a, b) == (c, d) || (a, b) == (d, c));
        if !conditions.iter().any(is_same) {
            conditions.push(condition);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bind::names::{KeyShape, ShapeColumn, TableShape};
    use crate::types::SqlType;
    use crate::types::datum::Datum;

    fn table(base: usize, types: &[BaseType]) -> Item {
        let column = |base: &BaseType| ShapeColumn {
            name: "c".into(),
            number: 1,
            sql_type: SqlType::from(*base),
            is_hidden: false,
            is_not_null: false,
            default: None,
            identity: None,
            generates: None,
            is_generated: false,
        };
        let primary = KeyShape {
            index: None,
            columns: Vec::new(),
            own: 0,
            is_unique: true,
            is_unique_later: false,
            expressions: Vec::new(),
            predicate: None,
            includes: Vec::new(),
            sum: None,
        };
        let shape = TableShape {
            table: "t".into(),
            name: "t".into(),
            schema: "public".into(),
            primary_name: None,
            number: 1,
            columns: types.iter().map(column).collect(),
            types: types.iter().map(|base| SqlType::from(*base)).collect(),
            primary,
            indexes: Vec::new(),
            materialized: None,
            face: None,
        };
        Item::Table { shape: Arc::new(shape), alias: "t".into(), base, sample: None }
    }

    fn pair(a: usize, b: usize) -> Expr {
        equality(Expr::Slot(a), Expr::Slot(b))
    }

    fn five(a: usize) -> Expr {
        equality(Expr::Slot(a), Expr::Constant(Datum::Int(5)))
    }

    #[test]
    fn what_equals_the_same_is_equal() {
        let two = [BaseType::Int4, BaseType::Int4];
        let units = [table(0, &two), table(2, &two), table(4, &[BaseType::Int4, BaseType::Int8])];
        let implied = |conditions: &[Expr]| {
            let mut all = conditions.to_vec();
            add_implied(&units, &mut all);
            all.split_off(conditions.len())
        };
        assert_eq!(implied(&[pair(0, 2)]), []);
        assert_eq!(implied(&[pair(0, 2), pair(2, 4)]), [pair(0, 4)]);
        assert_eq!(implied(&[pair(0, 2), pair(4, 2), pair(4, 0)]), []);
        assert_eq!(implied(&[pair(0, 2), pair(2, 1)]), [], "columns of one table");
        assert_eq!(implied(&[pair(0, 2), pair(4, 5), pair(2, 5)]), [], "another type");
        assert_eq!(implied(&[pair(0, 2), pair(1, 4), pair(2, 4)]), [pair(0, 4), pair(2, 1)]);
        assert_eq!(implied(&[pair(0, 2), five(2), pair(4, 2)]), [five(0), five(4)]);
        let unequal = Expr::Compare {
            comparison: Comparison::Unequal,
            is_caseless: false,
            sides: Box::new([Expr::Slot(2), Expr::Slot(4)]),
        };
        assert_eq!(implied(&[pair(0, 2), unequal]), []);
    }
}
