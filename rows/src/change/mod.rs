//! Changes of definitions: each is a transaction, or a few of them, after any of which the tables are whole.
//!
//! | file | what it is |
//! |---|---|
//! | `definitions` | definitions within a transaction: read, changed, checked, written |
//! | `tables` | tables created, dropped and renamed |
//! | `columns` | columns added, dropped, renamed, with other defaults |
//! | `numbers` | the next numbers of identity columns |
//! | `constraints` | checks, NOT NULL and foreign keys of tables that have rows |
//! | `indexes` | indexes built beside writers, dropped and renamed |
//! | `existing_rows` | constraints and indexes of the rows that a transaction sees |
//! | `rewrite` | all rows of a table written anew |
//! | `retype` | columns of other types, other primary keys, numbers for columns that had none |
//! | `in_transaction` | changes that a caller makes within its transaction |
//! | `rebuild_index` | indexes built again from the rows |
//! | `load` | many rows into an empty table |
//! | `sorter` | keys and values sorted on their way into a tree |
//! | `trees` | trees that changes create and drop |
//! | `take_back` | parts of a definition that are taken back |
//! | `unfinished` | removal of what a crash left unfinished |
//!
//! A change that must read all rows does so while others write. First, new rows have to satisfy the constraint, or are
//! noted for the index. Then the rows of a snapshot are read. Then the change is complete. A crash in between leaves a
//! definition that says so, and the change is undone when the database is next opened.

pub(crate) mod columns;
pub(crate) mod constraints;
pub(crate) mod definitions;
pub(crate) mod existing_rows;
pub(crate) mod in_transaction;
pub(crate) mod indexes;
pub(crate) mod load;
pub(crate) mod numbers;
pub(crate) mod rebuild_index;
pub(crate) mod retype;
pub(crate) mod rewrite;
pub(crate) mod sorter;
pub(crate) mod tables;
pub(crate) mod take_back;
pub(crate) mod trees;
pub(crate) mod unfinished;
