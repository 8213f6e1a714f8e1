//! Servers over raw sockets: insert, select, replace and delete in batches of 1000, as in the table this one is
//! modelled on (that of Tarantool's logarithmic offset tree); positions; sorted sets; single requests of many
//! connections; transactions.
//!
//! A batch is built in memory; timed is from the first write to the arrival of the last answer; then every answer is
//! checked. Percentiles are over the batches, divided by the batch's size: "99.9 %" of 1M requests in batches of 1000
//! is the second-worst batch, not a request. Servers take turns at each request, and the next one waits until the last
//! one's CPU is idle.
//!
//! Rows: keys are the numbers from 0, as 8 bytes for Redis' protocol and as unsigned integers for Tarantool's, in
//! another random order for each request; values are 8 bytes. Differences from the model: it sends rows without a
//! value, checks the length of answers only, and in its published form sends deletes where it measures selects.

use crate::clock::{Deadline, median};
use crate::report::{Cell, Table};
use crate::rows::Draw;
use crate::socket::{
    Batch, Crowd, Figure, Position, Request, Row, Running, Server, SortedSet, SortedSetQuestion, Transaction, cells_of,
    median_of, queued_sets, withdraw_queued,
};
use crate::store::{Durability, Result};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "offset-tree",
    about: "servers over raw sockets: rows, positions, sorted sets and transactions; Redis and Tarantool beside",
    run,
    child: None,
};

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let asked_by_name = bench.options.workload.as_deref() == Some(WORKLOAD.name);
    let unknown = bench.options.stores.iter().find(|name| !Server::NAMES.contains(&name.as_str()));
    if let Some(unknown) = unknown.filter(|_| asked_by_name) {
        return Err(format!("no server `{unknown}`; there are {}", Server::NAMES.join(", ")).into());
    }
    let servers = Server::all(bench.options);
    for rows in bench.options.row_counts(&[1_000_000], 2_000) {
        let size = Size { bench, servers: &servers, rows };
        for durability in &bench.options.durability {
            if let Some(table) = size.requests(*durability)? {
                show(table);
            }
        }
        let wanted: Vec<Part> = Part::ALL.into_iter().filter(|part| part.is_wanted(bench)).collect();
        if wanted.iter().any(|part| *part != Part::SortedSets) {
            let loaded = size.load()?;
            for part in &wanted {
                match part {
                    Part::Positions => show(size.positions(&loaded)?),
                    Part::Unpipelined => show(size.unpipelined(&loaded)?),
                    Part::Transactions => show(size.transactions(&loaded)?),
                    Part::SortedSets => {}
                }
            }
        }
        if wanted.contains(&Part::SortedSets) {
            for table in size.sorted_sets()? {
                show(table);
            }
        }
    }
    Ok(())
}

/// What is measured beside the four requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Positions,
    Unpipelined,
    Transactions,
    SortedSets,
}

impl Part {
    const ALL: [Part; 4] = [Part::Positions, Part::Unpipelined, Part::Transactions, Part::SortedSets];

    fn name(self) -> &'static str {
        match self {
            Part::Positions => "positions",
            Part::Unpipelined => "unpipelined",
            Part::Transactions => "transactions",
            Part::SortedSets => "sorted sets",
        }
    }

    /// Whether `--only` leaves a line of it in.
    fn wants(self, bench: &Bench<'_>, line: &str) -> bool {
        bench.options.wants(&format!("{}: {line}", self.name()))
    }

    fn is_wanted(self, bench: &Bench<'_>) -> bool {
        let lines: Vec<&str> = match self {
            Part::Positions => Position::ALL.map(Position::name).to_vec(),
            Part::Unpipelined => SINGLE_REQUESTS.map(Request::name).to_vec(),
            Part::Transactions => Transaction::ALL.map(Transaction::name).to_vec(),
            Part::SortedSets => {
                SortedSetQuestion::ALL.map(SortedSetQuestion::name).into_iter().chain(["zadd"]).collect()
            }
        };
        lines.into_iter().any(|line| self.wants(bench, line))
    }
}

/// Requests sent one by one.
const SINGLE_REQUESTS: [Request; 2] = [Request::Select, Request::Replace];
/// Requests of the other transaction while transactions are timed.
const QUEUED_SETS: u64 = 100_000;
/// The smaller of the batches in which sorted sets are asked.
const SMALL_BATCH: u64 = 16;
/// Requests of one kind and turn, at most, where they are random questions.
const QUESTIONS_MAX: u64 = 200_000;

/// All that is measured at one row count.
struct Size<'a> {
    bench: &'a Bench<'a>,
    servers: &'a [Server],
    rows: u64,
}

impl Size<'_> {
    fn turns(&self) -> usize {
        self.bench.options.repeat.max(1)
    }

    fn batch(&self) -> u64 {
        u64::from(self.bench.options.batch).min(if self.bench.options.smoke { 100 } else { u64::MAX })
    }

    /// How many random questions a turn asks, at most.
    fn questions(&self) -> u64 {
        if self.bench.options.smoke { 1_000 } else { QUESTIONS_MAX }
    }

    /// The time limit of one turn of one server at a figure of random questions.
    fn deadline(&self) -> Deadline {
        Deadline::after(self.bench.options.seconds / self.turns() as f64)
    }

    /// The servers that are installed, the one that begins changing with the turn.
    fn in_turn(&self, turn: usize) -> Vec<usize> {
        let count = self.servers.len();
        let order = (0..count).map(|number| (number + turn) % count);
        order.filter(|number| self.servers[*number].is_there()).collect()
    }

    fn notes(&self, table: &mut Table) {
        for server in self.servers {
            table.note(server.note());
        }
        if self.servers.is_empty() {
            table.note("NOTHING WAS MEASURED: --stores names no server.");
        } else if self.servers.iter().all(|server| !server.is_there()) {
            table.note("NOTHING WAS MEASURED: no server is installed.");
        }
    }

    // The four requests.

    fn requests(&self, durability: Durability) -> Result<Option<Table>> {
        let wanted = |request: &Request| self.bench.options.wants(&format!("requests: {}", request.name()));
        let wanted: Vec<Request> = Request::ALL.into_iter().filter(wanted).collect();
        let Some(last) = wanted.last() else { return Ok(None) };
        let mut figures: Vec<Vec<Vec<Figure>>> = vec![vec![Vec::new(); Request::ALL.len()]; self.servers.len()];
        for turn in 0..self.turns() {
            let mut running = Vec::new();
            for number in self.in_turn(turn) {
                let server = self.servers[number].start(self.bench, durability)?;
                running.push((number, server.connect()?, server, (0..self.rows).collect::<Vec<u64>>()));
            }
            for (place, request) in Request::ALL.into_iter().enumerate().take_while(|(_, request)| request <= last) {
                for (number, connection, server, keys) in &mut running {
                    let what =
                        format_args!("{} rows, {}, {}, turn {}", self.rows, request.name(), server.name, turn + 1);
                    self.bench.progress(what);
                    shuffle(keys, self.bench.options.seed + (turn * Request::ALL.len() + place) as u64);
                    // Later requests need the rows, so the limit only stops a server that is out of all proportion.
                    let deadline = Deadline::after(10.0 * self.bench.options.seconds);
                    let requests = keys.len() as u64;
                    let replaced = matches!(request, Request::Replace | Request::Delete);
                    let dialect = server.address.dialect;
                    let fill = &mut |batch: &mut Batch, number: u64| {
                        dialect.push(batch, request, &Row::new(keys[number as usize], replaced));
                    };
                    let figure = Figure::measure(server, connection, requests, self.batch(), &deadline, fill)?;
                    keys.truncate(figure.requests as usize);
                    figures[*number][place].push(figure);
                }
            }
        }
        Ok(Some(self.requests_table(durability, &wanted, &figures)))
    }

    fn requests_table(&self, durability: Durability, wanted: &[Request], figures: &[Vec<Vec<Figure>>]) -> Table {
        let promise = match durability {
            Durability::Sync => "on the disk before the answer (sync)",
            Durability::Os | Durability::None => "handed to the operating system (os)",
        };
        let title = format!("{} rows in batches of {}, {promise}", Cell::Count(self.rows), self.batch());
        let mut columns = vec!["request", "stat"];
        columns.extend(self.servers.iter().map(|server| server.name));
        // How Quipu, which comes first, compares with each of the others.
        let quipu_is_first = self.servers.first().is_some_and(|server| server.counts());
        let peers = if quipu_is_first { &self.servers[1..] } else { &[] };
        columns.extend(peers.iter().map(|peer| match peer.name {
            "redis" => "quipu/redis",
            "tarantool" => "quipu/tarantool",
            _ => "quipu/given",
        }));
        let mut table = Table::new(title, &columns);
        type Line = (&'static str, fn(&Figure) -> f64, fn(f64) -> Cell);
        let lines: [Line; 11] = [
            ("requests/s", Figure::requests_per_s, Cell::PerSecond),
            ("avg", |figure| figure.statistic("avg"), Cell::Nanos),
            ("med", |figure| figure.statistic("med"), Cell::Nanos),
            ("min", |figure| figure.statistic("min"), Cell::Nanos),
            ("90 %", |figure| figure.statistic("90 %"), Cell::Nanos),
            ("99 %", |figure| figure.statistic("99 %"), Cell::Nanos),
            ("99.9 %", |figure| figure.statistic("99.9 %"), Cell::Nanos),
            ("wall, 1M", |figure| figure.wall_s * 1e15 / figure.requests as f64, Cell::Nanos),
            ("server CPU, 1M", |figure| figure.cpu_nanos() * 1e6, Cell::Nanos),
            ("memory, row", |figure| figure.resident_bytes / figure.requests as f64, Cell::Bytes),
            ("requests", |figure| figure.requests as f64, |count| Cell::Count(count as u64)),
        ];
        for request in wanted {
            for (name, of, cell) in lines {
                if name == "memory, row" && *request != Request::Insert {
                    continue;
                }
                let place = *request as usize;
                let values: Vec<Option<f64>> = figures.iter().map(|server| median_of(&server[place], of)).collect();
                let mut row = vec![Cell::text(request.name()), Cell::text(name)];
                row.extend(values.iter().map(|value| value.map_or(Cell::Missing, cell)));
                for peer in &values[self.servers.len() - peers.len()..] {
                    let ratio = values[0].zip(*peer).filter(|(_, peer)| name != "requests" && *peer > 0.0);
                    row.push(ratio.map_or(Cell::Missing, |(quipu, peer)| Cell::Times(quipu / peer)));
                }
                table.push(row);
            }
        }
        table.note(format!(
            "avg to 99.9 %: time per request, over batches. 1M: per million requests; the server's CPU covers all its threads and \
             what it did in the background until it stood still. memory, row: growth of the server's resident memory. Medians of \
             {} turns; quipu/…: of times less is better.",
            self.turns()
        ));
        self.notes(&mut table);
        table
    }

    // What is asked of a loaded server.

    /// Starts all servers and fills them with the rows, none of them replaced.
    fn load(&self) -> Result<Vec<Option<Running>>> {
        let mut keys: Vec<u64> = (0..self.rows).collect();
        shuffle(&mut keys, self.bench.options.seed);
        let durability = self.bench.options.durability.first().copied().unwrap_or(Durability::Os);
        let load = |server: &Server| -> Result<Option<Running>> {
            if !server.is_there() {
                return Ok(None);
            }
            self.bench.progress(format_args!("loading {} rows into {}", self.rows, server.name));
            let running = server.start(self.bench, durability)?;
            let dialect = running.address.dialect;
            let fill = &mut |batch: &mut Batch, number: u64| {
                dialect.push(batch, Request::Insert, &Row::new(keys[number as usize], false));
            };
            Figure::measure(&running, &mut running.connect()?, self.rows, self.batch(), &Deadline::never(), fill)?;
            Ok(Some(running))
        };
        self.servers.iter().map(load).collect()
    }

    fn positions(&self, loaded: &[Option<Running>]) -> Result<Table> {
        let columns = ["question", "server", "asked", "batch", "requests/s", "avg", "med", "99 %", "server CPU"];
        let title = format!("Positions among {} rows", Cell::Count(self.rows));
        let mut table = Table::new(title, &columns).with_bars("requests/s", 1);
        for question in Position::ALL.into_iter().filter(|question| Part::Positions.wants(self.bench, question.name()))
        {
            let mut figures: Vec<(Vec<Figure>, u64)> = vec![(Vec::new(), 0); self.servers.len()];
            for turn in 0..self.turns() {
                for number in self.in_turn(turn) {
                    let (Some(running), server) = (&loaded[number], &self.servers[number]) else { continue };
                    if !(server.counts() || (question == Position::Nth && !server.speaks_resp())) {
                        continue;
                    }
                    self.bench.progress(format_args!("{}, {}, turn {}", question.name(), server.name, turn + 1));
                    let mut draw = Draw::new(self.bench.options.seed + turn as u64);
                    let mut connection = running.connect()?;
                    let dialect = running.address.dialect;
                    let fill = &mut |batch: &mut Batch, _| question.push(dialect, batch, self.rows, &mut draw);
                    // A server that scans would be at one batch for minutes.
                    let trial = Figure::measure(running, &mut connection, 2, 1, &Deadline::never(), fill)?;
                    let batch = if trial.statistic("avg") < 1e6 { self.batch() } else { 10 };
                    let (requests, deadline) = (self.questions(), self.deadline());
                    let figure = Figure::measure(running, &mut connection, requests, batch, &deadline, fill)?;
                    figures[number].0.push(figure);
                    figures[number].1 = batch;
                }
            }
            for (server, (figures, batch)) in self.servers.iter().zip(&figures) {
                let mut row = vec![Cell::text(question.name()), Cell::text(server.name)];
                row.extend(cells_of(figures, &[Cell::Count(*batch)], &["avg", "med", "99 %"]));
                row.push(median_of(figures, Figure::cpu_nanos).map_or(Cell::Missing, Cell::Nanos));
                table.push(row);
            }
        }
        table.note(
            "count: rows between two random keys, Q.COUNT; rank: rows below a random key, Q.RANK; nth: the row of a random number, \
             Q.NTH, or a select with an offset and a limit of 1. Times are per request, over batches. A dash where the server's \
             protocol has no such request.",
        );
        self.notes(&mut table);
        Ok(table)
    }

    fn unpipelined(&self, loaded: &[Option<Running>]) -> Result<Table> {
        let columns =
            ["request", "connections", "server", "asked", "requests/s", "50 %", "99 %", "99.9 %", "server CPU"];
        let title = format!("Requests one by one, {} rows", Cell::Count(self.rows));
        let mut table = Table::new(title, &columns).with_bars("requests/s", 2);
        let crowds: &[usize] = if self.bench.options.smoke { &[1, 20] } else { &[1, 50, 1000] };
        let wanted = |request: &Request| Part::Unpipelined.wants(self.bench, request.name());
        for request in SINGLE_REQUESTS.into_iter().filter(wanted) {
            for connections in crowds {
                let mut figures: Vec<Vec<Figure>> = vec![Vec::new(); self.servers.len()];
                for turn in 0..self.turns() {
                    for number in self.in_turn(turn) {
                        let Some(running) = &loaded[number] else { continue };
                        let what = format_args!(
                            "{}, {connections} connections, {}, turn {}",
                            request.name(),
                            running.name,
                            turn + 1
                        );
                        self.bench.progress(what);
                        figures[number].push(self.one_by_one(running, request, *connections, turn)?);
                    }
                }
                for (server, figures) in self.servers.iter().zip(&figures) {
                    let mut row =
                        vec![Cell::text(request.name()), Cell::Count(*connections as u64), Cell::text(server.name)];
                    row.extend(cells_of(figures, &[], &["med", "99 %", "99.9 %"]));
                    row.push(median_of(figures, Figure::cpu_nanos).map_or(Cell::Missing, Cell::Nanos));
                    table.push(row);
                }
            }
        }
        table.note(
            "Each connection sends its next request when the last is answered; one thread of the client serves all of them. Times \
             are of single requests.",
        );
        self.notes(&mut table);
        Ok(table)
    }

    fn one_by_one(&self, server: &Running, request: Request, connections: usize, turn: usize) -> Result<Figure> {
        // A few requests for each connection, so that the start, when all of them send at once, does not count for
        // much.
        let least = 20 * connections as u64;
        let most = if self.bench.options.smoke { least } else { QUESTIONS_MAX.max(least) };
        let mut draw = Draw::new(self.bench.options.seed + turn as u64);
        let mut crowd = Crowd::open(server.address, connections)?;
        let limit = Deadline::after(self.bench.options.seconds / 2.0 / self.turns() as f64);
        let cpu_before_s = server.cpu_s();
        // A replace puts the value that is there already: the next figure needs it, and a server cannot know.
        let served = crowd.serve(most, &limit, &mut |batch| {
            server.address.dialect.push(batch, request, &Row::new(draw.below(self.rows), false));
        });
        let served = served.map_err(|error| format!("{}: {error}", server.name))?;
        server.settle();
        Ok(Figure {
            requests: served.nanos.len() as u64,
            nanos: served.nanos,
            wall_s: served.wall_s,
            cpu_s: server.cpu_s() - cpu_before_s,
            resident_bytes: 0.0,
        })
    }

    fn transactions(&self, loaded: &[Option<Running>]) -> Result<Table> {
        let columns = ["transaction", "beside", "server", "asked", "requests/s", "med", "99 %"];
        let title = format!("Transactions of one question, {} rows", Cell::Count(self.rows));
        let mut table = Table::new(title, &columns).with_bars("med", 1);
        let queued = if self.bench.options.smoke { 1_000 } else { QUEUED_SETS };
        for transaction in
            Transaction::ALL.into_iter().filter(|transaction| Part::Transactions.wants(self.bench, transaction.name()))
        {
            for busy in [false, true] {
                let beside =
                    if busy { format!("MULTI with {} SETs", Cell::Count(queued)) } else { "nothing".to_owned() };
                let mut figures: Vec<Vec<Figure>> = vec![Vec::new(); self.servers.len()];
                for turn in 0..self.turns() {
                    for number in self.in_turn(turn) {
                        let (Some(running), server) = (&loaded[number], &self.servers[number]) else { continue };
                        if !server.speaks_resp() || (transaction == Transaction::Count && !server.counts()) {
                            continue;
                        }
                        self.bench.progress(format_args!("{}, {beside}, {}", transaction.name(), server.name));
                        let mut other = running.connect()?;
                        if busy {
                            other.exchange(&queued_sets(self.rows, queued))?;
                        }
                        figures[number].push(self.transactions_of(running, transaction, turn)?);
                        if busy {
                            other.exchange(&withdraw_queued())?;
                        }
                    }
                }
                for (server, figures) in self.servers.iter().zip(&figures) {
                    let mut row =
                        vec![Cell::text(transaction.name()), Cell::text(beside.clone()), Cell::text(server.name)];
                    row.extend(cells_of(figures, &[], &["med", "99 %"]));
                    table.push(row);
                }
            }
        }
        table.note(
            "The three requests of a transaction are sent together, the next transaction after their answers; times are of whole \
             transactions. Beside: what another connection has open meanwhile. Tarantool 2 has no transactions over its protocol.",
        );
        self.notes(&mut table);
        Ok(table)
    }

    fn transactions_of(&self, server: &Running, transaction: Transaction, turn: usize) -> Result<Figure> {
        let most = if self.bench.options.smoke { 20 } else { 20_000 };
        let deadline = Deadline::after(self.bench.options.seconds / 2.0 / self.turns() as f64);
        let mut draw = Draw::new(self.bench.options.seed + turn as u64);
        let mut connection = server.connect()?;
        let fill = &mut |batch: &mut Batch, _| transaction.push(batch, self.rows, &mut draw);
        Figure::measure(server, &mut connection, most, 1, &deadline, fill)
    }

    // Sorted sets.

    fn sorted_sets(&self) -> Result<[Table; 2]> {
        let mut scores: Vec<u64> = (0..self.rows).collect();
        shuffle(&mut scores, self.bench.options.seed);
        let set = SortedSet::new(self.bench.options.seed, scores);
        let batches = [SMALL_BATCH, self.batch()];
        // For each server: adding, then each question, in both batches.
        let kinds = 1 + SortedSetQuestion::ALL.len();
        let mut figures: Vec<Vec<Vec<Figure>>> = vec![vec![Vec::new(); kinds * batches.len()]; self.servers.len()];
        let mut memory: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); self.servers.len()];
        for turn in 0..self.turns() {
            let mut running = Vec::new();
            for number in self.in_turn(turn).into_iter().filter(|number| self.servers[*number].speaks_resp()) {
                self.bench.progress(format_args!("zadd, {}, turn {}", self.servers[number].name, turn + 1));
                let server = self.servers[number].start(self.bench, Durability::Os)?;
                let mut connection = server.connect()?;
                let before = (server.resident_bytes(), server.told_bytes()?);
                // Most members in large batches, the others in small ones.
                let large = self.rows - self.rows / 10;
                for (place, first, members) in [(1, 0, large), (0, large, self.rows - large)] {
                    let fill = &mut |batch: &mut Batch, number| set.push_member(batch, first + number);
                    let deadline = Deadline::never();
                    let figure = Figure::measure(&server, &mut connection, members, batches[place], &deadline, fill)?;
                    figures[number][place].push(figure);
                }
                let rows = self.rows as f64;
                memory[number].0.push((server.resident_bytes() as f64 - before.0 as f64) / rows);
                if let (Some(before), Some(after)) = (before.1, server.told_bytes()?) {
                    memory[number].1.push((after as f64 - before as f64) / rows);
                }
                running.push((number, server, connection));
            }
            for (kind, question) in SortedSetQuestion::ALL.into_iter().enumerate() {
                if !Part::SortedSets.wants(self.bench, question.name()) {
                    continue;
                }
                for (place, batch) in batches.into_iter().enumerate() {
                    for (number, server, connection) in &mut running {
                        let what = format_args!(
                            "{} in batches of {batch}, {}, turn {}",
                            question.name(),
                            server.name,
                            turn + 1
                        );
                        self.bench.progress(what);
                        let mut draw = Draw::new(self.bench.options.seed + turn as u64);
                        let fill = &mut |batch: &mut Batch, _| question.push(&set, batch, &mut draw);
                        let (requests, deadline) = (self.questions(), self.deadline());
                        let figure = Figure::measure(server, connection, requests, batch, &deadline, fill)?;
                        figures[*number][(1 + kind) * batches.len() + place].push(figure);
                    }
                }
            }
        }
        Ok([self.sorted_sets_table(&batches, &figures), self.memory_table(memory)])
    }

    fn sorted_sets_table(&self, batches: &[u64], figures: &[Vec<Vec<Figure>>]) -> Table {
        let columns = ["command", "batch", "server", "asked", "requests/s", "avg", "med", "99 %", "server CPU"];
        let title = format!("A sorted set of {} members with names of 16 bytes", Cell::Count(self.rows));
        let mut table = Table::new(title, &columns).with_bars("requests/s", 2);
        let names = ["zadd"].into_iter().chain(SortedSetQuestion::ALL.map(SortedSetQuestion::name));
        for (kind, name) in names.enumerate().filter(|(_, name)| Part::SortedSets.wants(self.bench, name)) {
            for (place, batch) in batches.iter().enumerate() {
                for (server, figures) in self.servers.iter().zip(figures).filter(|(server, _)| server.speaks_resp()) {
                    let figures = &figures[kind * batches.len() + place];
                    let mut row = vec![Cell::text(name), Cell::Count(*batch), Cell::text(server.name)];
                    row.extend(cells_of(figures, &[], &["avg", "med", "99 %"]));
                    row.push(median_of(figures, Figure::cpu_nanos).map_or(Cell::Missing, Cell::Nanos));
                    table.push(row);
                }
            }
        }
        table.note(
            "zadd: new members with random scores, nine tenths of them in the large batches, then the others. zrange of 10: ten \
             members from a random rank on. zcount: between two random scores. Times are per request, over batches.",
        );
        self.notes(&mut table);
        table
    }

    fn memory_table(&self, memory: Vec<(Vec<f64>, Vec<f64>)>) -> Table {
        let title = format!("Memory of a sorted set of {} members with names of 16 bytes", Cell::Count(self.rows));
        let mut table = Table::new(title, &["server", "resident, member", "used_memory, member"]);
        let servers = self.servers.iter().zip(memory).filter(|(server, _)| server.speaks_resp());
        for (server, (resident, told)) in servers {
            let cell = |bytes: Vec<f64>| if bytes.is_empty() { Cell::Missing } else { Cell::Bytes(median(bytes)) };
            table.push(vec![Cell::text(server.name), cell(resident), cell(told)]);
        }
        table.note("Growth from the empty server to all members; used_memory is what INFO tells.");
        table
    }
}

/// Puts the numbers into an order that depends on the seed and on how many there are.
fn shuffle(numbers: &mut [u64], seed: u64) {
    numbers.sort_unstable();
    let mut draw = Draw::new(seed);
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, draw.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_depends_on_the_seed_alone() {
        let order = |mut numbers: Vec<u64>, seed| {
            shuffle(&mut numbers, seed);
            numbers
        };
        assert_eq!(order((0..50).collect(), 3), order((0..50).rev().collect(), 3));
        assert_ne!(order((0..50).collect(), 3), order((0..50).collect(), 4));
        let mut sorted = order((0..50).collect(), 3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<u64>>());
    }
}
