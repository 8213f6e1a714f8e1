//! Which rows an input will look up, so that their pages can be loaded before the turn.
//!
//! A guess: a row that is not named is looked up all the same, and one that is named may not be.

use super::Node;
use crate::api::Request;
use crate::ids::Partition;
use crate::protocol::{Frame, Message};
use crate::record::row_key;

impl Node {
    /// Names the rows that a client's request will look up here.
    pub fn rows_of_request(&self, request: &Request, visit: &mut dyn FnMut(&[u8])) {
        match request {
            Request::Get { key, .. } | Request::Put { key, .. } => {
                self.rows_of_key(self.routing.partition_of(key), key, visit);
            }
            Request::Count { .. } | Request::Page { .. } => {}
        }
    }

    /// Names the rows that a peer's frame will have this node look up.
    pub fn rows_of_frame(&self, bytes: &[u8], visit: &mut dyn FnMut(&[u8])) {
        let Ok(Frame { message, .. }) = Frame::decode(bytes) else { return };
        match message {
            Message::Write { partition, key, .. } | Message::Read { partition, key, .. } => {
                self.rows_of_key(partition, key, visit);
            }
            Message::Give { partition, rows, .. } => {
                let prefix = partition.0.to_be_bytes();
                rows.iter().for_each(|row| visit(&[&prefix[..], row.key].concat()));
            }
            _ => {}
        }
    }

    fn rows_of_key(&self, partition: Partition, key: &[u8], visit: &mut dyn FnMut(&[u8])) {
        self.replica.classes_in_use().for_each(|from| visit(&row_key(partition, from, key)));
    }
}
