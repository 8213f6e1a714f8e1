//! Pages of a list that others change: page 5,000 costs what page 1 costs, the total is exact, and a reader who turns
//! pages by key misses nothing and sees nothing twice.
//!
//!     cargo run -p quipu-rows --example pagination

use quipu::{Db, Options, Result};
use quipu_rows::{Database, Ordered, Record, Span};

#[derive(Record, Clone, Debug, PartialEq)]
#[table(name = "articles", primary_key(id))]
#[table(index(name = "by_topic", columns(topic, points desc)))]
struct Article {
    id: u32,
    topic: String,
    points: i32,
    title: String,
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(&Db::open(directory.path(), Options::default())?)?;
    let articles = database.ensure_table_of::<Article>()?;
    let new = |id: u32| Article {
        id,
        topic: ["rust", "trees"][id as usize % 2].into(),
        points: (id * 7919 % 1000) as i32,
        title: format!("article {id}"),
    };
    database.write(|transaction| {
        let articles = transaction.table_of::<Article>()?;
        (0..10_000).try_for_each(|id| articles.insert(&new(id)))
    })?;

    // Any page by its number, with the number of all: two descents, however far in.
    let snapshot = database.snapshot();
    let by_points = snapshot.table_of::<Article>()?.index("by_topic")?;
    let page = by_points.page(Span::eq("trees"), 20 * 200, 20)?;
    println!("page 201 of {}: {} to {}", page.total.div_ceil(20), page.rows[0].title, page.rows[19].title);

    // From a key on: the next page begins after the last row of this one, whatever was inserted meanwhile.
    articles.insert(&Article { id: 20_000, topic: "trees".into(), points: 1000, title: "the newest".into() })?;
    let last = &page.rows[19];
    let now = database.snapshot();
    let table = now.table_of::<Article>()?;
    let next =
        table.index("by_topic")?.page(Span::eq("trees").and(Span::gt(("trees", last.points, last.id))), 0, 20)?;
    println!("the next one: {} to {}", next.rows[0].title, next.rows[19].title);
    assert!(!next.rows.contains(last));
    println!("where it is now: position {}", table.index("by_topic")?.count(Span::eq("trees"))? - next.total);
    Ok(())
}
