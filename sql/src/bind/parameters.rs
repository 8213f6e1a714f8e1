//! Parameters of a statement, `$1` and so on, and which types they have: what the client says, or else what the first
//! place that needs a type makes of them.

use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;

/// The most parameters of a statement: the protocol numbers them with 16 bits.
const PARAMETERS_MAX: usize = 65_535;

/// The types of the parameters that are known so far, in the order of their numbers.
#[derive(Clone)]
pub(crate) struct Parameters {
    types: Vec<Option<SqlType>>,
}

impl Parameters {
    /// Parameters of which a client has given some types.
    pub(super) fn new(types: &[Option<SqlType>]) -> Parameters {
        Parameters { types: types.to_vec() }
    }

    /// The types of all.
    ///
    /// # Errors
    /// [`INDETERMINATE_DATATYPE`](SqlState::INDETERMINATE_DATATYPE) of one that nothing gives a type, or whose number
    /// is left out.
    pub(crate) fn types(&self) -> Result<Vec<SqlType>> {
        let types = self.types.iter().enumerate().map(|(place, sql_type)| {
            sql_type.ok_or_else(|| {
                let what = format!("could not determine data type of parameter ${}", place + 1);
                SqlError::new(SqlState::INDETERMINATE_DATATYPE, what)
            })
        });
        types.collect()
    }

    /// The place of a parameter that is named, and its type; `unknown` if it has none yet.
    ///
    /// # Errors
    /// [`UNDEFINED_PARAMETER`](SqlState::UNDEFINED_PARAMETER) if the name is not `$` and a number that can be one.
    pub(super) fn named(&mut self, name: &str) -> Result<(usize, SqlType)> {
        let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let Some(place) = number.and_then(|number| number.checked_sub(1)).filter(|place| *place < PARAMETERS_MAX)
        else {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}")));
        };
        if self.types.len() <= place {
            self.types.resize(place + 1, None);
        }
        Ok((place, self.types[place].unwrap_or(SqlType::UNKNOWN).without_domain()))
    }

    /// Gives a parameter a type, if it has none yet. Returns the one that it has.
    pub(super) fn take_type(&mut self, place: usize, wanted: SqlType) -> SqlType {
        *self.types[place].get_or_insert(wanted.bare())
    }
}
