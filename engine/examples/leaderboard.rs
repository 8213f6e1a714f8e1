//! A leaderboard: the rank of a player, the best ten, and the players around one, each in O(log n).
//!
//!     cargo run -p quipu --example leaderboard
//!
//! Two tables in one transaction: `points` by player, and `board` in the order of points. The best come first, so
//! points are stored as their distance from the most there can be.

use quipu::tuple::{self, Element};
use quipu::{Db, Options, ReadableTable, Result, Table, WritableTable};

struct Leaderboard {
    db: Db,
    points: Table,
    board: Table,
}

fn place(points: u32, player: &str) -> Vec<u8> {
    tuple::encode(&[Element::from(i64::from(u32::MAX - points)), Element::from(player)])
}

impl Leaderboard {
    fn open(db: Db) -> Result<Leaderboard> {
        Ok(Leaderboard { points: db.ensure_table("points")?, board: db.ensure_table("board")?, db })
    }

    fn points(&self, player: &str) -> Result<Option<u32>> {
        Ok(self.points.get(player)?.and_then(|bytes| Some(u32::from_be_bytes(*bytes.first_chunk()?))))
    }

    fn add(&self, player: &str, more: u32) -> Result<()> {
        self.db.write(|transaction| {
            let (points, board) = (transaction.table(&self.points)?, transaction.table(&self.board)?);
            let mut now = more;
            if let Some(old) = points.get(player)?.and_then(|bytes| bytes.first_chunk().copied()) {
                let old = u32::from_be_bytes(old);
                board.delete(place(old, player))?;
                now += old;
            }
            points.put(player, now.to_be_bytes())?;
            board.put(place(now, player), "")
        })
    }

    /// The place of a player, from 1.
    fn rank(&self, player: &str) -> Result<Option<u64>> {
        let Some(points) = self.points(player)? else { return Ok(None) };
        Ok(Some(self.board.rank(place(points, player))? + 1))
    }

    /// Players from a place on, with their points.
    fn page_at(&self, first: u64, players: usize) -> Result<Vec<(String, u32)>> {
        let page = self.board.page(.., first - 1, players)?;
        let row = |entry: &quipu::Entry| {
            let elements = tuple::decode(&entry.key)?;
            let [Element::Int(distance), Element::Text(player)] = &elements[..] else {
                unreachable!("as `place` writes")
            };
            Ok((player.to_string(), u32::MAX - *distance as u32))
        };
        page.entries.iter().map(row).collect()
    }
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let game = Leaderboard::open(Db::open(directory.path(), Options::default())?)?;
    for number in 0..1000 {
        game.add(&format!("player {number}"), number * 7919 % 10_007)?;
    }
    game.add("ada", 5000)?;
    game.add("ada", 17)?;
    println!("the best three: {:?}", game.page_at(1, 3)?);
    let rank = game.rank("ada")?.expect("ada plays");
    println!("ada has {} points and place {rank} of {}", game.points("ada")?.unwrap_or(0), game.board.len()?);
    println!("around ada: {:?}", game.page_at(rank - 1, 3)?);
    assert_eq!(game.page_at(rank, 1)?, [("ada".to_owned(), 5017)]);
    Ok(())
}
