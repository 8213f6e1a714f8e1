//! The table of YCSB: a key, and ten fields. A record's value is cut into them. A read reads all fields, an insert
//! writes all, and an update writes one.

mod quipu;
#[cfg(feature = "peers")]
mod sqlite;

use std::ops::Range;
use std::path::Path;

use crate::store::{Client, Result, Setup};

/// Fields of a record.
const FIELDS: usize = 10;

/// A kind of typed table: a name and a way to open one.
#[derive(Clone, Copy)]
pub(crate) struct UserTableKind {
    /// As in `--stores`.
    pub(crate) name: &'static str,
    /// The settings that matter, in one line.
    pub(crate) settings: &'static str,
    /// Opens an empty one in an empty directory.
    pub(super) open: fn(&Path, Setup) -> Result<Box<dyn UserTable>>,
}

impl UserTableKind {
    /// Those of this build, Quipu first.
    pub(crate) fn all() -> Vec<UserTableKind> {
        vec![
            quipu::TREE,
            quipu::FLAT,
            #[cfg(feature = "peers")]
            sqlite::KIND,
        ]
    }
}

/// An open table.
pub(crate) trait UserTable: Send + Sync {
    /// A client for one thread.
    fn client(&self) -> Result<Box<dyn Client + '_>>;

    /// How many records there are.
    fn count(&self) -> Result<u64>;
}

/// The name of a field.
fn field_name(field: usize) -> String {
    format!("field{field}")
}

/// Which bytes of a value of this length are a field's.
fn bytes_of(field: usize, length: usize) -> Range<usize> {
    field * length / FIELDS..(field + 1) * length / FIELDS
}

/// The field that an update of this version writes.
fn field_of(version: u64) -> usize {
    (version % FIELDS as u64) as usize
}

/// A key as text.
fn text(key: &[u8]) -> Result<&str> {
    Ok(std::str::from_utf8(key)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::Durability;

    #[test]
    fn an_update_writes_one_field_and_a_read_reads_all() {
        for kind in UserTableKind::all() {
            let dir = tempfile::tempdir().unwrap();
            let setup = Setup { durability: Durability::Os, cache_bytes: 1 << 20, in_memory: false };
            let table = (kind.open)(dir.path(), setup).unwrap();
            let mut client = table.client().unwrap();
            let mut expected = BTreeMap::new();
            for (number, key) in ["user1", "user3", "user2"].iter().enumerate() {
                let value = vec![number as u8; 103];
                client.put(key.as_bytes(), &value).unwrap();
                expected.insert(*key, value);
            }
            for version in [7, 10, 27] {
                client.update(b"user3", &[version as u8; 103], version).unwrap();
                let field = bytes_of((version % 10) as usize, 103);
                expected.get_mut("user3").unwrap()[field].fill(version as u8);
            }
            assert!(client.update(b"user9", &[1; 103], 1).is_err(), "{}: there is none", kind.name);
            let mut read = Vec::new();
            assert!(client.get(b"user3", &mut |value| read.push(value.to_vec())).unwrap());
            assert_eq!(read, [expected["user3"].clone()], "{}", kind.name);
            assert!(!client.get(b"user4", &mut |_| panic!("nothing")).unwrap());
            let mut met = Vec::new();
            client
                .scan(b"user2", 5, &mut |key, value| met.push((text(key).unwrap().to_owned(), value.to_vec())))
                .unwrap();
            let rest: Vec<_> = expected.iter().skip(1).map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
            assert_eq!((met, table.count().unwrap()), (rest, 3), "{}", kind.name);
            let mut met = 0;
            client.scan(b"user", 2, &mut |_, _| met += 1).unwrap();
            assert_eq!(met, 2, "{}", kind.name);
        }
    }
}
