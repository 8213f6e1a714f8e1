use quipu::{Db, Durability, Options, ReadableTable, WritableTable, tuple};

fn main() -> quipu::Result<()> {
    let db = Db::open("events-data", Options { durability: Durability::Os, ..Options::default() })?;
    let events = db.ensure_table("events")?;

    db.write(|tx| {
        // One transaction, which is the only writer: all of it is committed, or nothing.
        let events = tx.table(&events)?;
        (0..10_000u64).try_for_each(|time| events.put(time.to_be_bytes(), b"started"))
    })?;
    let key = |time: u64| time.to_be_bytes();
    println!("{} events", events.len()?);
    println!("{} between 1,000 and 3,000", events.count(&key(1_000)..&key(3_000))?);
    println!("after 5,000 others: {:?}", events.nth(.., 5_000)?);
    for entry in events.range(&key(9_997)..) {
        let entry = entry?;
        println!("{:?} = {:?}", entry.key, entry.value);
    }

    // A key of two parts, a sensor and a number: encoded, it sorts by the first, then by the second.
    let readings = db.ensure_table("readings")?;
    let reading = |number: i64| tuple::encode(&["s1".into(), number.into()]);
    db.write(|tx| (0..100).try_for_each(|number| tx.table(&readings)?.put(reading(number), b"21.5")))?;
    let of_s1 = readings.count(tuple::range(&["s1".into()]))?;
    if let Some(last) = readings.last()? {
        println!("{of_s1} readings of s1, the last at {:?}", tuple::decode(&last.key)?);
    }

    // An optimistic transaction, beside others: run again if a commit meanwhile changes what it has read, here the
    // number of rows. After three attempts it runs as the only writer.
    db.retry(3, |tx| {
        let events = tx.table(&events)?;
        events.insert(key(events.len()?), b"the next one")
    })
}
