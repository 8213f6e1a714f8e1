//! Services of the operating system: the time, a log, figures of the process.
//!
//! | file | what it is |
//! |---|---|
//! | `clock` | the time |
//! | `log` | the log of the server |
//! | `process`, `heap` | figures of the process; memory that goes back to the system |
//! | `scheduling` | how threads get a processor |
//! | `listening` | addresses to listen at |
//! | `waiting` | threads that ask for more to do before they sleep |

pub mod clock;
pub mod heap;
pub mod listening;
pub mod log;
pub mod process;
pub mod scheduling;
pub(crate) mod waiting;
