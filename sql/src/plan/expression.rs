//! Values computed of a row.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use crate::functions::{Call, Volatility};
use crate::plan::query::Query;
use crate::types::BaseType;
use crate::types::SqlType;
use crate::types::cast::CastContext;
use crate::types::datum::Datum;
use crate::types::user::FieldNames;

/// What refuses NULL.
#[derive(Clone, Debug, PartialEq)]
pub enum NotNull {
    /// A domain of this name.
    Domain(Arc<str>),
    /// A column for which a statement gives a value, which would have a number of the table without it.
    Column {
        /// The name of the table.
        table: Arc<str>,
        /// The name of the column.
        column: Arc<str>,
    },
}

/// What a domain, or a column, says of its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainChecks {
    /// What refuses NULL.
    pub not_null: Option<NotNull>,
    /// The conditions, in the order in which they are looked at.
    pub checks: Vec<DomainCheck>,
}

/// A condition of a domain.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainCheck {
    /// The name of the domain.
    pub domain: Arc<str>,
    /// The name of the condition.
    pub name: Arc<str>,
    /// The condition of a row that is the value.
    pub condition: Expr,
}

/// A value that is computed of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// Always the same value.
    Constant(Datum),
    /// A parameter of the statement, from 0 on.
    Parameter(usize),
    /// A slot of the frame.
    Slot(usize),
    /// A value that the row around a sub-select gives to it, from 0 on.
    Outer(usize),
    /// An aggregate of the group, before its slot is known.
    Aggregate(usize),
    /// A window function of the row, before its slot is known.
    Window(usize),
    /// A function or an operator.
    Call {
        /// What is called.
        call: Callee,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// The value as one of another type.
    Cast {
        /// The value.
        value: Box<Expr>,
        /// Its type.
        from: SqlType,
        /// The other type.
        to: SqlType,
        /// How it is meant.
        context: CastContext,
    },
    /// A value that a domain must take.
    Domain {
        /// The value.
        value: Box<Expr>,
        /// What the domain says of it.
        checks: Arc<DomainChecks>,
    },
    /// A field of a row.
    Field {
        /// The row.
        value: Box<Expr>,
        /// The place of the field, from 0 on.
        at: usize,
    },
    /// A comparison of two values of one kind.
    Compare {
        /// Which.
        comparison: Comparison,
        /// Whether texts compare without case and accents.
        is_caseless: bool,
        /// Both sides.
        sides: Box<[Expr; 2]>,
    },
    /// All are true.
    And(Vec<Expr>),
    /// One is true.
    Or(Vec<Expr>),
    /// It is false.
    Not(Box<Expr>),
    /// It is NULL, or, negated, it is not.
    IsNull {
        /// The value.
        value: Box<Expr>,
        /// Whether it must not be NULL.
        is_negated: bool,
    },
    /// IS TRUE, IS FALSE, IS UNKNOWN and their negations.
    IsTruth {
        /// The value.
        value: Box<Expr>,
        /// What it must be.
        truth: Option<bool>,
        /// Whether it must not be that.
        is_negated: bool,
    },
    /// IS DISTINCT FROM, or, negated, IS NOT DISTINCT FROM.
    IsDistinct {
        /// Both sides.
        sides: Box<[Expr; 2]>,
        /// Whether they must not differ.
        is_negated: bool,
    },
    /// The result of the first condition that is true.
    Case {
        /// Conditions and results.
        branches: Vec<(Expr, Expr)>,
        /// The result if no condition is true.
        otherwise: Box<Expr>,
    },
    /// A value that is computed once, for an expression in which it stands more than once as [`Expr::Known`].
    Once {
        /// Where it is kept meanwhile: how many others are around it.
        place: usize,
        /// The value.
        value: Box<Expr>,
        /// The expression.
        within: Box<Expr>,
    },
    /// The value of the [`Expr::Once`] of this place around it.
    Known(usize),
    /// The first that is not NULL.
    Coalesce(Vec<Expr>),
    /// The least or the greatest that is not NULL.
    Extreme {
        /// Whether it is the greatest.
        is_greatest: bool,
        /// The values.
        values: Vec<Expr>,
    },
    /// One of the values equals the first.
    In {
        /// The value, or the values of a row.
        left: Box<Expr>,
        /// The others.
        list: Vec<Expr>,
        /// How the value is searched among them.
        among: Among,
        /// Whether none must.
        is_negated: bool,
    },
    /// A comparison with the elements of an array: ANY or ALL.
    Quantified {
        /// The value.
        left: Box<Expr>,
        /// The comparison of it with an element.
        function: Quantifier,
        /// The array.
        array: Box<Expr>,
        /// Whether all elements must do, or one.
        is_all: bool,
        /// The set of the elements, if it is asked whether the value is one, and all rows have the same array.
        set: Option<SetNumber>,
    },
    /// A sub-select.
    Subquery(Arc<Subquery>),
    /// An array of these elements.
    Array {
        /// The type of the elements.
        element: BaseType,
        /// The elements; arrays themselves in an array of more than one dimension.
        items: Vec<Expr>,
    },
    /// An element of an array; NULL if there is none.
    Subscript {
        /// The array.
        array: Box<Expr>,
        /// The places, one a dimension, from 1 on.
        places: Vec<Expr>,
    },
    /// A part of an array.
    Slice {
        /// The array.
        array: Box<Expr>,
        /// The first and the last place in each dimension; none where it is left out.
        ends: Vec<(Option<Expr>, Option<Expr>)>,
    },
    /// A row, and the names of its fields if they have some.
    Record(Vec<(SqlType, Expr)>, Option<FieldNames>),
    /// A value of the primary key of the row that a cursor stands on.
    OfCursor(Arc<OfCursor>),
    /// 1 of a row that ON CONFLICT DO UPDATE has changed, 0 of others: `xmax`.
    HasReplaced,
    /// NEXTVAL and the like: a default that a column has, evaluated for each row. It stands for DEFAULT in VALUES.
    Default,
}

/// A value of the primary key of a row that UPDATE or DELETE ... WHERE CURRENT OF changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfCursor {
    /// The cursor.
    pub cursor: Arc<str>,
    /// The table, as rows know it.
    pub table: Arc<str>,
    /// The name of the table.
    pub name: Arc<str>,
    /// Which of the columns of its primary key.
    pub at: usize,
}

/// A function with the types of one call.
#[derive(Clone, Debug)]
pub struct Callee(pub Call);

impl PartialEq for Callee {
    fn eq(&self, other: &Callee) -> bool {
        std::ptr::eq(self.0.function, other.0.function) && self.0.arguments == other.0.arguments
    }
}

/// What is asked of each element of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantifier {
    /// A comparison.
    Comparison(Comparison),
    /// Another operator.
    Operator(Callee),
}

/// How a value is searched among others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Among {
    /// It is compared with one after the other.
    Each,
    /// They are constants of one kind in their order.
    Sorted,
    /// They are the same for all rows, and many.
    Set(SetNumber),
}

/// Which it is of the sets of values that a statement makes once, for all rows.
#[derive(Clone, Copy)]
pub struct SetNumber(pub usize);

/// Says what it is, and not which, as a [`Subquery`] does.
impl fmt::Debug for SetNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetNumber")
    }
}

impl PartialEq for SetNumber {
    fn eq(&self, _other: &SetNumber) -> bool {
        true
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison of these characters.
    pub fn of(symbol: &str) -> Option<Comparison> {
        Some(match symbol {
            "=" => Comparison::Equal,
            "<>" | "!=" => Comparison::Unequal,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// Its characters.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Unequal => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The same comparison with its sides exchanged.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    /// Whether this order of the sides makes it true.
    pub fn agrees(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Unequal => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A sub-select in an expression.
#[derive(Clone)]
pub struct Subquery {
    /// Which it is in its statement: what it has found is kept by this number and the arguments.
    pub number: usize,
    /// What it is asked for.
    pub kind: SubqueryKind,
    /// The query.
    pub query: Query,
    /// What the row around it gives to it.
    pub arguments: Vec<Expr>,
}

/// Says what it is, and not which: `PartialEq` compares such texts.
impl fmt::Debug for Subquery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subquery { number: _, kind, query, arguments } = self;
        f.debug_tuple("Subquery").field(kind).field(query).field(arguments).finish()
    }
}

/// One that is written twice, as in GROUP BY and in what is selected, is equal to itself.
impl PartialEq for Subquery {
    fn eq(&self, other: &Subquery) -> bool {
        self.arguments == other.arguments
            && (self.number == other.number
                || (self.kind == other.kind && format!("{:?}", self.query) == format!("{:?}", other.query)))
    }
}

/// What a sub-select is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryKind {
    /// The value of its one row; NULL if it has none.
    Scalar,
    /// Whether it has a row.
    Exists,
    /// Whether a comparison with one of its rows is true, or with all.
    Quantified {
        /// The values, one for each of its columns.
        left: Vec<Expr>,
        /// The comparison.
        comparison: Comparison,
        /// Whether all rows must do, or one.
        is_all: bool,
    },
    /// Its values, of this type, as an array.
    Array(SqlType),
    /// Its one row, whose values have these types; NULL if it has none.
    Record(Vec<SqlType>),
}

impl Expr {
    /// Calls `visit` for each part that is directly in it, sub-selects' arguments among them.
    pub fn for_each_part(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Expr::Constant(_) | Expr::Parameter(_) | Expr::Slot(_) | Expr::Outer(_) | Expr::Default => {}
            Expr::OfCursor(_) | Expr::HasReplaced => {}
            Expr::Aggregate(_) | Expr::Window(_) | Expr::Known(_) => {}
            Expr::Once { value, within, .. } => [value, within].into_iter().for_each(|part| visit(part)),
            Expr::Call { arguments: parts, .. }
            | Expr::And(parts)
            | Expr::Or(parts)
            | Expr::Coalesce(parts)
            | Expr::Extreme { values: parts, .. }
            | Expr::Array { items: parts, .. } => parts.iter().for_each(visit),
            Expr::Cast { value, .. }
            | Expr::Domain { value, .. }
            | Expr::Field { value, .. }
            | Expr::Not(value)
            | Expr::IsNull { value, .. }
            | Expr::IsTruth { value, .. } => {
                visit(value);
            }
            Expr::Compare { sides, .. } | Expr::IsDistinct { sides, .. } => sides.iter().for_each(visit),
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Expr::In { left, list, .. } => {
                visit(left);
                list.iter().for_each(visit);
            }
            Expr::Quantified { left, array, .. } => {
                visit(left);
                visit(array);
            }
            Expr::Subquery(subquery) => {
                if let SubqueryKind::Quantified { left, .. } = &subquery.kind {
                    left.iter().for_each(&mut *visit);
                }
                subquery.arguments.iter().for_each(visit);
            }
            Expr::Subscript { array, places } => {
                visit(array);
                places.iter().for_each(visit);
            }
            Expr::Slice { array, ends } => {
                visit(array);
                ends.iter().flat_map(|(low, high)| low.iter().chain(high)).for_each(visit);
            }
            Expr::Record(values, _) => values.iter().for_each(|(_, value)| visit(value)),
        }
    }

    /// Replaces each part that is directly in it by what `change` makes of it.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn change_parts<E>(&mut self, change: &mut dyn FnMut(&mut Expr) -> Result<(), E>) -> Result<(), E> {
        match self {
            Expr::Constant(_) | Expr::Parameter(_) | Expr::Slot(_) | Expr::Outer(_) | Expr::Default => {}
            Expr::OfCursor(_) | Expr::HasReplaced => {}
            Expr::Aggregate(_) | Expr::Window(_) | Expr::Known(_) => {}
            Expr::Once { value, within, .. } => {
                change(value)?;
                change(within)?;
            }
            Expr::Call { arguments: parts, .. }
            | Expr::And(parts)
            | Expr::Or(parts)
            | Expr::Coalesce(parts)
            | Expr::Extreme { values: parts, .. }
            | Expr::Array { items: parts, .. } => parts.iter_mut().try_for_each(change)?,
            Expr::Cast { value, .. }
            | Expr::Domain { value, .. }
            | Expr::Field { value, .. }
            | Expr::Not(value)
            | Expr::IsNull { value, .. }
            | Expr::IsTruth { value, .. } => {
                change(value)?;
            }
            Expr::Compare { sides, .. } | Expr::IsDistinct { sides, .. } => sides.iter_mut().try_for_each(change)?,
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    change(condition)?;
                    change(result)?;
                }
                change(otherwise)?;
            }
            Expr::In { left, list, .. } => {
                change(left)?;
                list.iter_mut().try_for_each(change)?;
            }
            Expr::Quantified { left, array, .. } => {
                change(left)?;
                change(array)?;
            }
            Expr::Subquery(subquery) => {
                let mut changed = (**subquery).clone();
                if let SubqueryKind::Quantified { left, .. } = &mut changed.kind {
                    left.iter_mut().try_for_each(&mut *change)?;
                }
                changed.arguments.iter_mut().try_for_each(change)?;
                *subquery = Arc::new(changed);
            }
            Expr::Subscript { array, places } => {
                change(array)?;
                places.iter_mut().try_for_each(change)?;
            }
            Expr::Slice { array, ends } => {
                change(array)?;
                ends.iter_mut().flat_map(|(low, high)| low.iter_mut().chain(high)).try_for_each(change)?;
            }
            Expr::Record(values, _) => values.iter_mut().try_for_each(|(_, value)| change(value))?,
        }
        Ok(())
    }

    /// Replaces the expression, or else parts of it, where `with` has another one.
    pub fn replace(&mut self, with: &mut dyn FnMut(&Expr) -> Option<Expr>) {
        if let Some(other) = with(self) {
            *self = other;
            return;
        }
        let Ok(()) = self.change_parts::<Infallible>(&mut |part| {
            part.replace(with);
            Ok(())
        });
    }

    /// Whether `is_wanted` holds for the expression or a part of it.
    pub fn any(&self, is_wanted: &dyn Fn(&Expr) -> bool) -> bool {
        if is_wanted(self) {
            return true;
        }
        let mut found = false;
        self.for_each_part(&mut |part| found = found || part.any(is_wanted));
        found
    }

    /// Whether it costs nothing to compute it again: it reads a value, or a field of one.
    pub fn is_read(&self) -> bool {
        match self {
            Expr::Constant(_) | Expr::Parameter(_) | Expr::Slot(_) | Expr::Outer(_) | Expr::Known(_) => true,
            Expr::Aggregate(_) | Expr::Window(_) => true,
            Expr::Cast { value, .. } | Expr::Field { value, .. } => value.is_read(),
            _ => false,
        }
    }

    /// Whether it has more parts than `parts_max`, itself among them.
    pub fn has_more_parts(&self, parts_max: usize) -> bool {
        fn count(expr: &Expr, left: &mut usize) {
            if let Some(fewer) = left.checked_sub(1) {
                *left = fewer;
                expr.for_each_part(&mut |part| count(part, left));
            }
        }
        let mut left = parts_max + 1;
        count(self, &mut left);
        left == 0
    }

    /// Adds the slots that it reads.
    pub fn add_slots(&self, slots: &mut Vec<usize>) {
        if let Expr::Slot(slot) = self {
            slots.push(*slot);
        }
        self.for_each_part(&mut |part| part.add_slots(slots));
    }

    /// The conditions all of which must hold for it to be true. What all branches of an OR say is one of them:
    /// `a AND b OR a AND c` is `a AND (b OR c)`, also where one of them is NULL.
    pub fn into_conjuncts(self) -> Vec<Expr> {
        match self {
            Expr::And(parts) => parts.into_iter().flat_map(Expr::into_conjuncts).collect(),
            Expr::Or(branches) => factored(branches),
            Expr::Constant(Datum::Bool(true)) => Vec::new(),
            other => vec![other],
        }
    }

    /// Whether it may have another value each time that it is computed.
    pub fn is_volatile(&self) -> bool {
        self.any(&|part| match part {
            Expr::Call { call, .. } => call.0.function.volatility == Volatility::Volatile,
            _ => false,
        })
    }

    /// Whether it has the same value for all rows of a statement.
    pub fn is_same_for_all(&self) -> bool {
        let varies = |part: &Expr| {
            let is_of_row = matches!(part, Expr::Slot(_) | Expr::Outer(_) | Expr::Aggregate(_) | Expr::Window(_));
            is_of_row
                || matches!(
                    part,
                    Expr::Once { .. } | Expr::Known(_) | Expr::Subquery(_) | Expr::Default | Expr::HasReplaced
                )
        };
        !self.any(&varies) && !self.is_volatile()
    }

    /// The condition that all of these hold; none if there are none.
    pub fn all(mut conditions: Vec<Expr>) -> Option<Expr> {
        match conditions.len() {
            0 => None,
            1 => conditions.pop(),
            _ => Some(Expr::And(conditions)),
        }
    }
}

/// The conditions of an OR, with those that all of its branches have before it.
fn factored(branches: Vec<Expr>) -> Vec<Expr> {
    let mut branches: Vec<Vec<Expr>> = branches.into_iter().map(Expr::into_conjuncts).collect();
    let Some((first, others)) = branches.split_first_mut() else { return vec![Expr::Or(Vec::new())] };
    let is_common =
        |condition: &mut Expr| !condition.is_volatile() && others.iter().all(|other| other.contains(condition));
    let mut conditions: Vec<Expr> = first.extract_if(.., is_common).collect();
    for other in others {
        other.retain(|condition| !conditions.contains(condition));
    }
    // A branch of which nothing is left says nothing more.
    if let Some(branches) = branches.into_iter().map(Expr::all).collect::<Option<Vec<Expr>>>() {
        conditions.push(Expr::Or(branches));
    }
    conditions
}
