use quipu::{Db, Options, ReadableTable, WritableTable};

fn main() -> quipu::Result<()> {
    let db = Db::open("scores", Options::default())?;
    let scores = db.ensure_table("scores")?;
    db.write(|tx| {
        let scores = tx.table(&scores)?;
        scores.insert(b"0042 ada", b"...")?;                   // fails if present
        assert_eq!(scores.count(&b"00"[..]..&b"01"[..])?, 1);  // exact, own writes included
        Ok(())
    })?;
    let page = scores.page(.., 5_000_000, 10)?;                // ten rows, and the exact total
    let median = scores.quantile(.., 0.5)?;
    let cuts = scores.split_points(.., 16)?;                   // the keys between sixteen equal parts
    println!("{} rows, {median:?}, {} cuts", page.total, cuts.len());
    Ok(())
}
