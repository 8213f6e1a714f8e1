//! Expressions in SQL's words, of which rows keep the text and do not understand it:
//! `sql('i64', 'abs($1 - $2)', a, b)`.
//!
//! The first argument is the type of the value, the second the expression, in which `$1` is the third, and so on. SQL
//! says once how such texts are compiled ([`compute_expressions_by`]). Where a program has no SQL, rows whose checks or
//! indexes have such an expression cannot be written.
//!
//! `sql_when_written(...)` is an expression that depends on more than its row, as the time: it is computed when the row
//! is written, and never again. Only checks have such.

use std::fmt;
use std::sync::{Arc, OnceLock};

use quipu::{Error, ErrorKind, Result};

use crate::value::Value;
use crate::value::data_type::DataType;

/// Computes a value from others.
pub type Compute = dyn Fn(&[Value<'_>]) -> Result<Value<'static>> + Send + Sync;

/// Makes what computes the value of an expression from those of its arguments.
pub type ExpressionCompiler = fn(&str) -> Result<Box<Compute>>;

static COMPILER: OnceLock<ExpressionCompiler> = OnceLock::new();

/// The word that such an expression begins with.
pub(crate) const WORD: &str = "sql";

/// The word of one that has its value when the row is written.
pub(crate) const WORD_WHEN_WRITTEN: &str = "sql_when_written";

/// Says how expressions in SQL's words are computed in this process. The first one that is said stays.
pub fn compute_expressions_by(compiler: ExpressionCompiler) {
    let _ = COMPILER.set(compiler);
}

/// An expression in SQL's words.
#[derive(Clone)]
pub(crate) struct Computed {
    pub(crate) data_type: DataType,
    pub(crate) text: Arc<str>,
    /// Whether it has its value only when the row is written.
    pub(crate) is_when_written: bool,
    compute: Arc<OnceLock<Box<Compute>>>,
}

impl PartialEq for Computed {
    fn eq(&self, other: &Computed) -> bool {
        (self.data_type, &self.text, self.is_when_written) == (other.data_type, &other.text, other.is_when_written)
    }
}

impl fmt::Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed").field("data_type", &self.data_type).field("text", &self.text).finish()
    }
}

impl Computed {
    pub(crate) fn new(data_type: DataType, text: &str, is_when_written: bool) -> Computed {
        Computed { data_type, text: text.into(), is_when_written, compute: Arc::default() }
    }

    /// The word that it begins with.
    pub(crate) fn word(&self) -> &'static str {
        if self.is_when_written { WORD_WHEN_WRITTEN } else { WORD }
    }

    /// Its value.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if this program does not compute such expressions; those of the expression.
    pub(crate) fn value(&self, arguments: &[Value<'_>]) -> Result<Value<'static>> {
        if let Some(compute) = self.compute.get() {
            return compute(arguments);
        }
        let Some(compiler) = COMPILER.get() else {
            let what = format!(
                "the expression {} is computed by SQL, which this program does not have: write its rows by SQL",
                self.text
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        };
        let compute = compiler(&self.text)?;
        self.compute.get_or_init(|| compute)(arguments)
    }
}
