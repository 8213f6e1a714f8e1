//! An open file of a run: header and footer, and its pages, none of which is believed before it is what the way to it promised.
//!
//! Costs: one read and one allocation a page; nothing is kept but the root, once a reader has loaded it.
//! Not here: runs of several files (`parts`), questions (`layer`), reading several pages at once (`fetch`), reading everything (`scan`), checking everything (`check`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::RunInfo;
use super::columns::{Columns, Inner, Top};
use super::filter::FilterRef;
use super::format::{
    FOOTER_BYTES_1, Fault, Footer, HEADER_BYTES, Header, Pointer, Sums, VERSION, ValueReference, footer_bytes,
};
use super::kept::{KEPT_BYTES_MAX, KeptPages};
use super::node::{FilterPart, NodeRef};
use super::packed::PackedUnit;
use super::resident::ResidentPages;
use xxhash_rust::xxh3::Xxh3;

use crate::compression::{Compression, unpack};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{AlignedBuffer, Disk, File, OpenMode};
use crate::page::{
    KIND_INNER, KIND_LEAF, POINTER_ARRAYS, PageRef, UNIT_ALIGNMENT_BYTES, Unit, UnitBuffer, checked_page, record,
};

/// Files of runs that this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// A file to read, in its place in a run.
pub(crate) struct RunFile {
    opened: Arc<Opened>,
    /// Which part of the run it is.
    part: u32,
    /// What the parts before it have, and the bytes of their files.
    base: Sums,
    shift: u64,
}

/// An open file, wherever it has its place.
struct Opened {
    /// Tells open files apart, and one from another that had its name before.
    number: u64,
    file: Box<dyn File>,
    path: PathBuf,
    info: RunInfo,
    identity: u64,
    root: Pointer,
    /// The page there, once it was loaded: every question begins with it.
    root_page: OnceLock<Loaded>,
    kept: KeptPages,
    resident: ResidentPages,
}

/// What is known of a unit before it is read.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) pointer: Pointer,
    /// Where the subtree begins: the unit and everything under it fill the file from here to the unit's end.
    pub(super) floor: u64,
    /// Which part of the run has it; [`TOP`] for what is above all parts.
    pub(super) part: u32,
    /// Bytes of the parts before that one.
    pub(super) shift: u64,
    /// Levels above the leaves.
    pub(super) level: usize,
    /// The sums of all entries of the run before the subtree, and of those and its own.
    pub(super) before: Sums,
    pub(super) until: Sums,
}

impl Place {
    /// The sums of the subtree.
    pub(super) fn sums(&self) -> Sums {
        self.until - self.before
    }

    /// Where the subtree begins, in the files of the run as if they stood one behind the other.
    pub(super) fn start(&self) -> u64 {
        self.shift + self.floor
    }

    /// Where the unit, and with it the subtree, ends there.
    pub(super) fn end(&self) -> u64 {
        self.shift + self.pointer.offset + u64::from(self.pointer.length)
    }

    /// Whether this is what is above all parts.
    pub(super) fn is_top(&self) -> bool {
        self.part == TOP
    }
}

/// The part of a run that none is.
pub(super) const TOP: u32 = u32::MAX;

/// A unit in memory that has been checked.
pub(super) enum Loaded {
    /// A leaf, or an inner page of version 1.
    Page(Unit),
    Node(UnitBuffer),
    /// A filter over leaves.
    Filter(UnitBuffer),
    /// A value out of line, or several.
    Value(Vec<u8>),
    /// What is above the parts of a run: no unit of a file.
    Top(Box<Top>),
}

impl Loaded {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Loaded::Page(unit) => unit.as_slice(),
            Loaded::Node(buffer) | Loaded::Filter(buffer) => buffer.as_slice(),
            Loaded::Value(value) => value,
            Loaded::Top(_) => &[],
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.as_slice().len()
    }

    /// The bytes of a value out of line, or of several.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Loaded::Value(bytes) => bytes,
            _ => unreachable!("{NO_PAGE_THERE}"),
        }
    }

    /// The leaf that this is.
    pub(super) fn leaf(&self) -> PageRef<'_> {
        match self {
            Loaded::Page(unit) => unit.page(),
            _ => unreachable!("{NO_PAGE_THERE}"),
        }
    }
}

const NO_PAGE_THERE: &str = "what a place leads to is checked when it is loaded";

impl RunFile {
    /// Opens the run at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if there is no such file, [`ErrorKind::Version`] if a newer version wrote it, [`ErrorKind::Corrupt`] if
    /// header or footer is damaged; what the disk says.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<RunFile> {
        let refused = |error| Error::io("cannot open", path, error);
        let file = disk.open(path, OpenMode::Read).map_err(refused)?;
        let bytes = file.len().map_err(refused)?;
        let too_short = || Error::corrupt(path, bytes, "the file is too short to be a run");
        if bytes < (HEADER_BYTES + FOOTER_BYTES_1) as u64 {
            return Err(too_short());
        }
        let mut header_bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut header_bytes, 0).map_err(refused)?;
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
        let header = Header::decode(&header_bytes).map_err(|found| fault(0, found))?;
        let mut footer_bytes = vec![0; footer_bytes(header.version)];
        let footer_at = bytes.checked_sub((HEADER_BYTES + footer_bytes.len()) as u64).ok_or_else(too_short)?;
        let footer_at = footer_at + HEADER_BYTES as u64;
        file.read_exact_at(&mut footer_bytes, footer_at).map_err(refused)?;
        let footer = Footer::decode(&footer_bytes, header.version, bytes).map_err(|found| fault(footer_at, found))?;
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
        let mut hasher = Xxh3::new();
        hasher.update(&header_bytes);
        hasher.update(&footer_bytes);
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let opened = Opened {
            number,
            file,
            path: path.to_owned(),
            info,
            identity: hasher.digest(),
            root: footer.root,
            root_page: OnceLock::new(),
            kept: KeptPages::default(),
            resident: ResidentPages::default(),
        };
        Ok(RunFile { opened: Arc::new(opened), part: 0, base: Sums::default(), shift: 0 })
    }

    /// The same open file as part `part` of a run, behind others that have `base` and are `shift` bytes long.
    pub(super) fn in_place(&self, part: u32, base: Sums, shift: u64) -> RunFile {
        RunFile { opened: Arc::clone(&self.opened), part, base, shift }
    }

    /// What the parts before this one have.
    pub(super) fn base(&self) -> &Sums {
        &self.base
    }

    /// Whether this is the same open file.
    pub(crate) fn is_same(&self, other: &RunFile) -> bool {
        Arc::ptr_eq(&self.opened, &other.opened)
    }

    /// The number of the open file, of which the process has no two.
    pub(super) fn number(&self) -> u64 {
        self.opened.number
    }

    /// The page at `place` if it is kept.
    #[inline]
    pub(super) fn kept_page(&self, place: &Place) -> Option<&Loaded> {
        if self.is_root(place) {
            return self.kept_root();
        }
        if place.level == 0 { None } else { self.opened.kept.get(place.pointer.offset) }
    }

    /// Inner pages other than the root, and filters, that stay with it.
    #[inline]
    pub(super) fn kept(&self) -> &KeptPages {
        &self.opened.kept
    }

    /// The root if it is kept.
    #[inline]
    pub(super) fn kept_root(&self) -> Option<&Loaded> {
        self.opened.root_page.get()
    }

    /// Where it is.
    #[inline]
    pub(super) fn root_offset(&self) -> u64 {
        self.opened.root.offset
    }

    /// Whether that is where the root is.
    pub(super) fn is_root(&self, place: &Place) -> bool {
        place.pointer.offset == self.root_offset()
    }

    /// Keeps `page`, the root; gives it back if it is too long.
    pub(super) fn keep_root(&self, page: Loaded) -> Option<Loaded> {
        if page.bytes() > KEPT_BYTES_MAX {
            return Some(page);
        }
        // Another reader may have been first.
        let _ = self.opened.root_page.set(page);
        None
    }

    /// Pages that stay in memory with it.
    #[inline]
    pub(super) fn resident(&self) -> &ResidentPages {
        &self.opened.resident
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> String {
        self.opened.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn path(&self) -> &Path {
        &self.opened.path
    }

    /// What header and footer hash to (XXH3): it tells the file from every other one, as the footer has a checksum of the root, each node one of its children, and
    /// the header a number that no other run of the database has.
    pub(crate) fn identity(&self) -> u64 {
        self.opened.identity
    }

    /// What the file is.
    pub(crate) fn info(&self) -> &RunInfo {
        &self.opened.info
    }

    /// Where the tree begins; none if there are no rows.
    pub(super) fn root(&self) -> Option<Place> {
        Some(Place {
            pointer: self.opened.root,
            floor: HEADER_BYTES as u64,
            part: self.part,
            shift: self.shift,
            level: self.info().levels.checked_sub(1)?,
            before: self.base,
            until: self.base + self.info().total,
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
            part: self.part,
            shift: self.shift,
            level: place.level - 1,
            before: self.base + page.before(position),
            until: if is_last { place.until } else { self.base + page.before(position + 1) },
        }
    }

    /// The inner page that a loaded unit is.
    pub(super) fn inner<'l>(&self, loaded: &'l Loaded) -> Inner<'l> {
        match loaded {
            Loaded::Page(unit) => Inner::First(unit.page(), self.info().measures),
            Loaded::Node(buffer) => Inner::Node(NodeRef::unchecked(buffer.as_slice()), self.columns()),
            Loaded::Top(top) => Inner::Top(top),
            Loaded::Filter(_) | Loaded::Value(_) => unreachable!("{NO_PAGE_THERE}"),
        }
    }

    /// Where the filter over a child of the inner page at `place` is; none if there is none, or it says nothing.
    pub(super) fn filter_of(&self, place: &Place, page: &Inner<'_>, position: usize) -> Option<Pointer> {
        let part = page.filter_of(position)?;
        (!part.bytes.is_empty()).then(|| self.filter_at(place, page, &part))
    }

    /// Where the filter `part` of a node is that stands at `node` and has filters of so many bytes.
    #[inline]
    pub(super) fn filter_offset(node: u64, filter_bytes: u32, part: &FilterPart) -> u64 {
        node - u64::from(filter_bytes) + u64::from(part.bytes.start)
    }

    /// Where child `position` of a node is.
    #[inline]
    pub(super) fn child_offset(&self, node: &NodeRef<'_>, position: usize) -> u64 {
        self.columns().offset(node, position)
    }

    /// Fetches what [`RunFile::child_offset`] looks at into the processor's cache.
    #[inline]
    pub(super) fn prefetch_child(&self, node: &NodeRef<'_>, position: usize) {
        self.columns().prefetch_offset(node, position);
    }

    /// Where a filter over children of the inner page at `place` is.
    pub(super) fn filter_at(&self, place: &Place, page: &Inner<'_>, part: &FilterPart) -> Pointer {
        Pointer {
            offset: RunFile::filter_offset(place.pointer.offset, page.filter_bytes(), part),
            length: part.bytes.end - part.bytes.start,
            checksum: part.checksum,
            page_bytes: 0,
        }
    }

    fn columns(&self) -> Columns {
        Columns::new(self.info().measures, self.info().is_bottom)
    }

    /// How many bytes of a unit are its page, as far as that stands in the pointer.
    fn told_page_bytes(&self, pointer: &Pointer) -> Option<usize> {
        (self.info().version == 1).then_some(pointer.page_bytes as usize)
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
        let loaded = if place.level > 0 && self.info().version > 1 {
            NodeRef::new(buffer.as_slice(), self.columns().count()).map_err(|fault| self.damaged(place, fault))?;
            Loaded::Node(buffer)
        } else {
            let page_bytes = self.told_page_bytes(&place.pointer);
            let unit = Unit::new(buffer, page_bytes, self.info().is_bottom);
            Loaded::Page(unit.map_err(|fault| self.damaged(place, fault))?)
        };
        self.check_place(place, &loaded).map_err(|fault| self.damaged(place, fault))?;
        Ok(loaded)
    }

    /// The packed unit in `stored`, read from where `place` says, whose checksum holds; none if it is not packed.
    fn packed_in<'b>(&self, place: &Place, stored: &'b [u8]) -> Result<Option<PackedUnit<'b>>> {
        if place.level > 0 || self.info().compression == Compression::None {
            return Ok(None);
        }
        PackedUnit::new(stored, self.info().page_bytes).map_err(|fault| self.damaged(place, fault))
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
        let page = checked_page(bytes, self.told_page_bytes(&place.pointer), self.info().is_bottom)
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
        Error::corrupt(self.path(), place.pointer.offset, what)
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
        let has_weights = !self.info().is_bottom || place.floor < place.pointer.offset;
        let expected = if has_weights { 8 * (self.info().measures.len() - 1) } else { 0 };
        if page.weight_bytes() != expected {
            return Err(format!("weights of {} bytes, not {expected}", page.weight_bytes()));
        }
        if !self.info().is_bottom {
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
            if page.open_low() != (place.before.entries == self.base.entries) {
                return Err("minus infinity stands anywhere but first".into());
            }
        }
        let mut before = self.base + page.before(0);
        if before != place.before {
            return Err("the sums before a page are not those before its first child".into());
        }
        let mut floor = place.floor;
        for position in 0..page.count() {
            let until = if position + 1 == page.count() { place.until } else { self.base + page.before(position + 1) };
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
        if page.filter_bytes() > 0 && self.info().version < 3 {
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
        let damaged = |what: String| Error::corrupt(self.path(), pointer.offset, what);
        if crc32c::crc32c(buffer.as_slice()) != pointer.checksum {
            return Err(damaged("the checksum of a filter is wrong".into()));
        }
        FilterRef::new(buffer.as_slice()).map_err(damaged)?;
        Ok(buffer)
    }

    /// The reference in a row of the leaf at `place`, if it leads to where values of that leaf stand.
    pub(super) fn reference_within(&self, place: &Place, bytes: &[u8]) -> Option<ValueReference> {
        let reference = ValueReference::decode(bytes, self.info().compression)?;
        let is_within = reference.offset >= place.floor && reference.end()? <= place.pointer.offset;
        is_within.then_some(reference)
    }

    /// As [`RunFile::reference_within`].
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if it leads elsewhere.
    pub(super) fn reference(&self, place: &Place, bytes: &[u8]) -> Result<ValueReference> {
        self.reference_within(place, bytes).ok_or_else(|| self.damaged(place, "the reference to a value leads astray"))
    }

    /// Checks the extent that `reference` leads to.
    pub(super) fn check_value(&self, reference: &ValueReference, extent: &[u8]) -> Result<()> {
        if crc32c::crc32c(extent) == reference.checksum {
            return Ok(());
        }
        Err(Error::corrupt(self.path(), reference.offset, "the checksum of a value is wrong"))
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
            return Err(Error::corrupt(self.path(), reference.offset, what));
        }
        Ok(scratch)
    }

    /// Fills `buffer` from `offset`.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.opened.file.read_exact_at(buffer, offset);
        read.map_err(|error| Error::io("cannot read", self.path(), error))
    }
}

impl fmt::Debug for RunFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunFile").field("path", &self.path()).field("info", self.info()).finish_non_exhaustive()
    }
}
