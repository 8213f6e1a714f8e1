use quipu::{Db, Options, ReadableTable, WritableTable};

fn main() -> quipu::Result<()> {
    let db = Db::open("scores", Options::default())?;
    let scores = db.ensure_table("scores")?;                          // a key for each row, which sorts
    db.write(|tx| {                                                   // one commit of 500 rows
        let scores = tx.table(&scores)?;
        for player in 0..500 {
            let points = player * 37 % 1000;
            scores.put(format!("{points:03} player {player}"), b"")?; // adds the row, or replaces it
        }
        println!("{} have 100 to 199", scores.count("100".."200")?);  // exact, own writes included
        Ok(())
    })?;
    let page = scores.page(.., 250, 10)?;                             // ten rows, and the exact total
    println!("row 250 of {}: {:?}", page.total, page.entries[0].key);
    println!("median: {:?}", scores.quantile(.., 0.5)?);
    println!("quarters begin at {:?}", scores.split_points(.., 4)?);
    Ok(())
}
