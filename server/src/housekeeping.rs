//! What the server does by itself: removes keys when they expire, ends snapshots whose time is over.
//!
//! A key that has expired is invisible at once; here it also gives its memory back, soon. Work is done in small batches between those of clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu::Result;

use crate::clock;
use crate::keyspace::{Data, Need};
use crate::server::Server;

/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(100);
/// Keys removed before clients have their turn: below a millisecond.
const EXPIRED_AT_ONCE: usize = 500;

/// Does rounds until the server stops.
pub fn run(server: &Arc<Server>) {
    while !server.wait_for_stop_until(ROUND) {
        if let Err(error) = remove_expired(server) {
            server.log(format_args!("removing expired keys failed: {error}"));
            return;
        }
        server.snapshots.end_due(clock::now_ms());
        server.walks.end_idle(clock::now_ms());
        server.note_round();
    }
}

fn remove_expired(server: &Server) -> Result<()> {
    while !server.stopping.load(Ordering::Acquire) && server.keyspace.due_ms() <= clock::now_ms() {
        let mut data = Data::hold(&server.keyspace, Need::Write, clock::now_ms())?;
        data.remove_expired(EXPIRED_AT_ONCE)?;
        let _ = data.close()?;
    }
    Ok(())
}
