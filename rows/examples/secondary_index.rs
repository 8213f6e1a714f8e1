//! A secondary index: unique e-mail addresses, and people in the order of a second column with positions and sums; the
//! index is built while the table is in use.
//!
//!     cargo run -p quipu-rows --example secondary_index

use quipu::{Db, ErrorKind, Options, Result};
use quipu_rows::{Database, IndexSchema, Ordered, Record, Span};

#[derive(Record, Debug, PartialEq)]
#[table(name = "people", primary_key(id), index(name = "email", unique, columns(email)))]
struct Person {
    id: u32,
    email: String,
    town: String,
    balance: i64,
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(&Db::open(directory.path(), Options::default())?)?;
    let people = database.ensure_table_of::<Person>()?;
    let person = |id: u32, email: &str| Person {
        id,
        email: email.to_owned(),
        town: ["Cusco", "Lima", "Puno"][id as usize % 3].to_owned(),
        balance: i64::from(id % 100) - 20,
    };
    database.write(|transaction| {
        let people = transaction.table_of::<Person>()?;
        (0..3000).try_for_each(|id| people.insert(&person(id, &format!("person-{id}@example.org"))))
    })?;

    // A unique index refuses a second row with its value.
    let refused = people.insert(&person(5000, "person-7@example.org")).expect_err("the address is taken");
    assert_eq!(refused.kind(), ErrorKind::Exists);
    println!("refused: {refused}");

    // An index for an order that was not thought of before. Readers and writers go on while it is built.
    let by_town = IndexSchema::new("by_town", ["town", "balance"]).sum("balance");
    database.create_index("people", by_town, &mut |_| ())?;
    let now = database.snapshot();
    let by_town = now.table("people")?.index("by_town")?;
    let (count, sum) = by_town.tally(Span::eq("Lima"))?;
    println!("Lima: {count} people with {sum} together");
    println!("overdrawn in Lima: {}", by_town.count(Span::eq("Lima").and_lt(("Lima", 0)))?);
    let poorest = by_town.first(Span::eq("Lima"))?.expect("there are people in Lima");
    println!("the poorest of Lima: {}", poorest.get("email")?);
    assert_eq!(count, 1000);
    Ok(())
}
