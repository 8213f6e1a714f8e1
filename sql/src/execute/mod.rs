//! Plans at work: rows are pulled, one at a time, from cursors that hold no borrow of what they read, so that a portal
//! can stop between two rows.
//!
//! | file | what it is |
//! |---|---|
//! | `view` | the tables as a statement sees them |
//! | `context` | what all parts of a running statement share |
//! | `kept_answers` | what a statement keeps of the answers of its parts |
//! | `value_set` | sets of values in which others are searched |
//! | `evaluate` | the value of an expression for a row |
//! | `subquery` | sub-selects in expressions |
//! | `key_ranges` | the ranges of a key that an access means |
//! | `scan` | the rows of a table or an index, chunk by chunk |
//! | `sampled` | parts of tables, by rows at equal distances |
//! | `early_filter` | the filter of a scan, asked of rows where they stand |
//! | `lookup` | rows of a scan that a sub-select asks for again and again |
//! | `source`, `join`, `merge_join` | the rows of a FROM; pairs of rows, and of those that do not fit into memory |
//! | `query`, `with` | the rows of a query, in order; those of WITH |
//! | `order`, `sorter` | the order of rows; rows put in it, in memory and beyond |
//! | `key_table` | keys by which joins, groups and DISTINCT find rows |
//! | `row_list` | rows that are kept in the order in which they come |
//! | `distinct`, `set_operation` | rows of which the first of each kind are given; UNION, INTERSECT, EXCEPT |
//! | `group`, `counted` | groups, from rows and from the tallies of a tree |
//! | `window`, `large_partition` | window functions; over partitions that do not fit into memory |
//! | `change`, `merge` | INSERT, UPDATE, DELETE; MERGE |
//! | `found_rows` | the rows that an UPDATE or a DELETE has found |
//! | `check_option`, `violations` | rows that views refuse; what is told of rows that constraints refuse |
//! | `changes_in_with` | statements that change rows, with those of WITH |
//! | `key_locks` | locks of the keys that rows take and refer to |
//! | `explain` | a plan in words |

pub mod change;
pub mod changes_in_with;
mod check_option;
pub mod context;
pub mod counted;
mod distinct;
mod early_filter;
pub mod evaluate;
pub mod explain;
mod found_rows;
pub mod group;
pub mod join;
pub mod kept_answers;
pub mod key_locks;
pub mod key_ranges;
mod key_table;
mod large_partition;
mod lookup;
mod merge;
mod merge_join;
pub mod order;
pub mod query;
pub mod row_list;
pub mod sampled;
pub mod scan;
mod set_operation;
pub(crate) mod sorter;
pub mod source;
pub mod subquery;
mod value_set;
pub mod view;
pub(crate) mod violations;
pub mod window;
mod with;
