//! Rows of typed columns with a primary key and one secondary index: inserting them, counting and finding by position,
//! reading all of them.
//!
//! Transactions are synced. What is asked and read is compared between the stores.

use crate::clock::{Deadline, Spent, Stopwatch, median};
use crate::report::{Cell, Table};
use crate::store::{CACHE_BYTES, Durability, Result, Setup};
use crate::typed_rows::{Method, Parameters, Question, Trips, TypedStore, TypedStoreKind, Width, typed_stores};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "typed-rows",
    about: "rows of typed columns: inserts with an index, counts and offsets, scans of columns, beside SQLite",
    run,
    child: None,
};

/// Questions of each kind, at most.
const QUESTIONS: usize = 200_000;

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let mut kinds = typed_stores();
    let asked = &bench.options.stores;
    if let Some(unknown) = asked.iter().find(|name| kinds.iter().all(|kind| kind.name != **name)) {
        let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        return Err(format!("no store `{unknown}` for this workload, which has {}", known.join(", ")).into());
    }
    kinds.retain(|kind| asked.is_empty() || asked.iter().any(|name| name == kind.name));
    for count in bench.options.row_counts(&[1_000_000], 3_000) {
        let size = Size { bench, kinds: &kinds, count };
        show(size.inserts()?);
        for table in size.reads()? {
            show(table);
        }
    }
    Ok(())
}

/// All that is measured with so many rows.
struct Size<'a> {
    bench: &'a Bench<'a>,
    kinds: &'a [TypedStoreKind],
    count: u64,
}

impl Size<'_> {
    fn setup(&self) -> Setup {
        let cache_bytes = CACHE_BYTES.max(self.count * 200);
        Setup { durability: Durability::Sync, cache_bytes, in_memory: true }
    }

    /// What `measure` took with each store, turn by turn; nothing of a store that lacks the method.
    fn measure_all(
        &self,
        what: &str,
        mut measure: impl FnMut(usize) -> Result<Option<Spent>>,
    ) -> Result<Vec<Vec<Spent>>> {
        let mut spent: Vec<Vec<Spent>> = self.kinds.iter().map(|_| Vec::new()).collect();
        for turn in 0..self.bench.options.repeat.max(1) {
            for (number, kind) in self.kinds.iter().enumerate() {
                self.bench.progress(format_args!("{} rows, {what}, {}, turn {}", self.count, kind.name, turn + 1));
                spent[number].extend(measure(number).map_err(|error| format!("{}: {error}", kind.name))?);
            }
        }
        Ok(spent)
    }

    /// A line for each store that was measured.
    fn push(&self, table: &mut Table, names: &[&str], spent: &[Vec<Spent>]) {
        for (kind, spent) in self.kinds.iter().zip(spent).filter(|(_, spent)| !spent.is_empty()) {
            let wall_s = median(spent.iter().map(|spent| spent.wall_s).collect());
            let cpu_s = median(spent.iter().map(|spent| spent.cpu_s).collect());
            let mut cells: Vec<Cell> = names.iter().chain([&kind.name]).map(|name| Cell::text(*name)).collect();
            cells.extend([Cell::seconds(wall_s), Cell::seconds(cpu_s), Cell::PerSecond(self.count as f64 / wall_s)]);
            table.push(cells);
        }
    }

    fn settings(&self, table: &mut Table) {
        self.kinds.iter().for_each(|kind| table.note(format!("{}.", kind.settings)));
    }

    fn inserts(&self) -> Result<Table> {
        let title = format!("Inserting {} rows (INT, DOUBLE, STRING), an index of the DOUBLE", Cell::Count(self.count));
        let columns = ["method", "ids", "store", "wall", "CPU", "rows/s"];
        let mut table = Table::new(title, &columns).with_bars("rows/s", 2);
        for method in Method::ALL {
            for (order, is_shuffled) in [("ascending", false), ("shuffled", true)] {
                let trips = Trips::new(self.bench.options.seed, self.count, Width::Three, is_shuffled);
                let what = format!("{}, {order}", method.name());
                let spent = self.measure_all(&what, |number| self.insert(&self.kinds[number], &trips, method))?;
                self.push(&mut table, &[method.name(), order], &spent);
            }
        }
        table.note("One transaction: all rows and the entries of the index, committed and synced.");
        self.settings(&mut table);
        Ok(table)
    }

    fn insert(&self, kind: &TypedStoreKind, trips: &Trips, method: Method) -> Result<Option<Spent>> {
        let dir = self.bench.place.fresh()?;
        let store = (kind.create)(dir.path(), self.setup(), trips.width())?;
        let watch = Stopwatch::start();
        let is_done = store.insert(trips, method)?;
        let spent = watch.stop();
        if !is_done {
            return Ok(None);
        }
        // All ids, and all fares, are below these.
        for question in [Question::CountIds, Question::CountFares] {
            let counted = store.ask(question, Parameters::all(trips.count()), 1, &Deadline::never())?;
            if counted != [trips.count() as i64] {
                return Err(format!("{}: {counted:?} of {} rows", question.name(), trips.count()).into());
            }
        }
        Ok(Some(spent))
    }

    fn reads(&self) -> Result<[Table; 2]> {
        let trips = Trips::new(self.bench.options.seed, self.count, Width::Five, false);
        let mut places = Vec::new();
        let mut stores: Vec<Box<dyn TypedStore>> = Vec::new();
        for kind in self.kinds {
            self.bench.progress(format_args!("{} rows of five columns, {}, load", self.count, kind.name));
            let place = self.bench.place.fresh()?;
            let store = (kind.create)(place.path(), self.setup(), trips.width())?;
            store.insert(&trips, Method::Load)?;
            places.push(place);
            stores.push(store);
        }
        Ok([self.questions(&stores)?, self.scans(&stores)?])
    }

    fn questions(&self, stores: &[Box<dyn TypedStore>]) -> Result<Table> {
        let title = format!("Questions of a table of {} rows of five columns", Cell::Count(self.count));
        let mut table = Table::new(title, &["question", "store", "asked", "each", "CPU each"]);
        for question in Question::ALL {
            let mut first: Option<Vec<i64>> = None;
            for (kind, store) in self.kinds.iter().zip(stores) {
                self.bench.progress(format_args!("{}, {}", question.name(), kind.name));
                let parameters = || Parameters::new(self.bench.options.seed, self.count);
                let most = if self.bench.options.smoke { 50 } else { QUESTIONS };
                let (mut answers, mut wall_s, mut cpu_s) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..self.bench.options.repeat.max(1) {
                    let watch = Stopwatch::start();
                    let deadline = Deadline::after(self.bench.options.seconds / 2.0);
                    answers = store.ask(question, parameters(), most, &deadline)?;
                    let spent = watch.stop();
                    wall_s.push(spent.wall_s / answers.len() as f64);
                    cpu_s.push(spent.cpu_s / answers.len() as f64);
                }
                let expected = first.get_or_insert_with(|| answers.clone());
                if let Some((one, other)) = expected.iter().zip(&answers).find(|(one, other)| one != other) {
                    return Err(format!("{}: {} answers {other}, not {one}", question.name(), kind.name).into());
                }
                table.push(vec![
                    Cell::text(question.name()),
                    Cell::text(kind.name),
                    Cell::Count(answers.len() as u64),
                    Cell::seconds(median(wall_s)),
                    Cell::seconds(median(cpu_s)),
                ]);
            }
        }
        table.note("Ranges between two random ends: a third of the rows on average. Asked: in the last turn.");
        Ok(table)
    }

    fn scans(&self, stores: &[Box<dyn TypedStore>]) -> Result<Table> {
        let title = format!("Reading {} rows of five columns", Cell::Count(self.count));
        let mut table = Table::new(title, &["store", "wall", "CPU", "rows/s"]).with_bars("rows/s", 0);
        let mut first = None;
        let spent = self.measure_all("scan", |number| {
            let watch = Stopwatch::start();
            let seen = stores[number].scan()?;
            let spent = watch.stop();
            let expected = first.get_or_insert(seen);
            if seen != *expected {
                return Err(format!("{seen:?} was read, not {expected:?}").into());
            }
            Ok(Some(spent))
        })?;
        self.push(&mut table, &[], &spent);
        table.note(
            "Quipu: batches of 8,192 rows as columns, in the layout of Arrow; SQLite: row by row. All values are summed up.",
        );
        Ok(table)
    }
}
