//! Long strings at their keys: put, and changed in place.
//!
//! Costs: a change of a part writes the pieces concerned, into the log too.
//! Not here: reading, and the form of it all ([`super::pieces`]); making a string that has no key yet (`staging.rs`).

use quipu::Result;
use quipu::latched::Action;

use super::pieces::{piece_hash, piece_key, trim};
use super::value::{CollectionId, Entry, Form, Header, Outline};
use super::{Body, Change, Data, Tables};

/// Bytes that the log takes for a piece beside its bytes, at most.
const ROW_BYTES: usize = 64;

impl Data<'_> {
    /// Puts a string, however long, whatever stood there.
    pub fn put_string(&mut self, database: usize, key: &[u8], header: Header, bytes: &[u8]) -> Result<()> {
        if !self.keyspace().cuts(bytes.len()) {
            return self.put_entry(database, key, Entry { header, body: Body::Bytes(bytes) });
        }
        let mut staged = self.stage(database, bytes)?;
        self.change(database, key, |_, new| staged.write(header, new)).map(|_| ())
    }

    /// Writes over a part of the string at a key, which starts empty and is filled up with zeros as far as needed. The
    /// deadline stays; the version goes, unless the change is `quiet`: then no watcher of the key is told. The key
    /// holds a string, or nothing, and what it comes to is not too long.
    pub fn overlay(
        &mut self,
        database: usize,
        key: &[u8],
        offset: u64,
        part: &[u8],
        form: Form,
        quiet: bool,
    ) -> Result<()> {
        let end = offset + part.len() as u64;
        // Most strings are short, before and after.
        if !quiet && !self.keyspace().cuts(end as usize) && self.overlay_whole(database, key, offset, part, form)? {
            return Ok(());
        }
        let (header, outline, whole) = match self.entry(database, key)? {
            None => (Header::string(None), None, Vec::new()),
            Some(Entry { header, body: Body::Pieces(outline) }) => (header, Some(outline), Vec::new()),
            Some(entry) => (entry.header, None, entry.whole().to_vec()),
        };
        let header = Header { form, version: header.version.filter(|_| quiet), ..header };
        let length = outline.map_or(whole.len() as u64, |outline| outline.length).max(end);
        let (outline, mut staged) = match outline {
            Some(outline) => (outline, None),
            None if !self.keyspace().cuts(length as usize) => {
                return self.put_in_place(database, key, quiet, |new| {
                    header.encode(new);
                    write_over(new, &whole, offset, part);
                    Change::Put
                });
            }
            None => {
                let staged = self.stage(database, &whole)?;
                (staged.outline, Some(staged))
            }
        };
        let id = match &staged {
            Some(staged) => staged.id,
            None => self.id_of_string(database, key)?,
        };
        let tables = self.tables_to_write(database)?;
        let outline = self.write_part(tables, id, Outline { length, ..outline }, offset, part)?;
        self.put_in_place(database, key, quiet, |new| match &mut staged {
            Some(staged) => {
                staged.outline = outline;
                staged.write(header, new)
            }
            None => {
                Entry { header, body: Body::Pieces(outline) }.encode(new);
                Change::Put
            }
        })
    }

    /// Writes over a part of a string that is stored as a whole, and will be. Returns whether it was one.
    fn overlay_whole(&mut self, database: usize, key: &[u8], offset: u64, part: &[u8], form: Form) -> Result<bool> {
        let mut done = false;
        self.change(database, key, |entry, new| {
            let (deadline_ms, old) = match entry {
                None => (None, &[][..]),
                Some(Entry { header, body: Body::Bytes(old) }) => (header.deadline_ms, old),
                Some(_) => return Change::Keep,
            };
            done = true;
            Header { form, ..Header::string(deadline_ms) }.encode(new);
            write_over(new, old, offset, part);
            Change::Put
        })?;
        Ok(done)
    }

    fn put_in_place(
        &mut self,
        database: usize,
        key: &[u8],
        quiet: bool,
        write: impl FnOnce(&mut Vec<u8>) -> Change,
    ) -> Result<()> {
        if quiet {
            self.put_quietly(database, key, write)
        } else {
            self.change(database, key, |_, new| write(new)).map(|_| ())
        }
    }

    /// Writes over a part of a string in pieces, all of it or nothing. Returns what the string comes to, which is as
    /// long as it says.
    fn write_part(
        &mut self,
        tables: &Tables,
        id: CollectionId,
        mut outline: Outline,
        offset: u64,
        part: &[u8],
    ) -> Result<Outline> {
        let piece_bytes = self.keyspace().cut().piece_bytes;
        let write = self.latched_write()?;
        let pieces = part.len() / piece_bytes + 2;
        // With what stands at the key, which follows.
        write.reserve(&tables.elements, pieces + 4, pieces * (piece_bytes + ROW_BYTES) + 4 * super::KEY_BYTES_MAX)?;
        let (mut place, mut rest) = (offset, part);
        while !rest.is_empty() {
            let (number, start) = (place / piece_bytes as u64, (place % piece_bytes as u64) as usize);
            let count = rest.len().min(piece_bytes - start);
            let mut change = 0u128;
            write.update(&tables.elements, &piece_key(id, number), |old, new| {
                let before = old.unwrap_or_default();
                new.extend_from_slice(before);
                new.resize(before.len().max(start + count), 0);
                new[start..start + count].copy_from_slice(&rest[..count]);
                new.truncate(trim(new).len());
                change = piece_hash(number, new).wrapping_sub(piece_hash(number, before));
                if new == before {
                    Action::Keep
                } else if new.is_empty() && number > 0 {
                    Action::Remove
                } else {
                    Action::Put
                }
            })?;
            outline.hash = outline.hash.wrapping_add(change);
            place += count as u64;
            rest = &rest[count..];
        }
        Ok(outline)
    }
}

/// Appends a string, a part of which is written over; what lies between is zeros.
fn write_over(new: &mut Vec<u8>, old: &[u8], offset: u64, part: &[u8]) {
    let (start, offset) = (new.len(), offset as usize);
    new.extend_from_slice(old);
    new.resize(start + old.len().max(offset + part.len()), 0);
    new[start + offset..][..part.len()].copy_from_slice(part);
}
