use quipu::{Db, Options};
use quipu_rows::{Database, Ordered, Record, Span, Timestamp};

#[derive(Record, Debug)]
#[table(name = "orders", primary_key(id), index(name = "by_time", columns(placed)))]
struct Order {
    id: i64,
    customer: String,
    placed: Timestamp,
    cents: i64,
}

fn main() -> quipu::Result<()> {
    let db = Db::open("shop-data", Options::default())?;
    let database = Database::open(&db)?;
    let orders = database.ensure_table_of::<Order>()?;

    // An order an hour, from 1 to 20 March. `put` adds a row, or replaces the one with its key.
    database.write(|tx| {
        let orders = tx.table_of::<Order>()?;
        for id in 0..480 {
            let placed = format!("2026-03-{:02}T{:02}:00:00Z", 1 + id / 24, id % 24).parse::<Timestamp>()?;
            orders.put(&Order { id, customer: format!("customer {}", id % 20), placed, cents: 500 + id })?;
        }
        Ok(())
    })?;
    let mut last = orders.get(479)?.expect("it is there");
    last.customer = "customer 5".into();
    println!("replaced: {}", orders.put(&last)?);

    // Two updates: both are committed, or neither.
    database.write(|tx| {
        let orders = tx.table_of::<Order>()?;
        for (id, more) in [(477, -100), (478, 100)] {
            let mut order = orders.get(id)?.expect("it is there");
            order.cents += more;
            orders.update(&order)?;
        }
        Ok(())
    })?;

    // The newest three, and how many there were in a week: asked of a snapshot.
    let now = database.snapshot();
    let by_time = now.table_of::<Order>()?.index("by_time")?;
    for order in by_time.rows(..)?.rev().take(3) {
        let order = order?;
        println!("{} {} {}: {}", order.placed, order.id, order.customer, order.cents);
    }
    let (from, below) = ("2026-03-09".parse::<Timestamp>()?, "2026-03-16".parse::<Timestamp>()?);
    println!("{} in a week", by_time.count(Span::ge(from).and_lt(below))?);

    // Those before the 9th go.
    let deleted = database.write(|tx| {
        let orders = tx.table_of::<Order>()?;
        let old = orders.index("by_time")?.rows(Span::lt(from))?.collect::<quipu::Result<Vec<Order>>>()?;
        old.iter().try_for_each(|order| orders.delete(order.id).map(drop))?;
        Ok(old.len())
    })?;
    println!("{deleted} deleted, {} left", orders.len()?);

    // A copy of all tables, which opens as any database. The directory must not be there, or be empty.
    db.backup(format!("shop-backup-{}", db.stats().sequence))?;
    Ok(())
}
