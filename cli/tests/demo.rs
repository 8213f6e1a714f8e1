//! The demo, with few flights.

use crate::program::Place;

#[test]
fn the_demo_answers_and_survives() {
    let place = Place::new();
    let report: serde_json::Value = serde_json::from_str(&place.out("demo --rows 2000 --data flights --json")).unwrap();
    assert!(report["rows"].as_u64().unwrap() >= 2_000);
    assert_eq!(report["answers"].as_array().unwrap().len(), 6);
    let (acknowledged, found) = (report["acknowledged"].as_u64().unwrap(), report["found"].as_u64().unwrap());
    assert!(acknowledged >= 100 && (acknowledged..=acknowledged + 1).contains(&found), "{report}");
    assert_eq!(report["tables_recounted"], 7);

    let moved = place.ask("flights", "moved", "len")["count"].as_u64().unwrap();
    assert_eq!(moved, 2 * found);
    let again = place.run("demo --rows 2000 --data flights");
    assert_eq!(again.code, Some(2), "the directory is taken: {}", again.err);
}

#[test]
fn the_demo_leaves_nothing_unless_told() {
    let place = Place::new();
    let outcome = place.run("demo --rows 2000 --keep");
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    assert!(outcome.out.contains("every tally holds"), "{}", outcome.out);
    let dir = outcome.err.trim().strip_prefix("the flights are in ").unwrap();
    let kept = std::path::Path::new(dir);
    assert!(kept.is_dir());
    std::fs::remove_dir_all(kept).unwrap();
}
