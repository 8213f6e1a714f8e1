//! Random choices, and the words of a schema: kinds of values, their constants.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A source of random choices that a seed determines.
pub(super) struct Draw(StdRng);

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(StdRng::seed_from_u64(seed))
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// True in so many of a hundred cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'c, T: ?Sized>(&mut self, choices: &[&'c T]) -> &'c T {
        choices[self.below(choices.len())]
    }

    pub(super) fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// So many of the items at most, one at least, in a random order.
    pub(super) fn some<T: Clone>(&mut self, items: &[T], most: usize) -> Vec<T> {
        let mut left = items.to_vec();
        let count = 1 + self.below(most.min(items.len()));
        (0..count).map(|_| left.remove(self.below(left.len()))).collect()
    }
}

/// A type of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Small,
    Int,
    Big,
    Numeric,
    Float,
    Text,
    Varchar,
    Bool,
    Date,
    Timestamp,
}

/// Kinds whose values can be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Number,
    Text,
    Bool,
    Moment,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Small => "smallint",
            Kind::Int => "integer",
            Kind::Big => "bigint",
            Kind::Numeric => "numeric(8,2)",
            Kind::Float => "double precision",
            Kind::Text => "text",
            Kind::Varchar => "varchar(5)",
            Kind::Bool => "boolean",
            Kind::Date => "date",
            Kind::Timestamp => "timestamp",
        }
    }

    pub(super) fn family(self) -> Family {
        match self {
            Kind::Small | Kind::Int | Kind::Big | Kind::Numeric | Kind::Float => Family::Number,
            Kind::Text | Kind::Varchar => Family::Text,
            Kind::Bool => Family::Bool,
            Kind::Date | Kind::Timestamp => Family::Moment,
        }
    }

    /// A constant of the kind, which is not NULL.
    pub(super) fn constant(self, draw: &mut Draw) -> String {
        let text = match self {
            Kind::Small | Kind::Int | Kind::Big => draw.pick(&["0", "1", "2", "3", "4", "-1", "7", "10"]),
            Kind::Numeric => draw.pick(&["0", "1", "1.5", "2.00", "3", "-1", "10.25", "2.5"]),
            Kind::Float => draw.pick(&["0", "1", "1.5", "2", "-0.5", "3", "1e10", "2.5"]),
            Kind::Text | Kind::Varchar => {
                draw.pick(&["''", "'a'", "'ab'", "'abc'", "'b'", "'B'", "'a%'", "'ba'", "'é'", "'a_c'", "'1'"])
            }
            Kind::Bool => draw.pick(&["true", "false"]),
            Kind::Date => draw.pick(&[
                "date '2024-01-01'",
                "date '2024-01-02'",
                "date '2024-02-29'",
                "date '1999-12-31'",
                "date '2024-01-03'",
            ]),
            Kind::Timestamp => draw.pick(&[
                "timestamp '2024-01-01 00:00:00'",
                "timestamp '2024-01-01 12:30:00'",
                "timestamp '2024-01-02 00:00:00'",
                "timestamp '1999-12-31 23:59:59.5'",
            ]),
        };
        text.to_owned()
    }

    /// A value of a row: often NULL.
    pub(super) fn stored(self, draw: &mut Draw) -> String {
        match draw.chance(25) {
            true => "NULL".to_owned(),
            false if self == Kind::Float && draw.chance(5) => "'NaN'".to_owned(),
            false => self.constant(draw),
        }
    }
}
