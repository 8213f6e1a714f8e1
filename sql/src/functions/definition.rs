//! Definitions of functions: `substr(text,int4) text`, and what does it.
//!
//! The types are those of the catalogue. The last one may stand for any number of arguments: `concat(any...) text`.
//! Signatures are constants of this program, so that a wrong one fails all tests.

use crate::error::Result;
use crate::functions::{Environment, Function, Volatility};
use crate::numeric::Numeric;
use crate::types::datum::Datum;
use crate::types::refusal::mismatch;
use crate::types::{BaseType, SqlType};

/// What a function does.
pub(crate) type Body = fn(&dyn Environment, &[Datum]) -> Result<Datum>;

/// Rows, one after the other. Each has a value for each column.
pub type Rows<'r> = Box<dyn Iterator<Item = Result<Vec<Datum>>> + 'r>;

/// What makes rows, if it must know the types of their columns.
pub(crate) type RowsOfTypes = for<'r> fn(&'r dyn Environment, &'r [Datum], &[SqlType]) -> Result<Rows<'r>>;

/// The types that a signature tells, in parts.
pub(crate) struct Signature {
    /// The name, or the operator's characters.
    pub name: &'static str,
    /// The types of its arguments.
    pub arguments: &'static [SqlType],
    /// Whether the last of them stands for any number.
    pub is_variadic: bool,
    /// The type of the result.
    pub returns: SqlType,
}

impl Signature {
    /// Reads a signature; types must be known.
    pub fn parse(text: &'static str) -> Signature {
        let (name, rest) = text.split_once('(').expect("a signature has parentheses");
        let (arguments, returns) = rest.split_once(") ").expect("a signature has a result");
        let is_variadic = arguments.ends_with("...");
        let arguments: Vec<SqlType> =
            arguments.trim_end_matches("...").split(',').filter(|part| !part.is_empty()).map(type_of).collect();
        Signature { name, arguments: arguments.leak(), is_variadic, returns: type_of(returns) }
    }
}

/// The type of that name in the catalogue.
fn type_of(name: &str) -> SqlType {
    if name == "anyarray" {
        return SqlType::array_of(BaseType::AnyElement);
    }
    let (name, is_array) = name.strip_suffix("[]").map_or((name, false), |element| (element, true));
    let base = BaseType::all().find(|base| base.catalogue_name() == name);
    let base = base.unwrap_or_else(|| panic!("no type is called {name}"));
    SqlType { is_array, ..base.into() }
}

/// Functions that are being defined.
#[derive(Default)]
pub(crate) struct Definitions {
    /// Those defined so far.
    pub functions: Vec<Function>,
}

impl Definitions {
    /// Defines a function that is strict and immutable, unless more is said of it.
    pub fn add(&mut self, signature: &'static str, call: Body) -> &mut Function {
        let Signature { name, arguments, is_variadic, returns } = Signature::parse(signature);
        let volatility = Volatility::Immutable;
        let (is_strict, takes_types) = (true, false);
        self.functions.push(Function {
            name,
            arguments,
            returns,
            is_variadic,
            is_strict,
            takes_types,
            volatility,
            call,
        });
        self.functions.last_mut().expect("one was added")
    }

    /// Defines one that does the same for several signatures.
    pub fn each(&mut self, signatures: &[&'static str], call: Body) {
        for signature in signatures {
            self.add(signature, call);
        }
    }
}

impl Function {
    /// It has the same value within a statement.
    pub(crate) fn stable(&mut self) -> &mut Function {
        self.volatility = Volatility::Stable;
        self
    }

    /// It has another value each time.
    pub(crate) fn volatile(&mut self) -> &mut Function {
        self.volatility = Volatility::Volatile;
        self
    }

    /// It is called with NULL.
    pub(crate) fn lenient(&mut self) -> &mut Function {
        self.is_strict = false;
        self
    }

    /// It is told the types of its arguments.
    pub(crate) fn typed(&mut self) -> &mut Function {
        self.takes_types = true;
        self
    }
}

/// The integer at an index of the arguments.
pub(crate) fn int(arguments: &[Datum], index: usize) -> Result<i64> {
    arguments.get(index).and_then(Datum::as_int).ok_or_else(|| mismatch(BaseType::Int8))
}

/// The float at an index of the arguments.
pub(crate) fn float(arguments: &[Datum], index: usize) -> Result<f64> {
    match arguments.get(index) {
        Some(value) => crate::types::cast::to_float(value),
        None => Err(mismatch(BaseType::Float8)),
    }
}

/// The text at an index of the arguments.
pub(crate) fn text(arguments: &[Datum], index: usize) -> Result<&str> {
    arguments.get(index).and_then(Datum::as_text).ok_or_else(|| mismatch(BaseType::Text))
}

/// The truth value at an index of the arguments.
pub(crate) fn bool(arguments: &[Datum], index: usize) -> Result<bool> {
    match arguments.get(index) {
        Some(Datum::Bool(value)) => Ok(*value),
        _ => Err(mismatch(BaseType::Bool)),
    }
}

/// The bytes at an index of the arguments.
pub(crate) fn bytes(arguments: &[Datum], index: usize) -> Result<&[u8]> {
    match arguments.get(index) {
        Some(Datum::Bytes(value)) => Ok(value),
        _ => Err(mismatch(BaseType::Bytea)),
    }
}

/// The exact number at an index of the arguments.
pub(crate) fn number(arguments: &[Datum], index: usize) -> Result<Numeric> {
    match arguments.get(index) {
        Some(Datum::Numeric(value)) => Ok(value.clone()),
        Some(Datum::Int(value)) => Ok((*value).into()),
        _ => Err(mismatch(BaseType::Numeric)),
    }
}

/// The interval at an index of the arguments.
pub(crate) fn interval(arguments: &[Datum], index: usize) -> Result<crate::types::datum::Interval> {
    match arguments.get(index) {
        Some(Datum::Interval(value)) => Ok(*value),
        _ => Err(mismatch(BaseType::Interval)),
    }
}

/// The moment at an index of the arguments; of a day, its midnight.
pub(crate) fn moment(arguments: &[Datum], index: usize) -> Result<quipu_rows::Timestamp> {
    match arguments.get(index) {
        Some(Datum::Timestamp(value)) => Ok(*value),
        Some(Datum::Date(date)) => crate::types::moment::midnight_of(*date),
        _ => Err(mismatch(BaseType::Timestamp)),
    }
}

/// The day at an index of the arguments.
pub(crate) fn date(arguments: &[Datum], index: usize) -> Result<quipu_rows::Date> {
    match arguments.get(index) {
        Some(Datum::Date(value)) => Ok(*value),
        _ => Err(mismatch(BaseType::Date)),
    }
}

/// The array at an index of the arguments; none for NULL.
pub(crate) fn array(arguments: &[Datum], index: usize) -> Result<Option<&crate::types::datum::Array>> {
    match arguments.get(index) {
        Some(Datum::Array(array)) => Ok(Some(array)),
        Some(Datum::Null) => Ok(None),
        _ => Err(mismatch(SqlType::array_of(BaseType::AnyElement))),
    }
}

/// The arguments of a function that takes types.
pub(crate) fn typed(arguments: &[Datum]) -> Result<&[(SqlType, Datum)]> {
    match arguments {
        [Datum::Record(fields)] => Ok(fields),
        _ => Err(mismatch(BaseType::Record)),
    }
}
