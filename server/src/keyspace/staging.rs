//! Long strings made before they get a key.
//!
//! The pieces are written under an id of their own, a slice in each hold of the data. At the end, in the commit of the
//! command, the key gets all of them at once. So a client sees the old value or the new one, and no client waits for
//! more than a slice. Until then the id is in the table of removals, so a string that gets no key is removed, when it
//! is dropped or after the next start.

use std::sync::Arc;

use quipu::Result;

use super::data::malformed;
use super::pieces::{piece_hash, piece_key, trim};
use super::removals::{Removal, Removals};
use super::value::{CollectionId, Entry, Header, Outline};
use super::{Body, Change, Data, Keyspace, Need};

/// Bytes that are written in one hold: some hundred microseconds.
const SLICE_BYTES: usize = 512 << 10;

/// Bytes that are written before the disk is waited for.
const UNSYNCED_BYTES_MAX: usize = 4 << 20;

/// A string in pieces that has no key yet. When it is dropped, it is looked after: if no key has it by then, because it
/// was not used or what used it was taken back or refused, it is removed.
pub struct Staged {
    removals: Arc<Removals>,
    number: usize,
    pub(super) id: CollectionId,
    pub(super) outline: Outline,
    /// Whether something is there to be removed.
    has_begun: bool,
}

impl Staged {
    /// Encodes what stands at the key that is to have it. The change that this is returned to has to be made.
    pub fn write(&mut self, header: Header, new: &mut Vec<u8>) -> Change {
        Entry { header, body: Body::Pieces(self.outline) }.encode(new);
        Change::PutPieces(self.id)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Whether it has a key is decided by its row in the table of removals, and not here.
        if self.has_begun {
            self.removals.push(Removal::of(self.number, self.id));
        }
    }
}

/// Makes a string in pieces from bytes that come some at a time: in holds of its own, or in one that is there.
pub struct Stager<'k> {
    keyspace: &'k Keyspace,
    staged: Staged,
    rest: Vec<u8>,
    /// Bytes that were written since the disk was waited for.
    unsynced_bytes: usize,
}

impl<'k> Stager<'k> {
    /// For a database that is prepared.
    pub fn new(keyspace: &'k Keyspace, database: usize) -> Stager<'k> {
        let staged = Staged {
            removals: keyspace.removals.clone(),
            number: keyspace.number_of(database),
            id: keyspace.new_id(),
            outline: Outline::default(),
            has_begun: false,
        };
        Stager { keyspace, staged, rest: Vec::new(), unsynced_bytes: 0 }
    }

    /// Takes the next bytes. `hold` is the hold for writing that is there; without one, no data may be held.
    pub fn push(&mut self, mut hold: Option<&mut Data<'_>>, mut bytes: &[u8]) -> Result<()> {
        if !self.rest.is_empty() {
            let lacking = (self.slice_bytes() - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..lacking]);
            bytes = &bytes[lacking..];
            if self.rest.len() < self.slice_bytes() {
                return Ok(());
            }
            let slice = std::mem::take(&mut self.rest);
            self.write(hold.as_deref_mut(), &slice)?;
        }
        while bytes.len() >= self.slice_bytes() {
            let (slice, behind) = bytes.split_at(self.slice_bytes());
            self.write(hold.as_deref_mut(), slice)?;
            bytes = behind;
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    /// The string, whole.
    pub fn finish(mut self, hold: Option<&mut Data<'_>>) -> Result<Staged> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() || !self.staged.has_begun {
            self.write(hold, &rest)?;
        }
        Ok(self.staged)
    }

    /// A whole number of pieces.
    fn slice_bytes(&self) -> usize {
        let piece_bytes = self.keyspace.cut().piece_bytes;
        (SLICE_BYTES / piece_bytes).max(1) * piece_bytes
    }

    fn write(&mut self, hold: Option<&mut Data<'_>>, slice: &[u8]) -> Result<()> {
        match hold {
            Some(data) => self.write_into(data, slice),
            None => {
                let keyspace = self.keyspace;
                let begun = (self.staged.has_begun, self.staged.outline);
                let ((), committed) = keyspace.step_to_wait_for(Need::Write, |data| {
                    // An attempt that was taken back has left nothing.
                    (self.staged.has_begun, self.staged.outline) = begun;
                    self.write_into(data, slice)
                })?;
                self.unsynced_bytes += slice.len();
                if self.unsynced_bytes > UNSYNCED_BYTES_MAX {
                    // So that no other commit has to wait for all of it.
                    committed.wait(keyspace.db.durability())?;
                    self.unsynced_bytes = 0;
                }
                Ok(())
            }
        }
    }

    fn write_into(&mut self, data: &mut Data<'_>, slice: &[u8]) -> Result<()> {
        let staged = &mut self.staged;
        let Some(tables) = self.keyspace.tables_of(staged.number) else { return Err(malformed()) };
        let piece_bytes = self.keyspace.cut().piece_bytes;
        let write = data.latched_write()?;
        if !staged.has_begun {
            let row = Removal::of(staged.number, staged.id).row();
            write.put(&self.keyspace.removals_table, &row, &[])?;
            staged.has_begun = true;
            if slice.is_empty() {
                write.put(&tables.elements, &piece_key(staged.id, 0), &[])?;
            }
        }
        for bytes in slice.chunks(piece_bytes) {
            let number = staged.outline.length / piece_bytes as u64;
            let kept = trim(bytes);
            if number == 0 || !kept.is_empty() {
                write.put(&tables.elements, &piece_key(staged.id, number), kept)?;
            }
            staged.outline.hash = staged.outline.hash.wrapping_add(piece_hash(number, kept));
            staged.outline.length += bytes.len() as u64;
        }
        Ok(())
    }
}

impl Keyspace {
    /// Makes a long string in holds of its own. To be called while nothing is held.
    pub fn stage(&self, database: usize, bytes: &[u8]) -> Result<Staged> {
        let mut stager = Stager::new(self, database);
        stager.push(None, bytes)?;
        stager.finish(None)
    }

    /// Whether strings of so many bytes are in pieces.
    pub fn cuts(&self, bytes: usize) -> bool {
        bytes > self.cut().whole_bytes_max
    }
}

impl Data<'_> {
    /// Makes a long string in this hold.
    pub fn stage(&mut self, database: usize, bytes: &[u8]) -> Result<Staged> {
        let mut stager = Stager::new(self.keyspace(), database);
        stager.push(Some(&mut *self), bytes)?;
        stager.finish(Some(self))
    }

    /// Whether a string that was made for this database may still be put there: not if the database was emptied or
    /// swapped meanwhile.
    pub fn may_use(&self, database: usize, staged: &Staged) -> bool {
        let keyspace = self.keyspace();
        keyspace.number_of(database) == staged.number && !keyspace.is_ended(staged.number, staged.id)
    }
}

/// A string that is to be put at a key: its bytes, and the pieces that were made of them if they are many.
pub enum NewString<'b> {
    /// One that is stored as a whole.
    Whole(&'b [u8]),
    /// One in pieces.
    Pieces(&'b [u8], Staged),
}

impl NewString<'_> {
    /// Encodes what stands at the key that is to have it. The change that this is returned to has to be made.
    #[inline]
    pub fn write(&mut self, header: Header, new: &mut Vec<u8>) -> Change {
        match self {
            NewString::Whole(bytes) => {
                header.encode(new);
                new.extend_from_slice(bytes);
                Change::Put
            }
            NewString::Pieces(_, staged) => staged.write(header, new),
        }
    }
}
