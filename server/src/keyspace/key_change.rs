//! Kinds of changes of a key, and the data that belongs to a value and has to be updated with it.

use super::value::{Body, CollectionId, Entry};

/// What a change makes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leaves it as it is.
    Keep,
    /// Puts what was written into the new value. A string in pieces keeps those it has.
    Put,
    /// The same, of a string whose pieces were made under this id.
    PutPieces(CollectionId),
    /// Removes it.
    Remove,
}

/// What hangs on a value: what has to follow when it changes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ties {
    pub(super) deadline_ms: Option<u64>,
    pub(super) collection: Option<CollectionId>,
    pub(super) pieces: Option<PiecesTie>,
}

impl Ties {
    pub(super) fn of(entry: Option<&Entry<'_>>) -> Ties {
        entry.map_or(Ties::default(), |entry| Ties {
            deadline_ms: entry.header.deadline_ms,
            collection: entry.collection(),
            pieces: match entry.body {
                Body::Pieces(outline) => Some(PiecesTie { length: outline.length, fresh: None }),
                Body::Bytes(_) | Body::Collection(_) => None,
            },
        })
    }

    /// Whether the key has elements or pieces under an id.
    pub(super) fn has_owner(&self) -> bool {
        self.collection.is_some() || self.pieces.is_some()
    }

    /// Of a value that was written for this change.
    pub(super) fn after(change: Change, new: &[u8]) -> Ties {
        let ties = Ties::of(Entry::decode(new).as_ref());
        let fresh = if let Change::PutPieces(id) = change { Some(id) } else { None };
        Ties { pieces: ties.pieces.map(|tie| PiecesTie { fresh, ..tie }), ..ties }
    }
}

/// That a key has a string in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PiecesTie {
    pub(super) length: u64,
    /// The id of pieces that were not this key's before.
    pub(super) fresh: Option<CollectionId>,
}
