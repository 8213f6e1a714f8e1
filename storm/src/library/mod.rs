//! The verbs of the library, and the world that they change: a database beside its model.

pub mod actions;
pub mod answer;
pub(crate) mod changes;
pub mod disk_faults;
pub mod model;
pub mod questions;
pub mod rows;
pub mod script;
pub mod setup;
pub mod transactions;
pub(crate) mod upkeep;
pub mod value;
pub mod watched;
pub mod word;
pub mod world;
pub mod writes;
