//! An open file of a run; each page is verified against its parent's pointer before use.
//!
//! Cost: one read and one allocation for each page. Not here: runs of several files (`parts`), questions (`probe`),
//! reading several pages at once (`cache`), reading everything (`scan`), checking everything (`probe/check`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::RunInfo;
use super::columns::{Columns, Inner};
use super::excision::{Excisions, Prefix};
use super::filter::FilterRef;
use super::format::{FOOTER_BYTES, Fault, Footer, HEADER_BYTES, Header, Pointer, Sums, VERSION, ValueReference};
use super::kept_pages::{KEPT_BYTES_MAX, KeptPages};
use super::loaded::{Loaded, NO_PAGE_THERE};
use super::node::{FilterPart, NodeRef};
use super::packed::PackedUnit;
use super::pinned_pages::{PinnedPages, Tier};
use super::place::UnitPlace;
use xxhash_rust::xxh3::Xxh3;

use crate::compression::{Compression, unpack};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{AlignedBuffer, Disk, File, OpenMode};
use crate::page::{KIND_INNER, KIND_LEAF, PageRef, UNIT_ALIGNMENT_BYTES, Unit, UnitBuffer, checked_page, record};

/// The number of run files that this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// A file to read, in its place in a run.
pub(crate) struct RunFile {
    opened: Arc<Opened>,
    /// Its index among the parts of the run.
    part: u32,
    /// What is left of the parts before it: their sums, and the bytes of their files.
    base: Sums,
    shift: u64,
    /// What was erased from it; `None` if nothing was.
    excisions: Option<Arc<Excisions>>,
}

/// An open file, independent of its place in a run.
struct Opened {
    /// Distinguishes open files, also from earlier ones of the same name.
    number: u64,
    file: Box<dyn File>,
    path: PathBuf,
    info: RunInfo,
    identity: u64,
    root: Pointer,
    /// The page there, once loaded: every question begins with it.
    root_page: OnceLock<Loaded>,
    kept: KeptPages,
    pinned: PinnedPages,
}

impl RunFile {
    /// Keeps the inner page or filter at `offset` if a cache of `cache_bytes` leaves room for it; otherwise returns it.
    /// `tier` counts what runs hold.
    pub(crate) fn keep(&self, offset: u64, page: Loaded, tier: &Arc<Tier>, cache_bytes: u64) -> Option<Loaded> {
        self.kept().keep(self.info(), offset, page, tier, cache_bytes)
    }

    /// Releases the pages that it holds: it has been replaced, and its remaining readers use the cache.
    pub(crate) fn release(&self) {
        self.pinned().set(None);
    }

    /// Opens the run at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if there is no such file, [`ErrorKind::Version`] if a newer version wrote it,
    /// [`ErrorKind::Corrupt`] if header or footer is damaged, and errors of the disk.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<RunFile> {
        let refused = |error| Error::io("cannot open", path, error);
        let file = disk.open(path, OpenMode::Read).map_err(refused)?;
        let bytes = file.len().map_err(refused)?;
        let too_short = || Error::corrupt(path, bytes, "the file is too short to be a run");
        if bytes < (HEADER_BYTES + FOOTER_BYTES) as u64 {
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
        let mut footer_bytes = [0; FOOTER_BYTES];
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
            layout: footer.layout,
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
            pinned: PinnedPages::default(),
        };
        Ok(RunFile { opened: Arc::new(opened), part: 0, base: Sums::default(), shift: 0, excisions: None })
    }

    /// The same open file as part `part` of a run, after parts of which `base` and `shift` bytes are left.
    pub(crate) fn in_place(&self, part: u32, base: Sums, shift: u64) -> RunFile {
        RunFile { opened: Arc::clone(&self.opened), part, base, shift, excisions: self.excisions.clone() }
    }

    /// The same open file, from which this and nothing else was erased.
    pub(crate) fn with_excisions(&self, excisions: Option<Excisions>) -> RunFile {
        RunFile { excisions: excisions.map(Arc::new), ..self.in_place(self.part, self.base, self.shift) }
    }

    /// What was erased from it; `None` if nothing was.
    #[inline]
    pub(crate) fn excisions(&self) -> Option<&Excisions> {
        self.excisions.as_deref()
    }

    /// Whether the entry of `key`, if there is one, was erased.
    #[inline]
    pub(crate) fn is_excised(&self, key: &[u8]) -> bool {
        self.excisions.as_ref().is_some_and(|excisions| excisions.has(key))
    }

    /// The sums of the entries that are left.
    pub(crate) fn sums_left(&self) -> Sums {
        self.info().total - self.erased().sums
    }

    /// The bytes of the file that are left.
    pub(super) fn bytes_left(&self) -> u64 {
        self.info().bytes - self.erased().bytes
    }

    /// The number of entries that are left of the subtree at `place`.
    pub(super) fn entries_left(&self, place: &UnitPlace) -> u64 {
        let left = |sums: Sums| {
            let sums = sums - self.base;
            self.excisions().map_or(sums.entries, |excisions| {
                excisions.left_at_entry(sums.entries).of(Prefix { sums, bytes: 0 }).sums.entries
            })
        };
        (left(place.until) - left(place.before)) as u64
    }

    fn erased(&self) -> Prefix {
        self.excisions.as_ref().map_or(Prefix::default(), |excisions| excisions.total())
    }

    /// The sums that are left of the parts before this one.
    pub(crate) fn base(&self) -> &Sums {
        &self.base
    }

    /// The bytes that are left of the parts before this one.
    pub(crate) fn shift(&self) -> u64 {
        self.shift
    }

    /// Whether this is the same open file.
    pub(crate) fn is_same(&self, other: &RunFile) -> bool {
        Arc::ptr_eq(&self.opened, &other.opened)
    }

    /// The number of the open file, unique in the process.
    pub(crate) fn number(&self) -> u64 {
        self.opened.number
    }

    /// The page at `place` if it is kept.
    #[inline]
    pub(super) fn kept_page(&self, place: &UnitPlace) -> Option<&Loaded> {
        if self.is_root(place) {
            return self.kept_root();
        }
        if place.level == 0 { None } else { self.opened.kept.get(place.pointer.offset) }
    }

    /// Inner pages other than the root, and filters, that stay with it.
    #[inline]
    pub(crate) fn kept(&self) -> &KeptPages {
        &self.opened.kept
    }

    /// The root if it is kept.
    #[inline]
    pub(crate) fn kept_root(&self) -> Option<&Loaded> {
        self.opened.root_page.get()
    }

    /// Where the root is.
    #[inline]
    pub(crate) fn root_offset(&self) -> u64 {
        self.opened.root.offset
    }

    /// Whether `place` is that of the root.
    pub(crate) fn is_root(&self, place: &UnitPlace) -> bool {
        place.pointer.offset == self.root_offset()
    }

    /// Keeps `page`, the root; returns it if it is too long.
    pub(crate) fn keep_root(&self, page: Loaded) -> Option<Loaded> {
        if page.bytes() > KEPT_BYTES_MAX {
            return Some(page);
        }
        // Another reader may have been first.
        let _ = self.opened.root_page.set(page);
        None
    }

    /// Pages that stay in memory with it.
    #[inline]
    pub(crate) fn pinned(&self) -> &PinnedPages {
        &self.opened.pinned
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> String {
        self.opened.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn path(&self) -> &Path {
        &self.opened.path
    }

    /// The hash (XXH3) of header and footer. It identifies the file, since the footer has a checksum of the root, each
    /// node one of its children, and the header a number that no other run of the database has.
    pub(crate) fn identity(&self) -> u64 {
        self.opened.identity
    }

    /// The properties of the file.
    pub(crate) fn info(&self) -> &RunInfo {
        &self.opened.info
    }

    /// Where the tree begins; `None` if there are no rows.
    pub(crate) fn root(&self) -> Option<UnitPlace> {
        Some(UnitPlace {
            pointer: self.opened.root,
            floor: HEADER_BYTES as u64,
            part: self.part,
            shift: self.shift,
            level: self.info().levels.checked_sub(1)?,
            before: self.base,
            until: self.base + self.info().total,
        })
    }

    /// The place of the child at `position`, from the inner page at `place`.
    pub(crate) fn child(&self, place: &UnitPlace, page: &Inner<'_>, position: usize) -> UnitPlace {
        const BOUNDED: &str = "`check_inner` has bounded it";
        let is_last = position + 1 == page.count();
        UnitPlace {
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

    /// The inner page in a loaded unit.
    pub(crate) fn inner<'l>(&self, loaded: &'l Loaded) -> Inner<'l> {
        match loaded {
            Loaded::Node(buffer) => Inner::Node(NodeRef::unchecked(buffer.as_slice()), self.columns()),
            Loaded::Top(top) => Inner::Top(top),
            Loaded::Leaf(_) | Loaded::Filter(_) | Loaded::Value(_) => unreachable!("{NO_PAGE_THERE}"),
        }
    }

    /// Where the filter over a child of the inner page at `place` is; `None` if there is none, or it is empty.
    pub(crate) fn filter_of(&self, place: &UnitPlace, page: &Inner<'_>, position: usize) -> Option<Pointer> {
        let part = page.filter_of(position)?;
        (!part.bytes.is_empty()).then(|| self.filter_at(place, page, &part))
    }

    /// Where the filter `part` is, of a node at offset `node` with filters of `filter_bytes`.
    #[inline]
    pub(crate) fn filter_offset(node: u64, filter_bytes: u32, part: &FilterPart) -> u64 {
        node - u64::from(filter_bytes) + u64::from(part.bytes.start)
    }

    /// Where child `position` of a node is.
    #[inline]
    pub(crate) fn child_offset(&self, node: &NodeRef<'_>, position: usize) -> u64 {
        self.columns().offset(node, position)
    }

    /// Rows of all entries of the file before child `position` of a node.
    #[inline]
    pub(super) fn rows_before_child(&self, node: &NodeRef<'_>, position: usize) -> i64 {
        self.columns().rows_before(node, position)
    }

    /// Entries of the file before child `position` of a node.
    #[inline]
    pub(super) fn entries_before_child(&self, node: &NodeRef<'_>, position: usize) -> i64 {
        self.columns().entries_before(node, position)
    }

    /// Fetches what [`RunFile::child_offset`] reads into the processor's cache.
    #[inline]
    pub(super) fn prefetch_child(&self, node: &NodeRef<'_>, position: usize) {
        self.columns().prefetch_offset(node, position);
    }

    /// Where a filter over children of the inner page at `place` is.
    pub(crate) fn filter_at(&self, place: &UnitPlace, page: &Inner<'_>, part: &FilterPart) -> Pointer {
        Pointer {
            offset: RunFile::filter_offset(place.pointer.offset, page.filter_bytes(), part),
            length: part.bytes.end - part.bytes.start,
            checksum: part.checksum,
        }
    }

    fn columns(&self) -> Columns {
        Columns::new(self.info().measures, self.info().is_bottom)
    }

    /// Reads and checks the unit at `place`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if its bytes are not those that were written, or not those of this place; errors of the
    /// disk.
    pub(crate) fn load(&self, place: &UnitPlace) -> Result<Loaded> {
        // The pointer comes from a checked page, so these are bytes of the file.
        let mut buffer = UnitBuffer::new(place.pointer.length as usize);
        self.read(buffer.as_mut_slice(), place.pointer.offset)?;
        self.page_in(place, buffer)
    }

    /// Checks `buffer`, read from `place`, and returns the unit in it.
    pub(crate) fn page_in(&self, place: &UnitPlace, buffer: UnitBuffer) -> Result<Loaded> {
        self.check_checksum(place, buffer.as_slice())?;
        let buffer = match self.packed_in(place, buffer.as_slice())? {
            None => buffer,
            Some(packed) => {
                let mut plain = UnitBuffer::new(packed.plain_bytes());
                packed.unpack(plain.as_mut_slice()).map_err(|fault| self.damaged(place, fault))?;
                plain
            }
        };
        let loaded = if place.level > 0 {
            NodeRef::new(buffer.as_slice(), self.columns().count()).map_err(|fault| self.damaged(place, fault))?;
            Loaded::Node(buffer)
        } else {
            let unit = Unit::new(buffer, self.info().is_bottom);
            Loaded::Leaf(unit.map_err(|fault| self.damaged(place, fault))?)
        };
        self.check_place(place, &loaded).map_err(|fault| self.damaged(place, fault))?;
        Ok(loaded)
    }

    /// The packed unit in `stored`, read from `place`, whose checksum holds; `None` if it is not packed.
    fn packed_in<'b>(&self, place: &UnitPlace, stored: &'b [u8]) -> Result<Option<PackedUnit<'b>>> {
        if place.level > 0 || self.info().compression == Compression::None {
            return Ok(None);
        }
        PackedUnit::new(stored, self.info().page_bytes).map_err(|fault| self.damaged(place, fault))
    }

    /// Checks `stored`, read from `place`, that of a leaf, and returns the unit and the page in it: in place, or
    /// unpacked into `scratch`.
    pub(super) fn leaf_in<'b>(
        &self,
        place: &UnitPlace,
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
        let page = checked_page(bytes, self.info().is_bottom)
            .and_then(|page| self.check_kind(place, &page).and_then(|()| self.check_leaf(place, &page)).map(|()| page))
            .map_err(|fault| self.damaged(place, fault))?;
        Ok((bytes, page))
    }

    fn check_checksum(&self, place: &UnitPlace, bytes: &[u8]) -> Result<()> {
        if crc32c::crc32c(bytes) == place.pointer.checksum {
            return Ok(());
        }
        Err(self.damaged(place, "the checksum of a page is wrong"))
    }

    pub(crate) fn damaged(&self, place: &UnitPlace, what: impl fmt::Display) -> Error {
        Error::corrupt(self.path(), place.pointer.offset, what)
    }

    /// Checks that a page, sound in itself, is the one its parent promised.
    fn check_place(&self, place: &UnitPlace, loaded: &Loaded) -> Result<(), String> {
        if let Loaded::Leaf(unit) = loaded {
            self.check_kind(place, &unit.page())?;
        }
        if place.level == 0 {
            self.check_leaf(place, &loaded.leaf())
        } else {
            self.check_inner(place, &self.inner(loaded))
        }
    }

    fn check_kind(&self, place: &UnitPlace, page: &PageRef<'_>) -> Result<(), String> {
        let kind = if place.level == 0 { KIND_LEAF } else { KIND_INNER };
        if page.kind() != kind {
            return Err(format!("a page of level {} where one of {} was", page.level(), place.level));
        }
        Ok(())
    }

    fn check_leaf(&self, place: &UnitPlace, page: &PageRef<'_>) -> Result<(), String> {
        let sums = place.sums();
        if page.level() != 0 {
            return Err(format!("a page of level {} where one of 0 was", page.level()));
        }
        if page.count() as i64 != sums.entries {
            return Err(format!("{} entries where {} were counted", page.count(), sums.entries));
        }
        // Long values stand right before the leaf; if there are none, the previous rows do.
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

    fn check_inner(&self, place: &UnitPlace, page: &Inner<'_>) -> Result<(), String> {
        if page.level() != place.level {
            return Err(format!("a page of level {} where one of {} was", page.level(), place.level));
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
                let is_inside = aligned && pointer.offset >= floor;
                pointer.end().filter(|&end| is_inside && end <= place.pointer.offset)
            });
            floor = end.ok_or_else(|| format!("the pointer to child {position} leads out of the subtree"))?;
        }
        if floor.checked_add(u64::from(page.filter_bytes())) != Some(place.pointer.offset) {
            return Err("the last child and the filters do not end where their parent begins".into());
        }
        Ok(())
    }

    /// Reads and checks the filter that `pointer` leads to.
    pub(crate) fn load_filter(&self, pointer: &Pointer) -> Result<UnitBuffer> {
        let mut buffer = UnitBuffer::new(pointer.length as usize);
        self.read(buffer.as_mut_slice(), pointer.offset)?;
        self.filter_in(pointer, buffer)
    }

    /// Checks `buffer`, a filter read from where `pointer` says.
    pub(crate) fn filter_in(&self, pointer: &Pointer, buffer: UnitBuffer) -> Result<UnitBuffer> {
        let damaged = |what: String| Error::corrupt(self.path(), pointer.offset, what);
        if crc32c::crc32c(buffer.as_slice()) != pointer.checksum {
            return Err(damaged("the checksum of a filter is wrong".into()));
        }
        FilterRef::new(buffer.as_slice()).map_err(damaged)?;
        Ok(buffer)
    }

    /// The reference in a row of the leaf at `place`, if it leads to where values of that leaf stand.
    pub(crate) fn reference_within(&self, place: &UnitPlace, bytes: &[u8]) -> Option<ValueReference> {
        let reference = ValueReference::decode(bytes, self.info().compression)?;
        let is_within = reference.offset >= place.floor && reference.end()? <= place.pointer.offset;
        is_within.then_some(reference)
    }

    /// Like [`RunFile::reference_within`].
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if it leads elsewhere.
    pub(crate) fn reference(&self, place: &UnitPlace, bytes: &[u8]) -> Result<ValueReference> {
        self.reference_within(place, bytes).ok_or_else(|| self.damaged(place, "the reference to a value leads astray"))
    }

    /// Checks the extent that `reference` leads to.
    pub(crate) fn check_value(&self, reference: &ValueReference, extent: &[u8]) -> Result<()> {
        if crc32c::crc32c(extent) == reference.checksum {
            return Ok(());
        }
        Err(Error::corrupt(self.path(), reference.offset, "the checksum of a value is wrong"))
    }

    /// The value in the checked extent that `reference` leads to: in place, or unpacked into `scratch`.
    pub(crate) fn value_in<'b>(
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
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.opened.file.read_exact_at(buffer, offset);
        read.map_err(|error| Error::io("cannot read", self.path(), error))
    }
}

impl fmt::Debug for RunFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunFile").field("path", &self.path()).field("info", self.info()).finish_non_exhaustive()
    }
}
