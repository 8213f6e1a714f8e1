//! `quipu backup`: a copy of a database that is a database of its own.

use std::io::Write;
use std::path::PathBuf;

use quipu::files::{BackupInfo, BackupOptions};
use quipu::{Db, ErrorKind, Options};

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{bytes, counted, thousands};
use crate::progress::Follower;

const EXAMPLES: &str = "\
Examples:
  quipu backup air /mnt/usb/air-monday
  quipu backup --data air /mnt/usb/air-monday
  quipu restore /mnt/usb/air-monday air
  redis-cli Q.BACKUP /mnt/usb/shop-monday                     of a database that a server has open

The copy is complete when the command ends, and it ends well only then. It shares files with the database where both are in one file system: that takes no time and no \
space, and guards against mistakes, not against the end of the disk. --copy, or another disk, does.";

/// Copies a database, as of one commit, into an empty directory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "quipu backup [OPTIONS] <DIR|--data <DIR>> <TO>")]
pub(crate) struct Args {
    /// The directory of the database; left out if --data names it
    #[arg(value_name = "DIR", required_unless_present = "data")]
    first: Option<PathBuf>,
    /// Where to: a directory that is empty or does not exist
    #[arg(value_name = "TO")]
    second: Option<PathBuf>,
    /// The directory of the database by name, as `import` takes it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Copy all bytes, also where both directories could have the same files
    #[arg(long)]
    copy: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let places = [args.first.as_deref(), args.second.as_deref()];
    let (dir, to) = database::named_before(args.data.as_deref(), places)?;
    let Some(to) = to else { return Err(Failure::Usage("name a directory for the backup".to_owned())) };
    database::must_exist(dir)?;
    let mut follower = Follower::default();
    let options = Options { create: false, ..Options::default() };
    let db =
        Db::open_with(dir, options, &mut |progress| follower.show(progress)).map_err(|error| match error.kind() {
            ErrorKind::Busy => Failure::new(format!(
                "{} is open in another process; if that is `quipu serve`, it makes the backup: redis-cli Q.BACKUP {}",
                dir.display(),
                std::path::absolute(to).unwrap_or_else(|_| to.to_owned()).display()
            )),
            _ => error.into(),
        })?;
    let options = BackupOptions { copy: args.copy };
    let info = db.backup_with(to, &options, &mut |progress| follower.show(progress))?;
    drop(follower);
    Ok(writeln!(std::io::stdout(), "{}: {}", to.display(), text(&info))?)
}

/// What there is now, in a line.
pub(crate) fn text(info: &BackupInfo) -> String {
    let how = match info.bytes_copied {
        copied if copied == info.bytes => String::new(),
        0 => ", shared with the database".to_owned(),
        copied => format!(", {} of it copied and the rest shared", bytes(copied)),
    };
    let (tables, runs) = (counted(info.tables, "table"), counted(info.runs, "run"));
    format!("{tables} as of commit {}, in {runs} of {}{how}", thousands(info.sequence), bytes(info.bytes))
}
