//! SQLite: the same table with prepared statements; one connection for each client, and one writer at a time.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Row, params_from_iter};

use super::{FIELDS, UserTable, UserTableKind, bytes_of, field_name, field_of, text};
use crate::peers::sqlite::connect;
use crate::store::{Client, Result, Setup};

pub(super) const KIND: UserTableKind = UserTableKind {
    name: "sqlite",
    settings: "SQLite (rusqlite 0.41): ycsb_key TEXT PRIMARY KEY and ten BLOBs; WAL, synchronous=OFF; prepared statements",
    open,
};

struct Sqlite {
    path: PathBuf,
    setup: Setup,
    /// Held by the thread that writes: faster than its busy handler.
    turn: Mutex<()>,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn UserTable>> {
    let path = dir.join("sqlite");
    let fields: Vec<String> = (0..FIELDS).map(|field| format!("{} BLOB NOT NULL", field_name(field))).collect();
    let create = format!("CREATE TABLE usertable (ycsb_key TEXT PRIMARY KEY, {})", fields.join(", "));
    connect(&path, setup)?.execute_batch(&create)?;
    Ok(Box::new(Sqlite { path, setup, turn: Mutex::default() }))
}

impl UserTable for Sqlite {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        let names: Vec<String> = (0..FIELDS).map(field_name).collect();
        let (names, marks) = (names.join(", "), ["?"; FIELDS + 1].join(", "));
        Ok(Box::new(SqliteClient {
            connection: connect(&self.path, self.setup)?,
            turn: &self.turn,
            put: format!("INSERT OR REPLACE INTO usertable VALUES ({marks})"),
            updates: (0..FIELDS)
                .map(|field| format!("UPDATE usertable SET {} = ? WHERE ycsb_key = ?", field_name(field)))
                .collect(),
            get: format!("SELECT ycsb_key, {names} FROM usertable WHERE ycsb_key = ?"),
            scan: format!("SELECT ycsb_key, {names} FROM usertable WHERE ycsb_key >= ? ORDER BY ycsb_key LIMIT ?"),
            value: Vec::new(),
        }))
    }

    fn count(&self) -> Result<u64> {
        let connection = connect(&self.path, self.setup)?;
        Ok(connection.query_row("SELECT count(*) FROM usertable", (), |row| row.get::<_, i64>(0))? as u64)
    }
}

struct SqliteClient<'s> {
    connection: Connection,
    turn: &'s Mutex<()>,
    put: String,
    updates: Vec<String>,
    get: String,
    scan: String,
    value: Vec<u8>,
}

/// Joins the fields of a row.
fn join(row: &Row<'_>, into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    for place in 1..=FIELDS {
        into.extend_from_slice(row.get_ref(place)?.as_blob()?);
    }
    Ok(())
}

impl Client for SqliteClient<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = ToSqlOutput::from(text(key)?);
        let fields = (0..FIELDS).map(|field| ToSqlOutput::from(&value[bytes_of(field, value.len())]));
        let mut statement = self.connection.prepare_cached(&self.put)?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        statement.execute(params_from_iter(std::iter::once(key).chain(fields)))?;
        Ok(())
    }

    fn update(&mut self, key: &[u8], value: &[u8], version: u64) -> Result<()> {
        let field = field_of(version);
        let mut statement = self.connection.prepare_cached(&self.updates[field])?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match statement.execute((&value[bytes_of(field, value.len())], text(key)?))? {
            1 => Ok(()),
            _ => Err("no row to update".into()),
        }
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut statement = self.connection.prepare_cached(&self.get)?;
        let mut rows = statement.query((text(key)?,))?;
        let Some(row) = rows.next()? else { return Ok(false) };
        join(row, &mut self.value)?;
        see(&self.value);
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut statement = self.connection.prepare_cached(&self.scan)?;
        let mut rows = statement.query((text(from)?, limit as i64))?;
        while let Some(row) = rows.next()? {
            join(row, &mut self.value)?;
            see(row.get_ref(0)?.as_str()?.as_bytes(), &self.value);
        }
        Ok(())
    }
}
