//! Types that users have made: what values need to know of them.
//!
//! A definition is held until the process ends, once however often it is read, so that a type of such is as small and
//! as cheap to copy as the others. A type that is changed has another definition and is the same type.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::types::{BaseType, SqlType};

/// A type that a user has made. Two are equal if they have the same number.
#[derive(Clone, Copy)]
pub struct UserType(&'static Definition);

/// What there is to know of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its number, as clients of PostgreSQL know it.
    pub number: u32,
    /// The number of its arrays.
    pub array: u32,
    /// The schema that it is in.
    pub schema: String,
    /// The name.
    pub name: String,
    /// The name as messages have it.
    pub shown: String,
    /// What its values are.
    pub kind: Kind,
}

/// What the values of a type are.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// One of these labels each, in this order.
    Enum(Vec<Label>),
    /// Those of another type that keep some conditions.
    Domain(Domain),
    /// Rows.
    Composite(Composite),
}

/// The names of the fields of a row.
pub type FieldNames = Arc<[Arc<str>]>;

/// What the rows of a type are.
#[derive(Clone, Debug, PartialEq)]
pub struct Composite {
    /// The number of the relation that has its attributes: its own, or a table.
    pub relation: u32,
    /// Whether the rows are those of a table.
    pub is_of_table: bool,
    /// The names of its attributes.
    pub names: FieldNames,
    /// Their types.
    pub types: Vec<SqlType>,
}

/// A value of an enum.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Its place in the order: what a value is while a statement runs, and in a column.
    pub order: f64,
    /// What it is written as.
    pub text: String,
}

/// What a domain is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// The type that its values have besides.
    pub base: SqlType,
    /// Whether NULL is refused.
    pub is_not_null: bool,
    /// The text of its default.
    pub default: Option<String>,
    /// The names and the texts of its conditions, in the order of the names.
    pub checks: Vec<(String, String)>,
}

static KNOWN: LazyLock<Mutex<HashMap<u32, Vec<&'static Definition>>>> = LazyLock::new(Mutex::default);

impl UserType {
    /// The type of a definition.
    pub fn new(definition: Definition) -> UserType {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let of_number = known.entry(definition.number).or_default();
        match of_number.iter().find(|known| ***known == definition) {
            Some(known) => UserType(known),
            None => {
                let kept: &'static Definition = Box::leak(Box::new(definition));
                of_number.push(kept);
                UserType(kept)
            }
        }
    }

    /// The labels of an enum, in their order; none of other types.
    pub fn labels(&self) -> &'static [Label] {
        match &self.0.kind {
            Kind::Enum(labels) => labels,
            _ => &[],
        }
    }

    /// The label of a place in the order.
    pub fn label_at(&self, order: f64) -> Option<&'static str> {
        let labels = self.labels();
        let place = labels.binary_search_by(|label| label.order.total_cmp(&order)).ok()?;
        Some(&labels[place].text)
    }

    /// The place of a label in the order.
    pub fn order_of(&self, text: &str) -> Option<f64> {
        self.labels().iter().find(|label| label.text == text).map(|label| label.order)
    }

    /// What a domain is made of.
    pub fn domain(&self) -> Option<&'static Domain> {
        match &self.0.kind {
            Kind::Domain(domain) => Some(domain),
            _ => None,
        }
    }

    /// What the rows of a composite type are.
    pub fn composite(&self) -> Option<&'static Composite> {
        match &self.0.kind {
            Kind::Composite(composite) => Some(composite),
            _ => None,
        }
    }

    /// The type of values of it.
    pub fn base_type(self) -> BaseType {
        match &self.0.kind {
            Kind::Enum(_) => BaseType::Enum(self),
            Kind::Domain(_) => BaseType::Domain(self),
            Kind::Composite(_) => BaseType::Composite(self),
        }
    }

    /// What it is, for as long as the process runs.
    pub fn definition(&self) -> &'static Definition {
        self.0
    }
}

impl Deref for UserType {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        self.0
    }
}

impl PartialEq for UserType {
    fn eq(&self, other: &UserType) -> bool {
        self.number == other.number
    }
}

impl Eq for UserType {}

impl Hash for UserType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl fmt::Debug for UserType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// What knows the types that users have made, by their names.
pub trait TypeNames {
    /// The type of a name, or of its arrays: in a schema, or in the first one of the search path that has it.
    fn type_named(&self, schema: Option<&str>, name: &str) -> Option<SqlType>;
}

/// There are none.
pub struct NoTypes;

impl TypeNames for NoTypes {
    fn type_named(&self, _: Option<&str>, _: &str) -> Option<SqlType> {
        None
    }
}
