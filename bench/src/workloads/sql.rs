//! SQL over PostgreSQL's protocol, beside PostgreSQL: COPY into a table with an index, statements by key, positions and
//! counts, and `pgbench`'s own transaction.
//!
//! The client is `pgbench` with prepared statements, on the same machine, so it competes with the server for the
//! processor and costs each of them the same. Servers take turns. Before anything is measured both must give the same
//! answers; after the transactions of `pgbench` its four sums must be one.

use std::io::Write;

use crate::clock::{Stopwatch, median};
use crate::report::{Cell, Table};
use crate::sql::{Brand, Installed, Length, Question, Run, Running, Told};
use crate::store::{Durability, Result};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "sql",
    about: "SQL over PostgreSQL's protocol: statements by key, counts, offsets, COPY and pgbench; PostgreSQL beside",
    run,
    child: None,
};

/// Values of the column `level`.
const LEVELS: u64 = 1_000;

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let installed = Installed::find(bench);
    let named = &bench.options.stores;
    if let Some(unknown) = named.iter().find(|name| Brand::ALL.iter().all(|brand| brand.name() != **name)) {
        return Err(format!("there is no server `{unknown}`; there are quipu and postgres").into());
    }
    let is_wanted = |brand: &Brand| named.is_empty() || named.iter().any(|name| name == brand.name());
    let brands: Vec<Brand> =
        Brand::ALL.into_iter().filter(is_wanted).filter(|brand| installed.is_there(*brand)).collect();
    for rows in bench.options.row_counts(&[1_000_000], 2_000) {
        for &durability in &bench.options.durability {
            let mut size = Size { bench, installed: &installed, rows, durability, servers: Vec::new() };
            show(size.load(&brands)?);
            show(size.statements()?);
            show(size.transactions()?);
        }
    }
    Ok(())
}

/// All that is measured at one number of rows.
struct Size<'a> {
    bench: &'a Bench<'a>,
    installed: &'a Installed,
    rows: u64,
    durability: Durability,
    servers: Vec<Running>,
}

/// What pgbench said of each server, turn by turn.
type Figures = Vec<Vec<Told>>;

impl Size<'_> {
    fn title(&self, what: &str) -> String {
        let durability = if self.durability == Durability::Sync { "sync" } else { "os" };
        format!("SQL, {what}, {} rows, `{durability}`", Cell::Count(self.rows))
    }

    /// How long one turn of one server at one figure lasts.
    fn length(&self) -> Length {
        if self.bench.options.smoke {
            return Length::Transactions(5);
        }
        let turns = self.bench.options.repeat.max(1) as f64;
        Length::Seconds((self.bench.options.seconds / turns).round().max(1.0) as u64)
    }

    /// Starts the servers and fills their tables.
    fn load(&mut self, brands: &[Brand]) -> Result<Table> {
        let mut file = tempfile::NamedTempFile::new()?;
        let mut lines = std::io::BufWriter::new(file.as_file_mut());
        for id in 1..=self.rows {
            // An odd factor scatters the levels.
            let level = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            writeln!(lines, "{id}\t{}\t{}.5\tname of {id}", level % LEVELS, id % 10_007)?;
        }
        lines.flush()?;
        drop(lines);
        let mut table = Table::new(
            self.title("COPY into an empty table with an index"),
            &["server", "seconds", "rows/s", "CPU a row"],
        );
        for &brand in brands {
            self.bench.progress(format_args!("COPY, {}", brand.name()));
            let server = self.installed.start(brand, self.bench, self.durability)?;
            server.ask(Question::SCHEMA)?;
            let (cpu_before_s, watch) = (server.cpu_s(), Stopwatch::start());
            server.ask(&format!("\\copy items FROM '{}'", file.path().display()))?;
            let wall_s = watch.stop().wall_s;
            server.settle();
            let cpu_s = server.cpu_s() - cpu_before_s;
            table.push(vec![
                Cell::text(brand.name()),
                Cell::seconds(wall_s),
                Cell::PerSecond(self.rows as f64 / wall_s),
                Cell::Nanos(cpu_s * 1e9 / self.rows as f64),
            ]);
            if brand == Brand::Postgres {
                server.ask("VACUUM ANALYZE items")?;
            }
            self.servers.push(server);
        }
        self.notes(&mut table);
        table.note("`\\copy` of psql, whose start is in the time. PostgreSQL is told to VACUUM ANALYZE afterwards, so that its counts read the index alone.");
        self.judge()?;
        Ok(table)
    }

    fn notes(&self, table: &mut Table) {
        for brand in Brand::ALL {
            table.note(self.installed.note(brand));
        }
    }

    /// Fails if the servers answer differently.
    fn judge(&self) -> Result<()> {
        for question in Question::ALL.iter().filter_map(|question| question.judge) {
            let answers = self.servers.iter().map(|server| server.ask(question)).collect::<Result<Vec<String>>>()?;
            if let Some(other) = answers.iter().find(|answer| **answer != answers[0]) {
                return Err(format!("`{question}` is answered with `{}` and with `{other}`", answers[0]).into());
            }
        }
        Ok(())
    }

    fn statements(&self) -> Result<Table> {
        let mut table = Self::table(self.title("statements, prepared"));
        let variables = [("rows", self.rows), ("half", self.rows / 2), ("number", 0)];
        let mut run_number = 0;
        for question in Question::ALL.iter().filter(|question| self.bench.options.wants(question.name)) {
            for &connections in question.connections {
                let mut figures: Figures = vec![Vec::new(); self.servers.len()];
                for turn in 0..self.bench.options.repeat.max(1) {
                    run_number += 1;
                    let variables: Vec<_> = variables.into_iter().chain([("run", run_number)]).collect();
                    let run = Run {
                        script: Some(question.script),
                        variables: &variables,
                        connections,
                        length: self.length(),
                    };
                    self.turn(&format!("{}, turn {}", question.name, turn + 1), &run, &mut figures)?;
                }
                self.push(&mut table, question.name, connections, &figures);
            }
        }
        self.notes(&mut table);
        Ok(table)
    }

    /// The transaction of `pgbench`: three updates, a select, an insert.
    fn transactions(&self) -> Result<Table> {
        let scale = if self.bench.options.smoke { 1 } else { 10 };
        let mut table = Self::table(format!("{}, scale {scale}", self.title("transactions of pgbench")));
        if self.bench.options.wants("pgbench") && !self.servers.is_empty() {
            for server in &self.servers {
                self.bench.progress(format_args!("pgbench -i, {}", server.brand.name()));
                let mut command = std::process::Command::new(self.installed.client("pgbench")?);
                server.address(&mut command);
                let output = command.args(["-i", "-q", "-s", &scale.to_string()]).output()?;
                if !output.status.success() {
                    return Err(format!("pgbench -i: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
                }
                server.settle();
            }
            for connections in [1, 16] {
                let mut figures: Figures = vec![Vec::new(); self.servers.len()];
                for turn in 0..self.bench.options.repeat.max(1) {
                    let run = Run { script: None, variables: &[], connections, length: self.length() };
                    self.turn(&format!("pgbench, {connections} connections, turn {}", turn + 1), &run, &mut figures)?;
                }
                self.push(&mut table, "pgbench, default", connections, &figures);
            }
            for server in &self.servers {
                if server.ask(Question::SUMS)? != "t" {
                    return Err(format!("{}: the sums of pgbench's tables differ", server.brand.name()).into());
                }
            }
        }
        self.notes(&mut table);
        table.note(
            "After all turns the sums of balances of accounts, tellers and branches, and of the history, are equal.",
        );
        Ok(table)
    }

    /// Each server once.
    fn turn(&self, what: &str, run: &Run<'_>, figures: &mut Figures) -> Result<()> {
        for (server, figures) in self.servers.iter().zip(figures) {
            self.bench.progress(format_args!("{what}, {}", server.brand.name()));
            figures.push(run.against(server, self.installed)?);
        }
        Ok(())
    }

    fn table(title: String) -> Table {
        let columns = [
            "statement",
            "connections",
            "server",
            "statements",
            "statements/s",
            "mean time",
            "CPU a statement",
            "of PostgreSQL",
        ];
        Table::new(title, &columns).with_bars("statements/s", 2)
    }

    fn push(&self, table: &mut Table, name: &str, connections: usize, figures: &Figures) {
        let middle = |figures: &[Told], of: fn(&Told) -> f64| median(figures.iter().map(of).collect());
        let rates: Vec<f64> = figures.iter().map(|figures| middle(figures, |told| told.per_second)).collect();
        let peer = self.servers.iter().position(|server| server.brand == Brand::Postgres).map(|place| rates[place]);
        for ((server, figures), rate) in self.servers.iter().zip(figures).zip(&rates) {
            table.push(vec![
                Cell::text(name),
                Cell::Count(connections as u64),
                Cell::text(server.brand.name()),
                Cell::Count(figures.iter().map(|told| told.transactions).sum()),
                Cell::PerSecond(*rate),
                Cell::Nanos(middle(figures, |told| told.latency_nanos)),
                Cell::Nanos(middle(figures, |told| told.cpu_nanos)),
                peer.map_or(Cell::Missing, |peer| Cell::Times(rate / peer)),
            ]);
        }
    }
}
