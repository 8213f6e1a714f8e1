//! Keys that get another name, another database, or a copy, with all that hangs on them.
//!
//! A collection's elements lie under its id: a new name leaves them where they are; a copy gets an id of its own; another database has a table of its own.
//!
//! Cost: a new name a few descents and the bytes of a string; a copy, and another database, a step for each element.

use std::ops::Bound;

use quipu::{Action, Bounds, Read, Result};

use super::changes::Ties;
use super::data::malformed;
use super::value::{CollectionId, Entry, Form, Header, Kind};
use super::{Data, Tables};
use crate::resp::number::parse_i64;

/// Elements that are read before they are written.
const CHUNK_ROWS: usize = 256;

impl Data<'_> {
    /// Gives a live key another name, which takes the place of what stood there. Returns whether there was such a key. The names differ.
    pub fn rename(&mut self, database: usize, from: &[u8], to: &[u8]) -> Result<bool> {
        let Some((header, body)) = self.owned_entry(database, from)? else { return Ok(false) };
        // The new name comes first: if it cannot be written, nothing is lost.
        self.put_entry(database, to, header, &body)?;
        let tables = self.tables_to_write(database)?;
        self.edit()?.update(&tables.keys, from, |_, _| Action::Remove)?;
        let entry = Entry { header, body: &body };
        let before = Ties::of(Some(&entry));
        // The elements are those of the new name now.
        self.settle(database, from, before, Ties { deadline_ms: None, ..before })?;
        Ok(true)
    }

    /// Puts a copy of a live key at another place, instead of what stood there. Returns whether there was such a key. Both databases are prepared, and the places
    /// differ.
    pub fn copy(&mut self, from: (usize, &[u8]), to: (usize, &[u8])) -> Result<bool> {
        self.put_copy(from, to, true)
    }

    /// Moves a live key to another database, instead of what stood there. Returns whether there was such a key. Both databases are prepared.
    pub fn move_key(&mut self, key: &[u8], from: usize, to: usize) -> Result<bool> {
        Ok(self.put_copy((from, key), (to, key), false)? && self.remove(from, key)?)
    }

    fn put_copy(&mut self, from: (usize, &[u8]), to: (usize, &[u8]), stays: bool) -> Result<bool> {
        let Some((mut header, mut body)) = self.owned_entry(from.0, from.1)? else { return Ok(false) };
        if stays && header.kind == Kind::String && header.form == Form::Content && parse_i64(&body).is_some() {
            header.form = Form::Copied;
        }
        let source = Entry { header, body: &body }.collection();
        if let Some(source) = source {
            let id = self.new_id();
            self.copy_elements((from.0, source), (to.0, id))?;
            body = id.bytes().to_vec();
        }
        self.put_entry(to.0, to.1, header, &body)?;
        Ok(true)
    }

    /// Puts a string, or the same one in another form, and tells nobody: for the few changes that Redis keeps from those who watch. `write` is given what stands
    /// there, and leaves kind and deadline.
    pub fn put_quietly(
        &mut self,
        database: usize,
        key: &[u8],
        write: impl FnOnce(Option<Entry<'_>>, &mut Vec<u8>),
    ) -> Result<()> {
        let tables = self.tables_to_write(database)?;
        self.edit()?.update(&tables.keys, key, |old, new| {
            write(old.and_then(Entry::decode), new);
            if old == Some(&**new) { Action::Keep } else { Action::Put }
        })
    }

    /// Header and body of a live key. The version is that of the place where it stood: it does not come along.
    fn owned_entry(&self, database: usize, key: &[u8]) -> Result<Option<(Header, Vec<u8>)>> {
        let entry = self.entry(database, key)?;
        Ok(entry.map(|entry| (Header { version: None, ..entry.header }, entry.body.to_vec())))
    }

    /// Copies the elements of a collection. If it fails, there is no copy.
    fn copy_elements(&mut self, from: (usize, CollectionId), to: (usize, CollectionId)) -> Result<()> {
        let (source, target) = (self.tables_to_write(from.0)?, self.tables_to_write(to.0)?);
        let copied = self.copy_rows(source, target, from.1, to.1);
        if copied.is_err() {
            self.edit()?.remove_range(&target.elements, Bounds::prefix(&to.1.bytes()))?;
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
            let edit = self.edit()?;
            for (mut key, value) in rows {
                key.get_mut(..prefix.len()).ok_or_else(malformed)?.copy_from_slice(&new_prefix);
                edit.put(&target.elements, &key, &value)?;
            }
        }
    }
}
