//! Goal: the law. No freeze, thaw, flush, compaction, checkpoint or restart changes the tally of any range. Method:
//! random tables with all measures; the tallies of many random ranges are noted, one of those things happens, and they
//! are asked again. Replay: SEED=... cargo test -p quipu --test all law::

use crate::model_map::{Model, any_index, bounds, open, rng, rows_in, seeds, tally_of, write_as};
use quipu::io::sim::SimDisk;
use quipu::{Bounds, Compression, Db, Measures, ReadableTable, SumField, TableOptions, Tally};
use rand::RngExt;

const MEASURES: Measures =
    Measures { bytes: true, hash: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
const NAMES: [&str; 2] = ["left", "right"];

fn tallies(db: &Db, ranges: &[Bounds<'static>]) -> Vec<(Tally, u64)> {
    let ask = |name: &str| {
        let table = db.ensure_table(name).unwrap();
        ranges.iter().map(move |range| (table.tally(range).unwrap(), table.count(range).unwrap())).collect::<Vec<_>>()
    };
    NAMES.iter().flat_map(|name| ask(name)).collect()
}

#[test]
fn nothing_but_a_write_changes_a_tally() {
    for seed in seeds(3) {
        let mut rng = rng(seed);
        let disk = SimDisk::new();
        let mut db = open(&disk);
        for name in NAMES {
            let (blind, index) = (name == NAMES[0], any_index(&mut rng));
            let compression = Compression::Lz4;
            let options = TableOptions {
                measures: MEASURES,
                blind_writes: blind,
                layout: index,
                compression,
                ..TableOptions::default()
            };
            db.create_table(name, options).unwrap();
        }
        let mut models = [Model::new(), Model::new()];
        for _ in 0..25 {
            for (name, model) in NAMES.iter().zip(&mut models) {
                let table = db.ensure_table(name).unwrap();
                for _ in 0..rng.random_range(0..60) {
                    write_as(&table, model, &mut rng, table.options().blind_writes);
                }
            }
            let ranges: Vec<Bounds<'static>> = (0..40).map(|_| bounds(&mut rng)).collect();
            let before = tallies(&db, &ranges);
            let expected: Vec<(Tally, u64)> = models
                .iter()
                .flat_map(|model| ranges.iter().map(move |range| rows_in(model, range)))
                .map(|rows| (tally_of(&MEASURES, &rows), rows.len() as u64))
                .collect();
            assert_eq!(before, expected);
            for _ in 0..3 {
                let name = NAMES[rng.random_range(0..2)];
                let what = match rng.random_range(0..9) {
                    0 | 1 => {
                        db.ensure_table(name).unwrap().freeze().unwrap();
                        "freezing"
                    }
                    2 => {
                        db.ensure_table(name).unwrap().thaw().unwrap();
                        "thawing"
                    }
                    3 | 4 => {
                        db.ensure_table(name).unwrap().flush().unwrap();
                        "a flush"
                    }
                    5 if rng.random() => {
                        let index = any_index(&mut rng);
                        db.ensure_table(name).unwrap().rewrite(index, &mut |_| ()).unwrap();
                        "a rewrite"
                    }
                    5 => {
                        db.ensure_table(name).unwrap().compact().unwrap();
                        "a compaction"
                    }
                    6 => {
                        db.ensure_table(name).unwrap().resolve_blind_writes(bounds(&mut rng)).unwrap();
                        "resolving"
                    }
                    7 => {
                        db.checkpoint().unwrap();
                        "a checkpoint"
                    }
                    _ => {
                        db.close().unwrap();
                        db = open(&disk);
                        "a restart"
                    }
                };
                assert_eq!(tallies(&db, &ranges), before, "{what} changed a tally");
            }
            // A killed process loses nothing that it acknowledged.
            let other = open(&disk.kill());
            assert_eq!(tallies(&other, &ranges), before, "a kill and a restart changed a tally");
        }
    }
}
