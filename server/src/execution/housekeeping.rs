//! Work that the server does without a request: it removes expired keys, frees the pieces of removed long values, and
//! ends snapshots whose time is over.
//!
//! A key that has expired is invisible at once; housekeeping frees its memory soon after. The work is done in small
//! steps between those of clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu::Result;
use quipu::stats::Failure;

use crate::state::server::Server;
use crate::system::clock;
use crate::system::heap::Heap;
use crate::system::log::Level;

/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(100);
/// Keys removed before clients have their turn: below a millisecond.
const EXPIRED_AT_ONCE: usize = 500;

/// Rounds between two looks at what the engine could not do in the background.
const ROUNDS_PER_LOOK: u32 = 10;

/// Does rounds until the server stops. What fails is told in the log, once as long as it fails in the same way, and
/// tried again in the next round.
pub fn run(server: &Arc<Server>) {
    let (mut told, mut round, mut heap) = (Vec::new(), 0u32, Heap::default());
    let mut expiry_failure = None;
    let mut has_space = true;
    while !server.wait_for_stop_until(ROUND) {
        let failure =
            remove_expired(server).and_then(|()| remove_leftovers(server)).err().map(|error| error.to_string());
        if let Some(failure) = failure.as_ref().filter(|_| failure != expiry_failure) {
            server.log(format_args!("removing what has expired or was dropped failed: {failure}"));
        }
        expiry_failure = failure;
        has_space = ask_for_space(server, has_space);
        if round.is_multiple_of(ROUNDS_PER_LOOK) {
            let stats = server.keyspace.db().stats();
            heap.note(stats.long_bytes);
            told = tell_failures(server, stats.failures, &told);
            give_space_back(server);
        }
        round = round.wrapping_add(1);
        server.snapshots.end_due(clock::now_ms());
        server.windows.end_idle(clock::now_ms());
        evict_clients(server);
        server.note_round();
    }
}

/// Asks whether there is space again, if the disk was full. Returns whether there is. What changes is told in the log.
fn ask_for_space(server: &Server, had_space: bool) -> bool {
    server.keyspace.ask_for_space();
    let lack = server.keyspace.lack_of_space();
    match &lack {
        Some(reason) if had_space => server.log_at(
            Level::Warning,
            format_args!("the disk is full: writes that free no space are refused until there is some: {reason}"),
        ),
        None if !had_space => server.log(format_args!("the disk has space again: writes are taken")),
        _ => {}
    }
    lack.is_none()
}

/// Has a checkpoint give back the space of what was removed while the disk was full.
pub fn give_space_back(server: &Server) {
    let keyspace = &server.keyspace;
    if !server.saves.is_running() && keyspace.space().has_freed() {
        let changes = keyspace.counters.changes.load(Ordering::Relaxed);
        server.saves.start(keyspace.db(), changes);
    }
}

/// Closes clients if all of them together hold more memory than they may, those first that hold the most.
pub fn evict_clients(server: &Server) {
    for (client, bytes) in server.clients.evict(&server.config.parameters) {
        server.statistics.evicted_clients.fetch_add(1, Ordering::Relaxed);
        server.log(format_args!(
            "client {} at {}: closed: clients hold more than `maxmemory-clients`, {bytes} bytes of it this one",
            client.id, client.address
        ));
    }
}

/// Logs what the engine could not do in the background and `told` does not have yet. Returns all there is now.
fn tell_failures(server: &Server, failures: Vec<Failure>, told: &[Failure]) -> Vec<Failure> {
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
