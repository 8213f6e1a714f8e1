//! Predicts which rows an input will look up, so that their pages can be loaded before the turn.
//!
//! It is a guess: a row that it misses is looked up all the same, and one that it names may not be needed.

use crate::api::Request;
use crate::ids::Partition;
use crate::protocol::{Frame, Message};
use crate::record::row_key;
use crate::replica::Replica;
use crate::routing::Routing;

/// The rows of a client's request.
pub(super) fn rows_of_request(routing: &Routing, replica: &Replica, request: &Request, visit: &mut dyn FnMut(&[u8])) {
    match request {
        Request::Get { key, .. } | Request::Put { key, .. } => {
            rows_of_key(replica, routing.partition_of(key), key, visit);
        }
        Request::Count { .. } | Request::Page { .. } => {}
    }
}

/// The rows of a peer's frame.
pub(super) fn rows_of_frame(replica: &Replica, bytes: &[u8], visit: &mut dyn FnMut(&[u8])) {
    let Ok(Frame { message, .. }) = Frame::decode(bytes) else { return };
    match message {
        Message::Write { partition, key, .. } | Message::Read { partition, key, .. } => {
            rows_of_key(replica, partition, key, visit);
        }
        Message::Give { partition, rows, .. } => {
            let prefix = partition.0.to_be_bytes();
            rows.iter().for_each(|row| visit(&[&prefix[..], row.key].concat()));
        }
        _ => {}
    }
}

fn rows_of_key(replica: &Replica, partition: Partition, key: &[u8], visit: &mut dyn FnMut(&[u8])) {
    replica.classes_in_use().for_each(|from| visit(&row_key(partition, from, key)));
}
