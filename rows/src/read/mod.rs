//! Reading rows: of tables and indexes, live, at a snapshot and in transactions.
//!
//! | file | what it is |
//! |---|---|
//! | `row` | a row as its bytes, lent or owned |
//! | `ordered` | what can be asked of rows in the order of a key: positions, counts, sums, ranges |
//! | `table`, `index` | a table, and an index, that can be asked so |
//! | `groups` | counts of keys that begin alike, from group to group |
//! | `batch`, `scan` | many rows as columns |

pub(crate) mod batch;
pub(crate) mod groups;
pub(crate) mod index;
pub(crate) mod ordered;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod table;
