//! The manifest: which runs make up the tables, and where replay of the log begins.
//!
//! `docs/internals/format-manifest.md` describes its bytes.
//!
//! Invariants:
//! 1. The file `MANIFEST` is replaced as a whole: it is the old one or the new one, whatever happens.
//! 2. What it names was durable before it was written (the caller's part); it is durable when [`Manifest::write`]
//!    returns.
//! 3. Table ids ascend and are below `next_table_id`; names of tables and of runs are unique; a table in memory has one
//!    run if that has rows, and otherwise none.
//! 4. All bytes are under one checksum. Decoding never panics and allocates at most a small multiple of its input.
//!
//! Cost: one small file, read whole at opening, written whole at each checkpoint, flush, compaction and ingest: two
//! syncs.
//!
//! Not here: reading or removing runs, choosing what a checkpoint covers (`maintenance`).

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::catalog::declaration::{self, Declaration, TableId};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, OpenMode};
use crate::page::KeyBuffer;
use crate::run::{Excision, Prefix, Sums};
use crate::tally::{Measures, Tally};

/// The name of the file in the database's directory.
pub(crate) const FILE_NAME: &str = "MANIFEST";
/// The name of an unfinished manifest; worthless after a crash.
pub(crate) const UNFINISHED_NAME: &str = "MANIFEST.new";

const MAGIC: [u8; 8] = *b"QuipuMan";
/// The version written, and the only one that can be read.
const VERSION: u32 = 1;

const VERSION_AT: usize = 8;
const CHECKSUM_AT: usize = 12;
const DATABASE_ID_AT: usize = 16;
const CHECKPOINT_AT: usize = 24;
const SEQUENCE_AT: usize = 32;
const LOG_POSITION_AT: usize = 40;
const NEXT_TABLE_ID_AT: usize = 48;
const TABLE_COUNT_AT: usize = 52;
const CATALOG_SEQUENCE_AT: usize = 56;
const HEADER_BYTES: usize = 64;

/// Length of a table's entry without its strings.
const TABLE_BYTES: usize = 88;
const NAME_LENGTH_AT: usize = 4;
const RUN_COUNT_AT: usize = 8;
const DECLARATION_LENGTH_AT: usize = 12;
const TOTAL_AT: usize = 16;
const TABLE_SEQUENCE_AT: usize = 48;
const FLAGS_AT: usize = 56;
const INGESTED_AT: usize = 64;
const INGESTED_FIRST_LENGTH_AT: usize = 72;
const INGESTED_LAST_LENGTH_AT: usize = 76;
const EXCISED_AT: usize = 80;

/// Length of the sums before a cut in a file: entries, tombstones, the tally, and the bytes of the file.
const PREFIX_BYTES: usize = 56;

/// The one flag of a table.
const ON_DISK: u64 = 1;

const _: () = {
    assert!(VERSION_AT == MAGIC.len());
    assert!(CHECKSUM_AT == VERSION_AT + 4);
    assert!(DATABASE_ID_AT == CHECKSUM_AT + 4);
    assert!(CHECKPOINT_AT == DATABASE_ID_AT + 8);
    assert!(SEQUENCE_AT == CHECKPOINT_AT + 8);
    assert!(LOG_POSITION_AT == SEQUENCE_AT + 8);
    assert!(NEXT_TABLE_ID_AT == LOG_POSITION_AT + 8);
    assert!(TABLE_COUNT_AT == NEXT_TABLE_ID_AT + 4);
    assert!(CATALOG_SEQUENCE_AT == TABLE_COUNT_AT + 4);
    assert!(HEADER_BYTES == CATALOG_SEQUENCE_AT + 8);
    assert!(RUN_COUNT_AT == NAME_LENGTH_AT + 4);
    assert!(DECLARATION_LENGTH_AT == RUN_COUNT_AT + 4);
    assert!(TOTAL_AT == DECLARATION_LENGTH_AT + 4);
    assert!(TABLE_SEQUENCE_AT == TOTAL_AT + 32);
    assert!(FLAGS_AT == TABLE_SEQUENCE_AT + 8);
    assert!(INGESTED_AT == FLAGS_AT + 8);
    assert!(INGESTED_FIRST_LENGTH_AT == INGESTED_AT + 8);
    assert!(INGESTED_LAST_LENGTH_AT == INGESTED_FIRST_LENGTH_AT + 4);
    assert!(EXCISED_AT == INGESTED_LAST_LENGTH_AT + 4);
    assert!(TABLE_BYTES == EXCISED_AT + 8);
};

/// The parts of a database, except its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Chosen when the database was created; log segments carry it too.
    pub(crate) database_id: u64,
    /// No run that was ever named has a higher number in its name.
    pub(crate) checkpoint: u64,
    /// The last commit before `log_position`: the runs contain it and all before.
    pub(crate) sequence: u64,
    /// The position in the log (its LSN) at which replay begins.
    pub(crate) log_position: u64,
    /// The id of the table that is created next; ids are never used twice.
    pub(crate) next_table_id: u32,
    /// The commit after which the tables are as listed here.
    pub(crate) catalog_sequence: u64,
    /// All tables, by ascending id.
    pub(crate) tables: Vec<ManifestTable>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestTable {
    /// Its id, its name and its options.
    pub(crate) declaration: Arc<Declaration>,
    /// Whether pages of its runs are read when needed. If not, its one run is an image of all rows, which is read into
    /// memory.
    pub(crate) is_on_disk: bool,
    /// The last commit whose writes to the table are all in its runs.
    pub(crate) sequence: u64,
    /// The last ingest into the table, whose rows are in its runs; those before it are not above `sequence`. Its record
    /// may be missing at the end of the log: then opening appends it.
    pub(crate) ingested: LastIngest,
    /// The last commit whose removals of ranges are all in its runs.
    pub(crate) excised: u64,
    /// Newest first.
    pub(crate) runs: Vec<ManifestRun>,
    /// The tally of the rows in the runs.
    pub(crate) total: Tally,
}

/// What the manifest says of an ingest: all that its record does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastIngest {
    /// Its commit; 0 if there was none.
    pub(crate) sequence: u64,
    /// The first of its keys and the last.
    pub(crate) keys: (Vec<u8>, Vec<u8>),
}

impl LastIngest {
    /// Whether a write of this commit to this key is in the runs, or had come to nothing when the ingest was committed:
    /// memory had no entry between the two keys then.
    pub(crate) fn covers(&self, sequence: u64, key: &[u8]) -> bool {
        let (first, last) = &self.keys;
        sequence <= self.sequence && first.as_slice() <= key && key <= last.as_slice()
    }
}

/// A run: its parts, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestRun {
    pub(crate) parts: Vec<ManifestPart>,
}

/// A file of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestPart {
    /// Its name in the same directory.
    pub(crate) name: String,
    /// The hash of its header and footer: no other file is taken for it, whatever its name.
    pub(crate) identity: u64,
    /// A key at or below all of its keys and above those of the parts before. Empty for the first part.
    pub(crate) low: Vec<u8>,
    /// What was erased from it.
    pub(crate) excisions: Vec<Excision>,
}

impl Manifest {
    /// The names of the files of all runs.
    pub(crate) fn files(&self) -> impl Iterator<Item = &String> {
        self.tables.iter().flat_map(ManifestTable::files)
    }

    /// The last commit that was an ingest, and the table it was into; `None` if there was none.
    pub(crate) fn last_ingest(&self) -> Option<(&LastIngest, TableId)> {
        let last = self.tables.iter().max_by_key(|table| table.ingested.sequence)?;
        (last.ingested.sequence > 0).then_some((&last.ingested, last.id()))
    }

    /// Whether the last ingest into a table came after the last commit whose writes are all in its runs.
    pub(crate) fn has_ingest_above_flush(&self, table: TableId) -> bool {
        self.tables.iter().any(|entry| entry.id() == table && entry.ingested.sequence > entry.sequence)
    }

    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for number in [self.database_id, self.checkpoint, self.sequence, self.log_position] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.next_table_id.to_le_bytes());
        bytes.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.catalog_sequence.to_le_bytes());
        for table in &self.tables {
            let declaration = declaration::encode(&table.declaration.options);
            bytes.extend_from_slice(&table.id().to_le_bytes());
            for len in [table.name().len(), table.runs.len(), declaration.len()] {
                bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
            bytes.extend_from_slice(&table.total.rows.to_le_bytes());
            bytes.extend_from_slice(&table.total.bytes.to_le_bytes());
            bytes.extend_from_slice(&table.total.hash.to_le_bytes());
            bytes.extend_from_slice(&table.total.sum.to_le_bytes());
            bytes.extend_from_slice(&table.sequence.to_le_bytes());
            bytes.extend_from_slice(&(if table.is_on_disk { ON_DISK } else { 0 }).to_le_bytes());
            bytes.extend_from_slice(&table.ingested.sequence.to_le_bytes());
            let (first, last) = &table.ingested.keys;
            for key in [first, last] {
                bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            }
            bytes.extend_from_slice(&table.excised.to_le_bytes());
            for text in [table.name().as_bytes(), first, last] {
                bytes.extend_from_slice(text);
            }
            for run in &table.runs {
                bytes.extend_from_slice(&(run.parts.len() as u32).to_le_bytes());
                for part in &run.parts {
                    bytes.extend_from_slice(&part.identity.to_le_bytes());
                    for text in [part.name.as_bytes(), &part.low] {
                        put_counted(&mut bytes, text);
                    }
                    bytes.extend_from_slice(&(part.excisions.len() as u32).to_le_bytes());
                    part.excisions.iter().for_each(|excision| put_excision(&mut bytes, excision));
                }
            }
            bytes.extend_from_slice(&declaration);
        }
        let checksum = checksum_of(&bytes);
        bytes[CHECKSUM_AT..DATABASE_ID_AT].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the result of [`Manifest::encode`].
    ///
    /// # Errors
    /// [`ErrorKind::Version`] if a newer version wrote it, [`ErrorKind::Corrupt`] for any other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest> {
        let damaged = |at: usize, what: &str| {
            Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{FILE_NAME} is damaged at byte {at}: {what}; keep all files, run `quipu check` on the directory, and restore from a backup: without the manifest it is not known which runs belong to the database"
                ),
            )
        };
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(&MAGIC) {
            return Err(damaged(0, "it does not begin as a manifest does"));
        }
        if Fields(bytes).u32_at(CHECKSUM_AT) != checksum_of(bytes) {
            return Err(damaged(CHECKSUM_AT, "its checksum is wrong"));
        }
        let version = Fields(bytes).u32_at(VERSION_AT);
        match version {
            VERSION => {}
            0 => return Err(damaged(VERSION_AT, "there is no version 0")),
            newer => {
                return Err(Error::new(
                    ErrorKind::Version,
                    format!(
                        "{FILE_NAME} has version {newer}, and this program reads {VERSION} at most; open the database with a newer one"
                    ),
                ));
            }
        }
        let mut rest = bytes;
        let header = take(&mut rest, HEADER_BYTES).ok_or_else(|| damaged(bytes.len(), "it ends in its header"))?;
        let header = Fields(header);
        let mut manifest = Manifest {
            database_id: header.u64_at(DATABASE_ID_AT),
            checkpoint: header.u64_at(CHECKPOINT_AT),
            sequence: header.u64_at(SEQUENCE_AT),
            log_position: header.u64_at(LOG_POSITION_AT),
            next_table_id: header.u32_at(NEXT_TABLE_ID_AT),
            catalog_sequence: header.u64_at(CATALOG_SEQUENCE_AT),
            tables: Vec::new(),
        };
        for _ in 0..header.u32_at(TABLE_COUNT_AT) {
            let at = bytes.len() - rest.len();
            let table = ManifestTable::decode(&mut rest);
            manifest.tables.push(table.ok_or_else(|| damaged(at, "a table's entry is malformed"))?);
        }
        if !rest.is_empty() {
            return Err(damaged(bytes.len() - rest.len(), "bytes follow the last table"));
        }
        match manifest.fault() {
            Some(fault) => Err(damaged(HEADER_BYTES, fault)),
            None => Ok(manifest),
        }
    }

    /// The violation of invariant 3, if there is one.
    fn fault(&self) -> Option<&'static str> {
        let ids_ascend = self.tables.windows(2).all(|pair| pair[0].id() < pair[1].id());
        if !ids_ascend || self.tables.last().is_some_and(|last| last.id() >= self.next_table_id) {
            return Some("the ids of tables do not ascend to the next one");
        }
        let names: HashSet<&str> = self.tables.iter().map(ManifestTable::name).collect();
        if names.len() != self.tables.len() {
            return Some("two tables have the same name");
        }
        let files: Vec<&String> = self.files().collect();
        if files.iter().copied().collect::<HashSet<_>>().len() != files.len() {
            return Some("a run is named twice");
        }
        let lows_ascend = |run: &ManifestRun| {
            run.parts.first().is_some_and(|first| first.low.is_empty())
                && run.parts.windows(2).all(|pair| pair[0].low < pair[1].low)
        };
        let runs_are_sound = |table: &ManifestTable| {
            table.files().all(|name| is_file_name(name))
                && table.runs.iter().all(lows_ascend)
                && match &table.runs[..] {
                    [] => table.total == Tally::ZERO,
                    [image] if !table.is_on_disk => {
                        table.total.rows > 0 && image.parts.len() == 1 && image.parts[0].excisions.is_empty()
                    }
                    _ => table.is_on_disk && table.total.rows >= 0,
                }
                && (table.ingested.sequence == 0 || table.is_on_disk)
        };
        if !self.tables.iter().all(runs_are_sound) {
            return Some("a table's runs and its rows do not agree");
        }
        if self.catalog_sequence < self.sequence {
            return Some("the tables are older than the position in the log");
        }
        None
    }

    /// Reads the manifest of the database in `dir`; `None` if there is no such file.
    ///
    /// # Errors
    /// Those of [`Manifest::decode`], and errors of the disk.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Manifest>> {
        let path = dir.join(FILE_NAME);
        let refused = |error| Error::io("cannot read", &path, error);
        let file = match disk.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(error)),
        };
        let mut bytes = vec![0; file.len().map_err(refused)? as usize];
        file.read_exact_at(&mut bytes, 0).map_err(refused)?;
        Manifest::decode(&bytes).map(Some).map_err(|error| error.context(dir.display()))
    }

    /// Makes this the manifest of the database in `dir`, durably. What it names must be durable already.
    ///
    /// # Errors
    /// Errors of the disk. The manifest on disk is then the old one or this one.
    ///
    /// # Panics
    /// If the manifest contradicts itself (invariant 3), before anything is written.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        assert_eq!(self.fault(), None, "a manifest is sound before it is written");
        let (path, unfinished) = (dir.join(FILE_NAME), dir.join(UNFINISHED_NAME));
        let refused = |error| Error::io("cannot write", &unfinished, error);
        match disk.remove(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
            _ => {}
        }
        let file = disk.open(&unfinished, OpenMode::CreateNew).map_err(refused)?;
        file.write_all_at(&self.encode(), 0).map_err(refused)?;
        file.sync().map_err(|error| Error::io("cannot sync", &unfinished, error))?;
        disk.rename(&unfinished, &path).map_err(|error| Error::io("cannot rename", &unfinished, error))?;
        disk.sync_dir(dir).map_err(|error| Error::io("cannot sync", dir, error))
    }
}

impl ManifestTable {
    /// The table's id in log records and runs.
    pub(crate) fn id(&self) -> TableId {
        self.declaration.id
    }

    /// The table's name, chosen by the application.
    pub(crate) fn name(&self) -> &str {
        &self.declaration.name
    }

    /// What it measures besides rows.
    pub(crate) fn measures(&self) -> Measures {
        self.declaration.options.measures
    }

    /// The names of the files of its runs.
    pub(crate) fn files(&self) -> impl Iterator<Item = &String> {
        self.runs.iter().flat_map(|run| &run.parts).map(|part| &part.name)
    }

    /// Decodes the next entry of `rest` and takes it off.
    fn decode(rest: &mut &[u8]) -> Option<ManifestTable> {
        let fields = Fields(take(rest, TABLE_BYTES)?);
        let name = take(rest, fields.u32_at(NAME_LENGTH_AT) as usize)?;
        let first = take(rest, fields.u32_at(INGESTED_FIRST_LENGTH_AT) as usize)?.to_vec();
        let last = take(rest, fields.u32_at(INGESTED_LAST_LENGTH_AT) as usize)?.to_vec();
        let mut runs = Vec::new();
        for _ in 0..fields.u32_at(RUN_COUNT_AT) {
            let mut run = ManifestRun::default();
            for _ in 0..Fields(take(rest, 4)?).u32_at(0) {
                let identity = Fields(take(rest, 8)?).u64_at(0);
                let name = text(take_counted(rest)?)?;
                let low = take_counted(rest)?.to_vec();
                let mut excisions = Vec::new();
                for _ in 0..Fields(take(rest, 4)?).u32_at(0) {
                    excisions.push(take_excision(rest)?);
                }
                run.parts.push(ManifestPart { name, identity, low, excisions });
            }
            runs.push(run);
        }
        let flags = fields.u64_at(FLAGS_AT);
        let options = declaration::decode(take(rest, fields.u32_at(DECLARATION_LENGTH_AT) as usize)?)?;
        Some(ManifestTable {
            declaration: Arc::new(Declaration { id: fields.u32_at(0), name: text(name)?, options }),
            is_on_disk: flags & ON_DISK != 0,
            sequence: fields.u64_at(TABLE_SEQUENCE_AT),
            ingested: LastIngest { sequence: fields.u64_at(INGESTED_AT), keys: (first, last) },
            excised: fields.u64_at(EXCISED_AT),
            runs,
            total: Tally {
                rows: fields.u64_at(TOTAL_AT) as i64,
                bytes: fields.u64_at(TOTAL_AT + 8) as i64,
                hash: fields.u64_at(TOTAL_AT + 16),
                sum: fields.u64_at(TOTAL_AT + 24) as i64,
            },
        })
        .filter(|_| flags & !ON_DISK == 0)
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// The checksum (CRC-32C) of everything but the checksum.
fn checksum_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &bytes[DATABASE_ID_AT..])
}

/// Whether this names a file directly in the directory.
fn is_file_name(name: &str) -> bool {
    !name.contains(['/', '\\', '\0']) && !matches!(name, "" | "." | "..")
}

/// Takes the first `len` bytes off `rest`, if there are as many.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

/// Takes a length of four bytes and that many bytes off `rest`.
fn take_counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = Fields(take(rest, 4)?).u32_at(0);
    take(rest, len as usize)
}

/// Appends a length of four bytes and the bytes.
fn put_counted(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text);
}

fn put_excision(bytes: &mut Vec<u8>, excision: &Excision) {
    put_counted(bytes, &excision.start);
    bytes.extend_from_slice(&u32::from(excision.end.is_some()).to_le_bytes());
    if let Some(end) = &excision.end {
        put_counted(bytes, end);
    }
    for Prefix { sums: Sums { entries, erased, tally }, bytes: file_bytes } in [&excision.before, &excision.through] {
        for number in [*entries, *erased, tally.rows, tally.bytes, tally.hash as i64, tally.sum, *file_bytes as i64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Takes the next excision off `rest`, after what [`put_excision`] writes.
fn take_excision(rest: &mut &[u8]) -> Option<Excision> {
    let start = KeyBuffer::from_slice(take_counted(rest)?);
    let end = match Fields(take(rest, 4)?).u32_at(0) {
        0 => None,
        1 => Some(KeyBuffer::from_slice(take_counted(rest)?)),
        _ => return None,
    };
    let mut prefix = || {
        let fields = Fields(take(rest, PREFIX_BYTES)?);
        let number = |index: usize| fields.u64_at(8 * index);
        let tally = Tally { rows: number(2) as i64, bytes: number(3) as i64, hash: number(4), sum: number(5) as i64 };
        let sums = Sums { entries: number(0) as i64, erased: number(1) as i64, tally };
        Some(Prefix { sums, bytes: number(6) })
    };
    Some(Excision { start, end, before: prefix()?, through: prefix()? })
}

/// Bytes of a known length, read by offsets.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(*self.0[at..].first_chunk().expect("four bytes"))
    }

    fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(*self.0[at..].first_chunk().expect("eight bytes"))
    }
}

#[cfg(test)]
mod tests;
