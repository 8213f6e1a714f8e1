//! Actions on a database other than reads and writes of rows: one entry a verb.

use quipu::{Durability, ErrorKind, InnerPages, RunLayout};
use quipu_suite::dice::Dice;

use crate::library::changes::{batch, create, drop_table, edit, edit_range, fill, ingest, write};
use crate::library::model::TableModel;
use crate::library::questions::{QUESTIONS, bounds, key};
use crate::library::upkeep::{backup, check_files, pull, reopen, stats};
use crate::library::word::{Step, Word, Words};
use crate::library::world::{HeldSnapshot, Outcome, World, wrong};
use crate::library::writes::{WRITINGS, row};

/// A verb of the database.
pub struct Action {
    /// Its name in scripts.
    pub name: &'static str,
    /// How often it is drawn.
    pub weight: usize,
    /// The verbs of the library that it covers.
    pub covers: &'static [&'static str],
    /// Draws its words; `None`: it has no place now.
    pub draw: fn(&mut Dice, &World) -> Option<Vec<Word>>,
    /// Does it, and judges.
    pub apply: fn(&mut World, Words<'_>) -> Outcome,
}

/// All of them, but for those of transactions.
const OWN: &[Action] = &[
    Action {
        name: "create",
        weight: 4,
        covers: &[
            "Db::create_table",
            "Db::open_table",
            "Db::table",
            "Db::ensure_table",
            "Table::name",
            "Table::options",
            "Table::metadata",
        ],
        draw: |dice, world| {
            let wanted = world.setup.get("tables").max(1) as usize;
            let is_wanted = world.state.tables.len() < wanted || dice.percent(3);
            let bits = if dice.percent(30) { 0 } else { dice.below(1 << 15) as u64 };
            is_wanted.then(|| vec![Word::Name(format!("t{}", dice.below(wanted + 1))), Word::Number(bits)])
        },
        apply: create,
    },
    Action {
        name: "drop",
        weight: 1,
        covers: &["Db::drop_table"],
        draw: |dice, world| dice.percent(40).then(|| table(dice, world).map(|name| vec![name])).flatten(),
        apply: drop_table,
    },
    Action {
        name: "batch",
        weight: 6,
        covers: &["WriteBatch::put", "WriteBatch::remove", "Db::apply", "Db::apply_with", "WriteBatch::len"],
        draw: |dice, world| {
            let lot = Word::Number(dice.below(3) as u64);
            Some([vec![lot], writes(dice, world)?].concat())
        },
        apply: batch,
    },
    Action {
        name: "ingest",
        weight: 5,
        covers: &[
            "Table::ingest",
            "Table::begin_ingest",
            "Ingest::push",
            "Ingest::rows",
            "Ingest::bytes",
            "Ingest::commit",
        ],
        draw: |dice, world| {
            let way = Word::name(dice.pick(&["replace", "replace", "replace", "refuse", "refuse", "drop", "again"]));
            Some([vec![table(dice, world)?, way], writes(dice, world)?].concat())
        },
        apply: ingest,
    },
    Action {
        name: "write",
        weight: 6,
        covers: &["Db::write", "Db::write_with"],
        draw: |dice, world| {
            let head = [Word::name(dice.pick(&["commit", "commit", "abort"])), Word::Number(dice.below(3) as u64)];
            Some([head.to_vec(), writes(dice, world)?].concat())
        },
        apply: write,
    },
    Action {
        name: "fill",
        weight: 2,
        covers: &["Db::write"],
        draw: |dice, world| {
            let name = table(dice, world)?;
            let key = Words(&row(dice, &world.setup, model_of(world, &name)?)[..1]).key(0).to_vec();
            let rows = *dice.pick(&[&10_usize, &60, &400]);
            let share = if world.setup.is_tight() { 1 } else { 4 };
            let words = [name, Word::Key(key), Word::Number((1 + dice.below(rows) / share) as u64)];
            Some([&words[..], &[Word::Value(world.setup.draw_value(dice))]].concat())
        },
        apply: fill,
    },
    Action {
        name: "edit",
        weight: 6,
        covers: &[
            "Latched::write",
            "LatchedWrite::put",
            "LatchedWrite::insert",
            "LatchedWrite::remove",
            "LatchedWrite::update",
            "LatchedWrite::update_many",
            "LatchedWrite::table",
            "LatchedWrite::commit",
            "PendingCommit::wait",
            "LatchedWrite::reserve",
            "LatchedWrite::set_savepoint",
            "LatchedWrite::rollback_to_savepoint",
            "LatchedWrite::lend",
            "LatchedWrite::take_faults",
            "Latched::load",
            "Latched::write_with",
        ],
        draw: |dice, world| {
            let head = [Word::name(dice.pick(&["each", "update", "many", "vain"])), Word::Number(dice.below(3) as u64)];
            Some([head.to_vec(), writes(dice, world)?].concat())
        },
        apply: edit,
    },
    Action {
        name: "edit_range",
        weight: 1,
        covers: &["Latched::write_to_free", "LatchedWrite::remove_range"],
        draw: |dice, world| {
            let name = table(dice, world)?;
            let model = model_of(world, &name)?;
            Some([vec![name], bounds(dice, &world.setup, model)].concat())
        },
        apply: edit_range,
    },
    Action {
        name: "snapshot",
        weight: 3,
        covers: &["Db::snapshot", "Snapshot::table", "Snapshot::tables", "Snapshot::sequence"],
        draw: |dice, world| (world.snapshots.len() < 6).then(|| vec![Word::Number(dice.below(6) as u64)]),
        apply: |world, words| {
            let snapshot = world.db()?.snapshot();
            if snapshot.tables().len() != world.state.tables.len()
                || snapshot.sequence() != world.db()?.stats().sequence
            {
                return wrong(format!("a snapshot of commit {} has {:?}", snapshot.sequence(), snapshot.tables()));
            }
            let held = HeldSnapshot { snapshot, state: world.state.clone(), tables: world.tables.clone() };
            world.snapshots.insert(words.number(0), held);
            Ok(())
        },
    },
    Action {
        name: "forget",
        weight: 2,
        covers: &[],
        draw: |dice, world| {
            let numbers: Vec<u64> = world.snapshots.keys().copied().collect();
            (!numbers.is_empty()).then(|| vec![Word::Number(numbers[dice.below(numbers.len())])])
        },
        apply: |world, words| {
            world.snapshots.remove(&words.number(0));
            Ok(())
        },
    },
    Action {
        name: "open_range",
        weight: 2,
        covers: &["Table::snapshot", "TableSnapshot::into_range"],
        draw: |dice, world| {
            let name = table(dice, world)?;
            let model = model_of(world, &name)?;
            Some([vec![Word::Number(dice.below(4) as u64), name], bounds(dice, &world.setup, model)].concat())
        },
        apply: |world, words| {
            let (Some(model), Some(table)) = (world.state.tables.get(words.name(1)), world.tables.get(words.name(1)))
            else {
                return Ok(());
            };
            let (from, to) = model.rows.span(&words.bounds(2));
            let held = (table.snapshot()?.into_range(words.bounds(2)), model.rows.clone(), from, to);
            world.ranges.insert(words.number(0), held);
            Ok(())
        },
    },
    Action {
        name: "pull",
        weight: 5,
        covers: &["range"],
        draw: |dice, world| {
            let numbers: Vec<u64> = world.ranges.keys().copied().collect();
            let held = *numbers.get(dice.below(numbers.len().max(1)))?;
            Some([held, dice.below(30) as u64, dice.below(2) as u64].map(Word::Number).to_vec())
        },
        apply: pull,
    },
    Action {
        name: "close_range",
        weight: 1,
        covers: &[],
        draw: |dice, _| Some(vec![Word::Number(dice.below(4) as u64)]),
        apply: |world, words| {
            world.ranges.remove(&words.number(0));
            Ok(())
        },
    },
    Action {
        name: "flush",
        weight: 3,
        covers: &["Table::flush"],
        draw: |dice, world| table(dice, world).map(|name| vec![name]),
        apply: |world, words| {
            on_table(world, words, |table| match table.flush() {
                Err(error) if error.kind() == ErrorKind::Invalid && table.options().in_memory => Ok(()),
                result => result,
            })
        },
    },
    Action {
        name: "checkpoint",
        weight: 2,
        covers: &["Db::checkpoint"],
        draw: |_, _| Some(Vec::new()),
        apply: |world, _| {
            let sequence = world.db()?.checkpoint()?.sequence;
            world.counters.checkpoints += 1;
            world.synced(sequence);
            Ok(())
        },
    },
    Action {
        name: "resize_cache",
        weight: 1,
        covers: &["Db::set_cache_bytes", "Db::cache_bytes_max"],
        draw: |dice, _| Some(vec![Word::Number(*dice.pick(&[&0, &(16 << 10), &(1 << 20), &(64 << 20)]))]),
        apply: |world, words| {
            let (db, wanted) = (world.db()?, words.number(0));
            db.set_cache_bytes(wanted);
            match db.cache_bytes_max() {
                bytes if bytes == wanted => Ok(()),
                bytes => wrong(format!("a cache of {wanted} bytes says that it may have {bytes}")),
            }
        },
    },
    Action {
        name: "compact",
        weight: 2,
        covers: &["Table::compact", "Table::compact_with"],
        draw: |dice, world| table(dice, world).map(|name| vec![name]),
        apply: |world, words| {
            world.counters.merges += 1;
            on_table(world, words, |table| table.compact())
        },
    },
    Action {
        name: "rewrite",
        weight: 1,
        covers: &["Table::rewrite"],
        draw: |dice, world| Some(vec![table(dice, world)?, Word::Number(dice.below(2) as u64)]),
        apply: |world, words| {
            world.counters.merges += 1;
            let index = if words.number(1) == 1 { RunLayout::Flat } else { RunLayout::Tree };
            on_table(world, words, |table| table.rewrite(index, &mut |_| ()))
        },
    },
    Action {
        name: "preload",
        weight: 1,
        covers: &["Table::preload"],
        draw: |dice, world| Some(vec![table(dice, world)?, Word::Number(dice.below(2) as u64)]),
        apply: |world, words| {
            let wanted = if words.number(1) == 1 { InnerPages::Pinned } else { InnerPages::Preloaded };
            on_table(world, words, |table| table.preload(wanted).map(drop))
        },
    },
    Action {
        name: "resolve",
        weight: 1,
        covers: &["Table::resolve_blind_writes"],
        draw: |dice, world| {
            let name = table(dice, world)?;
            let model = model_of(world, &name)?;
            Some([vec![name], bounds(dice, &world.setup, model)].concat())
        },
        apply: |world, words| on_table(world, words, |table| table.resolve_blind_writes(words.bounds(1)).map(drop)),
    },
    Action {
        name: "freeze",
        weight: 2,
        covers: &["Table::freeze", "Table::thaw"],
        draw: |dice, world| Some(vec![table(dice, world)?, Word::Number(dice.below(2) as u64)]),
        apply: |world, words| {
            on_table(world, words, |table| if words.number(1) == 1 { table.thaw() } else { table.freeze() })
        },
    },
    Action {
        name: "sync",
        weight: 2,
        covers: &[
            "Db::sync",
            "Db::pending_commits",
            "PendingCommit::is_durable",
            "PendingCommit::position",
            "Db::commits_up_to",
            "Latched::read",
            "LatchedRead::pending_commits",
            "LatchedRead::sequence",
        ],
        draw: |_, _| Some(Vec::new()),
        apply: |world, _| {
            let db = world.db()?;
            let sequence = db.latched().read().sequence();
            let commits = db.latched().read().pending_commits();
            db.sync()?;
            let same = db.commits_up_to(commits.position());
            let are_durable = [commits, same].iter().all(|commits| commits.is_durable(Durability::Sync));
            if !are_durable || !db.pending_commits().is_durable(Durability::Os) {
                return wrong("a sync has returned, and the commits before it are not durable");
            }
            world.synced(sequence);
            Ok(())
        },
    },
    Action {
        name: "reopen",
        weight: 1,
        covers: &["Db::open", "Db::open_with", "Db::close", "Db::damage"],
        draw: |dice, _| Some(vec![Word::Number(if dice.percent(20) { 30 + dice.below(70) as u64 } else { 100 })]),
        apply: reopen,
    },
    Action {
        name: "backup",
        weight: 1,
        covers: &["Db::backup", "Db::backup_with", "restore"],
        draw: |dice, _| {
            dice.percent(50).then(|| vec![Word::Number(dice.below(2) as u64), Word::Number(dice.below(2) as u64)])
        },
        apply: backup,
    },
    Action {
        name: "check",
        weight: 1,
        covers: &["check"],
        draw: |_, _| Some(Vec::new()),
        apply: |world, _| check_files(world),
    },
    Action {
        name: "verify",
        weight: 1,
        covers: &["Db::tables", "ReadableTable::with_cost"],
        draw: |_, _| Some(Vec::new()),
        apply: |world, _| world.verify(),
    },
    Action {
        name: "stats",
        weight: 2,
        covers: &["Db::stats", "Db::memory_bytes", "LatchedRead::stats"],
        draw: |_, _| Some(Vec::new()),
        apply: stats,
    },
];

/// All verbs of the database.
pub static ACTIONS: std::sync::LazyLock<Vec<&'static Action>> =
    std::sync::LazyLock::new(|| OWN.iter().chain(crate::library::transactions::ACTIONS).collect());

/// Draws a table that is there.
pub fn table(dice: &mut Dice, world: &World) -> Option<Word> {
    let names: Vec<&String> = world.state.tables.keys().collect();
    let name = names.get(dice.below(names.len().max(1)))?;
    Some(Word::Name((*name).clone()))
}

/// The model of a table.
pub fn model_of<'w>(world: &'w World, name: &Word) -> Option<&'w TableModel> {
    world.state.tables.get(Words(std::slice::from_ref(name)).name(0))
}

/// Draws some writes: a table, a key, and a value or `-` for a removal.
fn writes(dice: &mut Dice, world: &World) -> Option<Vec<Word>> {
    let count = if dice.percent(10) { 40 + dice.below(100) } else { dice.below(12) };
    let mut words = Vec::new();
    for _ in 0..count {
        let name = table(dice, world)?;
        let model = model_of(world, &name)?;
        words.push(name);
        if dice.percent(65) {
            words.extend(row(dice, &world.setup, model));
        } else {
            words.extend([key(dice, &world.setup, model), Word::name("-")]);
        }
    }
    Some(words)
}

fn on_table(world: &mut World, words: Words<'_>, work: impl FnOnce(&quipu::Table) -> quipu::Result<()>) -> Outcome {
    let Some(table) = world.tables.get(words.name(0)) else { return Ok(()) };
    work(table)?;
    world.note_commit(world.state.clone(), Durability::None)
}

impl World {
    /// Does a step to the database and to the model, and compares.
    pub fn apply(&mut self, step: &Step) -> Outcome {
        self.counters.steps += 1;
        if self.db.is_none() {
            return Ok(());
        }
        let words = Words(&step.words);
        if QUESTIONS.iter().any(|question| question.name == step.verb) {
            return self.ask(step);
        }
        if WRITINGS.iter().any(|writing| writing.name == step.verb) {
            return match words.name(0) {
                "tx" => self.write_in_transaction(step),
                _ => self.write(step),
            };
        }
        match ACTIONS.iter().find(|action| action.name == step.verb) {
            Some(action) => (action.apply)(self, words),
            None => wrong(format!("there is no verb {}", step.verb)),
        }
    }
}
