//! The sources of the rows of a FROM, and how they are joined. Each writes its slots of the frame.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use quipu_rows::DataType;

use crate::functions::SetCall;
use crate::plan::expression::Expr;
use crate::plan::query::Query;
use crate::types::SqlType;
use crate::types::datum::Datum;

/// Where rows come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// One row without columns.
    Once,
    /// No row.
    Nothing,
    /// A table, or an index of one.
    Scan(Box<Scan>),
    /// Rows of the catalogue.
    Catalogue {
        /// Which.
        table: Arc<str>,
        /// Where its columns stand.
        slots: Range<usize>,
        /// What its rows must keep.
        filter: Option<Expr>,
    },
    /// The rows of functions, beside each other: where one has no more rows than others, its columns are NULL.
    Function {
        /// Which.
        calls: Vec<RowsOf>,
        /// Where their number stands, of WITH ORDINALITY.
        ordinality: Option<usize>,
    },
    /// The one row of a function that returns one value.
    Value {
        /// The call.
        value: Expr,
        /// Where it stands.
        slot: usize,
    },
    /// A sub-select.
    Subselect {
        /// The query.
        query: Arc<Query>,
        /// What the rows before it give to it, if it is LATERAL; none if it is given what the query around it is given.
        arguments: Option<Vec<Expr>>,
        /// Where its columns stand.
        slots: Range<usize>,
    },
    /// The rows of a query of WITH, or those that its last round has added.
    With {
        /// Which of the statement's.
        number: usize,
        /// Where its columns stand.
        slots: Range<usize>,
    },
    /// Two sources.
    Join(Box<Join>),
    /// The rows that keep a condition.
    Filter {
        /// The rows.
        input: Box<Source>,
        /// The condition.
        condition: Expr,
    },
}

impl Source {
    /// Has rows come in any order.
    pub fn forget_order(&mut self) {
        match self {
            Source::Join(join) => {
                join.is_in_order = false;
                join.outer.forget_order();
                join.inner.forget_order();
            }
            Source::Filter { input, .. } => input.forget_order(),
            _ => {}
        }
    }
}

/// A call of a function of rows.
#[derive(Clone, Debug)]
pub struct RowsOf {
    /// The function.
    pub call: SetCall,
    /// Its arguments.
    pub arguments: Vec<Expr>,
    /// Where its columns stand.
    pub slots: Range<usize>,
}

/// How two sources are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs that keep the condition.
    Inner,
    /// The same, and rows of the first without a pair, with NULLs.
    Left,
    /// The same, and rows of the second without a pair.
    Full,
}

/// Two sources joined: for each row of the first those of the second.
#[derive(Clone, Debug)]
pub struct Join {
    /// How.
    pub kind: JoinKind,
    /// The first.
    pub outer: Source,
    /// The second, which may be asked by the values of the first.
    pub inner: Source,
    /// The slots of the second that are read: its rows are kept with these alone.
    pub inner_slots: Vec<usize>,
    /// The slots of the first, which are NULL in rows of the second without a pair.
    pub outer_slots: Vec<usize>,
    /// How rows of the second are found.
    pub method: JoinMethod,
    /// What a pair must keep, besides.
    pub condition: Option<Expr>,
    /// Whether pairs come in the order of the first source.
    pub is_in_order: bool,
}

impl Join {
    /// Whether each row of the first source comes once: with the one row that a unique key finds, or with NULLs.
    pub fn keeps_rows(&self) -> bool {
        let is_one = matches!(&self.inner, Source::Scan(scan) if scan.access.is_unique);
        self.kind == JoinKind::Left && self.method == JoinMethod::AskAgain && is_one
    }
}

/// How the rows of the second source are found.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinMethod {
    /// It is asked for each row of the first.
    AskAgain,
    /// It is read once and kept.
    Keep,
    /// It is read once and kept by the values of expressions, which must equal those of the first.
    Hash {
        /// Expressions over the first.
        outer: Vec<Expr>,
        /// Expressions over the second.
        inner: Vec<Expr>,
    },
}

/// The rows of a table, by a key.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table, as rows know it.
    pub table: Arc<str>,
    /// The name by which the statement knows it.
    pub alias: Arc<str>,
    /// The slot of its first column; those of all its columns follow, hidden ones among them.
    pub base: usize,
    /// How many columns it has.
    pub width: usize,
    /// The places of the columns that are read.
    pub reads: Vec<usize>,
    /// The types of all columns.
    pub types: Arc<[SqlType]>,
    /// The places of the primary key.
    pub key: Vec<usize>,
    /// The places of the columns that always have a value.
    pub not_null: Vec<usize>,
    /// How rows are found.
    pub access: Access,
    /// What rows must keep, besides.
    pub filter: Option<Expr>,
    /// What the filter says of columns and the row around the sub-select that the scan is in.
    pub lookup: Option<Lookup>,
    /// Whether they are read from the end.
    pub is_reversed: bool,
    /// What part is drawn at random.
    pub sample: Option<Sample>,
}

/// Expressions over a scan's columns whose values must equal those of the row around a sub-select, while the range that
/// is read is the same for all such rows.
#[derive(Clone, PartialEq)]
pub struct Lookup {
    /// Which it is in its statement.
    pub number: usize,
    /// Expressions over the columns.
    pub columns: Vec<Expr>,
    /// Expressions over the row around the sub-select, one for each of those.
    pub values: Vec<Expr>,
}

/// Says what it is, and not which, as a [`Subquery`](crate::plan::expression::Subquery) does.
impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lookup { number: _, columns, values } = self;
        f.debug_tuple("Lookup").field(columns).field(values).finish()
    }
}

/// TABLESAMPLE.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// How many per cent of the rows.
    pub percent: Expr,
    /// What the draw depends on.
    pub seed: Option<Expr>,
}

/// How the rows of a table are found: the key, and the ranges of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// The index; the primary key if none.
    pub index: Option<Arc<str>>,
    /// Whether the index has all columns that are read, so that no row is looked up.
    pub is_covering: bool,
    /// Whether all columns of the primary key, or of a unique index, are said, so that there is one row at most.
    pub is_unique: bool,
    /// The columns of the key: their types, and whether greater values come first.
    pub columns: Vec<KeyColumn>,
    /// Values of its first columns.
    pub equal: Vec<KeyTerm>,
    /// Several values of the columns that follow those.
    pub several: Option<Several>,
    /// Values of the columns that follow those that have several.
    pub then: Vec<KeyTerm>,
    /// The least value of the next column, or the least values of the next columns, which are compared as a row; and
    /// whether rows with these values are in the range.
    pub low: Option<(Vec<Expr>, bool)>,
    /// The greatest value or values, likewise.
    pub high: Option<(Vec<Expr>, bool)>,
    /// The text that the next column begins with, or an array of texts one of which it begins with.
    pub prefix: Option<Expr>,
    /// Whether rows with NULL in the next column are left out though nothing else is said of it.
    pub is_not_null: bool,
    /// Whether rows with NULL in the next column come at the other end than they stand at in the tree.
    pub has_nulls_apart: bool,
}

/// A column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The place of the column in the table; none of an expression.
    pub place: Option<usize>,
    /// Its type.
    pub data_type: DataType,
    /// Whether greater values come first.
    pub is_descending: bool,
    /// Whether it can be NULL.
    pub is_nullable: bool,
}

impl KeyColumn {
    /// Whether a key tells the value of the column. Of some types it holds a sort key instead, which equal values
    /// share.
    pub fn tells_value(&self) -> bool {
        !self.data_type.has_sort_key()
    }
}

/// What the value of a column of a key must be.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyTerm {
    /// This value; nothing is found if it is NULL.
    Value(Expr),
    /// NULL.
    Null,
}

/// Several values for columns of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Several {
    /// Lists of values, one for each of the columns.
    List(Vec<Vec<Expr>>),
    /// The elements of an array, for one column.
    Array(Expr),
    /// The rows of a sub-select. If it has too many of them, all rows are read that keep what comes before: the
    /// condition stays in the filter.
    Rows(SeveralRows),
}

/// Values for columns of a key that a sub-select gives.
#[derive(Clone, Debug, PartialEq)]
pub struct SeveralRows {
    /// The table whose key it is.
    pub table: Arc<str>,
    /// The sub-select.
    pub subquery: Expr,
    /// Which of its columns stands for each of the key's.
    pub columns: Vec<usize>,
}

impl Several {
    /// How many columns they are for.
    pub fn columns(&self) -> usize {
        match self {
            Several::Array(_) => 1,
            Several::List(lists) => lists.first().map_or(0, Vec::len),
            Several::Rows(rows) => rows.columns.len(),
        }
    }
}

impl Access {
    /// How many columns of the key have one value or several.
    pub fn said(&self) -> usize {
        self.equal.len() + self.several.as_ref().map_or(0, Several::columns) + self.then.len()
    }

    /// Whether it says all columns of the primary key.
    pub fn is_of_whole_keys(&self) -> bool {
        let has_null = self.equal.iter().chain(&self.then).any(|term| *term == KeyTerm::Null);
        self.index.is_none() && self.said() == self.columns.len() && !has_null
    }

    /// Whether a column of the key has one value, however many values others have.
    pub fn is_fixed(&self, column: usize) -> bool {
        let said = self.said();
        column < self.equal.len() || (said - self.then.len()..said).contains(&column)
    }

    /// Whether it is one range, whatever its values are.
    pub fn is_one_range(&self) -> bool {
        self.several.is_none() && !matches!(self.prefix, Some(Expr::Constant(Datum::Array(_))))
    }

    /// How many columns the ends of the range say, after those that have one value or several.
    pub fn said_by_ends(&self) -> usize {
        self.low.iter().chain(&self.high).map(|(values, _)| values.len()).max().unwrap_or(1)
    }

    /// Whether it has an end at all.
    pub fn is_whole(&self) -> bool {
        self.said() == 0 && self.low.is_none() && self.high.is_none() && self.prefix.is_none() && !self.is_not_null
    }

    /// The expressions that say its ends.
    pub fn expressions(&self) -> Vec<&Expr> {
        let mut all = Vec::new();
        for term in self.equal.iter().chain(&self.then) {
            if let KeyTerm::Value(value) = term {
                all.push(value);
            }
        }
        match &self.several {
            Some(Several::List(lists)) => all.extend(lists.iter().flatten()),
            Some(Several::Array(array)) => all.push(array),
            Some(Several::Rows(rows)) => all.push(&rows.subquery),
            None => {}
        }
        all.extend(self.low.iter().chain(&self.high).flat_map(|(values, _)| values));
        all.extend(&self.prefix);
        all
    }
}
