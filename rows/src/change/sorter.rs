//! Keys and values sorted on their way into a tree.
//!
//! As many as fit into memory are sorted and go to the tree as one ingest; then the next part follows. The key ranges
//! of parts overlap, so the ingest of the second part finds a key that is in both.
//!
//! Cost: sorting, and for parts after the first a look-up for each key. Not here: when a part is full (`load`,
//! `indexes`).

use quipu::ingest::Overlap;
use quipu::{ErrorKind, ReadableTable, Result, WritableTable};

/// Keys and values of one part.
#[derive(Default)]
pub(crate) struct Sorter {
    bytes: Vec<u8>,
    entries: Vec<Sorted>,
}

/// A key and a value among the bytes.
#[derive(Clone, Copy)]
struct Sorted {
    /// The first bytes of the key, which decide nearly always.
    head: u64,
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
}

/// What went wrong when entries were written.
pub(crate) enum Refused {
    /// Two have one key: the values of both, or only that of the later one if the other is in the tree.
    Twice { key: Vec<u8>, values: Vec<Vec<u8>> },
    /// The engine says why.
    Failed(quipu::Error),
}

impl From<quipu::Error> for Refused {
    fn from(error: quipu::Error) -> Refused {
        Refused::Failed(error)
    }
}

/// Entries of one transaction, and between two reports.
const STEP: usize = 4_096;

/// Entries that are brought into the processor's cache together.
const LOADED: usize = 64;

impl Sorter {
    /// Takes a key and a value.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let mut head = [0; 8];
        let size = key.len().min(8);
        head[..size].copy_from_slice(&key[..size]);
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        self.entries.push(Sorted { head: u64::from_be_bytes(head), at: self.bytes.len(), key_bytes, value_bytes });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    /// Bytes of memory that hold what it has taken.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Sorted>()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn key(&self, entry: &Sorted) -> &[u8] {
        &self.bytes[entry.at..entry.at + entry.key_bytes as usize]
    }

    fn value(&self, entry: &Sorted) -> &[u8] {
        let start = entry.at + entry.key_bytes as usize;
        &self.bytes[start..start + entry.value_bytes as usize]
    }

    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        let compare = |a: &Sorted, b: &Sorted| a.head.cmp(&b.head).then_with(|| self.key(a).cmp(self.key(b)));
        if !entries.is_sorted_by(|a, b| compare(a, b).is_le()) {
            entries.sort_unstable_by(compare);
        }
        self.entries = entries;
    }

    /// Writes what it holds to a tree, and forgets it: as one ingest, or, if there are fewer entries than
    /// `ingested_min` or the tree stays in memory, by transactions of some thousand each. Calls `written` with the
    /// number of entries now and then; an error of it ends the work.
    ///
    /// # Errors
    /// [`Refused::Twice`] if two have one key, or a key is in the tree. The tree may have others of them then.
    pub(crate) fn write(
        &mut self,
        db: &quipu::Db,
        tree: &quipu::Table,
        ingested_min: u64,
        written: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(), Refused> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.sort();
        for pair in self.entries.windows(2) {
            // Keys lie where they came, so each that is looked at is a miss of the processor's cache.
            if pair[0].head == pair[1].head && self.key(&pair[0]) == self.key(&pair[1]) {
                let values = pair.iter().map(|entry| self.value(entry).to_vec()).collect();
                return Err(Refused::Twice { key: self.key(&pair[0]).to_vec(), values });
            }
        }
        if tree.options().in_memory || (self.entries.len() as u64) < ingested_min {
            self.insert(db, tree, written)?;
        } else {
            self.ingest(tree, written)?;
        }
        self.entries.clear();
        self.bytes.clear();
        Ok(())
    }

    /// Writes the sorted entries in transactions.
    fn insert(
        &self,
        db: &quipu::Db,
        tree: &quipu::Table,
        written: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(), Refused> {
        for entries in self.entries.chunks(STEP) {
            let mut refused = None;
            let result = db.write(|transaction| {
                let tree = transaction.table(tree)?;
                for entry in entries {
                    if let Err(error) = tree.insert(self.key(entry), self.value(entry)) {
                        refused = Some(entry);
                        return Err(error);
                    }
                }
                Ok(())
            });
            if let Err(error) = result {
                return Err(match refused {
                    Some(entry) if error.kind() == ErrorKind::Exists => self.twice(entry),
                    _ => Refused::Failed(error),
                });
            }
            written(entries.len() as u64)?;
        }
        Ok(())
    }

    /// Writes the sorted entries straight to disk.
    fn ingest(&self, tree: &quipu::Table, written: &mut dyn FnMut(u64) -> Result<()>) -> Result<(), Refused> {
        let mut ingest = tree.begin_ingest(Overlap::Refuse)?;
        let mut pushed = Ok(());
        for entries in self.entries.chunks(STEP) {
            pushed = entries.chunks(LOADED).try_for_each(|entries| {
                self.load(entries);
                entries.iter().try_for_each(|entry| ingest.push(self.key(entry), self.value(entry)))
            });
            if pushed.is_err() {
                break;
            }
            if entries.len() == STEP {
                written(STEP as u64)?;
            }
        }
        let result = pushed.and_then(|()| ingest.commit().map(drop));
        if let Err(error) = result {
            return Err(if error.kind() == ErrorKind::Exists {
                self.which_is_there(tree, error)
            } else {
                error.into()
            });
        }
        Ok(written((self.entries.len() % STEP) as u64)?)
    }

    /// Brings entries into the processor's cache. They lie where they came, so each is a miss, and these misses
    /// overlap.
    fn load(&self, entries: &[Sorted]) {
        let first_bytes = entries.iter().filter_map(|entry| self.bytes.get(entry.at));
        std::hint::black_box(first_bytes.fold(0, |all, byte| all ^ byte));
    }

    fn twice(&self, entry: &Sorted) -> Refused {
        Refused::Twice { key: self.key(entry).to_vec(), values: vec![self.value(entry).to_vec()] }
    }

    /// Finds the key that an ingest has refused.
    #[cold]
    fn which_is_there(&self, tree: &quipu::Table, error: quipu::Error) -> Refused {
        for entry in &self.entries {
            match tree.contains(self.key(entry)) {
                Ok(false) => {}
                Ok(true) => return self.twice(entry),
                Err(error) => return Refused::Failed(error),
            }
        }
        Refused::Failed(error)
    }
}
