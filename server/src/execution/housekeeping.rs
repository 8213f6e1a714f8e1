//! What the server does by itself: it removes keys that have expired, frees what long values leave behind, and ends
//! snapshots whose time is over.
//!
//! A key that has expired is invisible at once; housekeeping frees its memory soon after. The work is done in small
//! steps between those of clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu::{Failure, Result};

use crate::state::server::Server;
use crate::system::clock;

/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(100);
/// Keys removed before clients have their turn: below a millisecond.
const EXPIRED_AT_ONCE: usize = 500;

/// Rounds between two looks at what the engine could not do in the background.
const ROUNDS_PER_LOOK: u32 = 10;

/// Does rounds until the server stops. What fails is told in the log, once as long as it fails in the same way, and
/// tried again in the next round.
pub fn run(server: &Arc<Server>) {
    let (mut told, mut round) = (Vec::new(), 0u32);
    let mut expiry_failure = None;
    while !server.wait_for_stop_until(ROUND) {
        let failure =
            remove_expired(server).and_then(|()| remove_leftovers(server)).err().map(|error| error.to_string());
        if let Some(failure) = failure.as_ref().filter(|_| failure != expiry_failure) {
            server.log(format_args!("removing what has expired or was dropped failed: {failure}"));
        }
        expiry_failure = failure;
        if round.is_multiple_of(ROUNDS_PER_LOOK) {
            told = tell_failures(server, &told);
        }
        round = round.wrapping_add(1);
        server.snapshots.end_due(clock::now_ms());
        server.windows.end_idle(clock::now_ms());
        evict_clients(server);
        server.note_round();
    }
}

/// Closes clients if all of them together hold more memory than they may, those first that hold the most.
pub fn evict_clients(server: &Server) {
    for (client, bytes) in server.clients.evict(&server.config.parameters) {
        server.log(format_args!(
            "client {} at {}: closed: clients hold more than `maxmemory-clients`, {bytes} bytes of it this one",
            client.id, client.address
        ));
    }
}

/// Logs what the engine could not do in the background and `told` does not have yet. Returns all there is now.
fn tell_failures(server: &Server, told: &[Failure]) -> Vec<Failure> {
    let failures = server.keyspace.db().stats().failures;
    for failure in failures.iter().filter(|failure| !told.contains(failure)) {
        server.log(format_args!("work in the background failed: {failure}"));
    }
    failures
}

/// Removes what no key has any more, while others take turns.
fn remove_leftovers(server: &Server) -> Result<()> {
    loop {
        if server.stopping.load(Ordering::Acquire) || !server.keyspace.remove_step()? {
            return Ok(());
        }
    }
}

fn remove_expired(server: &Server) -> Result<()> {
    while !server.stopping.load(Ordering::Acquire) && server.keyspace.removes_expired(clock::now_ms()) {
        server.keyspace.remove_expired_step(EXPIRED_AT_ONCE, clock::now_ms())?;
    }
    Ok(())
}
