use quipu::{Db, Options};
use quipu_rows::{Database, Ordered, Record, Span};

#[derive(Record, Debug)]
#[table(name = "scores", primary_key(game, player), index(name = "best", columns(game, points desc)))]
struct Score {
    game: String,
    player: String,
    #[column(check = "points >= 0")]
    points: i64,
}

fn main() -> quipu::Result<()> {
    let database = Database::open(&Db::open("scores-data", Options::default())?)?;
    let scores = database.ensure_table_of::<Score>()?; // creates the table, or checks that it fits
    database.write(|tx| {
        let scores = tx.table_of::<Score>()?; // one commit of 1,000 rows, which waits for the disk once
        for number in 0..1_000 {
            let player = format!("player {number}");
            scores.put(&Score { game: "chess".into(), player, points: number * 7 % 1_000 })?;
        }
        Ok(())
    })?;
    scores.put(&Score { game: "go".into(), player: "player 7".into(), points: 12 })?; // a commit of its own

    let now = database.snapshot(); // all tables at this moment
    let scores = now.table_of::<Score>()?;
    let best = scores.index("best")?;
    println!("{} players", best.count(Span::eq("chess"))?);
    println!("{} have more than 500 points", best.rank(("chess", 500))?);
    let page = best.page(Span::eq("chess"), 100, 3)?; // three players from place 100 on
    for row in &page.rows {
        println!("{row:?} of {}", page.total);
    }
    println!("median: {:?}", best.quantile(Span::eq("chess"), 0.5)?);
    Ok(())
}
