//! A directory as a whole: opening, checking, copying and repairing it.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod open;
pub(crate) mod repair;
