//! Measurements by sensor and time: a day's count and sum without reading it, the newest value, a median, and old rows
//! removed in one step.
//!
//!     cargo run -p quipu --example time_series

use quipu::tuple::{self, Element};
use quipu::{Db, Measures, Options, ReadableTable, Result, SumField, TableOptions, WritableTable};

const DAY: i64 = 86_400;

fn key(sensor: &str, second: i64) -> Vec<u8> {
    tuple::encode(&[Element::from(sensor), Element::from(second)])
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), Options::default())?;
    // The tree keeps the sum of the eight bytes that each value begins with, beside the number of rows.
    let measures = Measures { sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
    let power = db.create_table("power", TableOptions { measures, ..TableOptions::default() })?;

    // A month of two sensors, a value a minute, each day in one commit.
    for day in 0..30 {
        db.write(|transaction| {
            let power = transaction.table(&power)?;
            for sensor in ["kitchen", "roof"] {
                for minute in 0..1440 {
                    let second = day * DAY + minute * 60;
                    let watts = (second / 60 * 37 + sensor.len() as i64 * 1000) % 2500;
                    power.put(key(sensor, second), watts.to_be_bytes())?;
                }
            }
            Ok(())
        })?;
    }

    let day = |sensor: &str, day: i64| key(sensor, day * DAY)..key(sensor, (day + 1) * DAY);
    let tally = power.tally(day("roof", 12))?;
    println!("roof, day 12: {} values, {} watts on average", tally.rows, tally.sum / tally.rows);
    let median = power.quantile(day("roof", 12), 0.5)?.expect("a day has values");
    println!("the row in the middle of that day: {:?}", tuple::decode(&median.key)?);
    let newest = power.range(tuple::range(&[Element::from("kitchen")])).next_back().transpose()?;
    println!("the newest of the kitchen: {:?}", tuple::decode(&newest.expect("there are some").key)?);

    // All of a sensor before day 20 goes in one commit.
    let removed = power.remove_range(key("kitchen", 0)..key("kitchen", 20 * DAY))?;
    println!("removed {removed} old values; {} are left", power.len()?);
    assert_eq!((removed, power.len()?), (20 * 1440, 40 * 1440));
    Ok(())
}
