//! Opening databases for the commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quipu::{Db, Options};
use quipu_rows::Database;
use quipu_rows::trees::is_tree_of_rows;

use crate::failure::{Failure, Result};
use crate::progress::Follower;

/// A database on the command line.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Named {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The same by name, as `import` takes it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Named {
    /// The directory.
    pub(crate) fn dir(&self) -> &Path {
        // One is given: clap sees to it.
        self.dir.as_deref().or(self.data.as_deref()).unwrap_or(Path::new("."))
    }
}

/// A database on the command line of a program that has `--connect` as well.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NamedOrServer {
    /// The directory of the database
    #[arg(value_name = "DIR", required_unless_present_any = ["connect", "data"], conflicts_with = "data")]
    dir: Option<PathBuf>,
    /// The same by name, as `import` takes it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl NamedOrServer {
    /// The directory; none if a server is named.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_deref().or(self.data.as_deref())
    }
}

/// The directory of a database and what stands after it on the command line of a command with two positional
/// arguments, of which `--data` takes the place of the first.
pub(crate) fn named_before<'a>(
    data: Option<&'a Path>,
    places: [Option<&'a Path>; 2],
) -> Result<(&'a Path, Option<&'a Path>)> {
    match (data, places) {
        (Some(dir), [rest, None]) => Ok((dir, rest)),
        (None, [Some(dir), rest]) => Ok((dir, rest)),
        (Some(_), [_, Some(_)]) => {
            Err(Failure::Usage("the database has two names: leave --data or DIR out".to_owned()))
        }
        (None, [None, _]) => Err(Failure::Usage("name a database: its directory, or --data".to_owned())),
    }
}

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
    if let Some((scheme, _)) = dir.to_string_lossy().split_once("://") {
        let text = format!("a database is a directory, not a URL of {scheme}: `--connect` asks a server");
        return Err(Failure::Usage(text));
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

/// What the trees of the database are that belong to rows: the names of their tables, or of a table and its index.
pub(crate) fn tree_names(db: &Db) -> Result<BTreeMap<String, String>> {
    // Opened for writing, a database without rows would get a catalogue.
    match db.tables().iter().any(|table| is_tree_of_rows(table.name())) {
        true => Ok(Database::open(db)?.tree_names()?),
        false => Ok(BTreeMap::new()),
    }
}
