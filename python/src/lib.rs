//! The Python package of Quipu: what lies below its Python sources in `quipu/`.
//!
//! Invariants:
//! 1. Whatever may wait or take long runs with the GIL released ([`error::detached`]).
//! 2. No panic on any Python object: what is wrong is an exception that says what was expected.
//! 3. In a process that was forked nothing of another one takes a lock or waits for a thread.
//!
//! | file | what it is |
//! |---|---|
//! | `database` | databases, snapshots and transactions |
//! | `source` | where tables are read and written, and what ends with a database |
//! | `turns` | where threads wait for the writer's turn |
//! | `signals` | Ctrl-C while calls wait or take long |
//! | `reader` | a table or an index: questions and writes |
//! | `on_conflict` | the choice of what a row does that comes for a key of which there is a row |
//! | `many` | questions and changes of many rows, which signals end |
//! | `range` | ranges of encoded keys |
//! | `rows`, `value` | rows and values from Python's objects, and back |
//! | `arrow_out`, `arrow_in` | Arrow's C stream of rows, and rows of one |
//! | `arrow_json` | JSON of Arrow's lists and structs |
//! | `session` | sessions of SQL, each in a thread of its own |
//! | `result` | results of SQL, and their rows as tuples |
//! | `parameter`, `datum` | values of SQL from Python's objects, and back |
//! | `result_arrow` | Arrow's C stream of a result |
//! | `error` | exceptions |

mod arrow_in;
mod arrow_json;
mod arrow_out;
mod database;
mod datum;
mod error;
mod many;
mod on_conflict;
mod parameter;
mod range;
mod reader;
mod result;
mod result_arrow;
mod rows;
mod session;
mod signals;
mod source;
mod turns;
mod value;

use pyo3::prelude::*;

/// The classes that the Python sources are built on.
#[pymodule]
fn _quipu(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // What writes rows computes the columns that SQL has declared so.
    quipu_sql::compute_generated_columns();
    module.add_class::<database::Database>()?;
    module.add_class::<database::Snapshot>()?;
    module.add_class::<database::Transaction>()?;
    module.add_class::<database::SavedPoint>()?;
    module.add_class::<range::Range>()?;
    module.add_class::<reader::Reader>()?;
    module.add_class::<result::SqlSession>()?;
    module.add_class::<result::SqlResult>()?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))
}
