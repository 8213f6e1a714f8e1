//! Optimistic transactions: held open over many steps, and judged when they commit.
//!
//! A commit that succeeds says that everything the transaction was told is as true now: so the present model is asked
//! the same, in the same order, with the
//! same writes in between. One that fails says that something has changed since it began.

use quipu::{Durability, ErrorKind};
use quipu_suite::dice::Dice;

use crate::library::actions::Action;
use crate::library::answer::shown;
use crate::library::model::State;
use crate::library::questions::QUESTIONS;
use crate::library::setup::durability;
use crate::library::word::{Word, Words};
use crate::library::world::{Done, HeldTransaction, Outcome, World, wrong};
use crate::library::writes::WRITINGS;

/// The verbs of transactions.
pub const ACTIONS: &[Action] = &[
    Action {
        name: "begin",
        weight: 5,
        covers: &["Db::begin", "Transaction::table"],
        draw: |dice, world| (world.transactions.len() < 4).then(|| vec![Word::Number(dice.below(4) as u64)]),
        apply: |world, words| {
            let db = world.db()?;
            let held = HeldTransaction {
                transaction: db.begin(),
                view: world.state.clone(),
                base: world.state.clone(),
                begun_at: db.latched().read().sequence(),
                tables: world.tables.clone(),
                savepoints: Vec::new(),
                done: Vec::new(),
            };
            world.transactions.insert(words.number(0), held);
            Ok(())
        },
    },
    Action {
        name: "commit",
        weight: 3,
        covers: &["Transaction::commit", "Transaction::commit_with"],
        draw: |dice, world| Some(vec![held(dice, world)?, Word::Number(dice.below(3) as u64)]),
        apply: commit,
    },
    Action {
        name: "rollback",
        weight: 1,
        covers: &["Transaction::rollback"],
        draw: |dice, world| Some(vec![held(dice, world)?]),
        apply: |world, words| {
            if let Some(held) = world.transactions.remove(&words.number(0)) {
                held.transaction.rollback();
            }
            Ok(())
        },
    },
    Action {
        name: "savepoint",
        weight: 2,
        covers: &["Transaction::savepoint"],
        draw: |dice, world| Some(vec![held(dice, world)?]),
        apply: |world, words| {
            if let Some(held) = world.transactions.get_mut(&words.number(0)) {
                held.savepoints.push((held.transaction.savepoint(), held.view.clone()));
                held.done.push(Done::Savepoint);
            }
            Ok(())
        },
    },
    Action {
        name: "rollback_to",
        weight: 1,
        covers: &["Transaction::rollback_to"],
        draw: |dice, world| Some(vec![held(dice, world)?, Word::Number(dice.below(3) as u64)]),
        apply: |world, words| {
            let Some(held) = world.transactions.get_mut(&words.number(0)) else { return Ok(()) };
            let place = words.number(1) as usize;
            let Some((savepoint, state)) = held.savepoints.get(place).cloned() else { return Ok(()) };
            held.transaction.rollback_to(savepoint)?;
            held.savepoints.truncate(place + 1);
            held.view = state;
            held.done.push(Done::RolledBack(place));
            Ok(())
        },
    },
    Action {
        name: "release",
        weight: 1,
        covers: &["Transaction::release"],
        draw: |dice, world| Some(vec![held(dice, world)?, Word::Number(dice.below(3) as u64)]),
        apply: |world, words| {
            let Some(held) = world.transactions.get_mut(&words.number(0)) else { return Ok(()) };
            let place = words.number(1) as usize;
            let Some((savepoint, _)) = held.savepoints.get(place).cloned() else { return Ok(()) };
            held.savepoints.truncate(place);
            held.done.push(Done::Released(place));
            if let Err(error) = held.transaction.release(savepoint) {
                // It can only be rolled back now.
                world.transactions.remove(&words.number(0));
                return Err(error.into());
            }
            Ok(())
        },
    },
];

fn held(dice: &mut Dice, world: &World) -> Option<Word> {
    let numbers: Vec<u64> = world.transactions.keys().copied().collect();
    numbers.get(dice.below(numbers.len().max(1))).map(|number| Word::Number(*number))
}

fn commit(world: &mut World, words: Words<'_>) -> Outcome {
    let Some(held) = world.transactions.remove(&words.number(0)) else { return Ok(()) };
    let durability = durability(words.number(1));
    let again = replay(&held, &world.state);
    let expected = again.as_ref().map_or_else(|_| world.state.clone(), Clone::clone);
    world.expect(&expected)?;
    let touched = held.done.iter().filter_map(|done| match done {
        Done::Asked(step, _) | Done::Wrote(step, _) => Some(Words(&step.words).name(2)),
        _ => None,
    });
    let number = |state: &State, name: &str| state.tables.get(name).map(|model| model.number);
    let has_lost_a_table = touched.clone().any(|name| number(&held.view, name) != number(&world.state, name));
    let sequence = world.db()?.latched().read().sequence();
    let nothing_happened = sequence == held.begun_at;
    let has_written = !held.view.same(&held.base);
    match held.transaction.commit_with(durability) {
        // What only reads is as if it had been when it began.
        Ok(()) if world.db()?.latched().read().sequence() == sequence && !has_written => {
            world.counters.transactions += 1;
            world.note_commit(world.state.clone(), Durability::None)
        }
        Ok(()) => match again {
            Ok(state) => {
                world.counters.transactions += 1;
                world.note_commit(state, durability)
            }
            Err(what) => wrong(format!("a transaction has committed, but now {what}")),
        },
        Err(error) if error.kind() == ErrorKind::Conflict && !nothing_happened => {
            world.counters.conflicts += 1;
            world.note_commit(world.state.clone(), Durability::None)
        }
        Err(error) if error.kind() == ErrorKind::Missing && has_lost_a_table => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Does everything again, over the present state. What it makes of that, or what would be answered otherwise.
fn replay(held: &HeldTransaction, now: &State) -> Result<State, String> {
    let mut state = now.clone();
    let mut savepoints = Vec::new();
    for done in &held.done {
        match done {
            Done::Asked(step, answer) => {
                let words = Words(&step.words);
                if step.verb == "get_many" && words.from(3).keys(0).is_empty() {
                    // Nothing was asked, so nothing is relied on.
                    continue;
                }
                let question = QUESTIONS.iter().find(|question| question.name == step.verb);
                let model = state.tables.get(words.name(2)).ok_or("a table is gone")?;
                if !question.is_some_and(|question| (question.judge)(model, words.from(3), answer)) {
                    return Err(format!("`{step}` is not answered {} any more", shown(answer)));
                }
            }
            Done::Wrote(step, answer) => {
                let words = Words(&step.words);
                let writing = WRITINGS.iter().find(|writing| writing.name == step.verb).ok_or("no such verb")?;
                let model = state.tables.get_mut(words.name(2)).ok_or("a table is gone")?;
                let now = (writing.model)(model, words.from(3));
                if now != *answer {
                    return Err(format!("`{step}` is answered {now:?}, not {answer:?}"));
                }
            }
            Done::Savepoint => savepoints.push(state.clone()),
            Done::RolledBack(place) => {
                savepoints.truncate(place + 1);
                state = savepoints[*place].clone();
            }
            Done::Released(place) => savepoints.truncate(*place),
        }
    }
    Ok(state)
}
