//! Clusters of three processes on this machine, and requests to them at a fixed rate.
//!
//! | module | |
//! |---|---|
//! | `question` | what is asked, under which promise; the bytes of requests and of answers |
//! | `trio` | the three processes of Quipu, Redis or etcd: their settings, their CPU time |
//! | `crowd` | connections of one thread, in a closed loop or in an open one |
//! | `lane` | one line of the tables: a question, and what was measured of it so far |
//! | `search` | which rate to try next, to find the highest that is held |
//! | `plot` | latencies by percentile, as SVG |
//!
//! Invariants:
//! 1. In an open loop requests come at a fixed rate, whatever is answered, and a latency is counted from the moment a
//!    request was due. So a stall counts for all that came meanwhile.
//! 2. All clusters are asked by the same thread over as many connections, with one request under way on each.
//! 3. Every answer is judged: a refusal, a missing value and a write that too few replicas confirmed are failures.

mod crowd;
mod lane;
mod plot;
mod question;
mod search;
mod trio;

pub(crate) use crowd::Served;
pub(crate) use lane::Lane;
pub(crate) use plot::{Curve, draw};
pub(crate) use question::{Operation, Promise, Question};
pub(crate) use search::Search;
pub(crate) use trio::{Brand, Found, Trio};
