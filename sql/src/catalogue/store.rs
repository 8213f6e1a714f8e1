//! The records that SQL's catalogue keeps, in a tree of the engine, `rows.sql`, which transactions change like rows.
//!
//! | key | value |
//! |---|---|
//! | `(0)` | the tuple (next): the first number that no object has got, and none is reserved |
//! | `(1, number)` | a [`Schema`] as JSON |
//! | `(2, number)` | a [`View`] as JSON |
//! | `(3, number)` | a [`Sequence`] as JSON |
//! | `(5, number)` | a [`Type`] as JSON |
//! | `(6, number of a table)` | a [`Materialized`] as JSON |
//! | `(4, kind, number, number or name)` | a comment: what it is on is in [`Commented`] |
//!
//! Numbers of objects are reserved in blocks, each in a commit of its own, so that transactions which create objects
//! beside each other do not conflict, and no number is given twice, whatever becomes of them. What is reserved and was
//! not given is lost when the database is closed. In the closure of [`Database::write`](quipu_rows::Database::write) no
//! other commit can be made: there a number is taken with the closure's own.
//!
//! How far sequences are is in another tree, `rows.sequences`, since it changes all the time:
//!
//! | key | value |
//! |---|---|
//! | `(number)` | the tuple (last, is called): the last number that was reserved, and whether it was given out |

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::FixedState;
use quipu::tuple::{self, Element};
use quipu::{Db, Durability, ErrorKind, ReadableTable, TableOptions, WritableTable};
use quipu_rows::RowTransaction;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::catalogue::column_type::{self, UserTypes};
use crate::catalogue::objects::{Commented, Materialized, ObjectNumber, Schema, Sequence, Type, View};
use crate::error::{Result, SqlError, SqlState};

/// The trees. Their names are those of rows, which other faces do not show.
const TREE: &str = "rows.sql";
const SEQUENCES: &str = "rows.sequences";

const NEXT: i64 = 0;
const SCHEMAS: i64 = 1;
const VIEWS: i64 = 2;
const SEQUENCE_DEFINITIONS: i64 = 3;
const COMMENTS: i64 = 4;
const TYPES: i64 = 5;
const MATERIALIZED: i64 = 6;

/// The first number of a schema of temporary tables, which the count of objects never reaches.
const TEMPORARY_FIRST: ObjectNumber = 1 << 28;

/// Numbers of objects that are reserved together.
const RESERVED_TOGETHER: u32 = 32;

/// The trees of SQL's catalogue. A cheap handle.
#[derive(Clone, Debug)]
pub struct Store {
    db: Db,
    tree: Option<quipu::Table>,
    sequences: Option<quipu::Table>,
    /// Numbers that are reserved and not given yet.
    reserved: Arc<Mutex<Range<ObjectNumber>>>,
}

/// All that the catalogue keeps.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Schemas beside those that are always there.
    pub schemas: BTreeMap<ObjectNumber, Schema>,
    /// Views.
    pub views: BTreeMap<ObjectNumber, Arc<View>>,
    /// What materialized views are, by the numbers of the tables of their rows.
    pub materialized: BTreeMap<u32, Arc<Materialized>>,
    /// Sequences.
    pub sequences: BTreeMap<ObjectNumber, Arc<Sequence>>,
    /// Types that users have made.
    pub types: BTreeMap<ObjectNumber, Arc<Type>>,
    /// The same, as values need to know them.
    pub user_types: UserTypes,
    /// Comments, but for those on tables, which rows have.
    pub comments: BTreeMap<Commented, String>,
    /// A digest of all of it but comments, as it was read.
    pub digest: u64,
}

fn corrupt(what: impl std::fmt::Display) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("SQL's catalogue is damaged: {what}"))
}

fn read_only() -> SqlError {
    SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, "the database is open read-only")
}

fn key(kind: i64, number: ObjectNumber) -> Vec<u8> {
    tuple::encode(&[Element::Int(kind.into()), Element::Int(number.into())])
}

fn comment_key(on: &Commented) -> Vec<u8> {
    let number = |number: &u32| Element::Int((*number).into());
    let (kind, first, second) = match on {
        Commented::Column(table, column) => (0, number(table), number(column)),
        Commented::Index(index) => (1, number(index), Element::Null),
        Commented::Constraint(table, name) => (2, number(table), Element::from(&**name)),
        Commented::Object(object) => (3, number(object), Element::Null),
        Commented::ViewColumn(view, name) => (4, number(view), Element::from(&**name)),
        Commented::Public => (5, Element::Null, Element::Null),
    };
    tuple::encode(&[Element::Int(COMMENTS.into()), Element::Int(kind), first, second])
}

fn commented(key: &[u8]) -> Option<Commented> {
    let number = |element: &Element<'_>| match element {
        Element::Int(number) => u32::try_from(*number).ok(),
        _ => None,
    };
    let text = |element: &Element<'_>| match element {
        Element::Text(text) => Some(text.clone().into_owned()),
        _ => None,
    };
    match &tuple::decode(key).ok()?[..] {
        [_, Element::Int(kind), first, second] => Some(match kind {
            0 => Commented::Column(number(first)?, number(second)?),
            1 => Commented::Index(number(first)?),
            2 => Commented::Constraint(number(first)?, text(second)?),
            3 => Commented::Object(number(first)?),
            4 => Commented::ViewColumn(number(first)?, text(second)?),
            5 => Commented::Public,
            _ => return None,
        }),
        _ => None,
    }
}

/// The records of a kind, which are added to a digest.
fn records<T: DeserializeOwned>(
    tree: &impl ReadableTable,
    kind: i64,
    digest: &mut impl Hasher,
) -> Result<BTreeMap<ObjectNumber, T>> {
    let mut found = BTreeMap::new();
    for row in tree.range(tuple::range(&[Element::Int(kind.into())])) {
        let row = row?;
        (&row.key, &row.value).hash(digest);
        let number = match tuple::element_at(&row.key, 1) {
            Some(Element::Int(number)) => u32::try_from(number).ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| corrupt("a key has no number"))?;
        found.insert(number, serde_json::from_slice(&row.value).map_err(corrupt)?);
    }
    Ok(found)
}

fn shared<T>(records: BTreeMap<ObjectNumber, T>) -> BTreeMap<ObjectNumber, Arc<T>> {
    records.into_iter().map(|(number, record)| (number, Arc::new(record))).collect()
}

impl Store {
    /// The trees of a database, which are created if they are not there yet.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn open(db: &Db) -> Result<Store> {
        let tree = |name: &str, comment: &str| -> Result<Option<quipu::Table>> {
            if let Some(tree) = db.open_table(name)? {
                return Ok(Some(tree));
            }
            match db.create_table(name, TableOptions { comment: comment.to_owned(), ..TableOptions::default() }) {
                Ok(tree) => Ok(Some(tree)),
                Err(error) if error.kind() == ErrorKind::ReadOnly => Ok(None),
                Err(error) if error.kind() == ErrorKind::Exists => Ok(db.open_table(name)?),
                Err(error) => Err(error.into()),
            }
        };
        Ok(Store {
            db: db.clone(),
            tree: tree(TREE, "schemas, views, sequences and comments of SQL")?,
            sequences: tree(SEQUENCES, "numbers of sequences of SQL")?,
            reserved: Arc::default(),
        })
    }

    /// The tree of the catalogue; none in a database that is open for reading only and has none.
    pub fn tree(&self) -> Option<&quipu::Table> {
        self.tree.as_ref()
    }

    /// The tree of what sequences have given out.
    pub(crate) fn sequences(&self) -> Result<&quipu::Table> {
        self.sequences.as_ref().ok_or_else(read_only)
    }

    /// All that the catalogue keeps, as a tree has it.
    ///
    /// # Errors
    /// [`DATA_CORRUPTED`](SqlState::DATA_CORRUPTED), and those of reading.
    pub fn read(tree: &impl ReadableTable) -> Result<Contents> {
        let mut comments = BTreeMap::new();
        for row in tree.range(tuple::range(&[Element::Int(COMMENTS.into())])) {
            let row = row?;
            let on = commented(&row.key).ok_or_else(|| corrupt("a comment is on nothing"))?;
            comments.insert(on, String::from_utf8_lossy(&row.value).into_owned());
        }
        let mut digest = FixedState::default().build_hasher();
        let types = shared(records(tree, TYPES, &mut digest)?);
        Ok(Contents {
            schemas: records(tree, SCHEMAS, &mut digest)?,
            views: shared(records(tree, VIEWS, &mut digest)?),
            materialized: shared(records(tree, MATERIALIZED, &mut digest)?),
            sequences: shared(records(tree, SEQUENCE_DEFINITIONS, &mut digest)?),
            user_types: column_type::user_types(&types),
            types,
            comments,
            digest: digest.finish(),
        })
    }

    fn within<'t>(&self, transaction: &'t RowTransaction<'_>) -> Result<quipu::TableTransaction<'t>> {
        let tree = transaction.engine().table(self.tree.as_ref().ok_or_else(read_only)?)?.relying();
        // What was made of the catalogue so far is no longer right.
        transaction.definitions().note_change();
        Ok(tree)
    }

    /// Says that the transaction changes the catalogue and the positions of sequences to free space: on a full disk,
    /// too, there is room for that.
    ///
    /// # Errors
    /// Those of [`Transaction::table`](quipu::Transaction::table).
    pub(crate) fn write_to_free(&self, transaction: &RowTransaction<'_>) -> Result<()> {
        for tree in [&self.tree, &self.sequences].into_iter().flatten() {
            transaction.engine().table(tree)?.write_to_free();
        }
        Ok(())
    }

    fn put(
        &self,
        transaction: &RowTransaction<'_>,
        kind: i64,
        number: Option<ObjectNumber>,
        record: &impl Serialize,
    ) -> Result<ObjectNumber> {
        let tree = self.within(transaction)?;
        let number = match number {
            Some(number) => number,
            None => self.next_number(transaction)?,
        };
        let value = serde_json::to_vec(record).map_err(corrupt)?;
        tree.put(key(kind, number), value)?;
        Ok(number)
    }

    /// A number for a new object, which no other gets, also if the transaction is rolled back.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn next_number(&self, transaction: &RowTransaction<'_>) -> Result<ObjectNumber> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = reserved.next() {
            return Ok(number);
        }
        let tree = self.tree.as_ref().ok_or_else(read_only)?;
        if transaction.is_single_writer() {
            return take_numbers(&self.within(transaction)?, 1).map(|taken| taken.start);
        }
        // No thread waits for the writer's turn with the numbers in hand that a closure may ask for.
        drop(reserved);
        let mut refused = None;
        // Whatever is committed after this survives with it.
        let taken = self.db.write_with(Durability::None, |writer| {
            take_numbers(&writer.table(tree)?, RESERVED_TOGETHER).map_err(|error| {
                refused = Some(error);
                quipu::Error::new(ErrorKind::Invalid, "no numbers were taken")
            })
        });
        let mut taken = match (taken, refused) {
            (Err(_), Some(refused)) => return Err(refused),
            (taken, _) => taken?,
        };
        let number = taken.next().ok_or_else(|| corrupt("there is no next number"))?;
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        if reserved.is_empty() {
            *reserved = taken;
        }
        Ok(number)
    }

    fn remove(&self, transaction: &RowTransaction<'_>, kind: i64, number: ObjectNumber) -> Result<()> {
        self.within(transaction)?.remove(key(kind, number))?;
        self.set_comment(transaction, &Commented::Object(number), None)
    }

    /// Adds a schema.
    ///
    /// # Errors
    /// Those of a write.
    pub fn add_schema(&self, transaction: &RowTransaction<'_>, schema: &Schema) -> Result<ObjectNumber> {
        self.put(transaction, SCHEMAS, None, schema)
    }

    /// Adds the schema of the temporary tables of a session. Its number is made of the session's, not taken from the
    /// count of objects: a transaction of this session may have taken numbers already.
    ///
    /// # Errors
    /// Those of a write.
    pub fn add_temporary_schema(
        &self,
        transaction: &RowTransaction<'_>,
        schema: &Schema,
        session: u64,
    ) -> Result<ObjectNumber> {
        let number = TEMPORARY_FIRST + (session % u64::from(TEMPORARY_FIRST)) as ObjectNumber;
        self.put(transaction, SCHEMAS, Some(number), schema)
    }

    /// Gives a schema another name.
    ///
    /// # Errors
    /// Those of a write.
    pub fn rename_schema(&self, transaction: &RowTransaction<'_>, number: ObjectNumber, name: &str) -> Result<()> {
        self.put(transaction, SCHEMAS, Some(number), &Schema { name: name.to_owned() }).map(drop)
    }

    /// Removes a schema.
    ///
    /// # Errors
    /// Those of a write.
    pub fn remove_schema(&self, transaction: &RowTransaction<'_>, number: ObjectNumber) -> Result<()> {
        self.remove(transaction, SCHEMAS, number)
    }

    /// Writes a view: a new one, or another one of this number.
    ///
    /// # Errors
    /// Those of a write.
    pub fn put_view(
        &self,
        transaction: &RowTransaction<'_>,
        number: Option<ObjectNumber>,
        view: &View,
    ) -> Result<ObjectNumber> {
        self.put(transaction, VIEWS, number, view)
    }

    /// Removes a view.
    ///
    /// # Errors
    /// Those of a write.
    pub fn remove_view(&self, transaction: &RowTransaction<'_>, number: ObjectNumber) -> Result<()> {
        self.remove(transaction, VIEWS, number)
    }

    /// Says what the materialized view is whose rows a table has, or removes that.
    ///
    /// # Errors
    /// Those of a write.
    pub fn set_materialized(
        &self,
        transaction: &RowTransaction<'_>,
        table: u32,
        materialized: Option<&Materialized>,
    ) -> Result<()> {
        match materialized {
            Some(materialized) => self.put(transaction, MATERIALIZED, Some(table), materialized).map(drop),
            None => self.within(transaction)?.remove(key(MATERIALIZED, table)).map(drop).map_err(SqlError::from),
        }
    }

    /// Writes a sequence: a new one, or another one of this number.
    ///
    /// # Errors
    /// Those of a write.
    pub fn put_sequence(
        &self,
        transaction: &RowTransaction<'_>,
        number: Option<ObjectNumber>,
        sequence: &Sequence,
    ) -> Result<ObjectNumber> {
        self.put(transaction, SEQUENCE_DEFINITIONS, number, sequence)
    }

    /// Removes a sequence.
    ///
    /// # Errors
    /// Those of a write.
    pub fn remove_sequence(&self, transaction: &RowTransaction<'_>, number: ObjectNumber) -> Result<()> {
        transaction.engine().table(self.sequences()?)?.remove(sequence_key(number))?;
        self.remove(transaction, SEQUENCE_DEFINITIONS, number)
    }

    /// Writes a type: a new one, or another one of this number.
    ///
    /// # Errors
    /// Those of a write.
    pub fn put_type(
        &self,
        transaction: &RowTransaction<'_>,
        number: Option<ObjectNumber>,
        record: &Type,
    ) -> Result<ObjectNumber> {
        self.put(transaction, TYPES, number, record)
    }

    /// Removes a type.
    ///
    /// # Errors
    /// Those of a write.
    pub fn remove_type(&self, transaction: &RowTransaction<'_>, number: ObjectNumber) -> Result<()> {
        self.remove(transaction, TYPES, number)
    }

    /// Has a transaction fail if another one changes or drops a type that this one has used for a definition.
    ///
    /// # Errors
    /// Those of reading.
    pub fn rely_on_type(&self, transaction: &RowTransaction<'_>, number: ObjectNumber) -> Result<()> {
        let tree = transaction.engine().table(self.tree.as_ref().ok_or_else(read_only)?)?.relying();
        tree.get(key(TYPES, number))?;
        Ok(())
    }

    /// Writes a comment, or removes it.
    ///
    /// # Errors
    /// Those of a write.
    pub fn set_comment(&self, transaction: &RowTransaction<'_>, on: &Commented, comment: Option<&str>) -> Result<()> {
        let tree = self.within(transaction)?;
        match comment.filter(|comment| !comment.is_empty()) {
            Some(comment) => tree.put(comment_key(on), comment)?,
            None => drop(tree.remove(comment_key(on))?),
        }
        Ok(())
    }
}

/// Takes so many of the numbers that no object has got.
fn take_numbers(tree: &impl WritableTable, count: u32) -> Result<Range<ObjectNumber>> {
    let root = tuple::encode(&[Element::Int(NEXT.into())]);
    let next = match tree.get(&root)?.and_then(|value| tuple::element_at(&value, 0).map(into_number)) {
        Some(next) => next.ok_or_else(|| corrupt("there is no next number"))?,
        None => 1,
    };
    let end = next.saturating_add(count);
    if end > TEMPORARY_FIRST {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "there are no more numbers for objects")
            .with_hint("Write the tables into a new directory."));
    }
    tree.put(&root, tuple::encode(&[Element::Int(end.into())]))?;
    Ok(next..end)
}

fn into_number(element: Element<'_>) -> Option<u32> {
    match element {
        Element::Int(number) => u32::try_from(number).ok(),
        _ => None,
    }
}

/// The key of the definition of a sequence.
pub(crate) fn definition_key(number: ObjectNumber) -> Vec<u8> {
    key(SEQUENCE_DEFINITIONS, number)
}

/// The key of a sequence in the tree of what sequences have given out.
pub(crate) fn sequence_key(number: ObjectNumber) -> Vec<u8> {
    tuple::encode(&[Element::Int(number.into())])
}
