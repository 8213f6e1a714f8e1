//! Opening databases for the commands.

use std::path::Path;

use quipu::{Db, Options, Table};

use crate::failure::{Failure, Result};
use crate::progress::Follower;

/// Opens the database in `dir`; there must be one.
pub(crate) fn open(dir: &Path, read_only: bool) -> Result<Db> {
    must_exist(dir)?;
    let db = open_with(dir, Options { read_only, create: false, ..Options::default() })?;
    if let Some(damage) = db.damage() {
        eprintln!("quipu: warning: what follows is the state before the damage: {damage}");
    }
    Ok(db)
}

/// Refuses a directory that is not there: for that the advice is another than for one without a database.
pub(crate) fn must_exist(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "there is no database in {}: no such directory; `quipu import` and `quipu shell --create` make one",
        dir.display()
    )))
}

/// Opens the database in `dir`, and creates it if there is none.
pub(crate) fn open_or_create(dir: &Path) -> Result<Db> {
    open_with(dir, Options::default())
}

fn open_with(dir: &Path, options: Options) -> Result<Db> {
    let mut follower = Follower::default();
    Ok(Db::open_with(dir, options, &mut |progress| follower.show(progress))?)
}

/// The table of that name; the error names the tables there are.
pub(crate) fn table(db: &Db, name: &str) -> Result<Table> {
    db.open_table(name)?.ok_or_else(|| {
        let names: Vec<String> = db.tables().iter().map(|table| table.name().to_owned()).collect();
        match names.as_slice() {
            [] => Failure::new(format!("there is no table {name:?}, and no other")),
            names => Failure::new(format!("there is no table {name:?}; there are {}", names.join(", "))),
        }
    })
}
