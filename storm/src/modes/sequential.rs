//! One thread, one step after the other: the modes `library`, `crash`, `faults` and `damage`.
//!
//! All draw from the same verbs. `crash` looks at the disk between its calls and opens what would be found there;
//! `faults` makes calls of the disk fail; `damage` damages
//! copies of the files.

use std::sync::Arc;

use quipu::files::check;
use quipu::{Db, ErrorKind};
use quipu_suite::clock::Deadline;
use quipu_suite::dice::Dice;

use crate::library::actions::{ACTIONS, table};
use crate::library::disk_faults::disturb;
use crate::library::questions::QUESTIONS;
use crate::library::script::{Journal, Script};
use crate::library::setup::Setup;
use crate::library::watched::{Image, Watched, image_of};
use crate::library::word::{Step, Word, Words};
use crate::library::world::{Outcome, Place, Trouble, World, verify, wrong};
use crate::library::writes::WRITINGS;
use crate::modes::damage::Shelf;
use crate::report::Counters;

/// What a run is to do.
pub enum Source<'s> {
    /// Draw from a seed, for so long or so many steps.
    Seed {
        /// The seed.
        seed: u64,
        /// Until when.
        deadline: Deadline,
        /// At most.
        steps: u64,
    },
    /// Do what is written.
    Script(&'s Script),
}

impl Source<'_> {
    /// The seed of the run.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Source::Seed { seed, .. } => *seed,
            Source::Script(script) => script.setup.get("seed"),
        }
    }

    /// The limits of the run: those of the script, or drawn ones.
    pub(crate) fn setup(&self, draw: impl FnOnce(u64) -> Setup) -> Setup {
        match self {
            Source::Seed { seed, .. } => draw(*seed),
            Source::Script(script) => script.setup.clone(),
        }
    }

    /// Does the steps of the script, or drawn ones until the time is over. Each is written down before.
    pub(crate) fn each<S>(
        &self,
        storm: &mut S,
        journal: &mut Journal,
        mut draw: impl FnMut(&mut S) -> Step,
        mut work: impl FnMut(&mut S, &Step) -> Result<(), String>,
    ) -> Result<(), String> {
        match self {
            Source::Script(script) => script.steps.iter().try_for_each(|step| {
                journal.note(step);
                work(storm, step)
            }),
            Source::Seed { deadline, steps, .. } => {
                for _ in 0..*steps {
                    if deadline.passed() {
                        break;
                    }
                    let step = draw(storm);
                    journal.note(&step);
                    work(storm, &step)?;
                }
                Ok(())
            }
        }
    }
}

/// A run of one mode.
pub fn run(mode: &str, source: &Source<'_>, journal: &mut Journal) -> (Counters, Result<(), String>) {
    let mut dice = Dice::new(source.seed());
    let setup = source.setup(|seed| draw_setup(mode, seed, &mut dice));
    journal.note(&format!("mode {mode}\n{setup}"));
    let mut storm = match Storm::new(mode, setup) {
        Ok(storm) => storm,
        Err(trouble) => return (Counters::default(), Err(told(&trouble))),
    };
    let result = storm.go(source, &mut dice, journal);
    let result = result.and_then(|()| storm.end().map_err(|trouble| format!("in the end: {}", told(&trouble))));
    (std::mem::take(&mut storm.world.counters), result)
}

fn draw_setup(mode: &str, seed: u64, dice: &mut Dice) -> Setup {
    let mut setup = Setup::draw(dice);
    setup.set("seed", seed);
    if mode == "library" {
        setup.set("real", u64::from(dice.percent(10)));
        if dice.percent(60) {
            setup.set("keys", setup.get("keys").min(*dice.pick(&[&12, &40, &150])));
        }
    } else {
        // Small, so that there are many.
        setup.set("keys", setup.get("keys").min(*dice.pick(&[&12, &40, &150])));
        setup.set("log_segment_bytes", setup.get("log_segment_bytes").min(64 << 10));
        setup.set("per_mille", *dice.pick(&[&20, &100, &500]));
        setup.set("faults", u64::from(mode == "faults"));
        setup.set("damage", u64::from(mode == "damage"));
        if mode == "damage" {
            setup.set("memory_bytes", 256 << 20);
        }
    }
    setup
}

/// A run that is under way.
pub struct Storm {
    /// The database and its model.
    pub world: World,
    watched: Option<Watched>,
    shelf: Shelf,
    /// Where promises are written down for those that outlive this process.
    pub acknowledged: Option<std::fs::File>,
}

impl Storm {
    fn new(mode: &str, setup: Setup) -> Outcome<Storm> {
        let place = match setup.get("real") {
            1 => Place::real().map_err(|error| Trouble::Wrong(error.to_string()))?,
            _ => Place::simulated(),
        };
        Storm::over(mode, setup, place)
    }

    /// With a database at a place.
    pub fn over(mode: &str, setup: Setup, mut place: Place) -> Outcome<Storm> {
        let watched = match (&place.sim, mode) {
            (Some(sim), "crash") => {
                let per_mille = setup.get("per_mille") as usize;
                let watched = Watched::new(sim.clone(), Default::default(), setup.get("seed"), per_mille);
                place.disk = Arc::new(watched.clone());
                Some(watched)
            }
            _ => None,
        };
        let mut world = World::open(setup, place)?;
        if let Some(watched) = &watched {
            world.promise = watched.promise();
        }
        let mut shelf = Shelf::default();
        if mode == "damage" {
            shelf.foreign = Some(crate::modes::damage::foreign(&world)?);
        }
        let mut storm = Storm { world, watched, shelf, acknowledged: None };
        storm.judge_images()?;
        Ok(storm)
    }

    /// Does all its steps.
    pub fn go(&mut self, source: &Source<'_>, dice: &mut Dice, journal: &mut Journal) -> Result<(), String> {
        let draw = |storm: &mut Storm| draw(dice, &storm.world, storm.watched.is_some());
        source.each(self, journal, draw, |storm, step| {
            storm.step(step).map_err(|trouble| format!("{step}: {}", told(&trouble)))
        })
    }

    /// Does a step, and judges.
    pub fn step(&mut self, step: &Step) -> Outcome {
        let words = Words(&step.words);
        let result = match (step.verb.as_str(), self.world.place.sim.clone()) {
            ("fault" | "space", Some(sim)) => {
                disturb(&sim, step);
                self.world.counters.faults += 1;
                Ok(())
            }
            ("power", Some(_)) => self.power(words.number(0)),
            ("keep", Some(sim)) => {
                self.shelf.older.push(sim.kill());
                Ok(())
            }
            ("damage", Some(_)) => crate::modes::damage::apply(&mut self.world, &self.shelf, words),
            _ => self.world.apply(step),
        };
        match result {
            Err(Trouble::Refused(error)) => self.refused(error)?,
            result => result?,
        }
        if let Some(file) = &mut self.acknowledged {
            let sequence = self.world.db.as_ref().map_or(0, |db| db.latched().read().sequence());
            crate::modes::kill::note(file, &self.world.promise, sequence);
        }
        self.judge_images()
    }

    /// A call was refused. Memory holds what was there before, or what the call would have made; if the log has
    /// stopped, a reopening goes on.
    fn refused(&mut self, error: quipu::Error) -> Outcome {
        let expects_faults = self.world.setup.get("faults") == 1;
        let is_of_the_disk = matches!(error.kind(), ErrorKind::Io | ErrorKind::Full | ErrorKind::Poisoned);
        if !(self.world.may_refuse(&error) || expects_faults && is_of_the_disk) {
            return Err(Trouble::Refused(error));
        }
        if expects_faults {
            self.world.transactions.clear();
        }
        let is_poisoned = match &self.world.db {
            Some(db) => {
                let sequence = db.latched().read().sequence();
                let Some(state) = self.world.history.get(&sequence).cloned() else {
                    return wrong(format!("commit {sequence} after {error}"));
                };
                verify(db, &state)?;
                self.world.state = state;
                self.world.sequence = sequence;
                self.world.history.split_off(&(sequence + 1 + u64::from(db.stats().poisoned)));
                self.world.tables = db.tables().into_iter().map(|table| (table.name().to_owned(), table)).collect();
                db.stats().poisoned
            }
            None => true,
        };
        if is_poisoned && !expects_faults {
            return wrong(format!("the log has stopped, on a disk without faults: {error:?}"));
        }
        if is_poisoned {
            self.world.close();
            self.world.counters.reopens += 1;
            // Faults that are still to come may hit the opening; each does so once.
            let mut tries = 0;
            while let Err(trouble) = self.world.reopen() {
                let is_of_the_disk = matches!(&trouble, Trouble::Refused(error)
                    if matches!(error.kind(), ErrorKind::Full | ErrorKind::Io));
                tries += 1;
                if !is_of_the_disk || tries > 20 {
                    return Err(trouble);
                }
                if let Some(sim) = &self.world.place.sim {
                    sim.set_capacity(u64::MAX);
                }
            }
            self.take_what_is_found(self.world.promise.synced.load(std::sync::atomic::Ordering::SeqCst))?;
        }
        Ok(())
    }

    /// The power goes, and comes back.
    fn power(&mut self, lot: u64) -> Outcome {
        let Some(sim) = &self.world.place.sim else { return Ok(()) };
        let image = image_of(sim, &self.world.promise, lot);
        self.world.close();
        self.world.counters.crash_points += 1;
        self.world.promise.handed_over.store(image.at_least, std::sync::atomic::Ordering::SeqCst);
        let seed = self.world.setup.get("seed") ^ lot;
        self.world.place.sim = Some(image.disk.clone());
        self.world.place.disk = match &self.watched {
            Some(_) => {
                let per_mille = self.world.setup.get("per_mille") as usize;
                let watched = Watched::new(image.disk.clone(), self.world.promise.clone(), seed, per_mille);
                self.watched = Some(watched.clone());
                Arc::new(watched)
            }
            None => Arc::new(image.disk.clone()),
        };
        self.world.reopen()?;
        self.take_what_is_found(image.at_least)
    }

    /// The database was opened after a crash: what it holds is a commit of the history, and no promise is broken.
    fn take_what_is_found(&mut self, at_least: u64) -> Outcome {
        let sequence = self.world.db()?.latched().read().sequence();
        let Some(state) = self.world.history.get(&sequence).cloned() else {
            return wrong(format!("commit {sequence} was never made"));
        };
        if sequence < at_least {
            return wrong(format!("commits {} to {at_least} are lost", sequence + 1));
        }
        self.world.state = state;
        self.world.verify()?;
        self.world.history.split_off(&(sequence + 1));
        self.world.db()?.sync()?;
        self.world.sequence = sequence;
        for promised in [&self.world.promise.synced, &self.world.promise.handed_over] {
            promised.store(sequence, std::sync::atomic::Ordering::SeqCst);
        }
        Ok(())
    }

    fn judge_images(&mut self) -> Outcome {
        let Some(watched) = &self.watched else { return Ok(()) };
        for image in watched.take_images() {
            self.world.counters.crash_points += 1;
            self.judge(&image).map_err(|trouble| {
                Trouble::Wrong(format!(
                    "after {} at commit {} or later: {}",
                    image.what,
                    image.at_least,
                    told(&trouble)
                ))
            })?;
        }
        Ok(())
    }

    fn judge(&self, image: &Image) -> Outcome {
        let mut setup = self.world.setup.clone();
        if self.world.counters.crash_points.is_multiple_of(4) {
            let report = check(&self.world.place.dir, &setup.options(Arc::new(image.disk.clone())), &mut |_| ());
            match report {
                // A database that was being created is not there yet.
                Err(error) if error.kind() == ErrorKind::Missing && image.at_least == 0 => {}
                report => {
                    let report = report?;
                    if !report.faults.is_empty() {
                        return wrong(format!("check finds {:?}", report.faults));
                    }
                }
            }
        }
        setup.set("background", 0);
        let db = Db::open(&self.world.place.dir, setup.options(Arc::new(image.disk.clone())))?;
        let sequence = db.latched().read().sequence();
        if sequence < image.at_least {
            return wrong(format!("commits {} to {} are lost", sequence + 1, image.at_least));
        }
        match self.world.history.get(&sequence) {
            Some(state) => verify(&db, state),
            None => wrong(format!("commit {sequence} was never made")),
        }
    }

    fn end(&mut self) -> Outcome {
        if let Some(sim) = &self.world.place.sim {
            sim.set_capacity(u64::MAX);
        }
        if self.world.db.is_none() {
            return Ok(());
        }
        self.world.verify()?;
        for verb in ["check", "reopen"] {
            self.step(&Step::new(verb, vec![Word::Number(100)]))?;
        }
        Ok(())
    }
}

/// A trouble in words.
pub fn told(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Wrong(text) => text.clone(),
        Trouble::Refused(error) => format!("refused: {error:?}"),
    }
}

/// Draws a step.
pub fn draw(dice: &mut Dice, world: &World, crashes: bool) -> Step {
    if crashes && dice.below(150) == 0 {
        return Step::new("power", vec![Word::Number(dice.seed())]);
    }
    if world.setup.get("faults") == 1 {
        match dice.below(60) {
            0..=2 => {
                let within = *dice.pick(&[&3_usize, &10, &60]);
                let soon = dice.below(within) as u64;
                return Step::new("fault", vec![Word::Number(soon), Word::Number(dice.below(2) as u64)]);
            }
            3 => {
                let bytes = *dice.pick(&[&0_usize, &0, &1, &5_000, &100_000]);
                return Step::new("space", vec![Word::Number(bytes as u64)]);
            }
            _ => {}
        }
    }
    if world.setup.get("damage") == 1 {
        match dice.below(100) {
            0..=7 => return Step::new("damage", crate::modes::damage::draw(dice)),
            8 => return Step::new("keep", Vec::new()),
            _ => {}
        }
    }
    for _ in 0..100 {
        let writes = world.setup.get("writes") as usize;
        let questions = (100 - writes) / 2;
        let drawn = match dice.below(100) {
            lot if lot < questions => draw_question(dice, world),
            lot if lot < questions + writes => draw_writing(dice, world),
            _ => {
                let choices: Vec<_> = ACTIONS.iter().map(|action| (action.weight, *action)).collect();
                let action = dice.weighted(&choices);
                if action.name == "begin" && world.setup.get("alone") == 1 {
                    continue;
                }
                (action.draw)(dice, world).map(|words| Step::new(action.name, words))
            }
        };
        if let Some(step) = drawn {
            return step;
        }
    }
    Step::new("create", vec![Word::name("t0"), Word::Number(0)])
}

fn draw_question(dice: &mut Dice, world: &World) -> Option<Step> {
    let choices: Vec<_> = QUESTIONS.iter().map(|question| (question.weight, question)).collect();
    let question = dice.weighted(&choices);
    let name = table(dice, world)?;
    let (place, number) = place(dice, world, true);
    let model = world.state.tables.get(Words(std::slice::from_ref(&name)).name(0))?;
    let arguments = (question.draw)(dice, &world.setup, model);
    Some(Step::new(question.name, [vec![Word::name(place), Word::Number(number), name], arguments].concat()))
}

fn draw_writing(dice: &mut Dice, world: &World) -> Option<Step> {
    let choices: Vec<_> = WRITINGS.iter().map(|writing| (writing.weight, writing)).collect();
    let writing = dice.weighted(&choices);
    let name = table(dice, world)?;
    let (place, number) = place(dice, world, false);
    let model = world.state.tables.get(Words(std::slice::from_ref(&name)).name(0))?;
    let arguments = (writing.draw)(dice, &world.setup, model);
    Some(Step::new(writing.name, [vec![Word::name(place), Word::Number(number), name], arguments].concat()))
}

/// Where a step goes: to the table as it is, or to something that is held open.
fn place(dice: &mut Dice, world: &World, to_ask: bool) -> (&'static str, u64) {
    let one = |dice: &mut Dice, numbers: Vec<u64>| numbers.get(dice.below(numbers.len().max(1))).copied();
    match dice.below(10) {
        0..=2 => one(dice, world.transactions.keys().copied().collect()).map_or(("live", 0), |number| ("tx", number)),
        3..=4 if to_ask => {
            one(dice, world.snapshots.keys().copied().collect()).map_or(("live", 0), |number| ("snapshot", number))
        }
        5 if to_ask => ("look", 0),
        6 if to_ask => ("explain", 0),
        7 if to_ask => ("owned", 0),
        _ => ("live", 0),
    }
}
