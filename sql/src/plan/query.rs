//! SELECT, VALUES, set operations, WITH.

use std::sync::Arc;

use crate::functions::AggregateCall;
use crate::plan::expression::Expr;
use crate::plan::source::Source;
use crate::types::SqlType;

/// A query: rows of a width, in an order, of which some are given.
#[derive(Clone, Debug)]
pub struct Query {
    /// Queries of WITH that something in it reads, each of which is run once for it.
    pub with: Vec<With>,
    /// Where rows come from.
    pub body: Body,
    /// The order of the rows; empty if they come in it, or there is none.
    pub sort: Vec<SortKey>,
    /// How many rows are given at most; all if none or NULL.
    pub limit: Option<Expr>,
    /// How many rows are passed over.
    pub offset: Option<Expr>,
    /// Whether rows that are equal in order to the last one are given as well.
    pub with_ties: bool,
    /// How many of a row's values are given; what follows them is for the order alone.
    pub visible: usize,
}

/// A query of WITH.
#[derive(Clone, Debug)]
pub struct With {
    /// Which of the statement's.
    pub number: usize,
    /// The query, or the first part of one that is recursive.
    pub query: Arc<Query>,
    /// What the query around it gives to it.
    pub arguments: Vec<Expr>,
    /// What is run again over the rows that the last round has added.
    pub recursion: Option<Arc<Recursion>>,
}

/// The part of a query of WITH RECURSIVE that names it.
#[derive(Debug)]
pub struct Recursion {
    /// The part.
    pub query: Query,
    /// What the query around gives to it.
    pub arguments: Vec<Expr>,
    /// By which number it names the rows that the last round has added.
    pub number: usize,
    /// Whether equal rows are dropped.
    pub is_distinct: bool,
}

/// Where the rows of a query come from.
#[derive(Clone, Debug)]
pub enum Body {
    /// A SELECT.
    Select(Box<Select>),
    /// Lists of values.
    Values(Vec<Vec<Expr>>),
    /// Two queries.
    Set {
        /// How they are combined.
        operation: SetOperation,
        /// Whether equal rows stay.
        is_all: bool,
        /// The first.
        left: Box<Query>,
        /// The second.
        right: Box<Query>,
    },
}

/// How two queries are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// The rows of both.
    Union,
    /// The rows that are in both.
    Intersect,
    /// The rows of the first that are not in the second.
    Except,
}

/// A SELECT without its order.
#[derive(Clone, Debug)]
pub struct Select {
    /// How many slots the frame of its FROM has.
    pub frame: usize,
    /// Its FROM and WHERE.
    pub source: Source,
    /// Its groups.
    pub grouping: Option<Grouping>,
    /// Its window functions, whose values follow the frame.
    pub windows: Vec<WindowCall>,
    /// Its values, and those of its order.
    pub output: Vec<Expr>,
    /// Which equal rows are dropped.
    pub distinct: Distinct,
    /// The locks that its rows take.
    pub lock: Option<RowLock>,
}

/// Which rows are dropped since others are equal.
#[derive(Clone, Debug, PartialEq)]
pub enum Distinct {
    /// None.
    No,
    /// Those that are equal in all given values.
    All,
    /// Those that are equal in the outputs at these places, but for the first.
    On(Vec<usize>),
}

/// An element of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The place of the output.
    pub place: usize,
    /// How its values are ordered.
    pub direction: Direction,
}

/// How values are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Whether greater values come first.
    pub is_descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
    /// Whether texts compare without case and accents.
    pub is_caseless: bool,
}

/// Rows put together into groups. The frame afterwards: the values of the groups, those of the aggregates, and which
/// groups are not in the set of the row, as a number of bits.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// What rows of a group have in common.
    pub groups: Vec<Expr>,
    /// The sets of groups, by their places: one set of all unless there is ROLLUP, CUBE or GROUPING SETS.
    pub sets: Vec<Vec<usize>>,
    /// What is added up.
    pub aggregates: Vec<Aggregate>,
    /// What groups must keep.
    pub having: Option<Expr>,
    /// How the groups come out of the tallies of a tree, without a look at their rows.
    pub counted: Option<Counted>,
}

/// An aggregate.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Which.
    pub call: AggregateCall,
    /// Its arguments.
    pub arguments: Vec<Expr>,
    /// Whether equal arguments count once.
    pub is_distinct: bool,
    /// Which rows count.
    pub filter: Option<Expr>,
    /// The order in which rows are taken.
    pub order: Vec<(Expr, Direction)>,
}

impl PartialEq for Aggregate {
    fn eq(&self, other: &Aggregate) -> bool {
        is_same(&self.call, &other.call)
            && self.arguments == other.arguments
            && self.is_distinct == other.is_distinct
            && self.filter == other.filter
            && self.order == other.order
    }
}

/// Whether two calls are of one aggregate.
fn is_same(a: &AggregateCall, b: &AggregateCall) -> bool {
    std::ptr::eq(a.aggregate, b.aggregate) && a.arguments == b.arguments
}

/// Groups that come out of the tallies of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// How many of the key's first columns make a group; 0 if all rows are one group.
    pub columns: usize,
    /// Which column of the key each expression of the groups is.
    pub groups: Vec<usize>,
    /// How each aggregate comes about.
    pub answers: Vec<CountedAnswer>,
}

/// How an aggregate comes out of a tree.
#[derive(Clone, Debug, PartialEq)]
pub enum CountedAnswer {
    /// The number of rows.
    Rows,
    /// The number of rows that have a value in the next column of the key.
    Known,
    /// The sum that the tree keeps; NULL of no rows.
    Sum,
    /// The first value of the next column of the key, from the start or from the end.
    Edge {
        /// Whether it is at the end of the range.
        is_last: bool,
    },
    /// The value at a part of the rows from 0 to 1, of those that have one.
    Quantile {
        /// The part.
        part: Expr,
        /// Whether the order is the key's from its end.
        is_reversed: bool,
    },
}

/// A window function.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    /// What is computed.
    pub function: WindowFunction,
    /// Its arguments.
    pub arguments: Vec<Expr>,
    /// Which rows count.
    pub filter: Option<Expr>,
    /// What rows of a partition have in common.
    pub partition: Vec<Expr>,
    /// The order of the rows in it.
    pub order: Vec<(Expr, Direction)>,
    /// Which rows of it are looked at.
    pub frame: WindowFrame,
}

impl WindowCall {
    /// What it computes of a row.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let order = self.order.iter().map(|(value, _)| value);
        let ends = self.frame.values.iter().flatten();
        self.arguments.iter().chain(&self.filter).chain(&self.partition).chain(order).chain(ends)
    }

    /// The same, to be changed.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let order = self.order.iter_mut().map(|(value, _)| value);
        let ends = self.frame.values.iter_mut().flatten();
        self.arguments.iter_mut().chain(&mut self.filter).chain(&mut self.partition).chain(order).chain(ends)
    }
}

impl PartialEq for WindowFunction {
    fn eq(&self, other: &WindowFunction) -> bool {
        match (self, other) {
            (WindowFunction::Aggregate(a), WindowFunction::Aggregate(b)) => is_same(a, b),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// What a window function computes.
#[derive(Clone, Debug)]
pub enum WindowFunction {
    /// An aggregate over the frame.
    Aggregate(AggregateCall),
    /// `row_number`
    RowNumber,
    /// `rank`
    Rank,
    /// `dense_rank`
    DenseRank,
    /// `percent_rank`
    PercentRank,
    /// `cume_dist`
    CumeDist,
    /// `ntile`
    Ntile,
    /// `lag`
    Lag,
    /// `lead`
    Lead,
    /// `first_value`
    FirstValue,
    /// `last_value`
    LastValue,
    /// `nth_value`
    NthValue,
}

/// Which rows of a partition a window function looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowFrame {
    /// Whether ends are told in rows, in groups of equal ones, or by the value of the order.
    pub unit: FrameUnit,
    /// The first row.
    pub start: FrameEnd,
    /// The last row.
    pub end: FrameEnd,
    /// Of ends that are so much away by the value of the order: the value there.
    pub values: [Option<Expr>; 2],
    /// Which of its rows it leaves out.
    pub exclusion: Exclusion,
}

/// Which rows a frame leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusion {
    /// None.
    #[default]
    Nothing,
    /// The row whose frame it is.
    CurrentRow,
    /// That row, and those that are equal to it in order.
    Group,
    /// Those that are equal to it in order, without itself.
    Ties,
}

/// What the ends of a frame are told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// Rows.
    Rows,
    /// Rows that are equal in order.
    Groups,
    /// The value of the order.
    Range,
}

/// An end of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameEnd {
    /// The first row of the partition.
    First,
    /// So much before the row.
    Before(Expr),
    /// The row, or those equal to it in order.
    Current,
    /// So much after the row.
    After(Expr),
    /// The last row of the partition.
    Last,
}

/// Locks that the rows of a SELECT take.
#[derive(Clone, Debug)]
pub struct RowLock {
    /// The tables whose rows are locked.
    pub targets: Vec<LockTarget>,
    /// What happens where another transaction has one.
    pub wait: LockWait,
    /// Whether others may share it.
    pub is_shared: bool,
}

/// A table whose rows are locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockTarget {
    /// The table, as rows know it.
    pub table: Arc<str>,
    /// The places of the outputs that are its primary key.
    pub key: Vec<usize>,
}

/// What happens where another transaction has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// It is waited for.
    Wait,
    /// The statement fails.
    NoWait,
    /// The row is left out.
    SkipLocked,
}

/// A column that a query gives.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// The number of the table and of the column, if it is one.
    pub origin: Option<(u32, i16)>,
}
