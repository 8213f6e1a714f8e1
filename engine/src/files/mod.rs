//! The files of a database as a whole: [`check()`] reports all that is wrong with them, [`restore()`] restores a
//! backup, and [`repair()`] saves what it can of a damaged database.
//!
//! [`Db::backup`](crate::Db::backup) makes the backup, while the database is written to.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod open;
pub(crate) mod repair;

pub use crate::log::OtherDatabase;
pub use backup::{BackupInfo, BackupOptions, restore};
pub use check::{CheckReport, check};
pub use repair::{Loss, RepairReport, repair};
