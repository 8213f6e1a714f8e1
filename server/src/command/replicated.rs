//! Commands in a cluster: which of them a node serves, and how many replicas a client waits for.
//!
//! Commands whose facts say [`Flags::REPLICATED`] are served: those about whole strings and their deadlines, which the
//! last writer wins, and positions. Their handlers ask entities ([`crate::entities`]), wherever these are; in a cluster
//! each key is an entity of its own, so `MSET` and `DEL` of several keys are so many writes.

use quipu_cluster::ids::Quorum;

use super::{Call, CommandResult, Handler, Refusal, refusal};
use crate::cluster::Cluster;
use crate::facts::{Flags, Spec};
use crate::resp::number::parse_i64;
use crate::state::session::Session;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[Handler::new("q.ack", set_quorum)];

const NO_TRANSACTIONS: Refusal =
    refusal::text("ERR a transaction cannot be replicated: each key of a cluster is on nodes of its own");
const ONE_DATABASE: Refusal = refusal::text("ERR a cluster has one database; SELECT 0");

/// Whether a client may give a command to a node of a cluster.
///
/// # Errors
/// It cannot be replicated, or not so.
pub fn check(session: &Session, spec: &Spec, args: &[&[u8]]) -> CommandResult {
    let is_about_data = spec.flags.has(Flags::READ) || spec.flags.has(Flags::WRITE);
    // Those that end what cannot begin say so themselves.
    let is_of_transactions = matches!(spec.name, "exec" | "discard" | "unwatch");
    match (spec.name, args) {
        ("multi" | "watch", _) => return Err(NO_TRANSACTIONS),
        ("select", [_, database]) if parse_i64(database).is_some_and(|database| database != 0) => {
            return Err(ONE_DATABASE);
        }
        _ => {}
    }
    if !spec.flags.has(Flags::REPLICATED) {
        return match is_about_data && !is_of_transactions {
            true => Err(Refusal::new(format!(
                "ERR '{}' is not served by a node of a cluster: whole strings are replicated there, of which the last \
                 writer wins (GET, SET, DEL, EXISTS, MGET, MSET, TTL and their like)",
                spec.name
            ))),
            false => Ok(()),
        };
    }
    if session.queue.is_some() {
        return Err(NO_TRANSACTIONS);
    }
    if session.database != 0 {
        return Err(ONE_DATABASE);
    }
    Ok(())
}

/// `Q.ACK [ack from]`.
fn set_quorum(call: &mut Call<'_, '_>) -> CommandResult {
    let Some(cluster) = call.server.cluster.get() else {
        return Err(refusal::text("ERR this node is alone: there are no replicas to wait for"));
    };
    match *call.args {
        [_] => {
            let replicas = cluster.replicas() as i64;
            let (ack, from) = match call.session.quorum {
                Some(quorum) => (i64::from(quorum.ack), i64::from(quorum.from)),
                None => (replicas / 2 + 1, replicas),
            };
            call.reply.array(2);
            call.reply.integer(ack);
            call.reply.integer(from);
            Ok(())
        }
        [_, ack, from] => {
            let number = |word: &[u8]| parse_i64(word).ok_or(refusal::NOT_INTEGER);
            let (ack, from) = (number(ack)?, number(from)?);
            let nodes = cluster.nodes() as i64;
            match (u8::try_from(ack), u8::try_from(from)) {
                (Ok(ack), Ok(from)) if 1 <= ack && ack <= from && i64::from(from) <= nodes => {
                    call.session.quorum = Some(Quorum { ack, from });
                    call.reply.ok();
                    Ok(())
                }
                _ => Err(Refusal::new(format!("ERR it must be 1 <= ack <= from <= {nodes}, the nodes of the cluster"))),
            }
        }
        _ => Err(refusal::SYNTAX),
    }
}

/// On how many other nodes each write is that this session was told of: `WAIT` asks for that.
pub(super) fn confirmations(cluster: &Cluster, session: &Session) -> i64 {
    let ack = session.quorum.map_or(cluster.replicas() / 2 + 1, |quorum| usize::from(quorum.ack));
    ack as i64 - 1
}
