//! Expressions whose values are known from PostgreSQL 15, in the time zone of Berlin.
//!
//! A line of `expressions.txt` and of `numbers.txt` is an expression, ` => `, and what PostgreSQL says of it: the type
//! and the text of its value, or `!`, the state and the message of its error. Where the answers differ by intent stands
//! in `docs/sql-types.md`.

pub(crate) mod environment;
pub(crate) mod evaluator;

use environment::Fixed;
use evaluator::show;

#[test]
fn expressions_have_the_values_that_postgresql_gives_them() {
    let environment = Fixed::new();
    let mut wrong = Vec::new();
    let files = [include_str!("expressions.txt"), include_str!("numbers.txt")];
    for line in files.iter().flat_map(|file| file.lines()).filter(|line| !line.is_empty() && !line.starts_with("-- ")) {
        let (expression, expected) = line.rsplit_once(" => ").unwrap_or_else(|| panic!("no value in {line}"));
        let shown = show(expression, &environment);
        if shown != expected {
            wrong.push(format!("{expression}\n    is {shown}\n  want {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} expressions differ:\n{}", wrong.len(), wrong.join("\n"));
}
