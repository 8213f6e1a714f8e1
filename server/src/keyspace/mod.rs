//! The keys of the server over the tables of the engine.
//!
//! Each of the sixteen databases has four tables: `keys.N` (a key and what stands there), `elements.N` (what
//! collections hold and long strings consist of, under their ids), `owners.N` (these ids, by key) and `expires.N`
//! (moment and key, in the order in which keys expire). The table of keys is ordered and counted, which is
//! what the commands `Q.*` ask.
//!
//! | file | what it is |
//! |---|---|
//! | `databases`, `tables` | all databases; their tables |
//! | `data`, `pending`, `attempts` | the data as a batch sees them; effects beside the tables; lacking pages |
//! | `value`, `key_change` | a key with its header and body; kinds of changes |
//! | `changes`, `consequences` | changing keys, and what follows from it |
//! | `transfer`, `dropping`, `removals` | keys that are renamed or copied; what a removed key owned |
//! | `pieces`, `pieces_writer`, `prepared`, `staging`, `cut` | long strings |
//! | `sorted_set`, `sorted_set_writer`, `score`, `set_scan` | sorted sets |
//! | `expiry`, `space` | keys whose time is over; a full disk |
//! | `scan`, `yielding` | cursors of iterations; letting others in |
//! | `check` | whether all of it agrees |
//!
//! Invariants:
//! 1. A key has an entry in `expires` exactly if its header has a deadline, and the two agree.
//! 2. A collection has at least one element; its elements go when its key does.
//! 3. No key that has expired is returned or counted: what is due is removed before anything is counted, and a lookup
//!    looks at the deadline.
//! 4. All commands that run under one [`Data`] see the same time.
//! 5. A key has an entry in `owners` exactly if it has a collection or a string in pieces; those of [`pieces`] hold.
//!    What lies under another id waits to be removed (`removals.rs`).
//!
//! [`check()`] looks at 1, 2 and 5.
//!
//! Not here: what the commands are (`facts/`, `command/`), and connections (`net/`).

mod attempts;
mod changes;
mod check;
mod consequences;
mod cut;
mod data;
mod databases;
mod dropping;
mod expiry;
mod key_change;
mod pending;
pub mod pieces;
mod pieces_writer;
mod prepared;
mod removals;
pub mod scan;
pub mod score;
pub mod set_scan;
pub mod sorted_set;
pub mod sorted_set_writer;
mod space;
mod staging;
mod tables;
mod transfer;
pub mod value;
mod yielding;

pub use check::{check, is_keys_table, is_table_of_server};
pub use cut::Cut;
pub use data::{Data, Need};
pub(crate) use databases::table_in_memory;
pub use databases::{Counters, Keyspace, Touched};
pub use key_change::Change;
pub use pieces::{StoredString, StringStream};
pub use prepared::PreparedString;
pub use space::Space;
pub use staging::{NewString, Staged, Stager};
pub use tables::{DATABASES, KEY_BYTES_MAX, Tables};
pub use value::Body;
