//! An open run: header and footer, and its pages, none of which is believed before it is what the way to it promised.
//!
//! Costs: one read and one allocation a page; nothing is kept.
//! Not here: questions (`layer`), reading several at once (`fetch`), reading everything (`scan`), checking everything (`check`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::RunInfo;
use super::columns::{Columns, Inner};
use super::filter::FilterRef;
use super::format::{
    FOOTER_BYTES_1, Fault, Footer, HEADER_BYTES, Header, Pointer, Sums, VERSION, ValueReference, footer_bytes,
};
use super::node::{FilterPart, NodeRef};
use super::packed::PackedUnit;
use super::resident::ResidentPages;
use crate::compression::{Compression, unpack};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{AlignedBuffer, Disk, File, OpenMode};
use crate::page::{
    KIND_INNER, KIND_LEAF, POINTER_ARRAYS, PageRef, UNIT_ALIGNMENT_BYTES, Unit, UnitBuffer, checked_page, record,
};

/// Runs that this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// A run to read.
pub(crate) struct Run {
    /// Tells open runs apart, and one from another that had its name before.
    number: u64,
    file: Box<dyn File>,
    path: PathBuf,
    info: RunInfo,
    root: Pointer,
    resident: ResidentPages,
}

/// What is known of a unit before it is read.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) pointer: Pointer,
    /// Where the subtree begins: the unit and everything under it fill the file from here to the unit's end.
    pub(super) floor: u64,
    /// Levels above the leaves.
    pub(super) level: usize,
    /// The sums of all entries before the subtree, and of those and its own.
    pub(super) before: Sums,
    pub(super) until: Sums,
}

impl Place {
    /// The sums of the subtree.
    pub(super) fn sums(&self) -> Sums {
        self.until - self.before
    }

    /// Where the unit, and with it the subtree, ends in the file.
    pub(super) fn end(&self) -> u64 {
        self.pointer.offset + u64::from(self.pointer.length)
    }
}

/// A unit in memory that has been checked.
pub(super) enum Loaded {
    /// A leaf, or an inner page of version 1.
    Page(Unit),
    Node(UnitBuffer),
    /// A filter over leaves.
    Filter(UnitBuffer),
    /// A value out of line.
    Value(Vec<u8>),
}

impl Loaded {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Loaded::Page(unit) => unit.as_slice(),
            Loaded::Node(buffer) | Loaded::Filter(buffer) => buffer.as_slice(),
            Loaded::Value(value) => value,
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.as_slice().len()
    }

    /// The leaf that this is.
    pub(super) fn leaf(&self) -> PageRef<'_> {
        match self {
            Loaded::Page(unit) => unit.page(),
            _ => unreachable!("{NO_PAGE_THERE}"),
        }
    }
}

/// Runs longer than this would push more out of the operating system's cache than they bring.
const PRELOAD_BYTES_MAX: u64 = 2 << 30;

const NO_PAGE_THERE: &str = "what a place leads to is checked when it is loaded";

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
        let too_short = || Error::corrupt(path, bytes, "the file is too short to be a run");
        if bytes < (HEADER_BYTES + FOOTER_BYTES_1) as u64 {
            return Err(too_short());
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(refused)?;
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
        let mut footer = vec![0; footer_bytes(header.version)];
        let footer_at = bytes.checked_sub((HEADER_BYTES + footer.len()) as u64).ok_or_else(too_short)?;
        let footer_at = footer_at + HEADER_BYTES as u64;
        file.read_exact_at(&mut footer, footer_at).map_err(refused)?;
        let footer = Footer::decode(&footer, header.version, bytes).map_err(|found| fault(footer_at, found))?;
        let info = RunInfo {
            table_id: header.table_id,
            run_id: header.run_id,
            bytes,
            version: header.version,
            is_bottom: footer.is_bottom,
            index: footer.index,
            total: footer.total,
            measures: footer.measures,
            page_bytes: footer.page_bytes,
            levels: footer.levels,
            compression: footer.compression,
            saved_bytes: footer.saved_bytes,
        };
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Run { number, file, path: path.to_owned(), info, root: footer.root, resident: ResidentPages::default() })
    }

    /// The number of the open run, of which the process has no two.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Pages that stay in memory with it.
    #[inline]
    pub(super) fn resident(&self) -> &ResidentPages {
        &self.resident
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Has the operating system read a run that was written past its cache, and is about to be read here and there: each place on its own would cost a wait.
    pub(crate) fn preload(&self) {
        if self.info.bytes <= PRELOAD_BYTES_MAX {
            self.file.read_soon(0, self.info.bytes);
        }
    }

    /// What the run is.
    pub(crate) fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Where the tree begins; none if there are no rows.
    pub(super) fn root(&self) -> Option<Place> {
        Some(Place {
            pointer: self.root,
            floor: HEADER_BYTES as u64,
            level: self.info.levels.checked_sub(1)?,
            before: Sums::default(),
            until: self.info.total,
        })
    }

    /// What the inner page at `place` says of its child at `position`.
    pub(super) fn child(&self, place: &Place, page: &Inner<'_>, position: usize) -> Place {
        const BOUNDED: &str = "`check_inner` has bounded it";
        let is_last = position + 1 == page.count();
        Place {
            pointer: page.pointer(position).expect(BOUNDED),
            floor: match position.checked_sub(1) {
                Some(before) => page.pointer(before).and_then(|pointer| pointer.end()).expect(BOUNDED),
                None => place.floor,
            },
            level: place.level - 1,
            before: page.before(position),
            until: if is_last { place.until } else { page.before(position + 1) },
        }
    }

    /// The inner page that a loaded unit is.
    pub(super) fn inner<'l>(&self, loaded: &'l Loaded) -> Inner<'l> {
        match loaded {
            Loaded::Page(unit) => Inner::First(unit.page(), self.info.measures),
            Loaded::Node(buffer) => Inner::Node(NodeRef::unchecked(buffer.as_slice()), self.columns()),
            Loaded::Filter(_) | Loaded::Value(_) => unreachable!("{NO_PAGE_THERE}"),
        }
    }

    /// Where the filter over a child of the inner page at `place` is; none if there is none, or it says nothing.
    pub(super) fn filter_of(&self, place: &Place, page: &Inner<'_>, position: usize) -> Option<Pointer> {
        let part = page.filter_of(position)?;
        (!part.bytes.is_empty()).then(|| self.filter_at(place, page, &part))
    }

    /// Where a filter over children of the inner page at `place` is.
    pub(super) fn filter_at(&self, place: &Place, page: &Inner<'_>, part: &FilterPart) -> Pointer {
        Pointer {
            offset: place.pointer.offset - u64::from(page.filter_bytes()) + u64::from(part.bytes.start),
            length: part.bytes.end - part.bytes.start,
            checksum: part.checksum,
            page_bytes: 0,
        }
    }

    fn columns(&self) -> Columns {
        Columns::new(self.info.measures, self.info.is_bottom)
    }

    /// How many bytes of a unit are its page, as far as that stands in the pointer.
    fn told_page_bytes(&self, pointer: &Pointer) -> Option<usize> {
        (self.info.version == 1).then_some(pointer.page_bytes as usize)
    }

    /// Reads and checks the unit at `place`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if its bytes are not those that were written, or not those of this place; what the disk says.
    pub(super) fn load(&self, place: &Place) -> Result<Loaded> {
        // What pointed here lies in a page that was checked, so these are bytes of the file.
        let mut buffer = UnitBuffer::new(place.pointer.length as usize);
        self.read(buffer.as_mut_slice(), place.pointer.offset)?;
        self.page_in(place, buffer)
    }

    /// Checks `buffer`, read from where `place` says, and gives the unit in it.
    pub(super) fn page_in(&self, place: &Place, buffer: UnitBuffer) -> Result<Loaded> {
        self.check_checksum(place, buffer.as_slice())?;
        let buffer = match self.packed_in(place, buffer.as_slice())? {
            None => buffer,
            Some(packed) => {
                let mut plain = UnitBuffer::new(packed.plain_bytes());
                packed.unpack(plain.as_mut_slice()).map_err(|fault| self.damaged(place, fault))?;
                plain
            }
        };
        let loaded = if place.level > 0 && self.info.version > 1 {
            NodeRef::new(buffer.as_slice(), self.columns().count()).map_err(|fault| self.damaged(place, fault))?;
            Loaded::Node(buffer)
        } else {
            let page_bytes = self.told_page_bytes(&place.pointer);
            let unit = Unit::new(buffer, page_bytes, self.info.is_bottom);
            Loaded::Page(unit.map_err(|fault| self.damaged(place, fault))?)
        };
        self.check_place(place, &loaded).map_err(|fault| self.damaged(place, fault))?;
        Ok(loaded)
    }

    /// The packed unit in `stored`, read from where `place` says, whose checksum holds; none if it is not packed.
    fn packed_in<'b>(&self, place: &Place, stored: &'b [u8]) -> Result<Option<PackedUnit<'b>>> {
        if place.level > 0 || self.info.compression == Compression::None {
            return Ok(None);
        }
        PackedUnit::new(stored, self.info.page_bytes).map_err(|fault| self.damaged(place, fault))
    }

    /// Checks `stored`, read from where `place`, that of a leaf, says, and gives the unit and the page in it: there, or unpacked into `scratch`.
    pub(super) fn leaf_in<'b>(
        &self,
        place: &Place,
        stored: &'b [u8],
        scratch: &'b mut AlignedBuffer,
    ) -> Result<(&'b [u8], PageRef<'b>)> {
        self.check_checksum(place, stored)?;
        let bytes = match self.packed_in(place, stored)? {
            None => stored,
            Some(packed) => {
                if scratch.capacity() < packed.plain_bytes() {
                    *scratch = AlignedBuffer::new(packed.plain_bytes());
                }
                scratch.resize(packed.plain_bytes());
                packed.unpack(scratch).map_err(|fault| self.damaged(place, fault))?;
                &**scratch
            }
        };
        let page = checked_page(bytes, self.told_page_bytes(&place.pointer), self.info.is_bottom)
            .and_then(|page| self.check_kind(place, &page).and_then(|()| self.check_leaf(place, &page)).map(|()| page))
            .map_err(|fault| self.damaged(place, fault))?;
        Ok((bytes, page))
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
    fn check_place(&self, place: &Place, loaded: &Loaded) -> Result<(), String> {
        if let Loaded::Page(unit) = loaded {
            self.check_kind(place, &unit.page())?;
        }
        if place.level == 0 {
            self.check_leaf(place, &loaded.leaf())
        } else {
            self.check_inner(place, &self.inner(loaded))
        }
    }

    fn check_kind(&self, place: &Place, page: &PageRef<'_>) -> Result<(), String> {
        let kind = if place.level == 0 { KIND_LEAF } else { KIND_INNER };
        if page.kind() != kind {
            return Err(format!("a page of level {} where one of {} was", page.level(), place.level));
        }
        Ok(())
    }

    fn check_leaf(&self, place: &Place, page: &PageRef<'_>) -> Result<(), String> {
        let sums = place.sums();
        if page.level() != 0 {
            return Err(format!("a page of level {} where one of 0 was", page.level()));
        }
        if page.count() as i64 != sums.entries {
            return Err(format!("{} entries where {} were counted", page.count(), sums.entries));
        }
        // Long values stand right before the leaf; if there are none, so do the rows before.
        let has_weights = !self.info.is_bottom || place.floor < place.pointer.offset;
        let expected = if has_weights { 8 * (self.info.measures.len() - 1) } else { 0 };
        if page.weight_bytes() != expected {
            return Err(format!("weights of {} bytes, not {expected}", page.weight_bytes()));
        }
        if !self.info.is_bottom {
            let states = || (0..page.count()).map(|position| page.leaf_record(position));
            let erased = states().filter(|entry| entry.state() == record::TOMBSTONE).count() as i64;
            let rows: i64 = states().map(|entry| entry.rows()).sum();
            if (erased, rows) != (sums.erased, sums.tally.rows) {
                return Err(format!("{rows} rows and {erased} tombstones, which is not what was counted"));
            }
        }
        Ok(())
    }

    fn check_inner(&self, place: &Place, page: &Inner<'_>) -> Result<(), String> {
        if page.level() != place.level {
            return Err(format!("a page of level {} where one of {} was", page.level(), place.level));
        }
        if let Inner::First(page, measures) = page {
            if page.measures() != measures.len() + POINTER_ARRAYS {
                return Err(format!("{} arrays for {} measures", page.measures(), measures.len()));
            }
            if page.open_low() != (place.before.entries == 0) {
                return Err("minus infinity stands anywhere but first".into());
            }
        }
        let mut before = page.before(0);
        if before != place.before {
            return Err("the sums before a page are not those before its first child".into());
        }
        let mut floor = place.floor;
        for position in 0..page.count() {
            let until = if position + 1 == page.count() { place.until } else { page.before(position + 1) };
            let sums = until - before;
            if sums.entries <= 0 || !sums.are_possible() {
                return Err(format!("child {position} has no entries, or not such that weigh what it says"));
            }
            before = until;
            let end = page.pointer(position).and_then(|pointer| {
                let aligned = pointer.offset.is_multiple_of(UNIT_ALIGNMENT_BYTES as u64)
                    && (pointer.length as usize).is_multiple_of(UNIT_ALIGNMENT_BYTES);
                let is_inside = aligned && pointer.offset >= floor && pointer.page_bytes <= pointer.length;
                pointer.end().filter(|&end| is_inside && end <= place.pointer.offset)
            });
            floor = end.ok_or_else(|| format!("the pointer to child {position} leads out of the subtree"))?;
        }
        if page.filter_bytes() > 0 && self.info.version < 3 {
            return Err("a filter in a version that has none".into());
        }
        if floor.checked_add(u64::from(page.filter_bytes())) != Some(place.pointer.offset) {
            return Err("the last child and the filters do not end where their parent begins".into());
        }
        Ok(())
    }

    /// Reads and checks the filter that `pointer` leads to.
    pub(super) fn load_filter(&self, pointer: &Pointer) -> Result<UnitBuffer> {
        let mut buffer = UnitBuffer::new(pointer.length as usize);
        self.read(buffer.as_mut_slice(), pointer.offset)?;
        self.filter_in(pointer, buffer)
    }

    /// Checks `buffer`, read from where `pointer` says: a filter.
    pub(super) fn filter_in(&self, pointer: &Pointer, buffer: UnitBuffer) -> Result<UnitBuffer> {
        let damaged = |what: String| Error::corrupt(&self.path, pointer.offset, what);
        if crc32c::crc32c(buffer.as_slice()) != pointer.checksum {
            return Err(damaged("the checksum of a filter is wrong".into()));
        }
        FilterRef::new(buffer.as_slice()).map_err(damaged)?;
        Ok(buffer)
    }

    /// The reference in a row, if it is one; where it leads is not checked.
    pub(super) fn decoded_reference(&self, bytes: &[u8]) -> Option<ValueReference> {
        ValueReference::decode(bytes, self.info.compression)
    }

    /// The reference in a row of the leaf at `place`, if it leads to where values of that leaf stand.
    pub(super) fn reference(&self, place: &Place, bytes: &[u8]) -> Result<ValueReference> {
        self.decoded_reference(bytes)
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

    /// The value in the checked extent that `reference` leads to: there, or unpacked into `scratch`.
    pub(super) fn value_in<'b>(
        &self,
        reference: &ValueReference,
        extent: &'b [u8],
        scratch: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        let length = reference.length as usize;
        if reference.packed_bytes == 0 {
            return Ok(&extent[..length]);
        }
        let (block, zeros) = extent.split_at(reference.packed_bytes as usize);
        scratch.resize(length, 0);
        if zeros.iter().any(|&byte| byte != 0) || !unpack(block, scratch) {
            let what = "a packed value does not unpack to what its reference says";
            return Err(Error::corrupt(&self.path, reference.offset, what));
        }
        Ok(scratch)
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
