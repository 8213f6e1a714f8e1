//! Numbers of objects, as clients of PostgreSQL know them.
//!
//! They are made of the numbers that tables, indexes and other objects have for ever, so they stay when the database is
//! opened again, and no two objects of one kind have one.
//!
//! | object | number |
//! |---|---|
//! | of `pg_catalog`, and the schemas that are always there | below 16384, as PostgreSQL has them |
//! | table | 16384 + 4 x its number |
//! | index | 16384 + 4 x its number + 1 |
//! | schema, view, sequence, type | 16384 + 4 x its number in SQL's catalogue + 2 |
//! | index of a primary key | 16384 + 4 x the number of its table + 3 |
//! | constraint, default of a column, label of an enum | 2^31 + 31 bits of a digest of its table and its name |

/// The first number that is not one of PostgreSQL's own.
pub const FIRST: u32 = 16_384;
/// The schema `pg_catalog`.
pub const PG_CATALOG: u32 = 11;
/// The schema `public`.
pub const PUBLIC: u32 = 2_200;
/// The schema `information_schema`.
pub const INFORMATION_SCHEMA: u32 = 13_000;

fn of(number: u32, kind: u32) -> u32 {
    // Numbers are given out one after the other: 2^29 of them are never reached.
    FIRST.wrapping_add(number.wrapping_mul(4)).wrapping_add(kind) & !(1 << 31)
}

/// What such a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A table.
    Table,
    /// An index.
    Index,
    /// A schema, a view, a sequence or a type.
    Object,
    /// The index of a primary key.
    PrimaryKey,
}

/// What a number is of, and the number that it was made of; none if it is PostgreSQL's own, or made of a name.
pub fn read(oid: u32) -> Option<(Kind, u32)> {
    let own = oid.checked_sub(FIRST).filter(|_| oid < 1 << 31)?;
    let kind = [Kind::Table, Kind::Index, Kind::Object, Kind::PrimaryKey][(own % 4) as usize];
    Some((kind, own / 4))
}

/// The number of a table.
pub fn table(number: u32) -> u32 {
    of(number, 0)
}

/// The number of an index.
pub fn index(number: u32) -> u32 {
    of(number, 1)
}

/// The number of a schema, a view, a sequence or a type.
pub fn object(number: u32) -> u32 {
    of(number, 2)
}

/// The number of the index of a table's primary key.
pub fn primary_key(table: u32) -> u32 {
    of(table, 3)
}

/// The number of a constraint of a table, or of something else that has a name there: `kind` tells them apart.
pub fn named(table: u32, kind: &str, name: &str) -> u32 {
    let mut digest = 0xcbf2_9ce4_8422_2325u64;
    for byte in table.to_le_bytes().iter().chain(kind.as_bytes()).chain(&[0]).chain(name.as_bytes()) {
        digest = (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    1 << 31 | (digest ^ digest >> 32) as u32 & !(1 << 31)
}
