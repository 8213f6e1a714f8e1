//! Tables of rows beside a model of them in plain maps, and what is done to both. The test `model` and the storm's
//! mode `rows` share it.
//!
//! | file | what it is |
//! |---|---|
//! | `model` | tables, indexes, constraints and what statements do to them, as plain maps |
//! | `draw` | random tables, columns, indexes, constraints and rows |
//! | `schemas` | what the model declares, as schemas of rows |
//! | `statements` | statements drawn, done to a table, and done to the model |
//! | `expected` | what a database should hold, and what it may hold after a call that failed |
//! | `world` | a database beside its model; transactions, loads, snapshots, upkeep |
//! | `changes` | changes of schemas |
//! | `judge` | whether a table answers as the model does |
//!
//! A wrong answer is a panic, as in any test. Errors of the disk are returned: the caller must find out what state they
//! leave.

pub mod changes;
pub mod draw;
pub mod expected;
pub mod judge;
pub mod model;
pub mod schemas;
pub mod statements;
pub mod world;
