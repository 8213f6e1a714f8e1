//! Goal: no query gives a wrong result, whatever joins, sub-selects, indexes, NULLs and changes of its transaction it
//! meets. Method: random schemas and statements. Without another database, answers must fit each other: NoREC and TLP
//! (M. Rigger and Z. Su, "Detecting Optimization Bugs in Database Engines via Non-optimizing Reference Engine
//! Construction", ESEC/FSE 2020, and "Finding Bugs in Database Systems via Query Partitioning", OOPSLA 2020), the same
//! query with and without indexes, simple and prepared, and pages and counts beside whole results. With `POSTGRES=1`,
//! and `PGHOST`, `PGPORT` and their like, PostgreSQL runs the same statements. Replay: SEED=... cargo test -p quipu-sql
//! --test all random_queries::. A failure prints the statements, shortened.

mod changes;
mod draw;
mod expressions;
mod numbers;
mod oracles;
mod postgres;
mod queries;
mod schema;
mod texts;
mod world;

use draw::Draw;
use oracles::{Oracle, Worlds, oracle};
use quipu_testing::seeds::{seeds, with_seeds};
use schema::Schema;
use world::{Outcome, World};

/// A statement of a history, and whether it is there only for speed.
#[derive(Clone)]
struct Step {
    text: String,
    is_index: bool,
}

fn history(draw: &mut Draw, schema: &Schema) -> Vec<Step> {
    let step = |text: &String| Step { text: text.clone(), is_index: false };
    let mut steps: Vec<Step> = schema.base.iter().map(step).collect();
    let indexes = schema.indexes.iter().map(|text| Step { text: text.clone(), is_index: true });
    let mut next_id = 20;
    let mut change = |draw: &mut Draw| step(&changes::change(draw, schema, &mut next_id));
    match draw.below(3) {
        0 => {
            steps.extend(indexes);
            steps.extend((0..draw.below(6)).map(|_| change(draw)));
        }
        1 => {
            steps.extend((0..draw.below(3)).map(|_| change(draw)));
            steps.extend(indexes);
        }
        _ => {
            steps.extend(indexes);
            steps.push(step(&"BEGIN".to_owned()));
            // A change that fails ends the transaction, so each has a savepoint to go back to.
            for number in 0..1 + draw.below(6) {
                steps.push(step(&format!("SAVEPOINT s{number}")));
                steps.push(change(draw));
                if draw.chance(30) {
                    steps.push(step(&format!("ROLLBACK TO s{number}")));
                }
            }
        }
    }
    steps
}

fn worlds(steps: &[Step]) -> Worlds {
    let texts = |with_indexes: bool| -> Vec<String> {
        steps.iter().filter(|step| with_indexes || !step.is_index).map(|step| step.text.clone()).collect()
    };
    Worlds { indexed: World::new(&texts(true)), plain: World::new(&texts(false)) }
}

/// The steps without those that a failure does not need, and what still does not fit; what has been found at first, if
/// that does not come again.
fn shorten(mut steps: Vec<Step>, first: String, ask: &Oracle) -> (Vec<Step>, String) {
    let mut found = ask(&worlds(&steps)).unwrap_or_else(|| format!("{first}\nIt does not come again."));
    let mut at = steps.len();
    while at > 0 {
        at -= 1;
        let mut fewer = steps.clone();
        fewer.remove(at);
        if let Some(difference) = ask(&worlds(&fewer))
            && !difference.contains("42P01")
            && !difference.contains("25P02")
        {
            (steps, found) = (fewer, difference);
        }
    }
    (steps, found)
}

#[test]
fn answers_fit_each_other() {
    with_seeds(60, |seed| {
        let draw = &mut Draw::new(seed);
        let schema = Schema::draw(draw);
        let steps = history(draw, &schema);
        let both = worlds(&steps);
        for _ in 0..30 {
            let ask = oracle(draw, &schema);
            if let Some(first) = ask(&both) {
                let (steps, found) = shorten(steps, first, &ask);
                let texts: Vec<&str> = steps.iter().map(|step| step.text.as_str()).collect();
                panic!("SEED={seed}\n{};\n{found}", texts.join(";\n"));
            }
        }
    });
}

/// Statements, and whether the order of their rows is determined.
type Statements = Vec<(String, bool)>;

/// A schema, changes, queries between them, and what the tables hold in the end.
fn statements(draw: &mut Draw) -> Statements {
    let schema = Schema::draw(draw);
    let mut statements: Statements = schema.base.iter().map(|text| (text.clone(), false)).collect();
    statements.extend(schema.indexes.iter().map(|text| (text.clone(), false)));
    let mut next_id = 20;
    let changes = draw.one_of(&[10, 20, 60]);
    for _ in 0..40 {
        if draw.chance(changes) {
            statements.push((changes::change(draw, &schema, &mut next_id), false));
            continue;
        }
        let query = match draw.chance(15) {
            true => queries::aggregates(draw, &schema),
            false => queries::query(draw, &schema),
        };
        statements.push((query.text, query.is_ordered));
    }
    for table in &schema.tables {
        statements.push((format!("SELECT * FROM {}", table.name), false));
        for column in &table.columns {
            let (name, column) = (&table.name, column.name);
            statements.push((format!("SELECT {column} FROM {name} ORDER BY {column}"), true));
        }
    }
    statements
}

#[test]
fn no_text_makes_a_panic_and_values_come_back_from_their_texts() {
    let world = World::new(&[]);
    for seed in seeds(3000) {
        let draw = &mut Draw::new(seed);
        let text = texts::statement(draw);
        assert_ne!(world.run(&text, false), Outcome::Error("panic".to_owned()), "SEED={seed}: {text}");
        let text = texts::round_trip(draw);
        if let Outcome::Done { rows, .. } = world.run(&text, false) {
            assert_eq!(rows, ["t"], "SEED={seed}: {text}");
        }
    }
}

/// Whether a query puts rows with equal values together, of which either system may show any, `1` or `1.00`. (Of a
/// query in order, those that are equal may come in any order.)
fn shows_one_of_equals(query: &str) -> bool {
    ["GROUP BY", "DISTINCT", "UNION", "INTERSECT", "EXCEPT"].iter().any(|clause| query.contains(clause))
}

/// The same with numbers that have no zeros at their ends.
fn with_shortest_numbers(outcome: Outcome) -> Outcome {
    fn shortest(field: &str) -> &str {
        match field.parse::<f64>() {
            Ok(_) if field.contains('.') && !field.contains('e') => field.trim_end_matches('0').trim_end_matches('.'),
            _ => field,
        }
    }
    let Outcome::Done { rows, tag } = outcome else { return outcome };
    let rows = rows.iter().map(|row| row.split('|').map(shortest).collect::<Vec<_>>().join("|")).collect();
    Outcome::Done { rows, tag }
}

/// Runs statements on both sides, and prints what differs.
fn compare(seed: u64, statements: &Statements) -> usize {
    let texts: Vec<String> = statements.iter().map(|statement| statement.0.clone()).collect();
    let theirs = postgres::run(&texts);
    let world = World::new(&[]);
    let mut differences = 0;
    for ((text, is_ordered), (theirs, types)) in statements.iter().zip(theirs) {
        let (ours, our_types) = world.described(text, false);
        let in_order = |outcome: Outcome| {
            let outcome =
                if *is_ordered || shows_one_of_equals(text) { with_shortest_numbers(outcome) } else { outcome };
            if *is_ordered { outcome } else { outcome.sorted() }
        };
        let (ours, theirs) = (in_order(ours), in_order(theirs));
        if ours != theirs || (matches!(ours, Outcome::Done { .. }) && !types.is_empty() && types != our_types) {
            differences += 1;
            println!("SEED={seed}\n{text};\n  PostgreSQL {theirs:?} {types:?}\n  here       {ours:?} {our_types:?}");
        }
        if ours == Outcome::Error("panic".to_owned()) {
            break;
        }
    }
    differences
}

/// Whether PostgreSQL is there to ask.
fn has_postgresql() -> bool {
    std::env::var("POSTGRES").is_ok()
}

#[test]
fn postgresql_answers_the_same() {
    if has_postgresql() {
        let differences: usize = seeds(100).map(|seed| compare(seed, &statements(&mut Draw::new(seed)))).sum();
        assert_eq!(differences, 0, "differences to PostgreSQL");
    }
}

#[test]
fn postgresql_computes_the_same() {
    if has_postgresql() {
        let statement = |seed| {
            let draw = &mut Draw::new(seed);
            if draw.chance(15) { numbers::aggregate(draw) } else { numbers::statement(draw) }
        };
        let all: Statements = seeds(3000).map(|seed| (statement(seed), false)).collect();
        assert_eq!(compare(0, &all), 0, "differences to PostgreSQL");
    }
}

/// What differs here is listed in `docs/sql-types.md`, so the numbers are printed and nothing fails.
#[test]
fn texts_are_read_as_postgresql_reads_them() {
    if has_postgresql() {
        let all: Statements = seeds(2000).map(|seed| (texts::statement(&mut Draw::new(seed)), false)).collect();
        println!("{} of {} statements differ", compare(0, &all), all.len());
    }
}
