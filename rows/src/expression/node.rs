//! The tree of an expression, and its text.

use std::fmt;

use crate::expression::computed::Computed;
use crate::expression::name::quoted;
use crate::value::Value;
use crate::value::text::text_of;

/// The deepest tree.
pub(crate) const DEPTH_MAX: usize = 64;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Arithmetic of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Lower,
    Upper,
    Trim,
    Length,
    Substr,
    Abs,
    Year,
    Month,
    Day,
    Date,
}

/// Functions and their names.
pub(crate) const FUNCTIONS: [(Function, &str); 10] = [
    (Function::Lower, "lower"),
    (Function::Upper, "upper"),
    (Function::Trim, "trim"),
    (Function::Length, "length"),
    (Function::Substr, "substr"),
    (Function::Abs, "abs"),
    (Function::Year, "year"),
    (Function::Month, "month"),
    (Function::Day, "day"),
    (Function::Date, "date"),
];

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Literal(Value<'static>),
    /// The column at this place.
    Column(usize),
    Negate(Box<Node>),
    Not(Box<Node>),
    /// All hold.
    And(Vec<Node>),
    /// One holds.
    Or(Vec<Node>),
    Compare {
        comparison: Comparison,
        /// Whether texts compare without case and accents. Known once types are checked.
        is_collated: bool,
        sides: Box<[Node; 2]>,
    },
    Arithmetic {
        operator: Arithmetic,
        sides: Box<[Node; 2]>,
    },
    /// The first is one of the others.
    In {
        is_negated: bool,
        is_collated: bool,
        parts: Vec<Node>,
    },
    /// The first is at least the second and at most the third.
    Between {
        is_negated: bool,
        is_collated: bool,
        parts: Box<[Node; 3]>,
    },
    /// The text matches the pattern.
    Like {
        is_negated: bool,
        sides: Box<[Node; 2]>,
    },
    IsNull {
        is_negated: bool,
        part: Box<Node>,
    },
    Call {
        function: Function,
        arguments: Vec<Node>,
    },
    Computed {
        computed: Computed,
        arguments: Vec<Node>,
    },
}

impl Comparison {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Unequal => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

impl Arithmetic {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
        }
    }
}

impl Function {
    pub(crate) fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(function, _)| *function == self).map_or("?", |(_, name)| name)
    }
}

/// How tightly a part holds together: those of a lower level need parentheses within one of a higher.
mod level {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const COMPARISON: u8 = 4;
    pub(super) const SUM: u8 = 5;
    pub(super) const PRODUCT: u8 = 6;
    pub(super) const SIGN: u8 = 7;
    pub(super) const WHOLE: u8 = 8;
}

/// A node with the names of the columns that it reads.
pub(crate) struct NodeText<'n> {
    pub(crate) node: &'n Node,
    pub(crate) name_of: &'n dyn Fn(usize) -> String,
}

impl Node {
    /// The parts of the node.
    pub(crate) fn parts(&self) -> &[Node] {
        match self {
            Node::Literal(_) | Node::Column(_) => &[],
            Node::Negate(part) | Node::Not(part) | Node::IsNull { part, .. } => std::slice::from_ref(part),
            Node::And(parts)
            | Node::Or(parts)
            | Node::In { parts, .. }
            | Node::Call { arguments: parts, .. }
            | Node::Computed { arguments: parts, .. } => parts,
            Node::Compare { sides, .. } | Node::Arithmetic { sides, .. } | Node::Like { sides, .. } => &sides[..],
            Node::Between { parts, .. } => &parts[..],
        }
    }

    /// Whether a part has its value only when the row is written.
    pub(crate) fn is_when_written(&self) -> bool {
        matches!(self, Node::Computed { computed, .. } if computed.is_when_written)
            || self.parts().iter().any(Node::is_when_written)
    }

    /// The levels of the tree.
    pub(crate) fn depth(&self) -> usize {
        1 + self.parts().iter().map(Node::depth).max().unwrap_or(0)
    }

    /// Adds the places of the columns that are read.
    pub(crate) fn add_columns(&self, places: &mut Vec<usize>) {
        if let Node::Column(place) = self {
            places.push(*place);
        }
        self.parts().iter().for_each(|part| part.add_columns(places));
    }

    fn level(&self) -> u8 {
        match self {
            Node::Or(_) => level::OR,
            Node::And(_) => level::AND,
            Node::Not(_) => level::NOT,
            Node::Compare { .. } | Node::In { .. } | Node::Between { .. } | Node::Like { .. } | Node::IsNull { .. } => {
                level::COMPARISON
            }
            Node::Arithmetic { operator: Arithmetic::Add | Arithmetic::Subtract, .. } => level::SUM,
            Node::Arithmetic { .. } => level::PRODUCT,
            Node::Negate(_) => level::SIGN,
            Node::Literal(Value::Int(int)) if *int < 0 => level::SIGN,
            Node::Literal(Value::Float(float)) if float.is_sign_negative() => level::SIGN,
            Node::Literal(Value::Decimal(decimal)) if decimal.units() < 0 => level::SIGN,
            Node::Literal(_) | Node::Column(_) | Node::Call { .. } | Node::Computed { .. } => level::WHOLE,
        }
    }

    /// Writes the node, in parentheses if it holds together less tightly than `around`.
    pub(crate) fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        name_of: &dyn Fn(usize) -> String,
        around: u8,
    ) -> fmt::Result {
        if self.level() < around {
            f.write_str("(")?;
            self.write(f, name_of, 0)?;
            return f.write_str(")");
        }
        self.write_bare(f, name_of)
    }

    /// [`Node::write`], without parentheses around it.
    fn write_bare(&self, f: &mut fmt::Formatter<'_>, name_of: &dyn Fn(usize) -> String) -> fmt::Result {
        let level = self.level();
        let not = |is_negated: bool| if is_negated { "NOT " } else { "" };
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Node], separator: &str, around: u8| {
            for (place, part) in parts.iter().enumerate() {
                f.write_str(if place > 0 { separator } else { "" })?;
                part.write(f, name_of, around)?;
            }
            Ok(())
        };
        match self {
            Node::Literal(value) => write_literal(f, value),
            Node::Column(place) => f.write_str(&quoted(&name_of(*place))),
            Node::Negate(part) => {
                f.write_str("-")?;
                // A number after a sign is a literal of that sign.
                let is_number = matches!(**part, Node::Literal(_));
                part.write(f, name_of, if is_number { level::WHOLE + 1 } else { level::WHOLE })
            }
            Node::Not(part) => {
                f.write_str("NOT ")?;
                part.write(f, name_of, level)
            }
            Node::And(parts) => list(f, parts, " AND ", level + 1),
            Node::Or(parts) => list(f, parts, " OR ", level + 1),
            Node::Compare { comparison, sides, .. } => {
                list(f, &sides[..], &format!(" {} ", comparison.text()), level + 1)
            }
            Node::Arithmetic { operator, sides } => {
                sides[0].write(f, name_of, level)?;
                write!(f, " {} ", operator.text())?;
                sides[1].write(f, name_of, level + 1)
            }
            Node::In { is_negated, parts, .. } => {
                parts[0].write(f, name_of, level + 1)?;
                write!(f, " {}IN (", not(*is_negated))?;
                list(f, &parts[1..], ", ", 0)?;
                f.write_str(")")
            }
            Node::Between { is_negated, parts, .. } => {
                parts[0].write(f, name_of, level + 1)?;
                write!(f, " {}BETWEEN ", not(*is_negated))?;
                list(f, &parts[1..], " AND ", level + 1)
            }
            Node::Like { is_negated, sides } => list(f, &sides[..], &format!(" {}LIKE ", not(*is_negated)), level + 1),
            Node::IsNull { is_negated, part } => {
                part.write(f, name_of, level + 1)?;
                write!(f, " IS {}NULL", not(*is_negated))
            }
            Node::Computed { computed, arguments } => {
                let text = computed.text.replace('\'', "''");
                write!(f, "{}('{}', '{text}'", computed.word(), computed.data_type)?;
                f.write_str(if arguments.is_empty() { "" } else { ", " })?;
                list(f, arguments, ", ", 0)?;
                f.write_str(")")
            }
            Node::Call { function, arguments } => {
                write!(f, "{}(", function.name())?;
                list(f, arguments, ", ", 0)?;
                f.write_str(")")
            }
        }
    }
}

fn write_literal(f: &mut fmt::Formatter<'_>, value: &Value<'_>) -> fmt::Result {
    let text = text_of(value);
    let typed = |f: &mut fmt::Formatter<'_>, word: &str| write!(f, "{word} '{}'", text.replace('\'', "''"));
    match value {
        Value::Null => f.write_str("NULL"),
        Value::Bool(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
        Value::Int(_) => f.write_str(&text),
        // A decimal has a point and a float an exponent.
        Value::Decimal(decimal) if decimal.scale() == 0 => write!(f, "{text}."),
        Value::Decimal(_) => f.write_str(&text),
        Value::Float(float) if float.is_finite() => write!(f, "{float:e}"),
        Value::Float(_) => typed(f, "FLOAT"),
        Value::Numeric(_) => typed(f, "NUMERIC"),
        Value::Text(_) => write!(f, "'{}'", text.replace('\'', "''")),
        Value::Bytes(_) => typed(f, "BYTES"),
        Value::Date(_) => typed(f, "DATE"),
        Value::Timestamp(_) => typed(f, "TIMESTAMP"),
        Value::Uuid(_) => typed(f, "UUID"),
        Value::Json(_) => typed(f, "JSON"),
    }
}
