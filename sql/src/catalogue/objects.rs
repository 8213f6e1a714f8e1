//! Objects that SQL knows beside tables and their indexes.

use serde::{Deserialize, Serialize};

use crate::bind::names::CheckOption;
use crate::types::SqlType;

/// The number of an object in SQL's catalogue, which no other one has or had.
pub type ObjectNumber = u32;

/// A schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// The name.
    pub name: String,
}

/// A view: a query with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The schema that it is in.
    pub schema: String,
    /// The name.
    pub name: String,
    /// The names that its columns were given; empty if they are those of the query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The text of the query.
    pub query: String,
    /// The schemas in which its names are looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search_path: Vec<String>,
    /// The tables and views that its query reads, within views too, by schema and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<(String, String)>,
    /// Which conditions rows keep that are written through it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckOption>,
}

/// What a materialized view is beside the table of its rows, by whose number it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Materialized {
    /// The text of the query.
    pub query: String,
    /// The names of the columns of the query, in the order of those of the table.
    pub columns: Vec<String>,
    /// The schemas in which its names are looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search_path: Vec<String>,
    /// The tables and views that its query reads, within views too, by schema and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<(String, String)>,
    /// Whether it has rows of its query, be there none of them: else nothing can be read.
    pub is_populated: bool,
}

impl Materialized {
    /// The query whose rows it has: with the columns that there were when it was created, in their order, also where
    /// it says `*` and its tables have got others since.
    pub fn filling(&self) -> String {
        let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
        let names = self.columns.iter().map(quoted).collect::<Vec<_>>().join(", ");
        let is_repeated = |(at, name): (usize, &String)| self.columns[..at].contains(name);
        match self.columns.iter().enumerate().any(is_repeated) {
            true => format!("SELECT * FROM ({}) AS \"?\"", self.query),
            false => format!("SELECT {names} FROM ({}) AS \"?\"", self.query),
        }
    }
}

/// A type that a user has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Type {
    /// The schema that it is in.
    pub schema: String,
    /// The name.
    pub name: String,
    /// The number of the type of its arrays.
    pub array: ObjectNumber,
    /// What its values are.
    pub kind: TypeKind,
}

/// What the values of a type are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TypeKind {
    /// Labels: the place of each in the order, by which columns hold it, as a decimal number, and its text. The places
    /// ascend.
    Enum(Vec<(String, String)>),
    /// Those of another type that keep some conditions.
    Domain {
        /// The other type, as [`column_type`](crate::catalogue::column_type) writes it.
        base: String,
        /// Whether NULL is refused.
        #[serde(default, skip_serializing_if = "crate::catalogue::objects::is_false")]
        not_null: bool,
        /// The text of its default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
        /// The names and the texts of its conditions, by name.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checks: Vec<(String, String)>,
    },
    /// Rows.
    Composite {
        /// The number of the relation that has its attributes in `pg_class`.
        relation: ObjectNumber,
        /// The names of its attributes, and their types as [`column_type`](crate::catalogue::column_type) writes them.
        attributes: Vec<(String, String)>,
    },
}

impl TypeKind {
    /// The texts of the types that it is made of.
    pub fn parts(&self) -> Vec<&str> {
        match self {
            TypeKind::Enum(_) => Vec::new(),
            TypeKind::Domain { base, .. } => vec![base],
            TypeKind::Composite { attributes, .. } => attributes.iter().map(|(_, text)| &**text).collect(),
        }
    }
}

/// A column that a sequence belongs to, and goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The number of the table.
    pub table: u32,
    /// The number of the column.
    pub column: u32,
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// The schema that it is in.
    pub schema: String,
    /// The name.
    pub name: String,
    /// The type of its numbers: `bigint`, `integer` or `smallint`.
    pub data_type: String,
    /// From one number to the next; negative for a descending sequence.
    pub increment: i64,
    /// The least number.
    pub min: i64,
    /// The greatest number.
    pub max: i64,
    /// The first number.
    pub start: i64,
    /// Whether it begins again after its last number.
    pub cycles: bool,
    /// How many numbers a session of PostgreSQL takes at once. Here it is only shown.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cache: i64,
    /// The column that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Whether its numbers are those that the table gives to the owner, an identity column: then it has no state of its
    /// own.
    #[serde(default, skip_serializing_if = "crate::catalogue::objects::is_false")]
    pub is_identity: bool,
    /// Whether such a column was declared by `serial`, so that PostgreSQL would show `nextval` as its default, and no
    /// identity.
    #[serde(default, skip_serializing_if = "crate::catalogue::objects::is_false")]
    pub is_serial: bool,
    /// Of an identity column whose default is the next number of the sequence: whether it always has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generates: Option<bool>,
    /// How often it was altered, for numbers that were reserved before.
    #[serde(default, skip_serializing_if = "crate::catalogue::objects::is_zero")]
    pub alterations: u32,
}

fn one() -> i64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one(number: &i64) -> bool {
    *number == 1
}

pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

impl Sequence {
    /// Whether it is that of an identity column, and not of a serial one.
    pub fn is_of_identity(&self) -> bool {
        self.is_identity && !self.is_serial || self.generates.is_some()
    }

    /// Whether its numbers follow each other up to the last one of the type, as those that a table gives to its rows.
    pub fn counts_up(&self) -> bool {
        let usual = Sequence::new("", "", self.sql_type());
        self.increment == 1 && self.max == usual.max && !self.cycles && self.cache == 1
    }

    /// The type of its numbers.
    pub fn sql_type(&self) -> SqlType {
        crate::catalogue::column_type::parse(&self.data_type).unwrap_or(SqlType::INT8)
    }

    /// A sequence with PostgreSQL's defaults, of a type of integers.
    pub fn new(schema: impl Into<String>, name: impl Into<String>, sql_type: SqlType) -> Sequence {
        use crate::types::BaseType;
        let max = match sql_type.base {
            BaseType::Int2 => i16::MAX.into(),
            BaseType::Int4 => i32::MAX.into(),
            _ => i64::MAX,
        };
        Sequence {
            schema: schema.into(),
            name: name.into(),
            data_type: sql_type.to_string(),
            increment: 1,
            min: 1,
            max,
            start: 1,
            cycles: false,
            cache: 1,
            owner: None,
            is_identity: false,
            is_serial: false,
            generates: None,
            alterations: 0,
        }
    }
}

/// What a comment is on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Commented {
    /// A column, by the numbers of its table and itself.
    Column(u32, u32),
    /// An index, by its number.
    Index(u32),
    /// A constraint, by the number of its table and its name.
    Constraint(u32, String),
    /// A schema, a view, a sequence or a type.
    Object(ObjectNumber),
    /// A column of a view.
    ViewColumn(ObjectNumber, String),
    /// The schema `public`.
    Public,
}
