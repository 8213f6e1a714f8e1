//! Quipu: a table of typed rows, and one counted index.

use std::path::Path;

use quipu::Db;
use quipu_rows::{
    Batch, BatchColumn, BuildOptions, Column, ColumnValues, DataType, Database, IndexSchema, Ordered as _, Record, Row,
    Span, TableSchema, Timestamp, Value,
};

use super::{Method, Parameters, Question, Seen, Trip, Trips, TypedStore, TypedStoreKind, Width, ask_until};
use crate::clock::Deadline;
use crate::store::{Result, Setup};

pub(super) const KIND: TypedStoreKind = TypedStoreKind {
    name: "quipu",
    settings: "Quipu: Database::write; bulk load: Database::begin_load; questions and scans of a snapshot",
    create,
};

/// A row of three columns as a struct.
#[derive(Record)]
#[table(name = "trips", index(name = "by_fare", columns(fare)))]
struct ShortTrip {
    #[column(primary_key)]
    id: i32,
    fare: f64,
    rider: String,
}

struct Typed(Database);

fn create(dir: &Path, setup: Setup, width: Width) -> Result<Box<dyn TypedStore>> {
    let options = crate::tpcc::options_of(setup);
    let database = Database::open(&Db::open(dir, options)?)?;
    let columns = ["id i32", "fare f64", "rider text", "seats i32", "at timestamp"];
    let mut schema = TableSchema::new("trips").key(["id"]).index(IndexSchema::new("by_fare", ["fare"]));
    for column in &columns[..width.columns()] {
        let (name, data_type) = column.split_once(' ').ok_or("a column has a name and a type")?;
        let data_type = DataType::parse(data_type).ok_or("no such type")?;
        schema = schema.column(Column::new(name, data_type).not_null());
    }
    database.create_table(&schema)?;
    Ok(Box::new(Typed(database)))
}

/// The values of the five columns.
fn values(trip: Trip<'_>) -> [Value<'_>; 5] {
    let at = Timestamp::from_microseconds(trip.at).expect("a moment of this century");
    [trip.id.into(), trip.fare.into(), trip.rider.into(), trip.seats.into(), at.into()]
}

fn id_of(row: Option<Row>) -> Result<i64> {
    match row.ok_or("no row at an offset")?.value(0)? {
        Value::Int(id) => Ok(id as i64),
        other => Err(format!("the id is {other}").into()),
    }
}

impl TypedStore for Typed {
    fn insert(&self, trips: &Trips, method: Method) -> Result<bool> {
        let columns = trips.width().columns();
        let database = &self.0;
        match method {
            Method::Values => database.write(|transaction| {
                let table = transaction.table("trips")?;
                trips.each(|trip| table.insert_values(&values(trip)[..columns]))
            })?,
            Method::Structs if trips.width() == Width::Three => database.write(|transaction| {
                let table = transaction.table_of::<ShortTrip>()?;
                trips
                    .each(|Trip { id, fare, rider, .. }| table.insert(&ShortTrip { id, fare, rider: rider.to_owned() }))
            })?,
            Method::Structs => return Ok(false),
            Method::Load => {
                let mut load = database.begin_load("trips", &BuildOptions::default())?;
                trips.each(|trip| load.push(&values(trip)[..columns]))?;
                load.commit(&mut |_| ())?;
            }
        }
        Ok(true)
    }

    fn ask(&self, question: Question, from: Parameters, most: usize, deadline: &Deadline) -> Result<Vec<i64>> {
        let now = self.0.snapshot();
        let table = now.table("trips")?;
        let index = table.index("by_fare")?;
        ask_until(from, most, deadline, |parameters| match question {
            Question::CountIds => {
                let (start, end) = parameters.ids();
                Ok(table.count(Span::ge(start).and_lt(end))? as i64)
            }
            Question::CountFares => {
                let (start, end) = parameters.fares();
                Ok(index.count(Span::ge(start).and_lt(end))? as i64)
            }
            Question::NthId => id_of(table.nth(Span::all(), parameters.offset())?),
            Question::NthFare => id_of(index.nth(Span::all(), parameters.offset())?),
        })
    }

    fn scan(&self) -> Result<Seen> {
        let scan = self.0.snapshot().scan("trips")?;
        let mut batch = scan.new_batch();
        let mut batches = scan.batches()?;
        let mut seen = Seen::default();
        while batches.read_into(&mut batch)? {
            add(&batch, &mut seen)?;
        }
        Ok(seen)
    }
}

fn add(batch: &Batch, seen: &mut Seen) -> Result<()> {
    let [ids, fares, riders, seats, at] = batch.columns() else { return Err("not five columns".into()) };
    let of_type = |column: &BatchColumn| format!("{} has another type", column.name);
    seen.rows += batch.rows() as u64;
    let (ColumnValues::I32(ids), ColumnValues::I32(seats)) = (&ids.values, &seats.values) else {
        return Err(of_type(ids).into());
    };
    let ColumnValues::F64(fares) = &fares.values else { return Err(of_type(fares).into()) };
    let ColumnValues::Bytes { bytes, .. } = &riders.values else { return Err(of_type(riders).into()) };
    let ColumnValues::Timestamp(at) = &at.values else { return Err(of_type(at).into()) };
    seen.ids += ids.iter().copied().map(i64::from).sum::<i64>();
    seen.seats += seats.iter().copied().map(i64::from).sum::<i64>();
    seen.cents += fares.iter().map(|fare| (fare * 100.0).round() as i64).sum::<i64>();
    seen.rider_bytes += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    seen.at = at.iter().fold(seen.at, |sum, at| sum.wrapping_add(*at));
    Ok(())
}
