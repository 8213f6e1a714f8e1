//! Services of the operating system: the time, a log, figures of the process.

pub mod clock;
pub mod heap;
pub mod listening;
pub mod log;
pub mod process;
pub(crate) mod waiting;
