//! The checker of the keyspace: whether keys, elements and deadlines of every database agree.
//!
//! Not here: the engine's own files and counts (`quipu::check`), the parts of a sorted set ([`SortedSet::check`]).

use std::collections::HashSet;

use quipu::{Bounds, Db, Read, Result, TableView};

use super::changes::deadline_key;
use super::sorted_set::SortedSet;
use super::value::{CollectionId, Entry, Kind};
use super::{DATABASES, SEED_FACT};

/// Faults of a database that are told; the rest are counted.
const FAULTS_TOLD_MAX: usize = 100;

/// Whether a table of this name is a server's table of keys.
pub fn is_keys_table(name: &str) -> bool {
    name.starts_with("keys.")
}

/// What breaks the invariants of the server's tables, in words: nothing if all is well, or if no server has ever used the database. Every row is read; memory
/// is that of the largest collection.
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
    let [keys, elements, expires] = ["keys", "elements", "expires"].map(|part| format!("{part}.{number}"));
    let (Some(keys), Some(elements), Some(expires)) =
        (db.open_table(&keys)?, db.open_table(&elements)?, db.open_table(&expires)?)
    else {
        return Ok(());
    };
    let snapshot = db.read();
    let seed = match db.open_table("server")? {
        Some(facts) => snapshot.table(&facts)?.get(SEED_FACT)?,
        None => None,
    };
    let hash_seed =
        seed.and_then(|seed| seed.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))).unwrap_or_default();
    let (expires, elements) = (snapshot.table(&expires)?, || -> Result<TableView<'_>> { snapshot.table(&elements) });
    let (mut deadlines, mut rows, mut ids) = (0, 0, HashSet::new());
    let mut outcome = Ok(());
    snapshot.table(&keys)?.for_each(.., |key, value| {
        let mut fault =
            |what: &str| faults.push(format!("database {number}: the key {:?} {what}", key.escape_ascii().to_string()));
        let Some(entry) = Entry::decode(value) else {
            fault("has a value of an unknown form");
            return true;
        };
        if let Some(deadline_ms) = entry.header.deadline_ms {
            deadlines += 1;
            if !expires.contains(deadline_key(deadline_ms, key)).is_ok_and(|found| found) {
                fault("has a deadline that is not in the order of deadlines");
            }
        }
        let Some(id) = entry.collection() else { return true };
        if !ids.insert(id) {
            fault("shares its elements with another key");
        }
        match check_collection(elements, entry.header.kind, id, hash_seed) {
            Ok((0, _)) => fault("is a collection without elements"),
            Ok((found, inner)) => {
                rows += found;
                inner.iter().for_each(|what| fault(&format!("holds a collection in which {what}")));
            }
            Err(error) => {
                outcome = Err(error);
                return false;
            }
        }
        true
    })?;
    outcome?;
    let mut compare = |what: &str, wanted: u64, found: u64| {
        if wanted != found {
            faults.push(format!("database {number} has {found} {what}, and keys for {wanted}"));
        }
    };
    compare("deadlines", deadlines, expires.len()?);
    compare("rows of elements", rows, elements()?.len()?);
    Ok(())
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

    use quipu::{Measures, Options, Write};

    use super::super::value::Header;
    use super::super::{Data, Keyspace, Need};
    use super::*;

    /// A keyspace with a string that expires and a sorted set.
    fn keyspace() -> Keyspace {
        let db = Db::open(Path::new("/keys"), Options::in_memory()).unwrap();
        let keyspace = Keyspace::open(db, Measures { bytes: true, hash: true, sum: None }).unwrap();
        let mut data = Data::open(&keyspace, Need::Write, 1).unwrap();
        data.put_entry(0, b"s", Header::string(Some(1000)), b"v").unwrap();
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
        let breaches: [(Breach, &str); 7] = [
            (|tables| tables.expires.clear(), "a deadline that is not in the order of deadlines"),
            (|tables| tables.expires.put(b"12345678s", b"").unwrap(), "2 deadlines, and keys for 1"),
            (|tables| tables.elements.clear(), "a collection without elements"),
            (|tables| tables.elements.put(b"\0\0\0\0\0\x63\0x", b"").unwrap(), "3 rows of elements, and keys for 2"),
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

    trait Clear {
        fn clear(&self);
    }

    impl Clear for quipu::Table {
        fn clear(&self) {
            self.remove_range(..).unwrap();
        }
    }
}
