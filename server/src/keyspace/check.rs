//! Checks the keyspace: whether keys, elements, pieces and deadlines of every database agree.
//!
//! Not here: the engine's own files and counts (`quipu::files::check`), the parts of a sorted set
//! ([`SortedSet::check`]).

use std::collections::HashSet;

use quipu::{Bounds, Db, ReadableTable, Result, Snapshot, Table, TableView};

use super::consequences::deadline_key;
use super::cut::Cut;
use super::databases::{CUT_FACT, SEED_FACT};
use super::pieces::{id_of_row, number_of_piece, owner_row, piece_hash, string_row, trim};
use super::removals::Removal;
use super::sorted_set::SortedSet;
use super::tables::{DATABASES, FACTS, REMOVALS};
use super::value::{Body, CollectionId, Entry, Kind, Outline};

/// Faults of a database that are told; the rest are counted.
const FAULTS_TOLD_MAX: usize = 100;

/// Whether a table of this name is a server's table of keys.
pub fn is_keys_table(name: &str) -> bool {
    name.starts_with("keys.")
}

/// Whether a table is one of those that a server keeps its keys in, of a database that a server has used.
///
/// # Errors
/// Those of opening a table.
pub fn is_table_of_server(db: &Db, name: &str) -> Result<bool> {
    let is_numbered = name.split_once('.').is_some_and(|(kind, number)| {
        ["keys", "elements", "owners", "expires"].contains(&kind) && number.parse::<usize>().is_ok()
    });
    let is_known = is_numbered || name == FACTS || name == REMOVALS;
    Ok(is_known && db.open_table(FACTS)?.is_some() && db.open_table("keys.0")?.is_some())
}

/// What breaks the invariants of the server's tables, in words: nothing if all is well, or if no server has ever used
/// the database. Every row is read; memory is that of the largest collection.
///
/// # Errors
/// Those of reading.
pub fn check(db: &Db) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for number in 0..DATABASES {
        let before = faults.len();
        check_database(db, number, &mut faults)?;
        let untold = (faults.len() - before).saturating_sub(FAULTS_TOLD_MAX);
        if untold > 0 {
            faults.truncate(before + FAULTS_TOLD_MAX);
            faults.push(format!("database {number}: {untold} faults more"));
        }
    }
    Ok(faults)
}

fn check_database(db: &Db, number: usize, faults: &mut Vec<String>) -> Result<()> {
    let [keys, elements, owners, expires] =
        ["keys", "elements", "owners", "expires"].map(|part| format!("{part}.{number}"));
    let (Some(keys), Some(elements), Some(owners), Some(expires)) =
        (db.open_table(&keys)?, db.open_table(&elements)?, db.open_table(&owners)?, db.open_table(&expires)?)
    else {
        return Ok(());
    };
    let snapshot = db.snapshot();
    let (mut hash_seed, mut cut) = (0, Cut::default());
    if let Some(facts) = db.open_table(FACTS)? {
        let facts = snapshot.table(&facts)?;
        if let Some(seed) = facts.get(SEED_FACT)? {
            hash_seed = seed.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        }
        cut = facts.get(CUT_FACT)?.as_deref().and_then(Cut::from_bytes).unwrap_or(cut);
    }
    let mut found = Entries {
        snapshot: &snapshot,
        elements: &elements,
        owners: snapshot.table(&owners)?,
        expires: snapshot.table(&expires)?,
        hash_seed,
        cut,
        deadlines: 0,
        rows: 0,
        ids: HashSet::new(),
    };
    let mut outcome = Ok(());
    snapshot.table(&keys)?.for_each(.., |key, value| {
        let mut fault =
            |what: &str| faults.push(format!("database {number}: the key {:?} {what}", key.escape_ascii().to_string()));
        outcome = found.check(key, value, &mut fault);
        outcome.is_ok()
    })?;
    outcome?;
    let elements = snapshot.table(&elements)?;
    let waiting = match db.open_table(REMOVALS)? {
        Some(removals) => rows_to_remove(&snapshot.table(&removals)?, &elements, number, &found.ids, faults)?,
        None => 0,
    };
    let mut compare = |what: &str, wanted: u64, found: u64| {
        if wanted != found {
            faults.push(format!("database {number} has {found} {what}, and keys for {wanted}"));
        }
    };
    compare("deadlines", found.deadlines, found.expires.len()?);
    compare("owners of ids", found.ids.len() as u64, found.owners.len()?);
    compare("rows of elements", found.rows, elements.len()? - waiting);
    Ok(())
}

/// What the keys of a database say that its other tables hold.
struct Entries<'s> {
    snapshot: &'s Snapshot,
    elements: &'s Table,
    owners: TableView<'s>,
    expires: TableView<'s>,
    hash_seed: u64,
    cut: Cut,
    deadlines: u64,
    /// Rows of elements.
    rows: u64,
    ids: HashSet<CollectionId>,
}

impl<'s> Entries<'s> {
    /// Checks what stands at a key with all that hangs on it.
    fn check(&mut self, key: &[u8], value: &[u8], fault: &mut impl FnMut(&str)) -> Result<()> {
        let Some(entry) = Entry::decode(value) else {
            fault("has a value of an unknown form");
            return Ok(());
        };
        if let Some(deadline_ms) = entry.header.deadline_ms {
            self.deadlines += 1;
            if !self.expires.contains(deadline_key(deadline_ms, key)).is_ok_and(|found| found) {
                fault("has a deadline that is not in the order of deadlines");
            }
        }
        if let Body::Pieces(outline) = entry.body {
            return self.check_string(key, outline, fault);
        }
        let Some(id) = entry.collection() else { return Ok(()) };
        if self.owners.get(key)?.as_deref() != Some(&owner_row(0, id)[..]) {
            fault("is a collection that is not in the table of owners");
        }
        if !self.ids.insert(id) {
            fault("shares its elements with another key");
        }
        let (snapshot, table) = (self.snapshot, self.elements);
        let elements = || -> Result<TableView<'s>> { snapshot.table(table) };
        match check_collection(elements, entry.header.kind, id, self.hash_seed)? {
            (0, _) => fault("is a collection without elements"),
            (found, inner) => {
                self.rows += found;
                inner.iter().for_each(|what| fault(&format!("holds a collection in which {what}")));
            }
        }
        Ok(())
    }

    fn check_string(&mut self, key: &[u8], outline: Outline, fault: &mut impl FnMut(&str)) -> Result<()> {
        let row = self.owners.get(key).ok().flatten().map(|row| row.to_vec());
        let Some(id) = row.as_deref().and_then(id_of_row) else {
            fault("has a string in pieces without an id");
            return Ok(());
        };
        if row != Some(string_row(outline.length, id)) {
            fault("has a string in pieces whose length is another in the table of owners");
        }
        if !self.ids.insert(id) {
            fault("shares its pieces with another key");
        }
        let (found, faults) = check_pieces(&self.snapshot.table(self.elements)?, id, outline, self.cut)?;
        self.rows += found;
        faults.into_iter().for_each(|what| fault(&format!("has a string in pieces {what}")));
        Ok(())
    }
}

/// How many rows wait to be removed. None of them may be a key's.
fn rows_to_remove(
    removals: &TableView<'_>,
    elements: &TableView<'_>,
    number: usize,
    used: &HashSet<CollectionId>,
    faults: &mut Vec<String>,
) -> Result<u64> {
    let mut all = Vec::new();
    removals.for_each(.., |key, _| {
        all.extend(Removal::from_row(key).filter(|removal| removal.number == number));
        true
    })?;
    let mut rows = 0;
    for removal in &all {
        rows += elements.count(Bounds::prefix(&removal.id.bytes()))?;
    }
    let is_removed = |id: &&CollectionId| all.iter().any(|removal| removal.id == **id);
    for id in used.iter().filter(is_removed) {
        faults.push(format!("database {number}: the id {} is to be removed, and a key has it", id.0));
    }
    Ok(rows)
}

/// The rows of a string in pieces, and what is wrong with it.
fn check_pieces(
    elements: &TableView<'_>,
    id: CollectionId,
    outline: Outline,
    cut: Cut,
) -> Result<(u64, Vec<&'static str>)> {
    let (mut rows, mut hash, mut faults) = (0, 0u128, Vec::new());
    let mut has_first = false;
    elements.for_each(Bounds::prefix(&id.bytes()), |key, bytes| {
        rows += 1;
        let Some(number) = number_of_piece(key) else {
            faults.push("one of which has no number");
            return true;
        };
        has_first |= number == 0;
        let end = number * cut.piece_bytes as u64 + bytes.len() as u64;
        if bytes.len() > cut.piece_bytes || end > outline.length {
            faults.push("one of which is too long");
        }
        if trim(bytes).len() < bytes.len() || bytes.is_empty() && number > 0 {
            faults.push("one of which keeps zeros at its end");
        }
        hash = hash.wrapping_add(piece_hash(number, bytes));
        true
    })?;
    if !has_first {
        faults.push("of which the first is missing");
    }
    if hash != outline.hash {
        faults.push("whose hash is not that of its bytes");
    }
    if outline.length <= cut.whole_bytes_max as u64 {
        faults.push("that is too short for that");
    }
    faults.dedup();
    Ok((rows, faults))
}

/// The rows of a collection, and what is wrong with it.
fn check_collection<'v>(
    elements: impl Fn() -> Result<TableView<'v>>,
    kind: Kind,
    id: CollectionId,
    hash_seed: u64,
) -> Result<(u64, Vec<String>)> {
    let rows = elements()?.count(Bounds::prefix(&id.bytes()))?;
    let faults = match kind {
        Kind::SortedSet => SortedSet::over(elements()?, id, hash_seed).check()?,
        // Their elements have one part each, without anything to agree with.
        Kind::String | Kind::Hash | Kind::Set | Kind::List => Vec::new(),
    };
    Ok((rows, faults))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quipu::{Measures, Options, WritableTable};

    use super::super::value::Header;
    use super::super::{Data, Keyspace, Need};
    use super::*;

    /// A keyspace with a string that expires and a sorted set.
    fn keyspace() -> Keyspace {
        let db = Db::open(Path::new("/keys"), Options::without_files()).unwrap();
        let keyspace = Keyspace::open_cut(
            db,
            Measures { bytes: true, hash: true, sum: None, ..Measures::ROWS },
            Cut { whole_bytes_max: 16, piece_bytes: 8 },
        )
        .unwrap();
        let mut data = Data::open(&keyspace, Need::Write, 1).unwrap();
        data.put_string(0, b"s", Header::string(Some(1000)), b"v").unwrap();
        data.put_string(0, b"l", Header::string(None), b"eighteen bytes are").unwrap();
        let id = data.collection_to_write(0, b"z", Kind::SortedSet).unwrap();
        let mut set = super::super::sorted_set::Writer::open(&mut data, 0, id).unwrap();
        set.put(super::super::sorted_set::Scoring { member: b"m", old: None, new: 1.0 }).unwrap();
        let _ = data.close().unwrap();
        keyspace
    }

    #[test]
    fn each_breach_is_told() {
        let whole = keyspace();
        assert_eq!(check(whole.db()).unwrap(), Vec::<String>::new());
        type Breach = fn(&super::super::Tables);
        let breaches: [(Breach, &str); 15] = [
            (|tables| tables.expires.clear(), "a deadline that is not in the order of deadlines"),
            (|tables| tables.expires.put(b"12345678s", b"").unwrap(), "2 deadlines, and keys for 1"),
            (|tables| tables.elements.clear(), "a collection without elements"),
            (|tables| tables.elements.put(b"\0\0\0\0\0\x63\0x", b"").unwrap(), "6 rows of elements, and keys for 5"),
            (|tables| tables.owners.clear(), "a string in pieces without an id"),
            (|tables| tables.owners.clear(), "a collection that is not in the table of owners"),
            (|tables| tables.owners.put(b"x", b"").unwrap(), "3 owners of ids, and keys for 2"),
            (
                |tables| {
                    let id = tables.owners.get(b"l").unwrap().unwrap()[8..].to_vec();
                    tables.owners.put(b"l", [&[0; 8][..], &id].concat()).unwrap();
                },
                "whose length is another",
            ),
            (|tables| change_piece(tables, 1, b"0000000"), "whose hash is not that of its bytes"),
            (|tables| change_piece(tables, 1, b"00000\0"), "one of which keeps zeros at its end"),
            (|tables| change_piece(tables, 2, b"00000"), "one of which is too long"),
            (|tables| change_piece(tables, 9, b"0"), "one of which is too long"),
            (|tables| tables.keys.put(b"bad", [0x0f]).unwrap(), "a value of an unknown form"),
            (|tables| tables.keys.put(b"bad", [1, 2]).unwrap(), "a value of an unknown form"),
            (
                |tables| {
                    let value = tables.keys.get(b"z").unwrap().unwrap();
                    tables.keys.put(b"y", &value[..]).unwrap();
                },
                "shares its elements with another key",
            ),
        ];
        for (breach, told) in breaches {
            let keyspace = keyspace();
            breach(keyspace.tables(0).unwrap());
            let faults = check(keyspace.db()).unwrap();
            assert!(faults.iter().any(|fault| fault.contains(told)), "{told:?} is not in {faults:?}");
        }
    }

    fn change_piece(tables: &super::super::Tables, number: u64, bytes: &[u8]) {
        let id = tables.owners.get(b"l").unwrap().and_then(|row| id_of_row(&row)).unwrap();
        tables.elements.put(super::super::pieces::piece_key(id, number), bytes).unwrap();
    }

    trait Clear {
        fn clear(&self);
    }

    impl Clear for quipu::Table {
        fn clear(&self) {
            self.remove_range(..).unwrap();
        }
    }
}
