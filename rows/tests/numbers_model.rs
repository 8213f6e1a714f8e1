//! Goal: an identity column gives a number to every insert until those of its type are used up, and one that is refused
//! or rolled back takes none. Method: random statements, single writers and optimistic transactions that are open at
//! once, of which some are rolled back, wholly or to a savepoint; the next number set; closing, kills and power loss;
//! every integer type. Every number, and every refusal, is the one that a plain set of numbers foretells.
//! Replay: SEED=... cargo test -p quipu-rows --test all numbers_model::

use std::collections::BTreeSet;

use quipu::io::sim::SimDisk;
use quipu::{Db, ErrorKind, Result, Savepoint};
use quipu_rows::{
    Column, Constraint, DataType, Database, Identity, Ordered, RowTransaction, TableIn, TableSchema, Value, Violation,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::crash::options;
use quipu_testing::seeds::seeds;

const TYPES: [(DataType, i128, i128); 8] = [
    (DataType::I8, i8::MIN as i128, i8::MAX as i128),
    (DataType::I16, i16::MIN as i128, i16::MAX as i128),
    (DataType::I32, i32::MIN as i128, i32::MAX as i128),
    (DataType::I64, i64::MIN as i128, i64::MAX as i128),
    (DataType::U8, 0, u8::MAX as i128),
    (DataType::U16, 0, u16::MAX as i128),
    (DataType::U32, 0, u32::MAX as i128),
    (DataType::U64, 0, u64::MAX as i128),
];

type Numbers = BTreeSet<i128>;

/// What a transaction sees and has.
#[derive(Clone, Default)]
struct View {
    rows: Numbers,
    /// The rows that there were when it began.
    base: Numbers,
    /// Its numbers: no other is given them.
    own: Numbers,
    /// Keys that it relies upon.
    touched: Numbers,
}

struct Open {
    transaction: RowTransaction<'static>,
    view: View,
    saved: Option<(Savepoint, View)>,
    /// Keys that others have changed since it began.
    foreign: Numbers,
}

/// What is done to a table.
#[derive(Clone, Copy, Debug)]
enum Statement {
    /// With the number that it brings, if it does, and whether a check refuses it.
    Insert(Option<i128>, bool),
    Put(Option<i128>, bool),
    Renumber(i128, i128),
    Delete(i128),
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Row(i128),
    NoRow,
    Refused(Constraint),
}

struct World {
    disk: SimDisk,
    database: Option<Database>,
    data_type: (DataType, i128, i128),
    identity: Identity,
    rows: Numbers,
    next: i128,
    open: Vec<Open>,
    given: u64,
    used_up: u64,
    conflicts: u64,
}

fn apply(table: TableIn<'_, RowTransaction<'_>>, brings: bool, statement: Statement) -> Result<Outcome> {
    let table = if brings { table.bringing_numbers() } else { table };
    let value = |refused: bool| Value::Int(if refused { -1 } else { 1 });
    let number = |number: Option<i128>| number.map_or(Value::Null, Value::Int);
    let done = match statement {
        Statement::Insert(brought, refused) => {
            let row = table.insert_columns(&["v", "id"], (value(refused), number(brought)));
            row.and_then(|row| match row.get("id")? {
                Value::Int(number) => Ok(Outcome::Row(number)),
                other => panic!("{other}"),
            })
        }
        Statement::Put(brought, refused) => {
            let was_there = table.put([number(brought), value(refused)]);
            was_there.map(|was_there| if was_there { Outcome::NoRow } else { Outcome::Row(brought.unwrap_or(0)) })
        }
        Statement::Renumber(from, to) => {
            table.update(Value::Int(from), &[("id", Value::Int(to))]).map(|was_there| match was_there {
                true => Outcome::Row(to),
                false => Outcome::NoRow,
            })
        }
        Statement::Delete(number) => table.delete(Value::Int(number)).map(|_| Outcome::NoRow),
    };
    match done {
        Err(error) => match Violation::of(&error) {
            Some(violation) => Ok(Outcome::Refused(violation.constraint)),
            None => Err(error),
        },
        done => done,
    }
}

impl View {
    fn of(rows: &Numbers) -> View {
        View { rows: rows.clone(), base: rows.clone(), ..View::default() }
    }

    fn add(&mut self, number: i128) {
        self.rows.insert(number);
        self.own.insert(number);
        self.touched.insert(number);
    }

    fn remove(&mut self, number: i128) {
        self.touched.insert(number);
        self.rows.remove(&number);
    }

    /// The number that the next row has; none if all are used up. A row that a check refuses does not come so far that
    /// numbers of rows are passed over.
    fn next(&mut self, next: i128, others: &Numbers, last: i128, refused: bool) -> Option<i128> {
        let mut number = self.own.last().map_or(next, |own| next.max(own + 1));
        loop {
            if others.contains(&number) {
                number += 1;
            } else if number > last {
                return None;
            } else if self.rows.contains(&number) && !refused {
                self.touched.insert(number);
                number += 1;
            } else {
                return Some(number);
            }
        }
    }
}

impl World {
    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is open")
    }

    fn draw(&self, random: &mut StdRng) -> (Statement, bool) {
        let (_, first, last) = self.data_type;
        let refused = random.random_range(0..5) == 0;
        let near = match random.random_range(0..12) {
            0 => last + random.random_range(0..2),
            1 => last - random.random_range(0..20),
            2 => first - random.random_range(0..2),
            3 => random.random_range(-3..40),
            _ => self.next + random.random_range(-5..8),
        };
        let brought = (random.random_range(0..3) == 0).then_some(near);
        let statement = match random.random_range(0..12) {
            0 => Statement::Put(brought.or(Some(near)).filter(|_| refused), refused),
            1 => Statement::Delete(near.clamp(first, last)),
            2 => Statement::Renumber((near - 1).clamp(first, last), near),
            _ => Statement::Insert(brought, refused),
        };
        (statement, random.random_range(0..2) == 0)
    }

    /// What a statement must come to, done to the view.
    fn expect(&self, view: &mut View, others: &Numbers, brings: bool, statement: Statement) -> Outcome {
        let (_, first, last) = self.data_type;
        let is_own = self.identity == Identity::Always && !brings;
        match statement {
            Statement::Insert(None, refused) | Statement::Put(None, refused) => {
                let before = view.clone();
                match view.next(self.next, others, last, refused) {
                    None => Outcome::Refused(Constraint::NumbersUsedUp),
                    Some(_) if refused => {
                        *view = before;
                        Outcome::Refused(Constraint::Check)
                    }
                    Some(number) => {
                        view.add(number);
                        Outcome::Row(if matches!(statement, Statement::Put(..)) { 0 } else { number })
                    }
                }
            }
            Statement::Insert(Some(number), refused) | Statement::Put(Some(number), refused) => {
                if number < first || number > last {
                    return Outcome::Refused(Constraint::Type);
                }
                if is_own {
                    return Outcome::Refused(Constraint::Identity);
                }
                view.touched.insert(number);
                let is_there = view.rows.contains(&number);
                match statement {
                    _ if refused => Outcome::Refused(Constraint::Check),
                    Statement::Insert(..) if is_there => Outcome::Refused(Constraint::PrimaryKey),
                    _ if is_there => Outcome::NoRow,
                    _ => {
                        view.add(number);
                        Outcome::Row(number)
                    }
                }
            }
            Statement::Renumber(from, to) => {
                view.touched.extend([from, to]);
                if !view.rows.contains(&from) {
                    return Outcome::NoRow;
                }
                if is_own {
                    return Outcome::Refused(Constraint::Identity);
                }
                if to < first || to > last {
                    return Outcome::Refused(Constraint::Type);
                }
                if from != to {
                    if view.rows.contains(&to) {
                        return Outcome::Refused(Constraint::PrimaryKey);
                    }
                    view.remove(from);
                    view.add(to);
                }
                Outcome::Row(to)
            }
            Statement::Delete(number) => {
                view.remove(number);
                Outcome::NoRow
            }
        }
    }

    fn held(&self, but: Option<usize>) -> Numbers {
        let others = self.open.iter().enumerate().filter(|(place, _)| Some(*place) != but);
        others.flat_map(|(_, open)| open.view.own.iter().copied()).collect()
    }

    fn commit(&mut self, view: View) {
        if let Some(last) = view.own.last() {
            self.next = self.next.max(last + 1);
        }
        for number in view.base.difference(&view.rows) {
            self.rows.remove(number);
        }
        for number in view.rows.difference(&view.base) {
            assert!(self.rows.insert(*number), "the number {number} a second time");
        }
        for open in &mut self.open {
            open.foreign.extend(&view.touched);
        }
    }

    fn note(&mut self, statement: Statement, outcome: &Outcome) {
        match (statement, outcome) {
            (Statement::Insert(None, _), Outcome::Row(_)) => self.given += 1,
            (Statement::Insert(None, _), Outcome::Refused(Constraint::NumbersUsedUp)) => self.used_up += 1,
            _ => {}
        }
    }

    fn step(&mut self, random: &mut StdRng) {
        match random.random_range(0..40) {
            0..14 => {
                // A single writer, of some statements.
                let mut view = View::of(&self.rows);
                let is_rolled_back = random.random_range(0..4) == 0;
                let others = self.held(None);
                let drawn: Vec<_> = (0..random.random_range(1..6)).map(|_| self.draw(random)).collect();
                let mut noted = Vec::new();
                let result = self.database().write(|transaction| {
                    for &(statement, brings) in &drawn {
                        let found = apply(transaction.table("t")?, brings, statement)?;
                        let expected = self.expect(&mut view, &others, brings, statement);
                        assert_eq!(found, expected, "{statement:?}, bringing numbers: {brings}");
                        noted.push((statement, found));
                    }
                    if is_rolled_back { Err(quipu::Error::new(ErrorKind::Invalid, "never mind")) } else { Ok(()) }
                });
                assert_eq!(result.is_err(), is_rolled_back);
                noted.iter().for_each(|(statement, found)| self.note(*statement, found));
                if !is_rolled_back {
                    self.commit(view);
                }
            }
            14..30 => {
                if self.open.len() < 3 && (self.open.is_empty() || random.random_range(0..4) == 0) {
                    let (transaction, view) = (self.database().begin(), View::of(&self.rows));
                    self.open.push(Open { transaction, view, saved: None, foreign: Numbers::new() });
                }
                let place = random.random_range(0..self.open.len());
                let (statement, brings) = self.draw(random);
                let others = self.held(Some(place));
                let mut view = self.open[place].view.clone();
                let expected = self.expect(&mut view, &others, brings, statement);
                let open = &mut self.open[place];
                open.view = view;
                let found = apply(open.transaction.table("t").unwrap(), brings, statement).unwrap();
                assert_eq!(found, expected, "{statement:?}, bringing numbers: {brings}");
                self.note(statement, &found);
                let open = &mut self.open[place];
                match (random.random_range(0..8), open.saved.take()) {
                    (0 | 1, None) => open.saved = Some((open.transaction.savepoint(), open.view.clone())),
                    (0 | 1, Some((savepoint, mut view))) => {
                        open.transaction.rollback_to(savepoint).unwrap();
                        view.touched.extend(&open.view.touched);
                        open.view = view.clone();
                        open.saved = Some((savepoint, view));
                    }
                    (2, Some((savepoint, _))) => open.transaction.release(savepoint).unwrap(),
                    (_, saved) => open.saved = saved,
                }
            }
            30..36 if !self.open.is_empty() => {
                let open = self.open.swap_remove(random.random_range(0..self.open.len()));
                if random.random_range(0..3) == 0 {
                    open.transaction.rollback();
                    return;
                }
                match open.transaction.commit() {
                    Ok(()) => self.commit(open.view),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                        let is_met = open.foreign.intersection(&open.view.touched).next().is_some();
                        assert!(is_met, "a conflict over nothing but numbers that the table gives: {error}");
                        self.conflicts += 1;
                    }
                }
            }
            36 => {
                let (_, first, last) = self.data_type;
                let next = match random.random_range(0..3) {
                    0 => last - random.random_range(0..9),
                    1 => first + random.random_range(0..9),
                    _ => (self.next - random.random_range(0..20)).clamp(first, last),
                };
                self.database().set_next_number("t", "id", next).unwrap();
                self.next = next;
            }
            37 => self.database().db().checkpoint().map(drop).unwrap(),
            38 => self.reopen(|disk, _| disk.clone(), random),
            39 => self.reopen(|disk, seed| if seed % 2 == 0 { disk.kill() } else { disk.crash(seed) }, random),
            _ => {}
        }
    }

    fn reopen(&mut self, disk: impl FnOnce(&SimDisk, u64) -> SimDisk, random: &mut StdRng) {
        let after = disk(&self.disk, random.random_range(0..u64::MAX));
        self.open.clear();
        self.database = None;
        self.disk = after;
        self.database = Some(Database::open(&Db::open("/db", options(&self.disk)).unwrap()).unwrap());
    }

    fn judge(&self) {
        let database = self.database();
        let (_, first, last) = self.data_type;
        let next = Some(self.next).filter(|next| (first..=last).contains(next));
        assert_eq!(database.next_number("t", "id").unwrap(), next);
        let now = database.snapshot();
        let table = now.table("t").unwrap();
        let rows = table.rows(..).unwrap().map(|row| match row.unwrap().get("id").unwrap() {
            Value::Int(number) => number,
            other => panic!("{other}"),
        });
        assert!(rows.eq(self.rows.iter().copied()));
    }
}

#[test]
fn every_insert_gets_a_number_until_the_type_is_used_up_and_a_refused_one_takes_none() {
    let (mut given, mut used_up, mut conflicts) = (0, 0, 0);
    for seed in seeds(48) {
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        let disk = SimDisk::new();
        let database = Database::open(&Db::open("/db", options(&disk)).unwrap()).unwrap();
        let data_type = TYPES[random.random_range(0..TYPES.len())];
        let identity = if random.random_range(0..2) == 0 { Identity::Always } else { Identity::ByDefault };
        let schema = TableSchema::new("t")
            .column(Column::new("id", data_type.0).identity(identity))
            .column(Column::new("v", DataType::I64))
            .key(["id"])
            .check("positive", "v > 0");
        database.create_table(&schema).unwrap();
        println!("{} {identity:?}", data_type.0);
        let mut world = World {
            disk,
            database: Some(database),
            data_type,
            identity,
            rows: Numbers::new(),
            next: 1,
            open: Vec::new(),
            given: 0,
            used_up: 0,
            conflicts: 0,
        };
        for _ in 0..200 {
            world.step(random);
            world.judge();
        }
        given += world.given;
        used_up += world.used_up;
        conflicts += world.conflicts;
    }
    println!("{given} numbers given, {used_up} times used up, {conflicts} conflicts");
}
