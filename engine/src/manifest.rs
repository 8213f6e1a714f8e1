//! The manifest: which runs make up the checkpoint, and where the log goes on from there. The page for its bytes is
//! `docs/format-manifest.md`.
//!
//! Invariants:
//! 1. The file `MANIFEST` is replaced as a whole: it is the old one or the new one, whatever happens.
//! 2. What it names was durable before it was written (the caller's part); it is durable when [`Manifest::write`] returns.
//! 3. Table ids ascend and lie below `next_table_id`; names are not used twice; a table has a run exactly if it has rows.
//! 4. All bytes lie under one checksum. Decoding never panics and allocates no more than the bytes it is given, times a small constant.
//!
//! Costs: one small file, read whole at opening, written whole at each checkpoint: two syncs.
//!
//! Not here: reading or removing runs, choosing what a checkpoint covers (`db`).

use std::collections::HashSet;
use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, OpenMode};
use crate::tally::{Measures, Tally};

/// The name of the file in the database's directory.
pub(crate) const FILE_NAME: &str = "MANIFEST";
/// The next manifest until it is complete; worthless after a crash.
pub(crate) const UNFINISHED_NAME: &str = "MANIFEST.new";

const MAGIC: [u8; 8] = *b"QuipuMan";
/// The version written, and the newest that is read.
const VERSION: u32 = 1;

const VERSION_AT: usize = 8;
const CHECKSUM_AT: usize = 12;
const DATABASE_ID_AT: usize = 16;
const CHECKPOINT_AT: usize = 24;
const SEQUENCE_AT: usize = 32;
const LOG_POSITION_AT: usize = 40;
const NEXT_TABLE_ID_AT: usize = 48;
const TABLE_COUNT_AT: usize = 52;
const HEADER_BYTES: usize = 56;

/// Length of a table's entry without its strings.
const TABLE_BYTES: usize = 56;
const NAME_LENGTH_AT: usize = 4;
const RUN_LENGTH_AT: usize = 8;
const ANNOTATION_LENGTH_AT: usize = 12;
const MEASURES_AT: usize = 16;
const TOTAL_AT: usize = 24;

const _: () = {
    assert!(VERSION_AT == MAGIC.len());
    assert!(CHECKSUM_AT == VERSION_AT + 4);
    assert!(DATABASE_ID_AT == CHECKSUM_AT + 4);
    assert!(CHECKPOINT_AT == DATABASE_ID_AT + 8);
    assert!(SEQUENCE_AT == CHECKPOINT_AT + 8);
    assert!(LOG_POSITION_AT == SEQUENCE_AT + 8);
    assert!(NEXT_TABLE_ID_AT == LOG_POSITION_AT + 8);
    assert!(TABLE_COUNT_AT == NEXT_TABLE_ID_AT + 4);
    assert!(HEADER_BYTES == TABLE_COUNT_AT + 4);
    assert!(RUN_LENGTH_AT == NAME_LENGTH_AT + 4);
    assert!(ANNOTATION_LENGTH_AT == RUN_LENGTH_AT + 4);
    assert!(MEASURES_AT == ANNOTATION_LENGTH_AT + 4);
    assert!(TOTAL_AT == MEASURES_AT + Measures::ENCODED_BYTES);
    assert!(TABLE_BYTES == TOTAL_AT + 32);
};

/// What a checkpoint consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Chosen when the database was created; log segments have it too.
    pub(crate) database_id: u64,
    /// Counts the checkpoints.
    pub(crate) checkpoint: u64,
    /// The last commit that the runs hold.
    pub(crate) sequence: u64,
    /// The position in the log (its LSN) at which replay begins.
    pub(crate) log_position: u64,
    /// The id of the table that is created next; ids are never used twice.
    pub(crate) next_table_id: u32,
    /// All tables, by ascending id.
    pub(crate) tables: Vec<ManifestTable>,
}

/// A table of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestTable {
    /// What log records and runs call it.
    pub(crate) id: u32,
    /// What the application calls it.
    pub(crate) name: String,
    /// What it measures beside rows.
    pub(crate) measures: Measures,
    /// The application's own note.
    pub(crate) annotation: Vec<u8>,
    /// The name of the run's file in the same directory; none if the table has no rows.
    pub(crate) run: Option<String>,
    /// The tally of its rows.
    pub(crate) total: Tally,
}

impl Manifest {
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
        for table in &self.tables {
            let run = table.run.as_deref().unwrap_or("");
            bytes.extend_from_slice(&table.id.to_le_bytes());
            for len in [table.name.len(), run.len(), table.annotation.len()] {
                bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
            bytes.extend_from_slice(&table.measures.encode());
            bytes.extend_from_slice(&table.total.rows.to_le_bytes());
            bytes.extend_from_slice(&table.total.bytes.to_le_bytes());
            bytes.extend_from_slice(&table.total.hash.to_le_bytes());
            bytes.extend_from_slice(&table.total.sum.to_le_bytes());
            bytes.extend_from_slice(table.name.as_bytes());
            bytes.extend_from_slice(run.as_bytes());
            bytes.extend_from_slice(&table.annotation);
        }
        let checksum = checksum_of(&bytes);
        bytes[CHECKSUM_AT..DATABASE_ID_AT].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads what [`Manifest::encode`] gave.
    ///
    /// # Errors
    /// [`ErrorKind::Version`] if a newer version wrote it, [`ErrorKind::Corrupt`] of anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest> {
        let damaged = |at: usize, what: &str| {
            Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{FILE_NAME} is damaged at byte {at}: {what}; keep all files, run `quipu check` on the directory, and restore from a backup: without it, nobody knows which runs belong to the database"
                ),
            )
        };
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(&MAGIC) {
            return Err(damaged(0, "it does not begin as a manifest does"));
        }
        let mut rest = bytes;
        let header = Fields(take(&mut rest, HEADER_BYTES).expect("as long as a header"));
        if header.u32_at(CHECKSUM_AT) != checksum_of(bytes) {
            return Err(damaged(CHECKSUM_AT, "its checksum is wrong"));
        }
        match header.u32_at(VERSION_AT) {
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
        let mut manifest = Manifest {
            database_id: header.u64_at(DATABASE_ID_AT),
            checkpoint: header.u64_at(CHECKPOINT_AT),
            sequence: header.u64_at(SEQUENCE_AT),
            log_position: header.u64_at(LOG_POSITION_AT),
            next_table_id: header.u32_at(NEXT_TABLE_ID_AT),
            tables: Vec::new(),
        };
        for _ in 0..header.u32_at(TABLE_COUNT_AT) {
            let at = bytes.len() - rest.len();
            let table =
                ManifestTable::decode(&mut rest).ok_or_else(|| damaged(at, "a table's entry is no such thing"))?;
            manifest.tables.push(table);
        }
        if !rest.is_empty() {
            return Err(damaged(bytes.len() - rest.len(), "bytes follow the last table"));
        }
        match manifest.fault() {
            Some(fault) => Err(damaged(HEADER_BYTES, fault)),
            None => Ok(manifest),
        }
    }

    /// What contradicts invariant 3.
    fn fault(&self) -> Option<&'static str> {
        let ids_ascend = self.tables.windows(2).all(|pair| pair[0].id < pair[1].id);
        if !ids_ascend || self.tables.last().is_some_and(|last| last.id >= self.next_table_id) {
            return Some("the ids of tables do not ascend to the next one");
        }
        let names: HashSet<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
        if names.len() != self.tables.len() {
            return Some("two tables have the same name");
        }
        let run_is_sound = |table: &ManifestTable| match &table.run {
            None => table.total == Tally::ZERO,
            Some(run) => table.total.rows > 0 && is_file_name(run),
        };
        if !self.tables.iter().all(run_is_sound) {
            return Some("a table's run and its rows do not agree");
        }
        None
    }

    /// Reads the manifest of the database in `dir`; none if there is no such file.
    ///
    /// # Errors
    /// As [`Manifest::decode`], and what the disk says.
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
    /// What the disk says. The manifest on disk is then the old one or this one.
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
    /// Takes the next entry off `rest`.
    fn decode(rest: &mut &[u8]) -> Option<ManifestTable> {
        let fields = Fields(take(rest, TABLE_BYTES)?);
        let name = take(rest, fields.u32_at(NAME_LENGTH_AT) as usize)?;
        let run = take(rest, fields.u32_at(RUN_LENGTH_AT) as usize)?;
        let annotation = take(rest, fields.u32_at(ANNOTATION_LENGTH_AT) as usize)?;
        let run = std::str::from_utf8(run).ok()?;
        Some(ManifestTable {
            id: fields.u32_at(0),
            name: std::str::from_utf8(name).ok()?.to_owned(),
            measures: Measures::decode(fields.u64_at(MEASURES_AT).to_le_bytes())?,
            annotation: annotation.to_vec(),
            run: (!run.is_empty()).then(|| run.to_owned()),
            total: Tally {
                rows: fields.u64_at(TOTAL_AT) as i64,
                bytes: fields.u64_at(TOTAL_AT + 8) as i64,
                hash: fields.u64_at(TOTAL_AT + 16),
                sum: fields.u64_at(TOTAL_AT + 24) as i64,
            },
        })
    }
}

/// The checksum (CRC-32C) of everything but the checksum.
fn checksum_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &bytes[DATABASE_ID_AT..])
}

/// Whether this names a file of the directory itself, and none outside.
fn is_file_name(name: &str) -> bool {
    !name.contains(['/', '\\', '\0']) && !matches!(name, "" | "." | "..")
}

/// Takes the first `len` bytes off `rest`, if there are as many.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
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
