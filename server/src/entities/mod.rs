//! Entities, wherever they are: keys with a value, a deadline, and a place in their order.
//!
//! [`Entities`] has the verbs: get, put under a condition and with a deadline, delete, count, rank, nth, page. There
//! are two places where entities can be: the keyspace of a node alone ([`Alone`]), and the nodes of a cluster, which
//! its coordinator asks ([`Coordinator`]). A command or a request is written once over the verbs: what it says is
//! parsed above, in the words of RESP or of HTTP, and answered there.
//!
//! | file | |
//! |---|---|
//! | `verbs` | the verbs, and what they take and return |
//! | `condition` | the tag of an entity, and the conditions of reads and writes |
//! | `failure` | why a verb was not done |
//! | `room` | how much may be read or written while others wait |
//! | `alone`, `pages` | the keyspace of a node alone; its pages of keys |
//! | `pending`, `coordinator` | the cluster: an answer on its way, and the verbs |
//!
//! Invariant: a condition is one on what stands at the key when the write is made, in both places.
//!
//! Costs: over the keyspace, verbs are plain calls that the compiler puts in place. Over a cluster each waits for other
//! nodes, so its caller stands on a thread that may wait, or is a future.
//!
//! HTTP takes conditions, tags and the coordinator's futures ([`Coordinator::ask_get`] and its like) from here. Its
//! reads of a node alone and its writes are not the verbs: a long value is sent from a snapshot while it is read, a
//! range is a stream, and the writes of many connections share a commit.
//!
//! Not here: kinds of values other than strings, which only a node alone has; words and answers of RESP and HTTP.

mod alone;
mod condition;
mod coordinator;
mod failure;
mod pages;
mod pending;
mod room;
mod verbs;

pub use alone::{Alone, check_key};
pub use condition::{Condition, Tag, Tags, Verdict};
pub use coordinator::Coordinator;
pub use failure::Failure;
pub use pending::{Counted, Entity, Paged, Pending};
pub use room::{LONG_BYTES, LONG_ROWS, Room};
pub use verbs::{Entities, Found, Lifetime, NewDeadline, PageAsked, PagePart, SnapshotRows, Value};
