//! Typed tables, one step after the other: the mode `rows`.
//!
//! A step is a verb of `VERBS` and the seed from which it draws what it does, to the database and to the model of it
//! that the rows' own model test has. After each step everything is compared: declarations, rows, each index, counts
//! and ranks, snapshots, open transactions, and what `check` finds. A run has a sound disk, or one whose calls fail and
//! that is full at times, or one that is looked at between its calls, as a power loss or a kill would leave it.
//!
//! An error of the disk says nothing of what has happened: then the database must hold what it held before the call, or
//! what the call makes of it. What is found is the model from then on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quipu::io::Disk;
use quipu::io::sim::SimDisk;
use quipu::{Db, Durability};
use quipu_rows::Database;
use quipu_suite::dice::Dice;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::library::disk_faults::disturb;
use crate::library::script::Journal;
use crate::library::setup::{Setup, durability};
use crate::library::watched::{Image, Watched, image_of};
use crate::library::word::{Step, Word, Words};
use crate::library::world::Promise;
use crate::modes::sequential::Source;
use crate::report::Counters;
use quipu_rows::table_model::changes::take_back;
use quipu_rows::table_model::expected::difference;
use quipu_rows::table_model::statements::is_of_disk;
use quipu_rows::table_model::world::{VERBS, World};

/// What a run's disk does.
pub(crate) const SOUND: u64 = 0;
pub(crate) const FAILING: u64 = 1;
pub(crate) const LOOKED_AT: u64 = 2;

/// What came of a step: what is wrong, if something is.
type Judged<T = ()> = Result<T, String>;

/// A run.
pub fn run(source: &Source<'_>, journal: &mut Journal) -> (Counters, Judged) {
    let mut dice = Dice::new(source.seed());
    let setup = source.setup(|seed| draw_setup(seed, &mut dice));
    journal.note(&format!("mode rows\n{setup}"));
    let mut storm = match Storm::new(setup) {
        Ok(storm) => storm,
        Err(error) => return (Counters::default(), Err(format!("it cannot be opened: {error:?}"))),
    };
    let result = source.each(&mut storm, journal, |storm| storm.draw(&mut dice), Storm::guarded);
    let result = result.and_then(|()| storm.end());
    (storm.counters, result)
}

/// Draws limits and a disk.
pub(crate) fn draw_setup(seed: u64, dice: &mut Dice) -> Setup {
    let mut setup = Setup::default();
    let page = dice.weighted(&[(5, 256), (1, 512), (2, 1024), (1, 4096)]);
    setup.set("page_bytes", page);
    setup.set("run_page_bytes", page);
    setup.set("memory_bytes", 64 << 20);
    setup.set("memtable_bytes", dice.weighted(&[(2, 0), (1, 1 << 20)]));
    setup.set("cache_bytes", dice.weighted(&[(1, 64 << 10), (1, 1 << 20)]));
    setup.set("log_segment_bytes", dice.weighted(&[(2, 16 << 10), (1, 64 << 10)]));
    setup.set("run_file_bytes", dice.weighted(&[(3, 2_000), (1, 20_000)]));
    setup.set("durability", dice.weighted(&[(2, 0), (2, 1), (1, 2)]));
    setup.set("disk", dice.weighted(&[(1, SOUND), (3, FAILING), (2, LOOKED_AT)]));
    setup.set("per_mille", *dice.pick(&[&2, &10, &50]));
    setup.set("seed", seed);
    setup
}

struct Storm {
    setup: Setup,
    world: World,
    sim: SimDisk,
    watched: Option<Watched>,
    promise: Promise,
    /// The last commit.
    sequence: u64,
    counters: Counters,
}

impl Storm {
    fn new(setup: Setup) -> quipu::Result<Storm> {
        let (sim, promise) = (SimDisk::new(), Promise::default());
        let (disk, watched) = disk_of(&setup, &sim, &promise, 0);
        let world = World::open(setup.options(disk))?;
        Ok(Storm { setup, world, sim, watched, promise, sequence: 0, counters: Counters::default() })
    }

    fn draw(&self, dice: &mut Dice) -> Step {
        let trouble = match self.setup.get("disk") {
            FAILING => dice.below(60),
            _ => 60,
        };
        if trouble < 5 {
            let within = *dice.pick(&[&3_usize, &10, &40]);
            let words = vec![Word::Number(dice.below(within) as u64), Word::Number(dice.below(2) as u64)];
            return Step::new("fault", words);
        }
        if trouble == 5 {
            let bytes = *dice.pick(&[&0_u64, &0, &1, &5_000, &50_000]);
            return Step::new("space", vec![Word::Number(bytes)]);
        }
        let verb = match dice.below(100) {
            0 => "power",
            _ if self.world.expected.model.tables.is_empty() => "create_table",
            _ => dice.weighted(&VERBS.iter().map(|verb| (verb.weight, verb.name)).collect::<Vec<_>>()),
        };
        Step::new(verb, vec![Word::Number(dice.seed())])
    }

    fn guarded(&mut self, step: &Step) -> Judged {
        guarded(step, || self.step(step))
    }

    fn step(&mut self, step: &Step) -> Judged {
        self.counters.steps += 1;
        let seed = Words(&step.words).number(0);
        match step.verb.as_str() {
            "fault" | "space" => {
                disturb(&self.sim, step);
                self.counters.faults += 1;
            }
            "power" => self.power(seed)?,
            name => {
                let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
                    return Err(format!("there is no verb {name}"));
                };
                if self.world.expected.model.tables.is_empty() && name != "create_table" {
                    return Ok(());
                }
                self.counters.reopens += u64::from(name == "reopen");
                match (verb.apply)(&mut self.world, &mut StdRng::seed_from_u64(seed)) {
                    Ok(()) => {
                        // Before what no reader may find any more is forgotten.
                        self.judge_images()?;
                        self.promised();
                    }
                    Err(error) => self.refused(name, &error)?,
                }
            }
        }
        self.judge_images()?;
        self.counters.questions += 1;
        self.world.judge(&mut StdRng::seed_from_u64(seed));
        Ok(())
    }

    /// The database has promised to keep its last commit.
    fn promised(&mut self) {
        let Some(database) = &self.world.database else { return };
        if database.db().stats().poisoned {
            // What the call promises was durable, and the log stopped at what it cleaned up afterwards.
            return;
        }
        let sequence = database.db().latched().read().sequence();
        if sequence <= self.sequence {
            // Nothing was written, so nothing was made durable either.
            return;
        }
        self.counters.commits += sequence - self.sequence;
        self.sequence = sequence;
        match durability(self.setup.get("durability")) {
            Durability::Sync => self.promise_all(sequence),
            Durability::Os => drop(self.promise.handed_over.fetch_max(sequence, Ordering::SeqCst)),
            Durability::None => {}
        }
    }

    /// All commits up to this one are on stable storage: no reader asks for an earlier one any more.
    fn promise_all(&mut self, sequence: u64) {
        self.promise.handed_over.fetch_max(sequence, Ordering::SeqCst);
        self.promise.synced.fetch_max(sequence, Ordering::SeqCst);
        let history = &mut self.world.expected.history;
        if let Some((&last, _)) = history.range(..=sequence).next_back() {
            *history = history.split_off(&last);
        }
    }

    /// A call was refused by the disk: the database holds what was there before, or what the call would have made; if
    /// the log has stopped, a reopening goes on.
    fn refused(&mut self, verb: &str, error: &quipu::Error) -> Judged {
        if self.setup.get("disk") != FAILING || !is_of_disk(error) {
            return Err(format!("refused: {error:?}"));
        }
        self.world.open.clear();
        let is_statement = ["write", "transaction", "end"].contains(&verb);
        while let Some(database) = self.world.database.clone().filter(|database| !database.db().stats().poisoned) {
            // What a change has left since the disk failed that as well is taken back before the next change.
            match if is_statement { Ok(()) } else { take_back(&database) } {
                Err(error) if is_of_disk(&error) => {
                    self.sim.set_capacity(u64::MAX);
                    continue;
                }
                Err(error) => return Err(format!("what a change has left cannot be taken back: {error:?}")),
                Ok(()) => {}
            }
            let mut candidates = vec![self.world.expected.model.clone()];
            candidates.extend(self.world.expected.attempts.iter().cloned());
            return self
                .world
                .expected
                .take_present(&database, candidates)
                .map_err(|text| format!("after an error, neither the old state nor the new: {text}; {error:?}"));
        }
        self.world.close();
        self.counters.reopens += 1;
        self.open_again()?;
        self.take_what_is_found(self.promise.synced.load(Ordering::SeqCst))
            .map_err(|text| format!("{text}; after {error:?}"))
    }

    /// Opens what was closed. Faults that are still to come may hit the opening; each does so once.
    fn open_again(&mut self) -> Judged {
        for _ in 0..20 {
            match self.world.reopen() {
                Ok(()) => return Ok(()),
                Err(error) if is_of_disk(&error) => self.sim.set_capacity(u64::MAX),
                Err(error) => return Err(format!("it cannot be opened again: {error:?}")),
            }
        }
        Err("it cannot be opened again, however often".into())
    }

    /// The power goes, or the process is killed; then the database is opened again.
    fn power(&mut self, lot: u64) -> Judged {
        let image = image_of(&self.sim, &self.promise, lot);
        self.world.close();
        self.counters.crash_points += 1;
        self.sim = image.disk.clone();
        self.promise.handed_over.store(image.at_least, Ordering::SeqCst);
        let (disk, watched) = disk_of(&self.setup, &self.sim, &self.promise, lot);
        self.watched = watched;
        self.world.options = self.setup.options(disk);
        self.open_again()?;
        self.take_what_is_found(image.at_least).map_err(|text| format!("after {}: {text}", image.what))
    }

    /// The database was opened after a crash, or after its log had stopped.
    fn take_what_is_found(&mut self, at_least: u64) -> Judged {
        let (database, found) = (self.world.database(), self.world.found);
        if found < at_least {
            return Err(format!("commits {} to {at_least} are lost", found + 1));
        }
        let candidates = self.world.expected.candidates(found);
        self.world.expected.take_present(&database, candidates)?;
        if let Err(error) = database.db().sync() {
            // A fault that was still to come; each comes once.
            if !is_of_disk(&error) {
                return Err(format!("what was found cannot be synced: {error:?}"));
            }
            drop(database);
            self.world.close();
            self.open_again()?;
            return self.take_what_is_found(at_least);
        }
        // A crash while it was opened, before what was found was synced, may have left an earlier commit.
        self.judge_images()?;
        let sequence = database.db().latched().read().sequence();
        self.sequence = sequence;
        for promised in [&self.promise.synced, &self.promise.handed_over] {
            promised.store(sequence, Ordering::SeqCst);
        }
        self.world.expected.history.retain(|&number, _| number == sequence);
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
        let db = Db::open("/db", self.setup.options(Arc::new(image.disk.clone())));
        let database = db.and_then(|db| {
            let found = db.latched().read().sequence();
            Ok((Database::open(&db)?, found))
        });
        let (database, found) = database.map_err(|error| format!("it cannot be opened: {error:?}"))?;
        if found < image.at_least {
            return Err(format!("commits {} to {} are lost", found + 1, image.at_least));
        }
        let mut differences = Vec::new();
        for candidate in self.world.expected.candidates(found) {
            match difference(&database, &candidate).map_err(|error| format!("{error:?}"))? {
                None => {
                    let found = quipu_rows::check(database.db(), &mut |_| ()).map_err(|error| format!("{error:?}"))?;
                    return if found.problems.is_empty() { Ok(()) } else { Err(format!("{:?}", found.problems)) };
                }
                Some(text) => differences.push(text),
            }
        }
        Err(differences.join(" -- and -- "))
    }

    fn end(&mut self) -> Judged {
        self.sim.set_capacity(u64::MAX);
        self.guarded(&Step::new("reopen", vec![Word::Number(1)])).map_err(|text| format!("in the end: {text}"))
    }
}

/// Does a step, and judges; a panic is what is wrong.
pub(crate) fn guarded(step: &Step, work: impl FnOnce() -> Judged) -> Judged {
    let done = catch_unwind(AssertUnwindSafe(work));
    let judged = done.unwrap_or_else(|panic| Err(text_of(&*panic)));
    judged.map_err(|text| format!("{step}: {text}"))
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic").to_owned()
}

/// The disk of a run, and what looks at it.
pub(crate) fn disk_of(setup: &Setup, sim: &SimDisk, promise: &Promise, lot: u64) -> (Arc<dyn Disk>, Option<Watched>) {
    if setup.get("disk") != LOOKED_AT {
        return (Arc::new(sim.clone()), None);
    }
    let seed = setup.get("seed") ^ lot;
    let watched = Watched::new(sim.clone(), promise.clone(), seed, setup.get("per_mille") as usize);
    (Arc::new(watched.clone()), Some(watched))
}
