//! Transactions: their private layers, what they have read, and whether it still holds.
//!
//! | file | what it is |
//! |---|---|
//! | `transaction` | private layers over a version, savepoints, `refresh` |
//! | `table_transaction` | reads and writes of one table: a read sees what the transaction has written (`source`) |
//! | `private_table` | what a transaction keeps of one table |
//! | `patches` | changes of values that are made again at the commit |
//! | `unresolved_keys` | keys that were written without a look at what is there |
//! | `isolation`, `conflicts` | which reads must be unchanged at the commit; whether they are |

pub(crate) mod conflicts;
pub(crate) mod isolation;
pub(crate) mod patches;
pub(crate) mod private_table;
pub(crate) mod table_transaction;
pub(crate) mod transaction;
pub(crate) mod unresolved_keys;
