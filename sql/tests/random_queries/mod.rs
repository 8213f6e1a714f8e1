//! Goal: no query gives a wrong result, whatever joins, sub-selects, indexes, NULLs and changes of its transaction it
//! meets. Method: random schemas and statements. Without another database, answers must fit each other: NoREC and TLP
//! (M. Rigger and Z. Su, "Detecting Optimization Bugs in Database Engines via Non-optimizing Reference Engine
//! Construction", ESEC/FSE 2020, and "Finding Bugs in Database Systems via Query Partitioning", OOPSLA 2020), the same
//! query with and without indexes, simple and prepared, and pages and counts beside whole results. With `PGHOST`, `PGPORT`
//! and their like set, and `POSTGRES=1`, PostgreSQL runs the same statements. Replay: SEED=... cargo test -p quipu-sql
//! --test all random_queries::. A failure prints the statements, shortened.

mod changes;
mod draw;
mod expressions;
mod oracles;
mod postgres;
mod queries;
mod schema;
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

/// The steps without those that a failure does not need, and what still does not fit.
fn shorten(mut steps: Vec<Step>, ask: &Oracle) -> (Vec<Step>, String) {
    let mut found = ask(&worlds(&steps)).unwrap_or_else(|| "it does not come again".to_owned());
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
            if ask(&both).is_some() {
                let (steps, found) = shorten(steps, &ask);
                let texts: Vec<&str> = steps.iter().map(|step| step.text.as_str()).collect();
                panic!("SEED={seed}\n{};\n{found}", texts.join(";\n"));
            }
        }
    });
}

/// Statements of a seed: a schema, changes, and queries between them.
fn statements(draw: &mut Draw) -> (Vec<String>, Vec<bool>) {
    let schema = Schema::draw(draw);
    let mut texts: Vec<String> = schema.base.clone();
    texts.extend(schema.indexes.iter().cloned());
    let mut is_ordered = vec![false; texts.len()];
    let mut next_id = 20;
    for _ in 0..40 {
        let (text, has_order) = match draw.chance(20) {
            true => (changes::change(draw, &schema, &mut next_id), false),
            false => {
                let query = queries::query(draw, &schema);
                (query.text, query.is_ordered)
            }
        };
        texts.push(text);
        is_ordered.push(has_order);
    }
    for table in &schema.tables {
        texts.push(format!("SELECT * FROM {}", table.name));
        is_ordered.push(false);
    }
    (texts, is_ordered)
}

#[test]
fn postgresql_answers_the_same() {
    if std::env::var("POSTGRES").is_err() {
        return;
    }
    let mut differences = 0;
    for seed in seeds(100) {
        let draw = &mut Draw::new(seed);
        let (texts, is_ordered) = statements(draw);
        let theirs = postgres::run(&texts);
        let world = World::new(&[]);
        for ((text, is_ordered), (outcome, types)) in texts.iter().zip(is_ordered).zip(theirs) {
            let (ours, our_types) = world.described(text, false);
            let in_order = |outcome: Outcome| if is_ordered { outcome } else { outcome.sorted() };
            let (ours, theirs) = (in_order(ours), in_order(outcome));
            if ours != theirs || (matches!(ours, Outcome::Done { .. }) && !types.is_empty() && types != our_types) {
                differences += 1;
                println!("SEED={seed}\n{text};\n  PostgreSQL {theirs:?} {types:?}\n  here       {ours:?} {our_types:?}");
            }
            if ours == Outcome::Error("panic".to_owned()) {
                break;
            }
        }
    }
    assert_eq!(differences, 0, "differences to PostgreSQL");
}
