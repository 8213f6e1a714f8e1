//! `quipu restore`: a database from a backup, which is checked first.

use std::io::Write;
use std::path::PathBuf;

use quipu::{Options, ReadableTable, Table};
use quipu_rows::trees::is_tree_of_rows;
use quipu_server::cluster::Cluster;

use crate::backup;
use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, thousands};
use crate::progress::Follower;

const EXAMPLES: &str = "\
Examples:
  quipu restore /mnt/usb/air-monday air
  quipu restore /mnt/usb/air-monday --data air
  quipu restore /mnt/usb/air-monday /tmp/look && quipu shell --data /tmp/look

A backup of one node of a cluster becomes an empty directory of that node: when it starts, it copies all from the
others, which have what was written since the backup. Where all nodes of a cluster are lost, restore each with
--whole-cluster.

Every page of the backup is read and checked before anything is written: a damaged one is refused with the file and the place. The backup is not changed, and what is \
restored shares no file with it.";

/// Checks a backup and makes a database of it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory of the backup
    from: PathBuf,
    /// Where to: a directory that is empty or does not exist
    #[arg(required_unless_present = "data", conflicts_with = "data")]
    to: Option<PathBuf>,
    /// The same by name, as `import` takes it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Of a node of a cluster: keep its rows and its place, since all nodes of the cluster are restored
    #[arg(long)]
    whole_cluster: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.from.is_dir() {
        return Err(Failure::new(format!("there is no backup in {}: no such directory", args.from.display())));
    }
    let Some(to) = args.to.as_deref().or(args.data.as_deref()) else {
        return Err(Failure::Usage("name a directory to restore into, or --data".to_owned()));
    };
    let mut follower = Follower::default();
    let info = quipu::files::restore(&args.from, to, &Options::default(), &mut |progress| follower.show(progress))?;
    drop(follower);
    let is_of_cluster = {
        let db = database::open(to, true)?;
        Cluster::is_of(&db)?
    };
    if is_of_cluster {
        let db = database::open(to, false)?;
        match args.whole_cluster {
            true => Cluster::restore_all(&db)?,
            false => Cluster::restore_one(&db)?,
        }
        db.checkpoint()?;
    }
    let db = database::open(to, true)?;
    // Rows whose catalogue is lost have no other names than those of their trees.
    let names = database::tree_names(&db).unwrap_or_default();
    let name_of = |table: &Table| names.get(table.name()).map_or_else(|| table.name().to_owned(), String::clone);
    let mut tables: Vec<(String, u64)> =
        db.tables().iter().map(|table| Ok((name_of(table), table.len()?))).collect::<Result<_>>()?;
    tables.sort_by(|(one, _), (other, _)| (is_tree_of_rows(one), one).cmp(&(is_tree_of_rows(other), other)));
    let mut grid = Grid::new([("table", false), ("rows", true)]);
    for (name, rows) in tables {
        grid.push(vec![name, thousands(rows)]);
    }
    let mut out = std::io::stdout();
    grid.print(&mut out)?;
    if is_of_cluster && !args.whole_cluster {
        writeln!(
            out,
            "the backup is of a node of a cluster: start the node on {}, and it copies all from the others. Restore with \
             `--whole-cluster` what no node has any more",
            to.display()
        )?;
    }
    Ok(writeln!(out, "{}: {}", to.display(), backup::text(&info))?)
}
