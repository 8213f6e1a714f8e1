//! Renames, moves and copies keys with all that belongs to them.
//!
//! A collection's elements, and a long string's pieces, lie under an id. A rename leaves them where they are; a copy
//! gets an id of its own; another database has a table of its own.
//!
//! Cost: a rename takes a few descents; a copy or a move a step for each element or piece.

use std::ops::Bound;

use quipu::latched::Action;
use quipu::{Bounds, ReadableTable, Result};

use super::data::malformed;
use super::key_change::Ties;
use super::staging::{Staged, Stager};
use super::value::{CollectionId, Entry, Form, Header};
use super::{Body, Change, Data, PreparedString, Tables};
use crate::resp::number::parse_i64;

/// Bytes of a long string that are read before they are written.
const COPIED_BYTES: u64 = 512 << 10;

/// Elements that are read before they are written.
const CHUNK_ROWS: usize = 256;

impl Data<'_> {
    /// Gives a live key another name, which takes the place of what stood there. Returns whether there was such a key.
    /// The names differ.
    pub fn rename(&mut self, database: usize, from: &[u8], to: &[u8]) -> Result<bool> {
        let Some(value) = self.owned_value(database, from)? else { return Ok(false) };
        let entry = Entry::decode(&value).ok_or_else(malformed)?;
        let tables = self.tables_to_write(database)?;
        let before = Ties::of(Some(&entry));
        // The new name comes first: if it cannot be written, nothing is lost.
        match before.pieces {
            None => self.put_entry(database, to, entry)?,
            Some(_) => {
                let id = self.id_of_string(database, from)?;
                self.change(database, to, |_, new| {
                    entry.encode(new);
                    Change::PutPieces(id)
                })?;
            }
        }
        if before.has_owner() {
            self.latched_write()?.remove(&tables.owners, from)?;
        }
        self.latched_write()?.update(&tables.keys, from, |_, _| Action::Remove)?;
        // Elements and pieces are those of the new name now.
        self.follow(database, from, before, Ties { deadline_ms: None, ..before })?;
        Ok(true)
    }

    /// Puts a copy of a live key at another place, instead of what stood there. Returns whether there was such a key.
    /// Both databases are prepared, and the places differ. `prepared` is a copy of a long string that was made before;
    /// it serves if the string is still the same.
    pub fn copy(&mut self, from: (usize, &[u8]), to: (usize, &[u8]), prepared: Option<PreparedString>) -> Result<bool> {
        self.put_copy(from, to, prepared, true)
    }

    /// Moves a live key to another database, instead of what stood there. Returns whether there was such a key. Both
    /// databases are prepared. `prepared` as in [`Data::copy`].
    pub fn move_key(&mut self, key: &[u8], from: usize, to: usize, prepared: Option<PreparedString>) -> Result<bool> {
        Ok(self.put_copy((from, key), (to, key), prepared, false)? && self.remove(from, key)?)
    }

    fn put_copy(
        &mut self,
        from: (usize, &[u8]),
        to: (usize, &[u8]),
        prepared: Option<PreparedString>,
        stays: bool,
    ) -> Result<bool> {
        let Some(value) = self.owned_value(from.0, from.1)? else { return Ok(false) };
        let mut entry = Entry::decode(&value).ok_or_else(malformed)?;
        match entry.body {
            Body::Bytes(bytes) => {
                if stays && entry.header.form == Form::Content && parse_i64(bytes).is_some() {
                    entry.header.form = Form::Copied;
                }
            }
            Body::Collection(source) => {
                let id = self.new_id();
                self.copy_elements((from.0, source), (to.0, id))?;
                entry.body = Body::Collection(id);
            }
            Body::Pieces(_) => {
                let mut staged = match prepared.and_then(|prepared| prepared.staged_for(self, to.0, Some(&entry))) {
                    Some(staged) => staged,
                    None => self.copy_pieces(from, to.0)?,
                };
                self.change(to.0, to.1, |_, new| staged.write(entry.header, new))?;
                return Ok(true);
            }
        }
        self.put_entry(to.0, to.1, entry)?;
        Ok(true)
    }

    /// Copies the long string at a key, in this hold.
    fn copy_pieces(&mut self, from: (usize, &[u8]), to: usize) -> Result<Staged> {
        let mut stager = Stager::new(self.keyspace(), to);
        let (mut place, mut part) = (0, Vec::new());
        loop {
            part.clear();
            {
                let entry = self.entry(from.0, from.1)?.ok_or_else(malformed)?;
                let string = self.string_of(from.0, from.1, &entry)?.ok_or_else(malformed)?;
                string.copy(place, place + COPIED_BYTES, &mut part)?;
            }
            if part.is_empty() {
                return stager.finish(Some(self));
            }
            place += part.len() as u64;
            stager.push(Some(&mut *self), &part)?;
        }
    }

    /// What stands at a live key. The version is that of the place where it stood: it does not come along.
    fn owned_value(&self, database: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.entry(database, key)?.map(|entry| {
            let mut value = Vec::new();
            Entry { header: Header { version: None, ..entry.header }, ..entry }.encode(&mut value);
            value
        }))
    }

    /// Copies the elements of a collection. If it fails, there is no copy.
    fn copy_elements(&mut self, from: (usize, CollectionId), to: (usize, CollectionId)) -> Result<()> {
        let (source, target) = (self.tables_to_write(from.0)?, self.tables_to_write(to.0)?);
        let copied = self.copy_rows(source, target, from.1, to.1);
        if copied.is_err() {
            self.latched_write()?.remove_range(&target.elements, Bounds::prefix(&to.1.bytes()))?;
        }
        copied
    }

    fn copy_rows(&mut self, source: &Tables, target: &Tables, from: CollectionId, to: CollectionId) -> Result<()> {
        let (prefix, new_prefix) = (from.bytes(), to.bytes());
        let mut last = Vec::new();
        loop {
            let start = if last.is_empty() { Bound::Included(&prefix[..]) } else { Bound::Excluded(&last[..]) };
            let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            self.view(&source.elements)?.for_each(Bounds::new(start, Bound::Unbounded), |key, value| {
                if key.starts_with(&prefix) {
                    rows.push((key.to_vec(), value.to_vec()));
                }
                key.starts_with(&prefix) && rows.len() < CHUNK_ROWS
            })?;
            let Some((key, _)) = rows.last() else { return Ok(()) };
            last = key.clone();
            let write = self.latched_write()?;
            for (mut key, value) in rows {
                key.get_mut(..prefix.len()).ok_or_else(malformed)?.copy_from_slice(&new_prefix);
                write.put(&target.elements, &key, &value)?;
            }
        }
    }
}
