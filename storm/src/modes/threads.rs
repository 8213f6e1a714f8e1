//! Real threads, with the database's own in the background: writers, readers, transactions, and all maintenance at
//! once.
//!
//! Judged by what holds in any interleaving: a writer owns its keys and knows exactly what they hold; transfers
//! leave totals as they were; a snapshot's counts are what
//! its scans show; every value says itself which it is; no error says that a file is damaged. In the end all is
//! compared again, checked, reopened, compared.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quipu::files::check;
use quipu::{Bounds, Db, Error, Measures, ReadableTable, Table, TableOptions, WritableTable};
use quipu_suite::clock::Deadline;
use quipu_suite::dice::Dice;

use crate::library::rows::Rows;
use crate::library::setup::{Setup, table_options};
use crate::library::value::Value;
use crate::library::world::Place;
use crate::modes::crowd::{create_and_drop, maintain, read, transfer};
use crate::modes::owner::Owner;
use crate::report::Counters;

/// What the accounts hold together.
pub(crate) const TOTAL: i64 = 1_000_000;
/// What a run is most about, and how many there are of each kind of thread: owners, readers, transfers, droppers,
/// keepers.
pub(crate) const THEMES: &[(&str, [u64; 5])] = &[
    ("all", [2, 1, 1, 1, 1]),
    ("drops beside readers", [0, 2, 0, 2, 0]),
    ("long values beside flushes", [1, 2, 0, 0, 1]),
    ("new tables beside maintenance", [2, 0, 0, 0, 2]),
    ("flushes beside merges", [3, 0, 0, 0, 3]),
    ("transactions beside merges", [0, 0, 3, 0, 1]),
];
/// Failures of one run that are told.
pub(crate) const TOLD_MAX: usize = 3;

pub(crate) type Judged<T = ()> = Result<T, String>;

/// What all threads of a run share.
pub(crate) struct SumField<'f> {
    pub(crate) db: &'f Db,
    pub(crate) setup: &'f Setup,
    pub(crate) place: &'f Place,
    pub(crate) deadline: Deadline,
    pub(crate) failures: Mutex<Vec<String>>,
    pub(crate) failed: AtomicBool,
    pub(crate) commits: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) questions: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) numbers: AtomicU64,
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

pub(crate) fn draw(dice: &mut Dice, seed: u64) -> Setup {
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

pub(crate) fn storm(
    setup: &Setup,
    place: &Place,
    dice: &mut Dice,
    deadline: Deadline,
    counters: &mut Counters,
) -> Judged {
    let told = |what: &'static str| move |error: Error| format!("{what}: {error:?}");
    let db = Db::open(&place.dir, setup.options(place.disk.clone())).map_err(told("opening"))?;
    let shared = db.create_table("shared", table_options(setup.get("shared_bits"))).map_err(told("creating"))?;
    let sums = TableOptions {
        measures: Measures { sum: Some(quipu::SumField::BigEndian { at: 0 }), ..Measures::ROWS },
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
    let field = SumField {
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

pub(crate) fn judge_end(db: &Db, owners: &[(Table, Rows, Table, Rows)], accounts: &Table, rows: u64) -> Judged {
    for (number, (shared, shared_rows, own, own_rows)) in owners.iter().enumerate() {
        judge_prefix(shared, &prefix(number as u64), shared_rows)?;
        judge_prefix(own, b"", own_rows)?;
    }
    judge_accounts(&db.snapshot().table(accounts).map_err(|error| error.to_string())?, rows)
}

impl SumField<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.deadline.passed()
    }

    pub(crate) fn guard<T>(&self, who: &str, work: impl FnOnce(&Self) -> Judged<T>) -> Option<T> {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(self))) {
            Ok(Ok(value)) => Some(value),
            Ok(Err(text)) => {
                self.fail(format!("{who}: {text}"));
                None
            }
            Err(_) => {
                self.fail(format!("{who}: panic: {}", crate::panics::last()));
                None
            }
        }
    }

    pub(crate) fn fail(&self, text: String) {
        self.failed.store(true, Ordering::SeqCst);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < TOLD_MAX {
            failures.push(text);
        }
    }
}

pub(crate) fn told(what: impl std::fmt::Display) -> impl FnOnce(Error) -> String {
    move |error| format!("{what}: {error:?}")
}

pub(crate) fn prefix(owner: u64) -> Vec<u8> {
    format!("w{owner}-").into_bytes()
}

pub(crate) fn account(number: u64) -> Vec<u8> {
    format!("account {number:06} of the bank").into_bytes()
}

pub(crate) fn balance(amount: i64) -> Vec<u8> {
    let mut value = amount.to_be_bytes().to_vec();
    // Of several lengths, so that rows move about in their pages.
    value.resize(8 + amount.unsigned_abs() as usize % 90, 0xB5);
    value
}

/// A value that says itself which it is.
pub(crate) fn labelled(value: Value) -> Vec<u8> {
    let mut bytes = [value.len.to_le_bytes(), value.fill.to_le_bytes()].concat();
    bytes.extend_from_slice(&value.bytes());
    bytes
}

/// Which value it says it is, if it is that.
pub(crate) fn label(bytes: &[u8]) -> Option<Value> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let value = Value { len: number(0)?, fill: number(4)? };
    value.is(&bytes[8..]).then_some(value)
}

pub(crate) fn judge_prefix(table: &impl ReadableTable, prefix: &[u8], rows: &Rows) -> Judged {
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

pub(crate) fn judge_accounts(table: &impl ReadableTable, rows: u64) -> Judged {
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

pub(crate) fn new_table(field: &SumField<'_>, dice: &mut Dice, what: &str) -> Judged<Table> {
    let number = field.numbers.fetch_add(1, Ordering::SeqCst);
    let bits = dice.below(1 << 15) as u64 & !(1 << 3);
    field.db.create_table(&format!("{what}-{number}"), table_options(bits)).map_err(told("creating a table"))
}
