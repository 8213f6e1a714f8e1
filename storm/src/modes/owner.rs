//! A thread that owns its keys, and so knows what they hold whatever others do.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use quipu::ingest::Overlap;
use quipu::{Bounds, Durability, ErrorKind, ReadableTable, Table, WritableTable, WriteBatch};
use quipu_suite::dice::Dice;

use crate::library::rows::Rows;
use crate::library::setup::durability;
use crate::library::value::Value;
use crate::modes::threads::{Judged, SumField, judge_prefix, label, labelled, new_table, prefix, told};

/// A thread with keys of its own in a table that all share, and with a table of its own, now and then a new one.
pub(crate) struct Owner<'f> {
    field: &'f SumField<'f>,
    number: u64,
    dice: Dice,
    shared: Table,
    shared_rows: Rows,
    own: Table,
    own_rows: Rows,
    keys: usize,
}

impl<'f> Owner<'f> {
    pub(crate) fn new(field: &'f SumField<'f>, number: u64, mut dice: Dice, shared: Table) -> Judged<Owner<'f>> {
        let own = new_table(field, &mut dice, "own")?;
        let keys = *dice.pick(&[&50, &500, &5000]);
        Ok(Owner { field, number, dice, shared, shared_rows: Rows::default(), own, own_rows: Rows::default(), keys })
    }

    pub(crate) fn go(mut self) -> Judged<(Table, Rows, Table, Rows)> {
        while !self.field.is_over() {
            let in_own = self.dice.percent(40);
            match self.dice.below(200) {
                0..=1 if in_own => self.begin_anew()?,
                2..=5 => self.remove_range(in_own)?,
                0..=99 => self.write_one(in_own)?,
                100..=129 => self.write_many(in_own)?,
                130..=149 => self.transact(in_own)?,
                150..=194 => self.ask(in_own)?,
                _ => self.judge(in_own)?,
            }
        }
        self.judge(true)?;
        self.judge(false)?;
        Ok((self.shared, self.shared_rows, self.own, self.own_rows))
    }

    fn side(&mut self, in_own: bool) -> (Table, &mut Rows) {
        if in_own { (self.own.clone(), &mut self.own_rows) } else { (self.shared.clone(), &mut self.shared_rows) }
    }

    fn judge(&mut self, in_own: bool) -> Judged {
        let number = self.number;
        let (table, rows) = self.side(in_own);
        let prefix = if in_own { Vec::new() } else { prefix(number) };
        let at_snapshot = rows.len() % 2 == 0;
        if at_snapshot {
            let snapshot = self.field.db.snapshot();
            let (table, rows) = self.side(in_own);
            return judge_prefix(&snapshot.table(&table).map_err(told("a snapshot"))?, &prefix, rows);
        }
        judge_prefix(&table, &prefix, rows)
    }

    fn key(&mut self, in_own: bool) -> Vec<u8> {
        let number = self.dice.below(self.keys);
        let mut key = if in_own { Vec::new() } else { prefix(self.number) };
        key.extend_from_slice(format!("{:06}", number * 7919 % 1_000_000).as_bytes());
        key
    }

    fn value(&mut self) -> Value {
        let usual = self.field.setup.get("value_bytes") as usize;
        let long = if self.field.setup.get("theme") == 2 { 4 } else { 60 };
        let len = if self.dice.below(long) == 0 { 5_000 + self.dice.below(40_000) } else { self.dice.below(usual) };
        Value { len: len as u32, fill: self.dice.below(1000) as u32 }
    }

    fn write_one(&mut self, in_own: bool) -> Judged {
        let (key, value, lot) = (self.key(in_own), self.value(), self.dice.below(10));
        let (table, rows) = self.side(in_own);
        match lot {
            0..=5 => {
                table.put(&key, labelled(value)).map_err(told("put"))?;
                rows.put(&key, value);
            }
            6..=8 => {
                let removed = table.remove(&key).map_err(told("remove"))?;
                let was_there = rows.remove(&key).is_some();
                if removed != was_there && !(table.options().blind_writes && removed) {
                    return Err(format!("remove says {removed}, the row was there: {was_there}"));
                }
            }
            _ => {
                let inserted = match table.insert(&key, labelled(value)) {
                    Ok(()) => true,
                    Err(error) if error.kind() == ErrorKind::Exists => false,
                    Err(error) => return Err(format!("insert: {error:?}")),
                };
                if inserted == rows.get(&key).is_some() {
                    return Err(format!("insert says {inserted}"));
                }
                if inserted {
                    rows.put(&key, value);
                }
            }
        }
        self.field.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes some of its keys, or all of them, as a whole.
    fn remove_range(&mut self, in_own: bool) -> Judged {
        let (number, is_latched, is_all) = (self.number, self.dice.percent(30), self.dice.percent(15));
        let (a, b) = (self.key(in_own), self.key(in_own));
        let bounds = match (is_all, in_own) {
            (true, true) => Bounds::from(..),
            (true, false) => Bounds::prefix(&prefix(number)).into_owned(),
            (false, _) => Bounds::from((&a).min(&b)..(&a).max(&b)).into_owned(),
        };
        let field = self.field;
        let (table, rows) = self.side(in_own);
        let removed = if is_latched {
            let written = field.db.latched().write_with(|edit| edit.remove_range(&table, &bounds));
            let (removed, commit) = written.map_err(told("the removal of a range in an edit"))?;
            commit.wait(Durability::Os).map_err(told("an edit"))?;
            removed
        } else {
            table.remove_range(&bounds).map_err(told("the removal of a range"))?
        };
        let expected = rows.remove_range(&bounds) as u64;
        if removed != expected {
            return Err(format!("{removed} rows of a range were removed, expected {expected}"));
        }
        field.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write_many(&mut self, in_own: bool) -> Judged {
        let count = if self.dice.percent(10) { 1000 } else { self.dice.below(60) };
        let writes: Vec<_> =
            (0..count).map(|_| (self.key(in_own), self.dice.percent(80).then(|| self.value()))).collect();
        let (way, lot, field) = (self.dice.below(4), durability(self.dice.below(3) as u64), self.field);
        let (table, rows) = self.side(in_own);
        if way == 3 && !table.options().in_memory {
            let writes: BTreeMap<_, _> = writes.iter().filter_map(|(key, value)| Some((key, (*value)?))).collect();
            let mut ingest = table.begin_ingest(Overlap::Replace).map_err(told("an ingest"))?;
            for (key, value) in &writes {
                ingest.push(key, &labelled(*value)).map_err(told("a row of an ingest"))?;
            }
            ingest.commit().map_err(told("the end of an ingest"))?;
            for (key, value) in writes {
                rows.put(key, value);
            }
            field.commits.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        match way {
            0 => {
                let mut batch = WriteBatch::new();
                for (key, value) in &writes {
                    match value {
                        Some(value) => batch.put(&table, key, labelled(*value)),
                        None => batch.delete(&table, key),
                    }
                }
                field.db.apply_with(lot, batch).map_err(told("a batch"))?;
            }
            1 => {
                let written = field.db.latched().write_with(|edit| {
                    for (key, value) in &writes {
                        match value {
                            Some(value) => edit.put(&table, key, &labelled(*value))?,
                            None => edit.remove(&table, key)?,
                        };
                    }
                    Ok(())
                });
                written.map_err(told("an edit"))?.1.wait(lot).map_err(told("an edit"))?;
            }
            _ => {
                let result = field.db.write_with(lot, |tx| {
                    let table = tx.table(&table)?;
                    for (key, value) in &writes {
                        match value {
                            Some(value) => table.put(key, labelled(*value))?,
                            None => drop(table.remove(key)?),
                        }
                    }
                    Ok(())
                });
                result.map_err(told("a transaction"))?;
            }
        }
        for (key, value) in writes {
            match value {
                Some(value) => rows.put(&key, value),
                None => rows.remove(&key),
            };
        }
        field.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// An optimistic transaction over its own keys: others do not change them, so what it reads is known.
    fn transact(&mut self, in_own: bool) -> Judged {
        let (number, field) = (self.number, self.field);
        let writes: Vec<_> = (0..self.dice.below(10)).map(|_| (self.key(in_own), self.value())).collect();
        let (low, high) = (self.key(in_own), self.key(in_own));
        let asks = self.dice.below(4);
        let (table, rows) = self.side(in_own);
        let transaction = field.db.begin();
        let mut next = rows.clone();
        {
            let table = transaction.table(&table).map_err(told("a transaction"))?;
            let own = if in_own { Vec::new() } else { prefix(number) };
            match asks {
                0 => judge_prefix(&table, &own, &next)?,
                1 => {
                    let count = table.count(&low[..]..&high[..]).map_err(told("a count in a transaction"))?;
                    let (from, to) = next.span(&Bounds::from(&low[..]..&high[..]));
                    if count != (to - from) as u64 {
                        return Err(format!("in a transaction {count} rows, not {}", to - from));
                    }
                }
                _ => {
                    let value = table.get(&low).map_err(told("a get in a transaction"))?;
                    if value.as_deref().map(label) != next.get(&low).map(Some) {
                        return Err(format!("in a transaction {value:?}"));
                    }
                }
            }
            for (key, value) in &writes {
                table.put(key, labelled(*value)).map_err(told("a put in a transaction"))?;
                next.put(key, *value);
            }
        }
        match transaction.commit() {
            Ok(()) => *rows = next,
            Err(error) if error.kind() == ErrorKind::Conflict => {
                field.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(format!("an optimistic commit: {error:?}")),
        }
        field.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn ask(&mut self, in_own: bool) -> Judged {
        let key = self.key(in_own);
        let lot = self.dice.below(3);
        let number = self.number;
        self.field.questions.fetch_add(1, Ordering::Relaxed);
        let (table, rows) = self.side(in_own);
        let own = if in_own { Vec::new() } else { prefix(number) };
        match lot {
            0 => {
                let value = table.get(&key).map_err(told("get"))?;
                if value.as_deref().map(label) != rows.get(&key).map(Some) {
                    return Err(format!(
                        "get of {:?} gives {:?}",
                        key.escape_ascii().to_string(),
                        value.as_deref().map(label)
                    ));
                }
            }
            1 => {
                let count = table.count(Bounds::prefix(&own)).map_err(told("count"))?;
                if count != rows.len() as u64 {
                    return Err(format!("{count} rows, not {}", rows.len()));
                }
            }
            _ => {
                let offset = rows.before(&key, false);
                let row = table.nth(Bounds::prefix(&own), offset as u64).map_err(told("nth"))?;
                let found = row.as_ref().map(|row| (&row.key[..], label(&row.value)));
                if found != rows.nth(offset).map(|(key, value)| (key, Some(value))) {
                    return Err(format!("row {offset} is {found:?}"));
                }
            }
        }
        Ok(())
    }

    /// A new table, loaded at once, in the place of the old one.
    fn begin_anew(&mut self) -> Judged {
        self.judge(true)?;
        let old = self.own.name().to_owned();
        self.own = new_table(self.field, &mut self.dice, "own")?;
        self.own_rows = Rows::default();
        for _ in 0..1 + self.dice.below(6) {
            self.write_many(true)?;
        }
        self.field.db.drop_table(&old).map_err(told("a drop"))?;
        Ok(())
    }
}
