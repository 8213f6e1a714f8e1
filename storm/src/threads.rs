//! Real threads, with the database's own in the background: writers, readers, transactions, and all maintenance at once.
//!
//! Judged by what holds in any interleaving: a writer owns its keys and knows exactly what they hold; transfers leave totals as they were; a snapshot's counts are what
//! its scans show; every value says itself which it is; no error says that a file is damaged. In the end all is compared again, checked, reopened, compared.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quipu::{Bounds, Db, Error, ErrorKind, Measures, Read, RunIndex, Table, TableOptions, Write, WriteBatch, check};
use quipu_suite::clock::Deadline;
use quipu_suite::dice::Dice;

use crate::report::Counters;
use crate::rows::Rows;
use crate::setup::{Setup, durability, table_options};
use crate::value::{Value, mix};
use crate::world::Place;

/// What the accounts hold together.
const TOTAL: i64 = 1_000_000;
/// What a run is most about, and how many there are of each kind of thread: owners, readers, transfers, droppers, keepers.
const THEMES: &[(&str, [u64; 5])] = &[
    ("all", [2, 1, 1, 1, 1]),
    ("drops beside readers", [0, 2, 0, 2, 0]),
    ("long values beside flushes", [1, 2, 0, 0, 1]),
    ("new tables beside maintenance", [2, 0, 0, 0, 2]),
    ("flushes beside merges", [3, 0, 0, 0, 3]),
    ("transactions beside merges", [0, 0, 3, 0, 1]),
];
/// Failures of one run that are told.
const TOLD_MAX: usize = 3;

type Judged<T = ()> = Result<T, String>;

/// What all threads of a run share.
struct Field<'f> {
    db: &'f Db,
    setup: &'f Setup,
    place: &'f Place,
    deadline: Deadline,
    failures: Mutex<Vec<String>>,
    failed: AtomicBool,
    commits: AtomicU64,
    conflicts: AtomicU64,
    questions: AtomicU64,
    merges: AtomicU64,
    checkpoints: AtomicU64,
    numbers: AtomicU64,
}

/// A run.
pub fn run(seed: u64) -> (Counters, Judged) {
    let mut dice = Dice::new(seed);
    let setup = draw(&mut dice, seed);
    let deadline = Deadline::after(Duration::from_millis(setup.get("milliseconds")));
    let place = match setup.get("real") {
        1 => match Place::real() {
            Ok(place) => place,
            Err(error) => return (Counters::default(), Err(error.to_string())),
        },
        _ => Place::simulated(),
    };
    let mut counters = Counters::default();
    let result = storm(&setup, &place, &mut dice, deadline, &mut counters);
    (counters, result.map_err(|text| format!("{text} [{}]", setup.to_string().replace("set ", "").replace('\n', ", "))))
}

fn draw(dice: &mut Dice, seed: u64) -> Setup {
    let mut setup = Setup::draw(dice);
    setup.set("seed", seed);
    setup.set("background", 1);
    setup.set("memory_bytes", 1 << 30);
    setup.set("memtable_bytes", *dice.pick(&[&(1 << 20), &(1 << 20), &(4 << 20), &0]));
    setup.set("checkpoint_log_bytes", *dice.pick(&[&(256 << 10), &(2 << 20), &0]));
    setup.set("run_file_bytes", *dice.pick(&[&20_000, &100_000, &(64 << 20)]));
    setup.set("log_segment_bytes", *dice.pick(&[&(64 << 10), &(1 << 20)]));
    setup.set("cache_bytes", *dice.pick(&[&(64 << 10), &(1 << 20), &(16 << 20)]));
    setup.set("durability", *dice.pick(&[&1, &1, &2, &2, &2, &0]));
    setup.set("real", u64::from(dice.percent(35)));
    setup.set("shared_bits", dice.below(1 << 15) as u64 & !(1 << 3));
    setup.set("value_bytes", *dice.pick(&[&20, &100, &400]));
    // Short runs begin more often, and much goes wrong in the beginning.
    setup.set("milliseconds", *dice.pick(&[&200, &500, &1000, &2000]));
    let theme = dice.below(THEMES.len());
    for (name, number) in ["owners", "readers", "transfers", "droppers", "keepers"].iter().zip(THEMES[theme].1) {
        setup.set(name, number + u64::from(number > 0 && dice.percent(30)));
    }
    setup.set("theme", theme as u64);
    setup.set("accounts", *dice.pick(&[&40, &2000, &10_000]));
    if THEMES[theme].0 == "transactions beside merges" {
        setup.set("accounts", *dice.pick(&[&2000, &10_000, &30_000]));
        setup.set("run_file_bytes", *dice.pick(&[&20_000, &100_000]));
        setup.set("cache_bytes", *dice.pick(&[&(64 << 10), &(64 << 10), &(1 << 20)]));
    }
    setup
}

fn storm(setup: &Setup, place: &Place, dice: &mut Dice, deadline: Deadline, counters: &mut Counters) -> Judged {
    let told = |what: &'static str| move |error: Error| format!("{what}: {error:?}");
    let db = Db::open(&place.dir, setup.options(place.disk.clone())).map_err(told("opening"))?;
    let shared = db.create_table("shared", table_options(setup.get("shared_bits"))).map_err(told("creating"))?;
    let sums = TableOptions {
        measures: Measures { sum: Some(quipu::Field::BigEndian { at: 0 }), ..Measures::ROWS },
        ..table_options(dice.below(1 << 15) as u64 & !(1 << 3))
    };
    let accounts = db.create_table("accounts", sums).map_err(told("creating"))?;
    let rows = 40 + dice.below(setup.get("accounts") as usize) as i64;
    db.write(|tx| {
        let table = tx.table(&accounts)?;
        for number in 0..rows {
            let amount = TOTAL / rows + if number == 0 { TOTAL % rows } else { 0 };
            table.insert(account(number as u64), balance(amount))?;
        }
        Ok(())
    })
    .map_err(told("filling"))?;
    let field = Field {
        db: &db,
        setup,
        place,
        deadline,
        failures: Mutex::default(),
        failed: AtomicBool::new(false),
        commits: AtomicU64::new(0),
        conflicts: AtomicU64::new(0),
        questions: AtomicU64::new(0),
        merges: AtomicU64::new(0),
        checkpoints: AtomicU64::new(0),
        numbers: AtomicU64::new(0),
    };
    let owners: Vec<(Table, Rows, Table, Rows)> = std::thread::scope(|scope| {
        let field = &field;
        let count = |name: &str| setup.get(name);
        let owners: Vec<_> = (0..count("owners"))
            .map(|number| {
                let (dice, shared) = (Dice::new(dice.seed()), shared.clone());
                scope.spawn(move || field.guard("an owner", |field| Owner::new(field, number, dice, shared)?.go()))
            })
            .collect();
        for _ in 0..count("readers") {
            let (mut dice, shared, accounts) = (Dice::new(dice.seed()), shared.clone(), accounts.clone());
            scope.spawn(move || {
                field.guard("a reader", |field| read(field, &mut dice, &shared, &accounts, rows as u64))
            });
        }
        for _ in 0..count("transfers") {
            let (mut dice, accounts, shared) = (Dice::new(dice.seed()), accounts.clone(), shared.clone());
            scope.spawn(move || {
                field.guard("a transfer", |field| transfer(field, &mut dice, &accounts, &shared, rows as u64))
            });
        }
        for _ in 0..count("droppers") {
            let mut dice = Dice::new(dice.seed());
            scope.spawn(move || field.guard("a dropper", |field| create_and_drop(field, &mut dice)));
        }
        for _ in 0..count("keepers") {
            let mut dice = Dice::new(dice.seed());
            scope.spawn(move || field.guard("maintenance", |field| maintain(field, &mut dice)));
        }
        owners.into_iter().filter_map(|owner| owner.join().ok().flatten()).collect()
    });
    counters.commits = field.commits.load(Ordering::Relaxed);
    counters.conflicts = field.conflicts.load(Ordering::Relaxed);
    counters.questions = field.questions.load(Ordering::Relaxed);
    counters.merges = field.merges.load(Ordering::Relaxed);
    counters.checkpoints = field.checkpoints.load(Ordering::Relaxed);
    counters.reopens = 1;
    let failures = field.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failures.is_empty() {
        return Err(failures.join("; then "));
    }
    judge_end(&db, &owners, &accounts, rows as u64)?;
    let owned: Vec<(String, Rows, String, Rows)> =
        owners.into_iter().map(|(a, b, c, d)| (a.name().to_owned(), b, c.name().to_owned(), d)).collect();
    drop((shared, accounts, db));
    // The same files, closed: checked, opened, compared.
    let closed = || setup.options(place.disk.clone());
    let report = check(&place.dir, &closed(), &mut |_| ()).map_err(told("checking"))?;
    if !report.faults.is_empty() {
        return Err(format!("check finds {:?}", report.faults));
    }
    let db = Db::open(&place.dir, closed()).map_err(told("reopening"))?;
    let table = |name: &str| db.open_table(name).map_err(told("reopening"))?.ok_or(format!("table {name} is gone"));
    let mut owners = Vec::new();
    for (shared, rows, own, own_rows) in owned {
        owners.push((table(&shared)?, rows, table(&own)?, own_rows));
    }
    judge_end(&db, &owners, &table("accounts")?, rows as u64).map_err(|text| format!("after a reopening: {text}"))
}

fn judge_end(db: &Db, owners: &[(Table, Rows, Table, Rows)], accounts: &Table, rows: u64) -> Judged {
    for (number, (shared, shared_rows, own, own_rows)) in owners.iter().enumerate() {
        judge_prefix(shared, &prefix(number as u64), shared_rows)?;
        judge_prefix(own, b"", own_rows)?;
    }
    judge_accounts(&db.read().table(accounts).map_err(|error| error.to_string())?, rows)
}

impl Field<'_> {
    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.deadline.passed()
    }

    fn guard<T>(&self, who: &str, work: impl FnOnce(&Self) -> Judged<T>) -> Option<T> {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(self))) {
            Ok(Ok(value)) => Some(value),
            Ok(Err(text)) => {
                self.fail(format!("{who}: {text}"));
                None
            }
            Err(_) => {
                self.fail(format!("{who}: panic: {}", crate::child::last_panic()));
                None
            }
        }
    }

    fn fail(&self, text: String) {
        self.failed.store(true, Ordering::SeqCst);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < TOLD_MAX {
            failures.push(text);
        }
    }
}

fn told(what: impl std::fmt::Display) -> impl FnOnce(Error) -> String {
    move |error| format!("{what}: {error:?}")
}

fn prefix(owner: u64) -> Vec<u8> {
    format!("w{owner}-").into_bytes()
}

fn account(number: u64) -> Vec<u8> {
    format!("account {number:06} of the bank").into_bytes()
}

fn balance(amount: i64) -> Vec<u8> {
    let mut value = amount.to_be_bytes().to_vec();
    // Of several lengths, so that rows move about in their pages.
    value.resize(8 + amount.unsigned_abs() as usize % 90, 0xB5);
    value
}

/// A value that says itself which it is.
fn labelled(value: Value) -> Vec<u8> {
    let mut bytes = [value.len.to_le_bytes(), value.fill.to_le_bytes()].concat();
    bytes.extend_from_slice(&value.bytes());
    bytes
}

/// Which value it says it is, if it is that.
fn label(bytes: &[u8]) -> Option<Value> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let value = Value { len: number(0)?, fill: number(4)? };
    value.is(&bytes[8..]).then_some(value)
}

fn judge_prefix(table: &impl Read, prefix: &[u8], rows: &Rows) -> Judged {
    let range = Bounds::prefix(prefix);
    let count = table.count(&range).map_err(told("counting"))?;
    if count != rows.len() as u64 {
        return Err(format!("{count} rows, not {}", rows.len()));
    }
    let mut expected = rows.iter();
    let mut difference = None;
    table
        .for_each(&range, |key, value| {
            let next = expected.next();
            let is_right = next.is_some_and(|(k, v)| k == key && label(value) == Some(v));
            if !is_right {
                difference = Some(format!(
                    "{:?} = {:?} stands where {next:?} should",
                    key.escape_ascii().to_string(),
                    label(value)
                ));
            }
            is_right
        })
        .map_err(told("scanning"))?;
    match difference {
        Some(difference) => Err(difference),
        None if expected.next().is_some() => Err("rows are missing at the end".into()),
        None => Ok(()),
    }
}

fn judge_accounts(table: &impl Read, rows: u64) -> Judged {
    let (mut count, mut sum) = (0, 0);
    table
        .for_each(.., |_, value| {
            count += 1;
            sum += value.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
            true
        })
        .map_err(told("scanning accounts"))?;
    let tally = table.tally(..).map_err(told("tallying accounts"))?;
    if (count, sum) != (rows, TOTAL) || (tally.rows, tally.sum) != (rows as i64, TOTAL) {
        return Err(format!("{count} of {rows} accounts with {sum} of {TOTAL}, tally {tally:?}"));
    }
    Ok(())
}

/// A thread with keys of its own in a table that all share, and with a table of its own, now and then a new one.
struct Owner<'f> {
    field: &'f Field<'f>,
    number: u64,
    dice: Dice,
    shared: Table,
    shared_rows: Rows,
    own: Table,
    own_rows: Rows,
    keys: usize,
}

impl<'f> Owner<'f> {
    fn new(field: &'f Field<'f>, number: u64, mut dice: Dice, shared: Table) -> Judged<Owner<'f>> {
        let own = new_table(field, &mut dice, "own")?;
        let keys = *dice.pick(&[&50, &500, &5000]);
        Ok(Owner { field, number, dice, shared, shared_rows: Rows::default(), own, own_rows: Rows::default(), keys })
    }

    fn go(mut self) -> Judged<(Table, Rows, Table, Rows)> {
        while !self.field.is_over() {
            let in_own = self.dice.percent(40);
            match self.dice.below(200) {
                0..=1 if in_own => self.begin_anew()?,
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
            let snapshot = self.field.db.read();
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
                if removed != was_there && !(table.options().blind && removed) {
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

    fn write_many(&mut self, in_own: bool) -> Judged {
        let count = if self.dice.percent(10) { 1000 } else { self.dice.below(60) };
        let writes: Vec<_> =
            (0..count).map(|_| (self.key(in_own), self.dice.percent(80).then(|| self.value()))).collect();
        let (way, lot, field) = (self.dice.below(3), durability(self.dice.below(3) as u64), self.field);
        let (table, rows) = self.side(in_own);
        match way {
            0 => {
                let mut batch = WriteBatch::new();
                for (key, value) in &writes {
                    match value {
                        Some(value) => batch.put(&table, key, labelled(*value)),
                        None => batch.remove(&table, key),
                    }
                }
                field.db.apply_with(lot, batch).map_err(told("a batch"))?;
            }
            1 => {
                let mut edit = field.db.edit().map_err(told("an edit"))?;
                for (key, value) in &writes {
                    match value {
                        Some(value) => edit.put(&table, key, &labelled(*value)),
                        None => edit.remove(&table, key),
                    }
                    .map_err(told("an edit"))?;
                }
                edit.commit().map_err(told("an edit"))?.wait(lot).map_err(told("an edit"))?;
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

fn new_table(field: &Field<'_>, dice: &mut Dice, what: &str) -> Judged<Table> {
    let number = field.numbers.fetch_add(1, Ordering::SeqCst);
    let bits = dice.below(1 << 15) as u64 & !(1 << 3);
    field.db.create_table(&format!("{what}-{number}"), table_options(bits)).map_err(told("creating a table"))
}

fn read(field: &Field<'_>, dice: &mut Dice, shared: &Table, accounts: &Table, rows: u64) -> Judged {
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
            0 => judge_accounts(&field.db.read().table(accounts).map_err(told("a snapshot"))?, rows)?,
            1 => {
                let tally = accounts.tally(..).map_err(told("a tally"))?;
                if (tally.rows, tally.sum) != (rows as i64, TOTAL) {
                    return Err(format!("the accounts tally {tally:?}"));
                }
            }
            2 => {
                let snapshot = field.db.read();
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
                let view = field.db.read();
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
fn visit(table: &Table) -> Judged {
    let mut bad = None;
    let result = table.for_each(.., |key, value| {
        if label(value).is_none() {
            bad = Some(format!(
                "{}: {:?} has a value that is none: {} bytes",
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
fn scan(table: &impl Read) -> Judged<(u64, u64)> {
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

fn transfer(field: &Field<'_>, dice: &mut Dice, accounts: &Table, shared: &Table, rows: u64) -> Judged {
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

fn create_and_drop(field: &Field<'_>, dice: &mut Dice) -> Judged {
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

fn maintain(field: &Field<'_>, dice: &mut Dice) -> Judged {
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
            13..=15 => table.rewrite(if dice.percent(50) { RunIndex::Tree } else { RunIndex::Flat }, &mut |_| ()),
            16 => table.freeze().and_then(|()| table.thaw()),
            17 => table.resolve(..).map(drop),
            18 if copies < 3 => {
                copies += 1;
                back_up(field, dice)?;
                Ok(())
            }
            _ => field.db.sync(),
        };
        field.merges.fetch_add(1, Ordering::Relaxed);
        match result {
            Err(error) if error.kind() == ErrorKind::Missing || table.options().resident => {}
            result => result.map_err(told("maintenance"))?,
        }
    }
    Ok(())
}

/// A copy taken meanwhile is a database of its own, and whole.
fn back_up(field: &Field<'_>, dice: &mut Dice) -> Judged {
    let number = field.numbers.fetch_add(1, Ordering::SeqCst);
    let to = field.place.dir.with_file_name(format!("copy-{number}"));
    let copy = dice.percent(50);
    let options = quipu::BackupOptions { copy };
    field.db.backup_with(&to, &options, &mut |_| ()).map_err(told("a backup"))?;
    let result = judge_copy(field, &to);
    for name in field.place.disk.list(&to).unwrap_or_default() {
        // What stays goes with the run's directory.
        let _ = field.place.disk.remove(&to.join(name));
    }
    result
}

fn judge_copy(field: &Field<'_>, to: &Path) -> Judged {
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
