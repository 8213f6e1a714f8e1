//! Runs commands: in batches, or in steps where they take long; and does what the server does by itself.
//!
//! | file | what it is |
//! |---|---|
//! | `batch` | commands that come together, in one hold of the data, each from admission to answer, and in one commit |
//! | `single` | one command, what it needs, and a panic in it |
//! | `refusals` | answers of commands that are not run, and those that the client does not want |
//! | `long`, `words` | commands that take long, in steps; their words |
//! | `housekeeping` | work without a request: expired keys, space, snapshots |

pub mod batch;
pub mod housekeeping;
pub mod long;
mod refusals;
mod single;
pub mod words;
