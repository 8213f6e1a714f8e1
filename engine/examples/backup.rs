//! A backup while others write, restored and checked.
//!
//!     cargo run -p quipu --example backup

use quipu::files::{check, restore};
use quipu::{Db, Options, ReadableTable, Result, WritableTable};

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let db = Db::open(path("shop"), Options::default())?;
    let orders = db.ensure_table("orders")?;
    for number in 0..1000u32 {
        orders.put(number.to_be_bytes(), "open")?;
    }

    // All tables as they are at one moment. Writers go on; files of runs are linked, not copied, where that is
    // possible.
    let info = db.backup(path("copy"))?;
    orders.remove_range(..)?;
    println!("the backup has commit {}; the shop has {} orders left", info.sequence, orders.len()?);

    // A restore checks every page first, and shares no file with the backup.
    restore(path("copy"), path("restored"), &Options::default(), &mut |_| ())?;
    let restored = Db::open(path("restored"), Options::default())?;
    println!("restored: {} orders", restored.ensure_table("orders")?.len()?);
    assert_eq!(restored.ensure_table("orders")?.len()?, 1000);
    restored.close()?;

    let report = check(path("restored"), &Options::default(), &mut |_| ())?;
    assert!(report.faults.is_empty(), "{report:?}");
    Ok(())
}
