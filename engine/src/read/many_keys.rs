//! Looks up many keys of a table together, so that they wait for memory together.
//!
//! It goes through the layers, newest first, and looks in each for the keys of a group that no newer layer has.
//!
//! Cost: some 0.1 us for each key and layer if all is in memory; for a run, mostly a filter. All missing pages of the
//! keys are noted before one is reported missing, so that they are read together.

use smallvec::SmallVec;

use crate::cache::Missing;
use crate::probe::RunLayer;
use crate::read::table_layer::Mixed;
use crate::read::table_stack::TableStack;
use crate::stack::{Cut, Layer, Stack, ask_in_groups};
use crate::tally::{Measures, Tally};
use crate::tree::{self, Found, GROUP, Side};

/// The newest entry of a key.
#[derive(Clone, Copy)]
enum Newest<'a> {
    Memory(Found<'a>),
    Run(RunLayer<'a>, crate::page::Record<'a>),
}

impl<'a> Newest<'a> {
    fn is_live(&self) -> bool {
        match self {
            Newest::Memory(found) => found.value().is_some(),
            Newest::Run(_, record) => !record.is_tombstone(),
        }
    }

    /// The value of `key`, whose entry this is; `None` for a tombstone.
    fn value(&self, key: &[u8]) -> Result<Option<&'a [u8]>, Missing> {
        match self {
            Newest::Memory(found) => Ok(found.value()),
            Newest::Run(_, record) if record.is_tombstone() => Ok(None),
            // The path to a value out of line begins at the leaf's place, which the group's path does not know.
            Newest::Run(run, record) if record.value_is_out() => Ok(run.get(key)?.flatten()),
            Newest::Run(_, record) => Ok(Some(record.value)),
        }
    }
}

impl<'a> Stack<'a, Mixed<'a>> {
    /// Gives `take` the newest entry of each key with its index, in order; for a key with a missing page, which has
    /// been requested, that it is missing.
    fn newest_many(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut take: impl FnMut(usize, &[u8], Result<Option<Newest<'a>>, Missing>),
    ) {
        for (chunk, keys) in keys.chunks(GROUP).enumerate() {
            let mut found: [Result<Option<Newest<'a>>, Missing>; GROUP] = [Ok(None); GROUP];
            // The indexes of the keys that no layer so far has an entry of.
            let mut numbers: SmallVec<[usize; GROUP]> = (0..keys.len()).collect();
            let mut left: SmallVec<[&[u8]; GROUP]> = keys.iter().map(AsRef::as_ref).collect();
            for layer in self.layers() {
                let group = left.clone();
                let mut count = 0;
                let mut answer = |place: usize, entry: Result<Option<Newest<'a>>, Missing>| {
                    if let Ok(None) = entry {
                        (numbers[count], left[count]) = (numbers[place], left[place]);
                        count += 1;
                    } else {
                        found[numbers[place]] = entry;
                    }
                };
                match layer {
                    Mixed::Memory(view) => {
                        tree::get_many(view, &group, |place, entry| answer(place, Ok(entry.map(Newest::Memory))));
                    }
                    Mixed::Run(run) => run.get_group(&group, |place, entry| {
                        answer(place, entry.map(|record| record.map(|record| Newest::Run(*run, record))));
                    }),
                }
                numbers.truncate(count);
                left.truncate(count);
                if count == 0 {
                    break;
                }
            }
            for (number, (key, entry)) in keys.iter().zip(found).enumerate() {
                take(chunk * GROUP + number, key.as_ref(), entry);
            }
        }
    }

    /// The values of keys, in their order; `None` for dead keys.
    pub(crate) fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<&'a [u8]>>, Missing> {
        let mut values = Vec::with_capacity(keys.len());
        let mut asked = Ok(());
        self.newest_many(keys, |_, key, entry| {
            let value = entry.and_then(|entry| entry.map_or(Ok(None), |entry| entry.value(key)));
            asked = asked.and(value.map(|value| values.push(value)));
        });
        asked.map(|()| values)
    }

    /// What each of these keys adds to the tally: zero if it is dead.
    pub(crate) fn contributions(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Tally>, Missing> {
        let mut contributions = ManyKeys::contributions(keys);
        contributions.ask(self)?;
        Ok(contributions.into_answers())
    }
}

/// A question about each of many keys. Asked of one version as often as pages are missing, each time for the keys that
/// lacked one.
pub(crate) struct ManyKeys<'k, K, A> {
    keys: &'k [K],
    answers: Vec<A>,
    /// The indexes of the keys that lacked a page; `None` before all keys were asked for once.
    lacking: Option<Vec<usize>>,
    read: Read<A>,
}

/// Makes an answer of a key and its newest entry.
type Read<A> = fn(&Measures, &[u8], Option<Newest<'_>>) -> Result<A, Missing>;

impl<'k, K: AsRef<[u8]>> ManyKeys<'k, K, Tally> {
    /// What each key adds to the tally: zero if it is dead.
    pub(crate) fn contributions(keys: &'k [K]) -> Self {
        ManyKeys::new(keys, contribution)
    }
}

impl<'k, K: AsRef<[u8]>> ManyKeys<'k, K, ()> {
    /// Nothing, but all pages on the way to each value have been seen then.
    pub(crate) fn ways(keys: &'k [K]) -> Self {
        ManyKeys::new(keys, |_, key, entry| entry.map_or(Ok(None), |entry| entry.value(key)).map(drop))
    }
}

impl<'k, K: AsRef<[u8]>, A: Copy + Default> ManyKeys<'k, K, A> {
    fn new(keys: &'k [K], read: Read<A>) -> Self {
        ManyKeys { keys, answers: vec![A::default(); keys.len()], lacking: None, read }
    }

    /// Asks the version for what is not known yet.
    pub(crate) fn ask<'a>(&mut self, stack: &Stack<'a, Mixed<'a>>) -> Result<(), Missing> {
        let (mut asked, mut lacking) = (Ok(()), Vec::new());
        let (measures, read) = (*stack.measures(), self.read);
        let mut note = |number: usize, key: &[u8], entry: Result<Option<Newest<'a>>, Missing>| {
            let answer = entry.and_then(|entry| read(&measures, key, entry));
            match answer {
                Ok(answer) => self.answers[number] = answer,
                Err(missing) => {
                    lacking.push(number);
                    asked = Err(missing);
                }
            }
        };
        match &self.lacking {
            None => stack.newest_many(self.keys, note),
            Some(numbers) => {
                let keys: Vec<&[u8]> = numbers.iter().map(|number| self.keys[*number].as_ref()).collect();
                stack.newest_many(&keys, |place, key, entry| note(numbers[place], key, entry));
            }
        }
        self.lacking = Some(lacking);
        asked
    }

    /// For each key, once a question has succeeded.
    pub(crate) fn into_answers(self) -> Vec<A> {
        self.answers
    }
}

/// What the newest entry of `key` adds to the tally.
fn contribution(measures: &Measures, key: &[u8], newest: Option<Newest<'_>>) -> Result<Tally, Missing> {
    let Some(entry) = newest.filter(Newest::is_live) else { return Ok(Tally::ZERO) };
    if measures.only_rows() {
        return Ok(Tally { rows: 1, ..Tally::ZERO });
    }
    Ok(entry.value(key)?.map_or(Tally::ZERO, |value| measures.of_row(key, value)))
}

/// Counts the live rows before many cuts. Each comes with a mark of the caller's, which `counted` gets with its answer.
pub(crate) fn rows_before_many<'k, M>(
    stack: &TableStack<'_>,
    cuts: impl Iterator<Item = (M, Cut<'k>)>,
    mut counted: impl FnMut(M, u64),
) -> Result<(), Missing> {
    if let Some(trees) = stack.trees() {
        trees.rows_before_many(cuts, counted);
        return Ok(());
    }
    let mut asked = Ok(());
    let at_end = |is_start| Ok(if is_start { 0 } else { stack.total().rows });
    let ask = |keys: &[(&[u8], Side)]| {
        let mut rows = [Ok(0i64); GROUP];
        for layer in stack.layers() {
            let mut add = |number: usize, before: Result<i64, Missing>| {
                let sum: &mut Result<i64, Missing> = &mut rows[number];
                *sum = sum.and_then(|sum| Ok(sum + before?));
            };
            match layer {
                Mixed::Memory(view) => tree::rows_before_many(view, keys, |number, before| add(number, Ok(before))),
                Mixed::Run(run) => run.rows_before_group(keys, add),
            }
        }
        rows
    };
    ask_in_groups(cuts, at_end, ask, |mark, rows| match rows {
        Ok(rows) => counted(mark, rows as u64),
        Err(missing) => asked = Err(missing),
    });
    asked
}
