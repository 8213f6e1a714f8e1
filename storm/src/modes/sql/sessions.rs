//! Sessions of SQL, driven in turns by one thread: the mode `sql`.
//!
//! A step is a verb, the client that does it, and the seed from which it draws the rest. One thread drives all clients,
//! so a seed is the same history: a statement that would wait for another client's lock is refused instead. The model
//! knows for each transaction which committed states it may see beneath its own changes; each answer leaves those that
//! agree with it, and when none is left, the answer is wrong. A commit must lose no change of others, and a
//! serializable one may not have been told what is untrue by then. Errors must be among those that the step allows;
//! a transaction at READ COMMITTED is never asked to run again, unless it has made or dropped tables.
//!
//! The disk is sound, or fails and is full at times, or is looked at between its calls, as for the mode `rows`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quipu::io::sim::SimDisk;
use quipu::{Db, Durability, ErrorKind};
use quipu_sql::{SqlDatabase, SqlError, SqlState};
use quipu_suite::dice::Dice;

use crate::library::disk_faults::disturb;
use crate::library::script::Journal;
use crate::library::setup::{Setup, durability};
use crate::library::watched::{Image, Watched, image_of};
use crate::library::word::{Step, Word, Words};
use crate::library::world::Promise;
use crate::modes::row_tables::{FAILING, LOOKED_AT, SOUND, disk_of, guarded};
use crate::modes::sequential::Source;
use crate::modes::sql::client::{Client, Held, Manner, Open};
use crate::modes::sql::state::{Asked, Committed, FIXED, Filter, KEYS, Question, Row, Rows, TABLES, line, row_of};
use crate::report::Counters;

type Judged<T = ()> = Result<T, String>;

const CLIENTS: usize = 4;
/// What others may be in the way with.
const OTHERS: &[&str] = &["40001", "40P01", "55P03"];
/// What a disk that fails, or is full, is told as.
const OF_DISK: &[&str] = &["58030", "53100", "53200"];

/// The verbs of clients, each with its weight.
pub const VERBS: &[(usize, &str)] = &[
    (14, "select"),
    (3, "join"),
    (1, "use_files"),
    (6, "lock"),
    (10, "insert"),
    (6, "upsert"),
    (3, "ignore"),
    (12, "update"),
    (6, "delete"),
    (1, "truncate"),
    (3, "copy_in"),
    (2, "copy_out"),
    (10, "begin"),
    (7, "commit"),
    (2, "rollback"),
    (4, "savepoint"),
    (3, "rollback_to"),
    (1, "release"),
    (3, "portal"),
    (3, "cursor"),
    (6, "fetch"),
    (2, "create_table"),
    (2, "drop_table"),
    (2, "create_index"),
    (2, "lock_table"),
    (1, "drop_index"),
    (1, "alter"),
    (2, "vanish"),
    (1, "checkpoint"),
    (1, "reopen"),
    (3, "judge"),
];

/// A run.
pub fn run(source: &Source<'_>, journal: &mut Journal) -> (Counters, Judged) {
    let mut dice = Dice::new(source.seed());
    let setup = source.setup(|seed| draw_setup(seed, &mut dice));
    journal.note(&format!("mode sql\n{setup}"));
    let mut storm = Storm::new(setup);
    let result = storm.go(source, &mut dice, journal);
    (storm.counters, result)
}

fn draw_setup(seed: u64, dice: &mut Dice) -> Setup {
    let mut setup = crate::modes::row_tables::draw_setup(seed, dice);
    setup.set("disk", dice.weighted(&[(3, SOUND), (2, FAILING), (2, LOOKED_AT)]));
    setup
}

/// What a statement should do to a state: its lines, and the rows that it puts or removes; or the code of its error.
type Effect = Result<(Vec<String>, Vec<(i64, Option<Row>)>), &'static str>;

struct Storm {
    setup: Setup,
    sim: SimDisk,
    watched: Option<Watched>,
    promise: Promise,
    database: Option<(Db, SqlDatabase)>,
    clients: Vec<Client>,
    /// What is committed.
    state: Committed,
    /// What was committed, by the engine's numbers.
    history: BTreeMap<u64, Committed>,
    /// What there will be if the statement under way commits.
    pending: Option<Committed>,
    creations: u64,
    /// The engine's number of the last commit that was there when the database was opened.
    found: u64,
    counters: Counters,
}

impl Storm {
    fn new(setup: Setup) -> Storm {
        let (sim, promise) = (SimDisk::new(), Promise::default());
        Storm {
            setup,
            sim,
            watched: None,
            promise,
            database: None,
            clients: Vec::new(),
            state: Committed::default(),
            history: BTreeMap::from([(0, Committed::default())]),
            pending: None,
            creations: FIXED,
            found: 0,
            counters: Counters::default(),
        }
    }

    fn start(&mut self) -> Judged {
        let (disk, watched) = disk_of(&self.setup, &self.sim, &self.promise, 0);
        self.watched = watched;
        self.open(disk)?;
        let tables: Vec<String> = (0..FIXED).map(create_table).collect();
        self.clients[0].ask(&tables.join("; "), Manner::default()).map_err(|error| told("creating tables", &error))?;
        let fixed = (0..FIXED).map(|table| (table, Rows { creation: table, rows: BTreeMap::new() }));
        self.state = Arc::new(fixed.collect());
        self.watched.iter().for_each(|watched| drop(watched.take_images()));
        self.committed();
        Ok(())
    }

    /// Opens the database over a disk, with new clients.
    fn open(&mut self, disk: Arc<dyn quipu::io::Disk>) -> Judged {
        self.clients.clear();
        self.database = None;
        let mut last = String::new();
        for _ in 0..20 {
            match self.try_to_open(disk.clone()) {
                Ok(()) => return Ok(()),
                Err((error, has_stopped)) if self.may_be_of_disk(&error, has_stopped) => {
                    self.sim.set_capacity(u64::MAX);
                    last = told("opening", &error);
                }
                Err((error, _)) => return Err(told("it cannot be opened", &error)),
            }
        }
        Err(format!("it cannot be opened, however often: {last}"))
    }

    /// Opens the database once. An error comes with whether the database takes no writes any more.
    fn try_to_open(&mut self, disk: Arc<dyn quipu::io::Disk>) -> Result<(), (SqlError, bool)> {
        let db = Db::open("/db", self.setup.options(disk)).map_err(|error| {
            let has_stopped = error.kind() == ErrorKind::Poisoned;
            (SqlError::from(error), has_stopped)
        })?;
        // To open SQL may be a commit of its own.
        self.found = db.latched().read().sequence();
        let sql = SqlDatabase::open(&db).map_err(|error| (error, db.stats().poisoned))?;
        let clients: Result<Vec<Client>, SqlError> = (0..CLIENTS).map(|_| Client::new(&sql)).collect();
        self.clients = clients.map_err(|error| (error, db.stats().poisoned))?;
        self.database = Some((db, sql));
        Ok(())
    }

    /// Whether the disk is why the open database gave an error.
    fn is_of_disk(&self, error: &SqlError) -> bool {
        self.may_be_of_disk(error, self.database.as_ref().is_some_and(|(db, _)| db.stats().poisoned))
    }

    /// The same of a database of which it is known whether it takes no writes any more. Then all of them fail, with an
    /// error that has no class of its own.
    fn may_be_of_disk(&self, error: &SqlError, has_stopped: bool) -> bool {
        let is_of_stop = has_stopped && error.state() == SqlState::INTERNAL_ERROR;
        self.setup.get("disk") == FAILING && (is_of_stop || OF_DISK.contains(&error.state().code()))
    }

    fn db(&self) -> Judged<&(Db, SqlDatabase)> {
        self.database.as_ref().ok_or_else(|| "it is closed".to_owned())
    }

    fn go(&mut self, source: &Source<'_>, dice: &mut Dice, journal: &mut Journal) -> Judged {
        self.start()?;
        source.each(self, journal, |storm| storm.draw(dice), Storm::guarded)?;
        self.end()
    }

    fn draw(&self, dice: &mut Dice) -> Step {
        if self.setup.get("disk") == FAILING && dice.percent(6) {
            let verb = *dice.pick(&[&"fault", &"fault", &"space"]);
            let number = if verb == "fault" { dice.below(40) } else { *dice.pick(&[&0, &0, &1, &5_000, &50_000]) };
            return Step::new(verb, vec![Word::Number(number as u64), Word::Number(dice.below(2) as u64)]);
        }
        let verb = if dice.percent(1) { "power" } else { dice.weighted(VERBS) };
        Step::new(verb, vec![Word::Number(dice.below(CLIENTS) as u64), Word::Number(dice.seed())])
    }

    fn guarded(&mut self, step: &Step) -> Judged {
        guarded(step, || self.step(step))
    }

    fn step(&mut self, step: &Step) -> Judged {
        self.counters.steps += 1;
        let words = Words(&step.words);
        let (number, seed) = (words.number(0), words.number(1));
        match step.verb.as_str() {
            "fault" | "space" => {
                disturb(&self.sim, step);
                self.counters.faults += 1;
            }
            "power" => self.power(seed)?,
            "reopen" => self.reopen()?,
            "judge" => self.judge()?,
            "checkpoint" => {
                let result = self.db()?.0.checkpoint().map_err(SqlError::from);
                if let Err(error) = result.map(drop) {
                    let may_stop = self.setup.get("disk") == FAILING;
                    match self.db()?.0.stats().poisoned {
                        true if may_stop => self.reopen()?,
                        _ if self.is_of_disk(&error) => {}
                        _ => return Err(told("checkpoint", &error)),
                    }
                }
                self.counters.checkpoints += 1;
            }
            verb => self.ask(verb, number as usize % CLIENTS, &mut Dice::new(seed))?,
        }
        self.judge_images()?;
        for (number, client) in self.clients.iter().enumerate() {
            let known = client.open.as_ref();
            let expected = (known.is_some(), known.is_some_and(|open| open.has_failed));
            if client.status() != expected {
                return Err(format!("client {number} is in the state {:?}, not {expected:?}", client.status()));
            }
        }
        Ok(())
    }

    fn ask(&mut self, verb: &str, client: usize, dice: &mut Dice) -> Judged {
        let table = dice.weighted(&[(4, 0), (3, 1), (2, 2), (2, 3), (1, 4)]);
        let filter = draw_filter(dice);
        let (key, indexed, value) = (dice.within(0..=KEYS - 1), dice.within(0..=5), dice.within(-50..=50));
        let condition = filter.condition();
        let mut manner = Manner::default();
        match dice.below(20) {
            0 => manner.goes_after = Some(dice.below(3)),
            1 => manner.cancels_after = Some(dice.below(3)),
            2..=8 => manner.rows_at_a_time = Some(dice.below(5) as u64 + 1),
            _ => {}
        }
        match verb {
            "select" => {
                let asked = [Asked::Rows, Asked::Rows, Asked::Count, Asked::Sum][dice.below(4)];
                let question = Question { table, filter, asked };
                self.look(client, question, &question.query(), manner)
            }
            "join" => {
                let query = format!(
                    "SELECT a.id, a.k, a.v FROM (SELECT * FROM t{table} WHERE {condition}) a
                     LEFT JOIN t{table} b ON b.id = a.id WHERE b.v = a.v ORDER BY a.id"
                );
                self.look(client, Question { table, filter, asked: Asked::Rows }, &query, manner)
            }
            "use_files" => {
                // Many times as many rows as a client may keep.
                let query = format!(
                    "SELECT a.id, a.k, min(b.v) FROM (SELECT DISTINCT id, k FROM t{table} WHERE {condition}) a
                     JOIN (SELECT id, v FROM t{table}, generate_series(1, 40) ORDER BY v) b ON b.id = a.id
                     GROUP BY a.id, a.k HAVING count(DISTINCT b.v) = 1 ORDER BY a.id"
                );
                self.look(client, Question { table, filter, asked: Asked::Rows }, &query, manner)
            }
            "copy_out" => {
                let query = format!("COPY (SELECT id, k, v FROM t{table} WHERE {condition} ORDER BY id) TO STDOUT");
                self.look(client, Question { table, filter, asked: Asked::Rows }, &query, Manner::default())
            }
            "lock" => {
                let how = dice.pick(&["FOR UPDATE", "FOR UPDATE NOWAIT", "FOR SHARE", "FOR NO KEY UPDATE"]);
                let query = format!("SELECT id, k, v FROM t{table} WHERE {condition} ORDER BY id {how}");
                self.look(client, Question { table, filter, asked: Asked::Rows }, &query, manner)
            }
            "insert" | "copy_in" | "ignore" | "upsert" => {
                let rows: BTreeMap<i64, Row> =
                    (0..dice.below(3) + 1).map(|_| (draw_key(dice), draw_row(dice))).collect();
                self.put(verb, client, table, rows, manner)
            }
            "update" if dice.percent(25) => {
                let text = format!("UPDATE t{table} SET k = {indexed} WHERE {condition} RETURNING id, k, v");
                self.change(client, table, &text, manner, &|rows| {
                    changed(filter, rows, |(_, value)| (Some(indexed), value))
                })
            }
            "update" => {
                let text = format!("UPDATE t{table} SET v = v + {value} WHERE {condition} RETURNING id, k, v");
                self.change(client, table, &text, manner, &|rows| {
                    changed(filter, rows, |(indexed, old)| (indexed, old + value))
                })
            }
            "delete" => {
                let text = format!("DELETE FROM t{table} WHERE {condition} RETURNING id, k, v");
                self.change(client, table, &text, manner, &|rows| {
                    let found = filter.of(rows);
                    Ok((found.iter().map(line).collect(), found.iter().map(|(key, _)| (*key, None)).collect()))
                })
            }
            "truncate" => {
                let text = format!("TRUNCATE t{table}");
                self.change(client, table, &text, Manner::default(), &|_| {
                    Ok((Vec::new(), (0..KEYS).map(|key| (key, None)).collect()))
                })
            }
            "create_table" | "drop_table" => self.define(verb, client, FIXED + (key as u64) % (TABLES - FIXED)),
            "create_index" => {
                let is_beside = dice.percent(50) && self.clients[client].open.is_none();
                let concurrently = if is_beside { "CONCURRENTLY" } else { "" };
                let text = format!("CREATE INDEX {concurrently} IF NOT EXISTS t{table}_v ON t{table} (v)");
                self.change(client, table, &text, manner, &|_| Ok((Vec::new(), Vec::new())))
            }
            "lock_table" if self.clients[client].open.is_none() => Ok(()),
            "lock_table" => {
                let mode = dice.pick(&["ROW SHARE", "ROW EXCLUSIVE", "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"]);
                let text = format!("LOCK TABLE t{table} IN {mode} MODE");
                self.change(client, table, &text, Manner::default(), &|_| Ok((Vec::new(), Vec::new())))
            }
            "drop_index" => self.aside(client, &format!("DROP INDEX IF EXISTS t{table}_v")),
            "alter" => {
                let what = dice.pick(&["ADD COLUMN IF NOT EXISTS more int DEFAULT 7", "DROP COLUMN IF EXISTS more"]);
                let text = format!("ALTER TABLE t{table} {what}");
                self.change(client, table, &text, Manner::default(), &|_| Ok((Vec::new(), Vec::new())))
            }
            "portal" | "cursor" => {
                let question = Question { table, filter, asked: Asked::Rows };
                self.hold(verb == "cursor", client, question, dice.below(3) as u64 + 1)
            }
            "fetch" => self.fetch(client, dice.below(4) as u64 + 1),
            "vanish" => {
                let (_, sql) = self.db()?;
                match Client::new(sql) {
                    Ok(new) => self.clients[client] = new,
                    Err(error) if self.is_of_disk(&error) => {}
                    Err(error) => return Err(told("a new client", &error)),
                }
                Ok(())
            }
            _ => self.transaction(verb, client, dice),
        }
    }

    /// INSERT, with or without ON CONFLICT, or COPY.
    fn put(&mut self, verb: &str, client: usize, table: u64, rows: BTreeMap<i64, Row>, manner: Manner) -> Judged {
        let spelled = |null: &str, apart: &str| -> Vec<String> {
            let indexed = |row: &Row| row.0.map_or_else(|| null.to_owned(), |number| number.to_string());
            rows.iter().map(|(key, row)| [key.to_string(), indexed(row), row.1.to_string()].join(apart)).collect()
        };
        let values: Vec<String> = spelled("NULL", ", ").iter().map(|row| format!("({row})")).collect();
        let conflict = match verb {
            "ignore" => "ON CONFLICT DO NOTHING",
            "upsert" => "ON CONFLICT (id) DO UPDATE SET v = s.v + excluded.v",
            _ => "",
        };
        let text = match verb {
            "copy_in" => format!("COPY t{table} (id, k, v) FROM STDIN\n\n{}\n", spelled("\\N", "\t").join("\n")),
            _ => format!(
                "INSERT INTO t{table} AS s (id, k, v) VALUES {} {conflict} RETURNING id, k, v",
                values.join(", ")
            ),
        };
        let effect = |old: &BTreeMap<i64, Row>| {
            let (mut lines, mut changes) = (Vec::new(), Vec::new());
            for (key, row) in &rows {
                let new = match (old.get(key), verb) {
                    (None, _) => *row,
                    (Some(_), "ignore") => continue,
                    (Some(old), "upsert") => (old.0, old.1 + row.1),
                    _ => return Err("23505"),
                };
                if verb != "copy_in" {
                    lines.push(line(&(*key, new)));
                }
                changes.push((*key, Some(new)));
            }
            Ok((lines, changes))
        };
        let manner = if verb == "copy_in" { Manner::default() } else { manner };
        self.change(client, table, &text, manner, &effect)
    }

    /// The committed states that a client may see.
    fn bases(&self, client: usize) -> Vec<Committed> {
        let now = || vec![Arc::clone(&self.state)];
        let Some(open) = &self.clients[client].open else { return now() };
        if open.is_read_committed || open.bases.is_empty() {
            return now();
        }
        // It may have been moved to the present, if all that it was told is true there.
        let mut bases = open.bases.clone();
        let is_true = open
            .told
            .iter()
            .all(|(question, changes, lines)| question.answer(&changes.over(&self.state)).as_ref() == Some(lines));
        if is_true && !bases.contains(&self.state) {
            bases.push(Arc::clone(&self.state));
        }
        bases
    }

    /// What a client is told, and what the model says of it. `allowed` are the codes of errors that others' rows or
    /// tables give reason for.
    fn refused(&mut self, client: usize, error: &SqlError, manner: Manner, allowed: &[&str]) -> Judged {
        let code = error.state().code();
        self.counters.conflicts += 1;
        let bases = self.bases(client);
        let known = &mut self.clients[client];
        if let Some(open) = &mut known.open {
            // It may have been moved to the present before it was refused, where it stays after ROLLBACK TO.
            if !open.is_read_committed {
                open.bases = bases;
            }
            let had_failed = std::mem::replace(&mut open.has_failed, true);
            known.held = None;
            if had_failed {
                return if code == "25P02" { Ok(()) } else { Err(told("a transaction that had failed", error)) };
            }
        }
        let is_asked_again = code == "40001" && known.open.as_ref().is_some_and(Open::is_never_asked_again);
        let is_expected = OTHERS.contains(&code) && !is_asked_again
            || allowed.contains(&code)
            || code == "57014" && manner.cancels_after.is_some();
        if code == "08006" && manner.goes_after.is_some() {
            // It does not learn whether its statement was done.
            if self.pending.is_some() {
                let found = self.read_all()?;
                return self.take_found(found);
            }
            return Ok(());
        }
        if is_expected { Ok(()) } else { self.judge_error(error) }
    }

    /// After an error of the disk there is what was there before, or what the statement would have made.
    fn judge_error(&mut self, error: &SqlError) -> Judged {
        if !self.is_of_disk(error) {
            return Err(told("refused", error));
        }
        if self.db()?.0.stats().poisoned {
            self.reopen()?;
            return Ok(());
        }
        self.sim.set_capacity(u64::MAX);
        let found = self.read_all().map_err(|text| format!("after {}: {text}", told("an error", error)))?;
        self.take_found(found).map_err(|text| format!("after {}: {text}", told("an error", error)))
    }

    fn take_found(&mut self, found: BTreeMap<u64, BTreeMap<i64, Row>>) -> Judged {
        let candidates = [Some(Arc::clone(&self.state)), self.pending.clone()];
        let Some(state) = candidates.into_iter().flatten().find(|state| is_same(state, &found)) else {
            return Err(format!("neither the old state nor the new: {}", difference(&self.state, &found)));
        };
        self.state = state;
        self.committed();
        Ok(())
    }

    /// A query.
    fn look(&mut self, client: usize, question: Question, query: &str, manner: Manner) -> Judged {
        let bases = self.bases(client);
        self.counters.questions += 1;
        let result = self.clients[client].ask(query, manner);
        let changes = self.clients[client].open.as_ref().map(|open| open.changes.clone()).unwrap_or_default();
        let answers: Vec<Option<Vec<String>>> = bases.iter().map(|base| question.answer(&changes.over(base))).collect();
        let lines = match result {
            Ok((lines, _)) => lines,
            Err(error) => {
                let now = question.answer(&changes.over(&self.state)).is_none();
                let missing = now || answers.iter().any(Option::is_none);
                return self.refused(client, &error, manner, if missing { &["42P01"] } else { &[] });
            }
        };
        let right: Vec<Committed> = bases
            .into_iter()
            .zip(&answers)
            .filter(|(_, answer)| answer.as_ref() == Some(&lines))
            .map(|(base, _)| base)
            .collect();
        if right.is_empty() {
            return Err(format!("{query} was answered by {lines:?}, not by {answers:?}"));
        }
        if let Some(open) = &mut self.clients[client].open {
            if open.has_failed {
                return Err(format!("{query} was answered though the transaction had failed"));
            }
            if !open.is_read_committed {
                open.bases = right;
                open.told.push((question, changes, lines));
            }
        }
        Ok(())
    }

    /// A statement that changes rows of a table. `effect` says what it does to them.
    fn change(
        &mut self,
        client: usize,
        table: u64,
        text: &str,
        manner: Manner,
        effect: &dyn Fn(&BTreeMap<i64, Row>) -> Effect,
    ) -> Judged {
        let bases = self.bases(client);
        let open = self.clients[client].open.clone();
        let own = open.as_ref().map(|open| open.changes.clone()).unwrap_or_default();
        let on = |base: &Committed| match own.over(base).get(&table) {
            Some(rows) => effect(&rows.rows),
            None => Err("42P01"),
        };
        let effects: Vec<Effect> = bases.iter().map(on).collect();
        let with = |changes: &[(i64, Option<Row>)]| {
            let mut all = own.clone();
            all.rows.extend(changes.iter().map(|(key, row)| ((table, *key), *row)));
            all
        };
        let on_now = on(&self.state);
        if let (None, Ok((_, changes))) = (&open, &on_now) {
            self.pending = Some(with(changes).over(&self.state));
        }
        let (lines, _) = match self.clients[client].ask(text, manner) {
            Ok(answer) => answer,
            Err(error) => {
                let allowed: Vec<&str> =
                    effects.iter().chain([&on_now]).filter_map(|effect| effect.as_ref().err().copied()).collect();
                let result = self.refused(client, &error, manner, &allowed);
                self.pending = None;
                return result;
            }
        };
        let sorted = |mut lines: Vec<String>| {
            lines.sort_by_key(|line| row_of(line));
            lines
        };
        let lines = sorted(lines);
        let right: Vec<_> = bases
            .iter()
            .zip(&effects)
            .filter_map(|(base, effect)| {
                let (own_lines, changes) = effect.as_ref().ok()?;
                (sorted(own_lines.clone()) == lines).then_some((base, changes))
            })
            .collect();
        let Some((base, changes)) = right.first().copied() else {
            return Err(format!("{text} was answered by {lines:?}, not by {effects:?}"));
        };
        let right_bases: Vec<Committed> = right.iter().map(|(base, _)| Arc::clone(base)).collect();
        if let Some(open) = &mut self.clients[client].open {
            if open.has_failed {
                return Err(format!("{text} was done though the transaction had failed"));
            }
            // TRUNCATE removes what is there at the commit: it loses nothing that it should have seen.
            let is_blind = text.starts_with("TRUNCATE");
            for (key, _) in changes.iter().filter(|(key, _)| !is_blind && !own.rows.contains_key(&(table, *key))) {
                let old = base.get(&table).and_then(|rows| rows.rows.get(key)).copied();
                open.before.rows.insert((table, *key), old);
            }
            if let (Some(rows), false) = (base.get(&table), own.tables.contains_key(&table)) {
                open.wrote_to.push((table, rows.creation));
            }
            open.changes = with(changes);
            open.bases = right_bases;
        } else {
            self.state = with(changes).over(&self.state);
            self.committed();
        }
        self.pending = None;
        Ok(())
    }

    /// CREATE TABLE and DROP TABLE.
    fn define(&mut self, verb: &str, client: usize, table: u64) -> Judged {
        let bases = self.bases(client);
        let own = self.clients[client].open.as_ref().map(|open| open.changes.clone()).unwrap_or_default();
        self.creations += 1;
        let creation = (verb == "create_table").then_some(self.creations);
        let text = if creation.is_some() { create_table(table) } else { format!("DROP TABLE t{table}") };
        let mut after = own.clone();
        after.rows.retain(|(changed, _), _| *changed != table);
        after.tables.insert(table, creation);
        let is_open = self.clients[client].open.is_some();
        let there = |base: &Committed| own.over(base).contains_key(&table);
        if !is_open {
            self.pending = Some(after.over(&self.state));
        }
        let result = self.clients[client].ask(&text, Manner::default());
        if let Err(error) = result {
            let mut allowed: Vec<&str> = Vec::new();
            for base in bases.iter().chain([&self.state]) {
                match (there(base), creation) {
                    (true, Some(_)) => allowed.push("42P07"),
                    (false, None) => allowed.push("42P01"),
                    _ => {}
                }
            }
            let result = self.refused(client, &error, Manner::default(), &allowed);
            self.pending = None;
            return result;
        }
        let right: Vec<Committed> = bases.into_iter().filter(|base| there(base) == creation.is_none()).collect();
        let Some(base) = right.first() else { return Err(format!("{text} was done")) };
        if let Some(open) = &mut self.clients[client].open {
            let old = base.get(&table).map(|rows| rows.creation);
            open.before.tables.entry(table).or_insert(old);
            open.changes = after;
            open.bases = right;
        } else {
            self.state = after.over(&self.state);
            self.committed();
        }
        self.pending = None;
        Ok(())
    }

    /// A statement that changes no rows.
    fn aside(&mut self, client: usize, text: &str) -> Judged {
        match self.clients[client].ask(text, Manner::default()) {
            Ok(_) => Ok(()),
            Err(error) => self.refused(client, &error, Manner::default(), &[]),
        }
    }

    /// BEGIN, COMMIT, savepoints.
    fn transaction(&mut self, verb: &str, client: usize, dice: &mut Dice) -> Judged {
        let is_open = self.clients[client].open.is_some();
        let number = dice.below(3) as u64;
        let level = dice.pick(&["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]);
        let text = match verb {
            "begin" if is_open => return Ok(()),
            "begin" => format!("BEGIN ISOLATION LEVEL {level}"),
            _ if !is_open => return Ok(()),
            "commit" => return self.commit(client),
            "rollback" => "ROLLBACK".to_owned(),
            "savepoint" => format!("SAVEPOINT s{number}"),
            "rollback_to" => format!("ROLLBACK TO s{number}"),
            "release" => format!("RELEASE s{number}"),
            _ => return Err(format!("there is no verb {verb}")),
        };
        let known = self.clients[client].open.as_ref();
        let place = known.and_then(|open| open.savepoints.iter().rposition(|(name, _)| *name == number));
        if let Err(error) = self.clients[client].ask(&text, Manner::default()) {
            let is_missing = place.is_none() && matches!(verb, "rollback_to" | "release");
            if is_missing && error.state().code() == "3B001" {
                self.clients[client].held = None;
                self.clients[client].open.iter_mut().for_each(|open| open.has_failed = true);
                return Ok(());
            }
            return self.refused(client, &error, Manner::default(), &[]);
        }
        let known = &mut self.clients[client];
        match (verb, &mut known.open, place) {
            ("begin", open, _) => {
                let is_read_committed = level == "READ COMMITTED";
                let is_serializable = level == "SERIALIZABLE";
                // It sees what was committed before its beginning, or before its first statement.
                let bases = vec![Arc::clone(&self.state)];
                *open = Some(Open { is_read_committed, is_serializable, bases, ..Open::default() });
                self.counters.transactions += 1;
            }
            ("rollback", open, _) => {
                *open = None;
                known.held = None;
            }
            ("savepoint", Some(open), _) if !open.has_failed => open.savepoints.push((number, open.changes.clone())),
            ("release", Some(open), Some(place)) if !open.has_failed => open.savepoints.truncate(place),
            ("rollback_to", Some(open), Some(place)) => {
                open.changes = open.savepoints[place].1.clone();
                open.before.rows.retain(|changed, _| open.changes.rows.contains_key(changed));
                open.before.tables.retain(|table, _| open.changes.tables.contains_key(table));
                open.savepoints.truncate(place + 1);
                open.has_failed = false;
                known.held = None;
            }
            _ => return Err(format!("{text} was done")),
        }
        Ok(())
    }

    fn commit(&mut self, client: usize) -> Judged {
        let Some(open) = self.clients[client].open.take() else { return Ok(()) };
        self.clients[client].held = None;
        self.pending = (!open.has_failed).then(|| open.changes.over(&self.state));
        let result = self.clients[client].ask("COMMIT", Manner::default());
        let result = match result {
            Ok((_, tag)) if open.has_failed && tag != "ROLLBACK" => Err(format!("a failed transaction: {tag}")),
            Ok(_) if open.has_failed => Ok(()),
            Ok(_) => self.judge_commit(&open),
            Err(error) if error.state().code() == "40001" && open.is_never_asked_again() => {
                Err(told("a commit at READ COMMITTED", &error))
            }
            Err(error) => self
                .refused(client, &error, Manner::default(), &[])
                .and_then(|()| self.clients.get(client).map_or(Ok(()), |known| known.is_idle_after(&error))),
        };
        self.pending = None;
        result
    }

    /// A transaction has committed: it has lost no change of others, and was told nothing that is untrue by now.
    fn judge_commit(&mut self, open: &Open) -> Judged {
        // A row that is as it was before is not written.
        let mut changes = open.changes.clone();
        changes.rows.retain(|place, new| open.before.rows.get(place) != Some(new));
        let row = |(table, key): &(u64, i64)| self.state.get(table).and_then(|rows| rows.rows.get(key)).copied();
        let creation = |table: &u64| self.state.get(table).map(|rows| rows.creation);
        for (place, old) in &open.before.rows {
            // What was put and taken back to a savepoint is no change.
            if changes.rows.contains_key(place) && !changes.tables.contains_key(&place.0) && row(place) != *old {
                return Err(format!("a commit changes {place:?}, which was {old:?}, and is {:?} by now", row(place)));
            }
        }
        for (table, old) in &open.before.tables {
            if changes.tables.contains_key(table) && creation(table) != *old {
                return Err(format!("a commit creates or drops t{table}, which another one has"));
            }
        }
        for (table, old) in &open.wrote_to {
            let is_changed = changes.rows.keys().any(|(changed, _)| changed == table);
            if is_changed && !changes.tables.contains_key(table) && creation(table) != Some(*old) {
                return Err(format!("a commit writes to t{table}, which was dropped"));
            }
        }
        if open.is_serializable && !changes.is_empty() {
            for (question, own, lines) in &open.told {
                let now = question.answer(&own.over(&self.state));
                if now.as_ref() != Some(lines) {
                    return Err(format!("a serializable commit was told {lines:?} by {question:?}; by now: {now:?}"));
                }
            }
        }
        self.state = changes.over(&self.state);
        self.committed();
        Ok(())
    }

    /// Opens a portal or a cursor, and takes its first rows.
    fn hold(&mut self, is_cursor: bool, client: usize, question: Question, rows: u64) -> Judged {
        let known = &mut self.clients[client];
        if known.open.as_ref().is_none_or(|open| open.has_failed) {
            return Ok(());
        }
        known.held = None;
        // Of a name that no other has: a cursor from before a savepoint may still be open.
        let name = format!("c{}", self.counters.steps);
        let bases = self.bases(client);
        let changes = self.clients[client].open.as_ref().map(|open| open.changes.clone()).unwrap_or_default();
        let known = &mut self.clients[client];
        let opened = if is_cursor {
            let declared = format!("DECLARE {name} CURSOR FOR {}; FETCH {rows} FROM {name}", question.query());
            known.ask(&declared, Manner::default()).map(|(lines, _)| (None, lines))
        } else {
            known.open_portal(&question.query(), rows).map(|(portal, lines, _)| (Some(portal), lines))
        };
        let answers: Vec<_> = bases.iter().map(|base| question.answer(&changes.over(base))).collect();
        let (portal, lines) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let missing = answers.iter().any(Option::is_none);
                return self.refused(client, &error, Manner::default(), if missing { &["42P01"] } else { &[] });
            }
        };
        let is_right = |answer: &Vec<String>| answer[..answer.len().min(rows as usize)] == lines[..];
        let right: Vec<_> = bases.iter().zip(answers.iter().flatten()).filter(|(_, answer)| is_right(answer)).collect();
        // What is to come is known only if all that agree with the beginning agree with the rest.
        if let [(base, answer), more @ ..] = &right[..] {
            let is_known = more.iter().all(|(_, other)| other == answer);
            let known = &mut self.clients[client];
            let left = answer[lines.len()..].to_vec();
            known.held = is_known.then_some(Held { portal, name, left });
            if let (Some(open), true) = (&mut known.open, is_known) {
                open.bases = if open.is_read_committed { Vec::new() } else { vec![Arc::clone(base)] };
                open.bases.extend(more.iter().map(|(base, _)| Arc::clone(base)));
            }
            return Ok(());
        }
        Err(format!("{} begins with {lines:?}, not as {answers:?}", question.query()))
    }

    /// Takes the next rows of what is held.
    fn fetch(&mut self, client: usize, rows: u64) -> Judged {
        let Some(Held { portal, name, mut left }) = self.clients[client].held.take() else { return Ok(()) };
        let known = &mut self.clients[client];
        let fetched = match portal {
            Some(portal) => known.next_of(portal, rows).map(|(portal, lines, _)| (Some(portal), lines)),
            None => known.ask(&format!("FETCH {rows} FROM {name}"), Manner::default()).map(|(lines, _)| (None, lines)),
        };
        let (portal, lines) = match fetched {
            Ok(fetched) => fetched,
            // A portal that is done, or whose table another one has changed.
            Err(error) if left.is_empty() || error.state().code() == "40001" => {
                return self.refused(client, &error, Manner::default(), &["34000", "55000"]);
            }
            Err(error) => return self.refused(client, &error, Manner::default(), &[]),
        };
        let expected: Vec<String> = left.drain(..left.len().min(rows as usize)).collect();
        if lines != expected {
            return Err(format!("a portal goes on with {lines:?}, not with {expected:?}"));
        }
        self.clients[client].held = Some(Held { portal, name, left });
        Ok(())
    }

    /// A commit was acknowledged, or found: it is promised as the durability says.
    fn committed(&mut self) {
        let Some((db, _)) = &self.database else { return };
        let sequence = db.latched().read().sequence();
        self.counters.commits += 1;
        self.history.insert(sequence, Arc::clone(&self.state));
        match durability(self.setup.get("durability")) {
            // Trees without a name are dropped after the commit, by commits of their own which may fail.
            Durability::Sync if !db.pending_commits().is_durable(Durability::Sync) => {}
            Durability::Sync => {
                self.promise.handed_over.fetch_max(sequence, Ordering::SeqCst);
                self.promise.synced.fetch_max(sequence, Ordering::SeqCst);
                if self.watched.is_none() {
                    self.history = self.history.split_off(&sequence);
                }
            }
            Durability::Os => drop(self.promise.handed_over.fetch_max(sequence, Ordering::SeqCst)),
            Durability::None => {}
        }
    }

    /// What tables hold, as a new session finds it.
    fn read_all(&self) -> Judged<BTreeMap<u64, BTreeMap<i64, Row>>> {
        let (_, sql) = self.db()?;
        read(sql)
    }

    fn judge(&mut self) -> Judged {
        let found = match self.read_all() {
            Ok(found) => found,
            Err(_) if self.setup.get("disk") == FAILING => return Ok(()),
            Err(text) => return Err(text),
        };
        if !is_same(&self.state, &found) {
            return Err(difference(&self.state, &found));
        }
        let (db, sql) = self.db()?;
        if self.setup.get("disk") != FAILING {
            let report = quipu_rows::check(db, &mut |_| ()).map_err(|error| format!("check: {error:?}"))?;
            if !report.problems.is_empty() {
                return Err(format!("check finds {:?}", report.problems));
            }
        }
        if self.clients.iter().all(|client| client.open.is_none()) {
            let mut client = Client::new(sql).map_err(|error| told("a new client", &error))?;
            let locks = client.ask("SELECT count(*) FROM pg_locks", Manner::default());
            let (lines, _) = locks.map_err(|error| told("pg_locks", &error))?;
            if lines != ["0"] {
                return Err(format!("no transaction is open, and {lines:?} locks are held"));
            }
        }
        Ok(())
    }

    /// Closes the database and opens it again.
    fn reopen(&mut self) -> Judged {
        self.counters.reopens += 1;
        let (disk, watched) = disk_of(&self.setup, &self.sim, &self.promise, self.counters.steps);
        self.judge_images()?;
        self.watched = watched;
        self.open(disk)?;
        let at_least = self.promise.synced.load(Ordering::SeqCst);
        // A process that ends by itself loses nothing, but for what a log that has stopped did not take.
        self.take_what_is_found(at_least)
    }

    /// The power goes, or the process is killed; then the database is opened again.
    fn power(&mut self, lot: u64) -> Judged {
        let image = image_of(&self.sim, &self.promise, lot);
        self.counters.crash_points += 1;
        self.judge_images()?;
        self.clients.clear();
        self.database = None;
        self.sim = image.disk.clone();
        self.promise.handed_over.store(image.at_least, Ordering::SeqCst);
        let (disk, watched) = disk_of(&self.setup, &self.sim, &self.promise, lot);
        self.watched = watched;
        self.open(disk)?;
        self.take_what_is_found(image.at_least).map_err(|text| format!("after {}: {text}", image.what))
    }

    fn take_what_is_found(&mut self, at_least: u64) -> Judged {
        let sequence = self.found;
        if sequence < at_least {
            return Err(format!("commits {} to {at_least} are lost", sequence + 1));
        }
        self.sim.set_capacity(u64::MAX);
        let found = self.read_all()?;
        let before = self.history.range(..=sequence).next_back().map(|(_, state)| Arc::clone(state));
        // A definition is more than one commit of the engine, of which the last one makes it.
        let after = self.history.range(sequence..).next().map(|(_, state)| Arc::clone(state));
        self.pending = after.or(self.pending.take());
        self.state = before.unwrap_or_default();
        // Commits after it are lost, and others will have their numbers.
        self.history.retain(|&number, _| number <= sequence);
        self.take_found(found)?;
        let sequence = self.db()?.0.latched().read().sequence();
        if let Err(error) = self.db()?.0.sync() {
            let text = format!("what was found cannot be synced: {error:?}");
            // A fault that was drawn before may come now, once.
            return if self.is_of_disk(&error.into()) { self.reopen() } else { Err(text) };
        }
        // Until now a loss of power could take what was found.
        self.judge_images()?;
        for promised in [&self.promise.synced, &self.promise.handed_over] {
            promised.store(sequence, Ordering::SeqCst);
        }
        self.history = BTreeMap::from([(sequence, Arc::clone(&self.state))]);
        self.pending = None;
        Ok(())
    }

    fn judge_images(&mut self) -> Judged {
        let Some(watched) = &self.watched else { return Ok(()) };
        for image in watched.take_images() {
            self.counters.crash_points += 1;
            self.judge_image(&image).map_err(|text| format!("as {} would leave it: {text}", image.what))?;
        }
        Ok(())
    }

    fn judge_image(&self, image: &Image) -> Judged {
        let db = Db::open("/db", self.setup.options(Arc::new(image.disk.clone())))
            .map_err(|error| format!("it cannot be opened: {error:?}"))?;
        let sequence = db.latched().read().sequence();
        if sequence < image.at_least {
            return Err(format!("commits {} to {} are lost", sequence + 1, image.at_least));
        }
        let sql = SqlDatabase::open(&db).map_err(|error| told("SQL over it", &error))?;
        let found = read(&sql)?;
        // A definition is more than one commit of the engine, of which the last one makes it.
        let before = self.history.range(..=sequence).next_back();
        let after = self.history.range(sequence..).next();
        let known = before.into_iter().chain(after).any(|(_, state)| is_same(state, &found));
        if !known {
            let state = before.map_or(&self.state, |(_, state)| state);
            return Err(format!("commit {sequence}: {}", difference(state, &found)));
        }
        let report = quipu_rows::check(&db, &mut |_| ()).map_err(|error| format!("check: {error:?}"))?;
        if report.problems.is_empty() { Ok(()) } else { Err(format!("check finds {:?}", report.problems)) }
    }

    fn end(&mut self) -> Judged {
        self.sim.set_capacity(u64::MAX);
        let ends = |verb| Step::new(verb, vec![Word::Number(1), Word::Number(1)]);
        let ended = self.guarded(&ends("reopen")).and_then(|()| self.guarded(&ends("judge")));
        ended.map_err(|text| format!("in the end: {text}"))
    }
}

fn told(what: &str, error: &SqlError) -> String {
    format!("{what}: {} {}", error.state().code(), error.message())
}

fn create_table(table: u64) -> String {
    format!(
        "CREATE TABLE t{table} (id int PRIMARY KEY, k int, v int NOT NULL); CREATE INDEX t{table}_k ON t{table} (k)"
    )
}

fn draw_key(dice: &mut Dice) -> i64 {
    dice.within(0..=KEYS - 1)
}

fn draw_row(dice: &mut Dice) -> Row {
    ((!dice.percent(20)).then(|| dice.within(0..=5)), dice.within(-100..=100))
}

fn draw_filter(dice: &mut Dice) -> Filter {
    match dice.below(10) {
        0..=4 => Filter::Key(draw_key(dice)),
        5..=6 => {
            let low = draw_key(dice);
            Filter::Between(low, low + dice.within(0..=10))
        }
        7..=8 => Filter::Indexed(dice.within(0..=5)),
        _ => Filter::All,
    }
}

/// What an UPDATE does.
fn changed(filter: Filter, rows: &BTreeMap<i64, Row>, new: impl Fn(Row) -> Row) -> Effect {
    let found: Vec<(i64, Row)> = filter.of(rows).into_iter().map(|(key, row)| (key, new(row))).collect();
    Ok((found.iter().map(line).collect(), found.iter().map(|(key, row)| (*key, Some(*row))).collect()))
}

/// All rows of all tables that are there.
fn read(sql: &SqlDatabase) -> Judged<BTreeMap<u64, BTreeMap<i64, Row>>> {
    let mut client = Client::new(sql).map_err(|error| told("a new client", &error))?;
    let mut found = BTreeMap::new();
    for table in 0..TABLES {
        let all = Question { table, filter: Filter::All, asked: Asked::Rows }.query();
        match client.ask(&all, Manner::default()) {
            Ok((lines, _)) => drop(found.insert(table, lines.iter().filter_map(|line| row_of(line)).collect())),
            Err(error) if error.state().code() == "42P01" => {}
            Err(error) => return Err(told(&all, &error)),
        }
    }
    Ok(found)
}

fn is_same(state: &Committed, found: &BTreeMap<u64, BTreeMap<i64, Row>>) -> bool {
    state.len() == found.len() && state.iter().all(|(table, rows)| found.get(table) == Some(&rows.rows))
}

fn difference(state: &Committed, found: &BTreeMap<u64, BTreeMap<i64, Row>>) -> String {
    let wrong = (0..TABLES).filter(|table| state.get(table).map(|rows| &rows.rows) != found.get(table));
    let shown: Vec<String> = wrong
        .map(|table| format!("t{table} is {:?}, not {:?}", found.get(&table), state.get(&table).map(|rows| &rows.rows)))
        .collect();
    shown.join("; ")
}
