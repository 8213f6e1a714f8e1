//! Numbers of sequences.
//!
//! A sequence reserves numbers in blocks, each in a commit of its own before the first of them is given out; so no
//! number is given out twice, whatever becomes of transactions, and there are gaps. What is reserved and was not given
//! out is lost when the database is closed.
//!
//! In the closure of [`Database::write`] no other commit can be made: there the number is reserved with the closure's
//! own commit, one at a time. If that never comes, it is noted in a commit afterwards: a statement that failed because
//! of its number must get another one when it is repeated.
//!
//! The sequence of an identity column has no numbers of its own: the table gives them out, without gaps.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quipu::tuple::{self, Element};
use quipu::{ReadableTable, WritableTable};
use quipu_rows::{Database, RowTransaction};

use crate::catalogue::Catalogue;
use crate::catalogue::names_in_rows::parts_of;
use crate::catalogue::objects::{ObjectNumber, Sequence};
use crate::catalogue::store::{Store, sequence_key};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::functions::quote_literal;
use crate::functions::strings::quote_identifier;

/// Numbers that are reserved together.
const RESERVED_TOGETHER: i64 = 32;

/// How far a sequence is: the last number, and whether it was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last number that was given out or reserved; or the one that is given out next.
    pub last: i64,
    /// Whether it was given out.
    pub is_called: bool,
}

/// Numbers that are reserved and not given out yet: of how many, the next one.
#[derive(Clone, Copy)]
struct Reserved {
    /// Which of the alterations of the sequence they are of.
    of: u32,
    next: i64,
    left: i64,
}

/// The numbers of all sequences. One for all sessions; what a session was given last (`currval`) it knows itself.
pub struct Sequences {
    database: Database,
    store: Store,
    reserved: Mutex<HashMap<ObjectNumber, Reserved>>,
    given: Mutex<Vec<Given>>,
}

/// A number that a closure has given out.
pub(crate) struct Given {
    number: ObjectNumber,
    increment: i64,
    last: i64,
}

impl Reserved {
    /// Whether there are some of a sequence as it is now.
    fn is_of(&self, sequence: &Sequence) -> bool {
        self.left > 0 && self.of == sequence.alterations
    }
}

fn position_of(value: &[u8]) -> Result<Position> {
    match tuple::decode(value).ok().as_deref() {
        Some([Element::Int(last), Element::Int(is_called)]) => {
            Ok(Position { last: i64::try_from(*last).unwrap_or(i64::MAX), is_called: *is_called != 0 })
        }
        _ => Err(SqlError::new(SqlState::DATA_CORRUPTED, "the position of a sequence is damaged")),
    }
}

fn position_in(tree: &impl ReadableTable, number: ObjectNumber, sequence: &Sequence) -> Result<Position> {
    match tree.get(sequence_key(number))? {
        Some(value) => position_of(&value),
        None => Ok(Position { last: sequence.start, is_called: false }),
    }
}

fn put_position(tree: &impl WritableTable, number: ObjectNumber, position: Position) -> quipu::Result<()> {
    let value = [Element::Int(position.last.into()), Element::Int(position.is_called.into())];
    tree.put(sequence_key(number), tuple::encode(&value))
}

/// The schema and the name of the sequence whose numbers a default takes: `nextval('name')`; none of other defaults.
pub fn of_default(text: &str) -> Option<(Option<String>, String)> {
    let rest = text.trim().strip_prefix("nextval(").or_else(|| text.trim().strip_prefix("pg_catalog.nextval("))?;
    let (name, rest) = rest.strip_prefix('\'')?.split_once('\'')?;
    let is_whole = rest == ")" || rest.to_lowercase() == "::regclass)";
    let mut parts = is_whole.then(|| parts_of(name))?;
    let own = parts.pop()?;
    Some((parts.pop(), own))
}

impl Sequence {
    /// The default of a column that takes its numbers, as columns keep it.
    pub fn default_text(&self) -> String {
        let name = format!("{}.{}", quote_identifier(&self.schema), quote_identifier(&self.name));
        format!("nextval({}::regclass)", quote_literal(&name))
    }

    /// The number after a position.
    ///
    /// # Errors
    /// That the sequence has come to its end.
    pub(crate) fn after(&self, position: Position) -> Result<i64> {
        if !position.is_called {
            return Ok(position.last);
        }
        let next = position.last.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next));
        match next {
            Some(next) => Ok(next),
            None if self.cycles => Ok(if self.increment > 0 { self.min } else { self.max }),
            None => {
                let (end, last) = if self.increment > 0 { ("maximum", self.max) } else { ("minimum", self.min) };
                let what = format!("nextval: reached {end} value of sequence \"{}\" ({last})", self.name);
                Err(SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, what))
            }
        }
    }

    /// Up to so many numbers from one on, this among them, without a turn at the end.
    fn up_to(&self, first: i64, most: i64) -> i64 {
        let room = if self.increment > 0 { self.max.abs_diff(first) } else { self.min.abs_diff(first) };
        let further = i64::try_from(room / self.increment.unsigned_abs().max(1)).unwrap_or(i64::MAX);
        further.saturating_add(1).min(most)
    }

    fn refuse_out_of_bounds(&self, value: i64) -> Result<()> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        let (name, min, max) = (&self.name, self.min, self.max);
        let what = format!("setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})");
        Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what))
    }
}

impl Sequences {
    pub(crate) fn new(database: &Database, store: &Store) -> Sequences {
        Sequences {
            database: database.clone(),
            store: store.clone(),
            reserved: Mutex::default(),
            given: Mutex::default(),
        }
    }

    fn reserved(&self) -> MutexGuard<'_, HashMap<ObjectNumber, Reserved>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number of a sequence, in a transaction that sees this catalogue.
    ///
    /// # Errors
    /// [`SEQUENCE_GENERATOR_LIMIT_EXCEEDED`](SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED) at its end, and those of a
    /// commit.
    pub fn next(
        &self,
        transaction: &RowTransaction<'_>,
        catalogue: &Catalogue,
        number: ObjectNumber,
        sequence: &Sequence,
    ) -> Result<i64> {
        if let Some((table, column)) = identity_of(catalogue, sequence) {
            return self.next_of_table(transaction, &sequence.name, (&table, &column));
        }
        let tree = self.store.sequences()?;
        if let Some(block) = self.reserved().get_mut(&number).filter(|block| block.is_of(sequence)) {
            let next = block.next;
            block.left -= 1;
            block.next = next.saturating_add(sequence.increment);
            return Ok(next);
        }
        // No other transaction sees a sequence that this one has created or moved.
        let within = transaction.engine().table(tree)?;
        let is_own = transaction.is_single_writer() || self.is_own(transaction, number)?;
        if is_own {
            let next = sequence.after(position_in(&within, number, sequence)?)?;
            put_position(&within, number, Position { last: next, is_called: true })?;
            if transaction.is_single_writer() {
                let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
                given.retain(|given| given.number != number);
                given.push(Given { number, increment: sequence.increment, last: next });
            }
            return Ok(next);
        }
        // No thread waits for the writer's turn with numbers in hand that a closure may ask for.
        let (next, left) = self.database.write(|writer| {
            let tree = writer.engine().table(tree)?;
            let position = position_in(&tree, number, sequence).map_err(into_engine)?;
            let next = match sequence.after(position) {
                Ok(next) => next,
                Err(error) => return Ok(Err(error)),
            };
            let count = sequence.up_to(next, RESERVED_TOGETHER);
            let last = next.saturating_add(sequence.increment.saturating_mul(count - 1));
            put_position(&tree, number, Position { last, is_called: true })?;
            Ok(Ok((next, count - 1)))
        })??;
        let mut reserved = self.reserved();
        let of = sequence.alterations;
        let block = reserved.entry(number).or_insert(Reserved { of, next, left: 0 });
        if !block.is_of(sequence) {
            *block = Reserved { of, next: next.saturating_add(sequence.increment), left };
        }
        Ok(next)
    }

    /// The last numbers that the closure which runs now has given out.
    pub(crate) fn take_given(&self) -> Vec<Given> {
        std::mem::take(&mut *self.given.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes numbers that a closure has given out, which has failed.
    ///
    /// # Errors
    /// Those of a commit.
    pub(crate) fn keep(&self, given: &[Given]) -> Result<()> {
        if given.is_empty() {
            return Ok(());
        }
        let tree = self.store.sequences()?;
        Ok(self.database.write(|writer| {
            let tree = writer.engine().table(tree)?;
            for Given { number, increment, last } in given {
                let position = tree.get(sequence_key(*number))?.map(|value| position_of(&value)).transpose();
                // Others may have come further meanwhile.
                let is_noted = position.map_err(into_engine)?.is_some_and(|position| match *increment > 0 {
                    true => position.last > *last || position.last == *last && position.is_called,
                    false => position.last < *last || position.last == *last && position.is_called,
                });
                if !is_noted {
                    put_position(&tree, *number, Position { last: *last, is_called: true })?;
                }
            }
            Ok(())
        })?)
    }

    /// Whether others do not see the sequence as the transaction does.
    fn is_own(&self, transaction: &RowTransaction<'_>, number: ObjectNumber) -> Result<bool> {
        let Some(tree) = self.store.tree() else { return Ok(false) };
        let key = crate::catalogue::store::definition_key(number);
        let is_there = tree.get(&key)?;
        // Only the transaction that creates or changes it has another one; that is a conflict anyway.
        Ok(is_there != transaction.engine().table(tree)?.get(&key)?)
    }

    /// The number that a table gives to its identity column next, which is given to no row then, whatever becomes of
    /// the transaction. Only where others do not see the column or its next number is it taken with the transaction.
    fn next_of_table(
        &self,
        transaction: &RowTransaction<'_>,
        name: &str,
        (table, column): (&str, &str),
    ) -> Result<i64> {
        let next = if transaction.is_single_writer() || transaction.definitions().has_set_number(table, column)? {
            transaction.definitions().take_number(table, column)?
        } else {
            let own = self.database.begin();
            let next = own.definitions().take_number(table, column)?;
            own.commit()?;
            next
        };
        next.and_then(|next| i64::try_from(next).ok()).ok_or_else(|| {
            let what = format!("nextval: reached maximum value of sequence \"{name}\"");
            SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, what)
        })
    }

    /// How far a sequence is as a view sees it: `last_value` and `is_called`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn position_in_view(
        &self,
        view: View<'_>,
        catalogue: &Catalogue,
        (number, sequence): (ObjectNumber, &Sequence),
    ) -> Result<Position> {
        match view {
            View::Transaction(transaction) => self.position_within(transaction, catalogue, (number, sequence)),
            View::Snapshot(_) | View::Nothing => self.position(catalogue, number, sequence),
        }
    }

    /// How far a sequence is for those that see what is committed.
    fn position(&self, catalogue: &Catalogue, number: ObjectNumber, sequence: &Sequence) -> Result<Position> {
        if let Some((table, column)) = identity_of(catalogue, sequence) {
            let next = self.database.next_number(&table, &column)?.unwrap_or(i64::MAX.into());
            return Ok(position_before(i64::try_from(next).unwrap_or(i64::MAX), sequence));
        }
        let position = position_in(self.store.sequences()?, number, sequence)?;
        Ok(match self.reserved().get(&number) {
            Some(block) if block.is_of(sequence) => {
                Position { last: block.next.saturating_sub(sequence.increment), is_called: true }
            }
            _ => position,
        })
    }

    /// Sets how far a sequence is: `setval`. It stays when the transaction is rolled back, unless that has created the
    /// sequence, or the sequence is of an identity column.
    ///
    /// # Errors
    /// [`NUMERIC_VALUE_OUT_OF_RANGE`](SqlState::NUMERIC_VALUE_OUT_OF_RANGE), and those of a commit.
    pub fn set(
        &self,
        transaction: &RowTransaction<'_>,
        catalogue: &Catalogue,
        (number, sequence): (ObjectNumber, &Sequence),
        position: Position,
    ) -> Result<()> {
        sequence.refuse_out_of_bounds(position.last)?;
        if let Some((table, column)) = identity_of(catalogue, sequence) {
            let next = i128::from(position.last) + i128::from(position.is_called);
            return Ok(transaction.definitions().set_next_number(&table, &column, next)?);
        }
        let tree = self.store.sequences()?;
        if transaction.is_single_writer() || self.is_own(transaction, number)? {
            put_position(&transaction.engine().table(tree)?, number, position)?;
        } else {
            self.database.write(|writer| put_position(&writer.engine().table(tree)?, number, position))?;
        }
        self.reserved().remove(&number);
        Ok(())
    }

    /// How far a sequence is, with what a transaction has made of it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn position_within(
        &self,
        transaction: &RowTransaction<'_>,
        catalogue: &Catalogue,
        (number, sequence): (ObjectNumber, &Sequence),
    ) -> Result<Position> {
        match identity_of(catalogue, sequence) {
            None if self.is_own(transaction, number)? => {
                position_in(&transaction.engine().table(self.store.sequences()?)?, number, sequence)
            }
            Some((table, column)) => {
                let next = transaction.definitions().next_number(&table, &column)?.unwrap_or(i64::MAX.into());
                Ok(position_before(i64::try_from(next).unwrap_or(i64::MAX), sequence))
            }
            None => self.position(catalogue, number, sequence),
        }
    }

    /// Has a sequence be as it is given here, and begin at a position, with the transaction: ALTER SEQUENCE, TRUNCATE
    /// ... RESTART IDENTITY.
    ///
    /// # Errors
    /// Those of a write.
    pub fn begin_at(
        &self,
        transaction: &RowTransaction<'_>,
        (number, sequence): (ObjectNumber, &Sequence),
        position: Position,
    ) -> Result<()> {
        // Numbers that are reserved are of the sequence before, and the transaction has it for itself.
        let altered = Sequence { alterations: sequence.alterations.wrapping_add(1), ..sequence.clone() };
        self.store.put_sequence(transaction, Some(number), &altered)?;
        put_position(&transaction.engine().table(self.store.sequences()?)?, number, position)?;
        Ok(())
    }
}

/// How far the numbers of an identity column are, as a transaction has it, which takes the next one.
///
/// # Errors
/// Those of reading.
pub(crate) fn position_taken(
    transaction: &RowTransaction<'_>,
    (table, column): (&str, &str),
    sequence: &Sequence,
) -> Result<Position> {
    let next = transaction.definitions().take_number(table, column)?.unwrap_or(i64::MAX.into());
    Ok(position_before(i64::try_from(next).unwrap_or(i64::MAX), sequence))
}

/// How far a sequence is whose next number is this.
fn position_before(next: i64, sequence: &Sequence) -> Position {
    match next > sequence.start {
        true => Position { last: next - 1, is_called: true },
        false => Position { last: next, is_called: false },
    }
}

/// The table, as rows call it, and the identity column whose numbers a sequence stands for.
pub(crate) fn identity_of(catalogue: &Catalogue, sequence: &Sequence) -> Option<(String, String)> {
    let owner = sequence.owner.filter(|_| sequence.is_identity)?;
    let table = catalogue.tables().get(&owner.table)?;
    let place = table.columns.iter().position(|column| column.number == owner.column)?;
    Some((table.rows_name.clone(), table.declared.columns[place].name.clone()))
}

/// An error of a closure of the engine.
fn into_engine(error: SqlError) -> quipu::Error {
    quipu::Error::new(quipu::ErrorKind::Corrupt, error.to_string())
}
