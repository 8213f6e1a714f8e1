//! Threads that own no keys: readers, transfers between accounts, tables that come and go, maintenance and backups.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu::files::check;
use quipu::{Db, Error, ErrorKind, ReadableTable, RunLayout, Table, WritableTable};
use quipu_suite::dice::Dice;

use crate::library::value::{Value, mix};
use crate::modes::threads::{
    Judged, SumField, THEMES, TOTAL, account, balance, judge_accounts, label, labelled, new_table, told,
};

pub(crate) fn read(field: &SumField<'_>, dice: &mut Dice, shared: &Table, accounts: &Table, rows: u64) -> Judged {
    let mut held: Vec<(quipu::Snapshot, u64, u64)> = Vec::new();
    while !field.is_over() {
        field.questions.fetch_add(1, Ordering::Relaxed);
        let theme = field.setup.get("theme");
        match if theme == 1 {
            5
        } else if theme == 2 {
            4
        } else {
            dice.below(8)
        } {
            0 => judge_accounts(&field.db.snapshot().table(accounts).map_err(told("a snapshot"))?, rows)?,
            1 => {
                let tally = accounts.tally(..).map_err(told("a tally"))?;
                if (tally.rows, tally.sum) != (rows as i64, TOTAL) {
                    return Err(format!("the accounts tally {tally:?}"));
                }
            }
            2 => {
                let snapshot = field.db.snapshot();
                let view = snapshot.table(shared).map_err(told("a snapshot"))?;
                let (count, hash) = scan(&view)?;
                let len = view.len().map_err(told("len"))?;
                if len != count {
                    return Err(format!("a snapshot of {len} rows has {count}"));
                }
                drop(view);
                held.push((snapshot, count, hash));
            }
            3 if !held.is_empty() => {
                let (snapshot, count, hash) = held.swap_remove(dice.below(held.len()));
                let again = scan(&snapshot.table(shared).map_err(told("a snapshot"))?)?;
                if again != (count, hash) {
                    return Err(format!("a snapshot has changed: {again:?}, {:?} before", (count, hash)));
                }
            }
            4 => {
                scan(shared)?;
            }
            5 => {
                // All tables, while they come and go.
                for table in field.db.tables() {
                    if table.name() == "accounts" {
                        continue;
                    }
                    match table.first().and_then(|_| table.len()) {
                        Err(error) if error.kind() == ErrorKind::Missing => continue,
                        result => result.map_err(told("a look at a table"))?,
                    };
                    visit(&table)?;
                }
            }
            6 => {
                let view = field.db.snapshot();
                let view = view.table(shared).map_err(told("a snapshot"))?;
                let len = view.len().map_err(told("len"))?;
                let offset = dice.below(len as usize + 1) as u64;
                if let Some(row) = view.nth(.., offset).map_err(told("nth"))? {
                    let rank = view.rank(&row.key).map_err(told("rank"))?;
                    if rank != offset || label(&row.value).is_none() {
                        return Err(format!("row {offset} has rank {rank}, value {:?}", label(&row.value)));
                    }
                }
            }
            _ => {
                let stats = field.db.stats();
                if stats.poisoned || stats.checkpoint_failure.is_some() {
                    return Err(format!("{stats:?}"));
                }
            }
        }
        if held.len() > 5 {
            held.remove(0);
        }
    }
    Ok(())
}

/// A scan of a live table that may be dropped meanwhile.
pub(crate) fn visit(table: &Table) -> Judged {
    let mut bad = None;
    let result = table.for_each(.., |key, value| {
        if label(value).is_none() {
            bad = Some(format!(
                "{}: {:?} has a malformed value: {} bytes",
                table.name(),
                key.escape_ascii().to_string(),
                value.len()
            ));
        }
        bad.is_none()
    });
    match (bad, result) {
        (Some(bad), _) => Err(bad),
        (None, Err(error)) if error.kind() != ErrorKind::Missing => Err(format!("a scan: {error:?}")),
        _ => Ok(()),
    }
}

/// Rows in order, each value what it says it is. Their number, and a hash of them.
pub(crate) fn scan(table: &impl ReadableTable) -> Judged<(u64, u64)> {
    let (mut count, mut hash, mut last, mut bad) = (0, 0u64, None::<Vec<u8>>, None);
    table
        .for_each(.., |key, value| {
            count += 1;
            let value = label(value);
            if value.is_none() || last.as_deref().is_some_and(|last| last >= key) {
                bad = Some(format!("row {count}, {:?}, has {value:?} after {last:?}", key.escape_ascii().to_string()));
                return false;
            }
            let value = value.unwrap_or_default();
            hash = mix(hash ^ u64::from(value.len) << 32 ^ u64::from(value.fill) ^ key.len() as u64);
            last = Some(key.to_vec());
            true
        })
        .map_err(told("a scan"))?;
    bad.map_or(Ok((count, hash)), Err)
}

pub(crate) fn transfer(field: &SumField<'_>, dice: &mut Dice, accounts: &Table, shared: &Table, rows: u64) -> Judged {
    // Neighbours for a while: what lies elsewhere stays as it is, in its file.
    let mut window = 0;
    while !field.is_over() {
        if dice.below(40) == 0 {
            window = dice.below(rows as usize);
        }
        let mut near = || account(((window + dice.below(20)) % rows as usize) as u64);
        let (from, to) = (near(), near());
        let transaction = field.db.begin();
        let moved = (|| -> quipu::Result<()> {
            let table = transaction.table(accounts)?;
            if from == to {
                return Ok(());
            }
            let amount_at = |key: &[u8]| {
                let value = table.get(key)?.ok_or_else(|| Error::new(ErrorKind::Missing, "an account is gone"))?;
                Ok::<i64, Error>(value.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes)))
            };
            let amount = dice.below(100) as i64;
            let (a, b) = (amount_at(&from)?, amount_at(&to)?);
            match dice.below(10) {
                0 => drop(table.count(&from[..]..)?),
                3 => {
                    // A part of the table far away, which others may change.
                    let start = dice.below(rows as usize);
                    let (low, high) = (account(start as u64), account((start + dice.below(300)) as u64));
                    table.for_each(&low[..]..&high[..], |_, _| true)?;
                }
                4 => drop(table.page(.., dice.below(rows as usize) as u64, 30)?),
                5 => drop(table.tally(&account(dice.below(rows as usize) as u64)[..]..)?),
                6 => {
                    for _ in 0..10 {
                        table.get(account(dice.below(rows as usize) as u64))?;
                    }
                }
                1 => {
                    let (low, high) = if from < to { (&from, &to) } else { (&to, &from) };
                    table.for_each(&low[..]..=&high[..], |_, _| true)?;
                }
                2 => drop(transaction.table(shared)?.page(.., dice.below(100) as u64, 20)?),
                _ => {}
            }
            // A row goes, and comes back elsewhere in its page.
            if dice.percent(20) {
                table.remove(&from)?;
            }
            table.put(&from, balance(a - amount))?;
            table.put(&to, balance(b + amount))
        })();
        moved.map_err(told("a transfer"))?;
        if dice.percent(30) {
            // Held open, while others commit and files change.
            quipu_suite::clock::pause(Duration::from_millis(dice.below(40) as u64));
        }
        match transaction.commit() {
            Ok(()) => field.commits.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.kind() == ErrorKind::Conflict => field.conflicts.fetch_add(1, Ordering::Relaxed),
            Err(error) => return Err(format!("an optimistic commit: {error:?}")),
        };
    }
    Ok(())
}

pub(crate) fn create_and_drop(field: &SumField<'_>, dice: &mut Dice) -> Judged {
    let mut tables: Vec<Table> = Vec::new();
    while !field.is_over() {
        if tables.len() < 3 {
            let table = new_table(field, dice, "short")?;
            let rows = dice.below(400);
            let long = dice.percent(50);
            field
                .db
                .write(|tx| {
                    let table = tx.table(&table)?;
                    for number in 0..rows as u32 {
                        let len = if long { 6_000 + number % 3000 } else { number % 50 };
                        table.put(number.to_be_bytes(), labelled(Value { len, fill: number }))?;
                    }
                    Ok(())
                })
                .map_err(told("filling"))?;
            field.commits.fetch_add(1, Ordering::Relaxed);
            tables.push(table);
        } else {
            let table = tables.swap_remove(dice.below(tables.len()));
            if !field.db.drop_table(table.name()).map_err(told("a drop"))? {
                return Err("a table was gone before it was dropped".into());
            }
        }
    }
    Ok(())
}

pub(crate) fn maintain(field: &SumField<'_>, dice: &mut Dice) -> Judged {
    let mut copies = 0;
    while !field.is_over() {
        let tables = field.db.tables();
        if tables.is_empty() {
            continue;
        }
        // Several at once at one table, or each at another.
        let recent = field.numbers.load(Ordering::Relaxed) as usize;
        let is_about_accounts = THEMES[field.setup.get("theme") as usize].0 == "transactions beside merges";
        let accounts = tables.iter().position(|table| table.name() == "accounts");
        let table = match accounts {
            Some(accounts) if is_about_accounts && dice.percent(80) => &tables[accounts],
            _ => &tables[if dice.percent(40) { recent % tables.len() } else { dice.below(tables.len()) }],
        };
        let result = match dice.below(20) {
            0..=5 => table.flush(),
            6..=8 => field.db.checkpoint().map(|_| {
                field.checkpoints.fetch_add(1, Ordering::Relaxed);
            }),
            9..=12 => table.compact(),
            13..=15 => table.rewrite(if dice.percent(50) { RunLayout::Tree } else { RunLayout::Flat }, &mut |_| ()),
            16 => table.freeze().and_then(|()| table.thaw()),
            17 => table.resolve_blind_writes(..).map(drop),
            18 if copies < 3 => {
                copies += 1;
                back_up(field, dice)?;
                Ok(())
            }
            _ => field.db.sync(),
        };
        field.merges.fetch_add(1, Ordering::Relaxed);
        match result {
            Err(error) if error.kind() == ErrorKind::Missing || table.options().in_memory => {}
            result => result.map_err(told("maintenance"))?,
        }
    }
    Ok(())
}

/// A copy taken meanwhile is a database of its own, and whole.
pub(crate) fn back_up(field: &SumField<'_>, dice: &mut Dice) -> Judged {
    let number = field.numbers.fetch_add(1, Ordering::SeqCst);
    let to = field.place.dir.with_file_name(format!("copy-{number}"));
    let copy = dice.percent(50);
    let options = quipu::files::BackupOptions { copy };
    field.db.backup_with(&to, &options, &mut |_| ()).map_err(told("a backup"))?;
    let result = judge_copy(field, &to);
    for name in field.place.disk.list(&to).unwrap_or_default() {
        // What stays goes with the run's directory.
        let _ = field.place.disk.remove(&to.join(name));
    }
    result
}

pub(crate) fn judge_copy(field: &SumField<'_>, to: &Path) -> Judged {
    let own = quipu::Options { background: false, ..field.setup.options(field.place.disk.clone()) };
    let report = check(to, &own, &mut |_| ()).map_err(told("checking a copy"))?;
    if !report.faults.is_empty() {
        return Err(format!("check finds in a copy {:?}", report.faults));
    }
    let db = Db::open(to, own).map_err(told("opening a copy"))?;
    let Some(accounts) = db.open_table("accounts").map_err(told("a copy"))? else {
        return Err("a copy without accounts".into());
    };
    let rows = accounts.len().map_err(told("a copy"))?;
    judge_accounts(&accounts, rows).map_err(|text| format!("in a copy: {text}"))?;
    db.tables().iter().filter(|table| table.name() != "accounts").try_for_each(visit)
}
