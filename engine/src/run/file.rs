//! An open run: header and footer, the descent from the root, questions by key and by position.
//!
//! Costs: one read and one allocation a level; nothing is kept between questions.
//! Not here: reading everything (`scan`), checking everything (`check`).

use std::fmt;
use std::path::{Path, PathBuf};

use super::RunInfo;
use super::format::{FOOTER_BYTES, Fault, Footer, HEADER_BYTES, Header, Pointer, VERSION, ValueReference};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, File, OpenMode};
use crate::page::{
    KIND_INNER, KIND_LEAF, POINTER_ARRAYS, PageRef, UNIT_ALIGNMENT_BYTES, Unit, UnitBuffer, checked_page,
};
use crate::tally::Tally;

/// A run to read.
pub(crate) struct Run {
    file: Box<dyn File>,
    path: PathBuf,
    info: RunInfo,
    root: Pointer,
}

/// What is known of a unit before it is read.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) pointer: Pointer,
    /// Where the subtree begins: the unit and everything under it fill the file from here to the unit's end.
    pub(super) floor: u64,
    /// Levels above the leaves.
    pub(super) level: usize,
    /// The tally of all rows before the subtree, and of those and its own.
    pub(super) before: Tally,
    pub(super) until: Tally,
}

impl Run {
    /// Opens the run at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if there is no such file, [`ErrorKind::Version`] if a newer version wrote it, [`ErrorKind::Corrupt`] if
    /// header or footer is damaged; what the disk says.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Run> {
        let refused = |error| Error::io("cannot open", path, error);
        let file = disk.open(path, OpenMode::Read).map_err(refused)?;
        let bytes = file.len().map_err(refused)?;
        if bytes < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(Error::corrupt(path, bytes, "the file is too short to be a run"));
        }
        let footer_at = bytes - FOOTER_BYTES as u64;
        let mut header = [0; HEADER_BYTES];
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(refused)?;
        file.read_exact_at(&mut footer, footer_at).map_err(refused)?;
        let fault = |offset, fault| match fault {
            Fault::Invalid(what) => Error::corrupt(path, offset, what),
            Fault::Newer(version) => Error::new(
                ErrorKind::Version,
                format!(
                    "{} has version {version} of the run format, and this program reads {VERSION} at most; open it with a newer one",
                    path.display()
                ),
            ),
        };
        let header = Header::decode(&header).map_err(|found| fault(0, found))?;
        let footer = Footer::decode(&footer, bytes).map_err(|found| fault(footer_at, found))?;
        let info = RunInfo {
            table_id: header.table_id,
            run_id: header.run_id,
            bytes,
            rows: footer.total.rows as u64,
            total: footer.total,
            measures: footer.measures,
            page_bytes: footer.page_bytes,
            levels: footer.levels,
        };
        Ok(Run { file, path: path.to_owned(), info, root: footer.root })
    }

    /// What the run is.
    pub(crate) fn info(&self) -> &RunInfo {
        &self.info
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some((place, unit)) = self.leaf_of(|page| page.child_position(key))? else {
            return Ok(None);
        };
        let (position, found) = unit.page().search::<true>(key);
        if found { self.value(&place, &unit.page(), position).map(Some) } else { Ok(None) }
    }

    /// The tally of all rows below `key`; `inclusive` also that of `key` itself.
    pub(crate) fn tally_before(&self, key: &[u8], inclusive: bool) -> Result<Tally> {
        let Some((place, unit)) = self.leaf_of(|page| page.child_position(key))? else {
            return Ok(Tally::ZERO);
        };
        let page = unit.page();
        let (position, found) = page.search::<true>(key);
        let end = position + usize::from(found && inclusive);
        let measures = &self.info.measures;
        if measures.only_rows() {
            return Ok(place.before + Tally { rows: end as i64, ..Tally::ZERO });
        }
        let weight_of = |position| {
            let row = page.leaf_record(position);
            if row.weights.is_empty() {
                measures.of_row(&page.key(position), row.value)
            } else {
                row.explicit_weight(measures)
            }
        };
        Ok((0..end).fold(place.before, |sum, position| sum + weight_of(position)))
    }

    /// The row that has `offset` rows before it.
    pub(crate) fn nth(&self, offset: u64) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let wanted = match i64::try_from(offset) {
            Ok(wanted) if wanted < self.info.total.rows => wanted,
            _ => return Ok(None),
        };
        // The first child has no more than the rows before this page, as `check_inner` has seen; so there is always one.
        let child = |page: &PageRef<'_>| page.tallies(0).partition_point(|&rows| rows <= wanted) - 1;
        let Some((place, unit)) = self.leaf_of(child)? else {
            return Ok(None);
        };
        let page = unit.page();
        // In range: `check_leaf` has counted.
        let position = (wanted - place.before.rows) as usize;
        let value = self.value(&place, &page, position)?;
        Ok(Some((page.key(position).to_vec(), value)))
    }

    /// Descends by what `child` says of each inner page.
    fn leaf_of(&self, child: impl Fn(&PageRef<'_>) -> usize) -> Result<Option<(Place, Unit)>> {
        let Some(mut place) = self.root() else {
            return Ok(None);
        };
        let mut unit = self.load(&place)?;
        while place.level > 0 {
            let page = unit.page();
            place = self.child(&place, &page, child(&page));
            unit = self.load(&place)?;
        }
        Ok(Some((place, unit)))
    }

    /// Where the tree begins; none if there are no rows.
    pub(super) fn root(&self) -> Option<Place> {
        Some(Place {
            pointer: self.root,
            floor: HEADER_BYTES as u64,
            level: self.info.levels.checked_sub(1)?,
            before: Tally::ZERO,
            until: self.info.total,
        })
    }

    /// What the inner page at `place` says of its child at `position`.
    pub(super) fn child(&self, place: &Place, page: &PageRef<'_>, position: usize) -> Place {
        let is_last = position + 1 == page.count();
        Place {
            pointer: self.pointer(page, position),
            floor: match position.checked_sub(1) {
                Some(before) => self.pointer(page, before).end().expect("`check_inner` has bounded it"),
                None => place.floor,
            },
            level: place.level - 1,
            before: self.tally_at(page, position),
            until: if is_last { place.until } else { self.tally_at(page, position + 1) },
        }
    }

    /// The tally of all rows before the child at `position`.
    fn tally_at(&self, page: &PageRef<'_>, position: usize) -> Tally {
        let measures = &self.info.measures;
        let mut tally = Tally::ZERO;
        for index in 0..measures.len() {
            tally.add_measure(measures, index, page.tallies(index)[position]);
        }
        tally
    }

    fn pointer(&self, page: &PageRef<'_>, position: usize) -> Pointer {
        let measures = self.info.measures.len();
        let length_and_checksum = page.tallies(measures + 1)[position] as u64;
        Pointer {
            offset: page.tallies(measures)[position] as u64,
            length: length_and_checksum as u32,
            checksum: (length_and_checksum >> 32) as u32,
            page_bytes: page.child(position),
        }
    }

    /// Reads and checks the unit at `place`.
    pub(super) fn load(&self, place: &Place) -> Result<Unit> {
        // What pointed here lies in a page that was checked, so these are bytes of the file.
        let mut buffer = UnitBuffer::new(place.pointer.length as usize);
        self.read(buffer.as_mut_slice(), place.pointer.offset)?;
        self.check_checksum(place, buffer.as_slice())?;
        let unit = Unit::new(buffer, place.pointer.page_bytes as usize).map_err(|fault| self.damaged(place, fault))?;
        self.check_place(place, &unit.page()).map_err(|fault| self.damaged(place, fault))?;
        Ok(unit)
    }

    /// Checks `bytes`, read from where `place` says, and gives the page in them.
    pub(super) fn page_in<'b>(&self, place: &Place, bytes: &'b [u8]) -> Result<PageRef<'b>> {
        self.check_checksum(place, bytes)?;
        checked_page(bytes, place.pointer.page_bytes as usize)
            .and_then(|page| self.check_place(place, &page).map(|()| page))
            .map_err(|fault| self.damaged(place, fault))
    }

    fn check_checksum(&self, place: &Place, bytes: &[u8]) -> Result<()> {
        if crc32c::crc32c(bytes) == place.pointer.checksum {
            return Ok(());
        }
        Err(self.damaged(place, "the checksum of a page is wrong"))
    }

    pub(super) fn damaged(&self, place: &Place, what: impl fmt::Display) -> Error {
        Error::corrupt(&self.path, place.pointer.offset, what)
    }

    /// Whether a page that is sound in itself is what the way to it promised.
    fn check_place(&self, place: &Place, page: &PageRef<'_>) -> Result<(), String> {
        let kind = if place.level == 0 { KIND_LEAF } else { KIND_INNER };
        if page.kind() != kind || page.level() != place.level {
            return Err(format!("a page of level {} where one of {} was", page.level(), place.level));
        }
        if place.level == 0 { self.check_leaf(place, page) } else { self.check_inner(place, page) }
    }

    fn check_leaf(&self, place: &Place, page: &PageRef<'_>) -> Result<(), String> {
        let rows = place.until.rows - place.before.rows;
        if page.count() as i64 != rows {
            return Err(format!("{} rows where {rows} were counted", page.count()));
        }
        // Long values stand right before the leaf; if there are none, so do the rows before.
        let has_value_out = place.floor < place.pointer.offset;
        let expected = if has_value_out { 8 * (self.info.measures.len() - 1) } else { 0 };
        if page.weight_bytes() != expected {
            return Err(format!("weights of {} bytes, not {expected}", page.weight_bytes()));
        }
        Ok(())
    }

    fn check_inner(&self, place: &Place, page: &PageRef<'_>) -> Result<(), String> {
        let measures = &self.info.measures;
        if page.measures() != measures.len() + POINTER_ARRAYS {
            return Err(format!("{} arrays for {} measures", page.measures(), measures.len()));
        }
        if page.open_low() != (place.before.rows == 0) {
            return Err("minus infinity stands anywhere but first".into());
        }
        if self.tally_at(page, 0) != place.before {
            return Err("the tally before a page is not that before its first child".into());
        }
        let rows = page.tallies(0);
        if rows.windows(2).any(|pair| pair[0] >= pair[1]) || rows[rows.len() - 1] >= place.until.rows {
            return Err("the counts of rows before children do not ascend".into());
        }
        let mut floor = place.floor;
        for position in 0..page.count() {
            let pointer = self.pointer(page, position);
            let aligned = pointer.offset.is_multiple_of(UNIT_ALIGNMENT_BYTES as u64)
                && (pointer.length as usize).is_multiple_of(UNIT_ALIGNMENT_BYTES);
            let end = pointer.end().filter(|&end| aligned && pointer.offset >= floor && end <= place.pointer.offset);
            let Some(end) = end.filter(|_| pointer.page_bytes <= pointer.length) else {
                return Err(format!("the pointer to child {position} leads out of the subtree"));
            };
            floor = end;
        }
        if floor != place.pointer.offset {
            return Err("the last child does not end where its parent begins".into());
        }
        Ok(())
    }

    /// The value of the row at `position` of a leaf.
    fn value(&self, place: &Place, page: &PageRef<'_>, position: usize) -> Result<Vec<u8>> {
        let row = page.leaf_record(position);
        if !row.value_is_out() {
            return Ok(row.value.to_vec());
        }
        let reference = self.reference(place, row.value)?;
        let extent_bytes = (reference.end().unwrap_or(0) - reference.offset) as usize;
        let mut value = vec![0; extent_bytes];
        self.read(&mut value, reference.offset)?;
        self.check_value(&reference, &value)?;
        value.truncate(reference.length as usize);
        Ok(value)
    }

    /// The reference in a row of the leaf at `place`, if it leads to where values of that leaf stand.
    pub(super) fn reference(&self, place: &Place, bytes: &[u8]) -> Result<ValueReference> {
        ValueReference::decode(bytes)
            .filter(|reference| {
                let end = reference.end();
                reference.offset >= place.floor && end.is_some_and(|end| end <= place.pointer.offset)
            })
            .ok_or_else(|| self.damaged(place, "the reference to a value leads astray"))
    }

    /// Checks the extent that `reference` leads to.
    pub(super) fn check_value(&self, reference: &ValueReference, extent: &[u8]) -> Result<()> {
        if crc32c::crc32c(extent) == reference.checksum {
            return Ok(());
        }
        Err(Error::corrupt(&self.path, reference.offset, "the checksum of a value is wrong"))
    }

    /// Fills `buffer` from `offset`.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| Error::io("cannot read", &self.path, error))
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("path", &self.path).field("info", &self.info).finish_non_exhaustive()
    }
}
