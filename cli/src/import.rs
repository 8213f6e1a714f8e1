//! `quipu import`: a CSV file or JSON lines become a table and its secondary indexes.

use std::io::Write;
use std::path::PathBuf;

use quipu::{Compression, Db, Measures, ReadableTable, SumField, TableOptions};
use quipu_rows::old::{ColumnType, RowTable, Schema};
use serde_json::json;

use crate::clock::Stopwatch;
use crate::database;
use crate::failure::{Failure, Result};
use crate::files::Source;
use crate::grid::thousands;
use crate::infer;
use crate::load::{self, Conflict, Loaded};
use crate::records::Format;

const EXAMPLES: &str = "\
Examples:
  Flights in the order of time, with an index by airport:
    quipu import flights.csv.zst --data air --table flights \\
      --key year,month,day,sched_dep_time,carrier,flight --index airport=origin,month

  Add up the column `distance`, so that `tally` in the shell tells the miles of any range:
    quipu import flights.csv --data air --table flights \\
      --key year,month,day,carrier,flight,origin --sum distance

  From another program, all or nothing:
    generate | quipu import - --format jsonl --data air --table events --key id --atomic

  Much data in the order of its keys, straight to disk:
    quipu import events.jsonl --data air --table events --key id --sorted

  Again, with newer rows:
    quipu import more.csv --data air --table flights --on-conflict replace

The file is read twice: first to find a type for each column (bool, int, float, text, and json for nested or mixed members of \
JSON lines), then to load it. Numbers that would be written otherwise, as 007, are text. A column of ints and floats is float. \
Empty fields and NA are missing, which sorts first. A table that exists keeps its types; a field that does not fit is an error.";

/// Loads a CSV file or JSON lines into a table.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file, also compressed (.zst), or `-` for standard input
    file: PathBuf,
    /// The directory of the database; created if need be
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The table; created if need be
    #[arg(long)]
    table: String,
    /// The columns of the key, in its order; rows sort by them and each key is there once. All other columns make the
    /// value
    #[arg(long, value_name = "COL,COL", value_delimiter = ',')]
    key: Vec<String>,
    /// A secondary index: the table TABLE.NAME, sorted by these columns, changed in the same transactions
    #[arg(long = "index", value_name = "NAME=COL,COL", value_parser = parse_index)]
    indexes: Vec<(String, Vec<String>)>,
    /// An int column of the value whose sum over any range is kept
    #[arg(long, value_name = "COL")]
    sum: Option<String>,
    /// Compress rows (LZ4) where they are on disk: for rows that repeat each other, half the space and more
    #[arg(long)]
    compress: bool,
    /// What the table is for, in a sentence; `quipu stats` shows it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    comment: String,
    /// Keep all rows of the table in memory; others go to disk as memory fills
    #[arg(long)]
    in_memory: bool,
    /// What happens to a record whose key is taken
    #[arg(long, value_enum, default_value = "error")]
    on_conflict: Conflict,
    /// Rows of one transaction
    #[arg(long, value_name = "ROWS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// One transaction for the whole file: after an error nothing is imported. The rows are held in memory until the
    /// end
    #[arg(long, conflicts_with = "batch")]
    atomic: bool,
    /// The records come in the order of their keys: they go straight to disk, faster than others, and all or nothing.
    /// The table has no index and is not kept in memory
    #[arg(long, conflicts_with_all = ["batch", "atomic", "indexes", "in_memory"])]
    sorted: bool,
    /// Types of columns, instead of what their fields look like: bool, int, float, text, json
    #[arg(long, value_name = "COL=TYPE", value_delimiter = ',', value_parser = parse_type)]
    types: Vec<(String, ColumnType)>,
    /// The mark of a missing field in CSV, beside the empty one
    #[arg(long, value_name = "TEXT", default_value = "NA")]
    missing: String,
    /// How the file holds its records, if its name does not tell
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

fn parse_index(text: &str) -> Result<(String, Vec<String>), String> {
    match text.split_once('=') {
        Some((name, columns)) if !name.is_empty() && !columns.is_empty() => {
            Ok((name.to_owned(), columns.split(',').map(str::to_owned).collect()))
        }
        _ => Err("write it as name=column,column".to_owned()),
    }
}

fn parse_type(text: &str) -> Result<(String, ColumnType), String> {
    let (name, column_type) = text.split_once('=').ok_or("write it as column=type")?;
    let column_type = ColumnType::parse(column_type)
        .ok_or_else(|| format!("{column_type:?} is no type; there are {}", ColumnType::names()))?;
    Ok((name.to_owned(), column_type))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let watch = Stopwatch::start();
    let format = args.format.or_else(|| Format::of_name(&args.file.to_string_lossy())).ok_or_else(|| {
        Failure::Usage(format!("{} has no name that tells its format: add --format csv or jsonl", args.file.display()))
    })?;
    let source = Source::new(&args.file)?;
    if args.sorted && args.on_conflict == Conflict::Skip {
        return Err(Failure::Usage("--sorted replaces rows or refuses them: --on-conflict skip needs --batch".into()));
    }
    // The file is opened before the database, so that a wrong name creates nothing.
    drop(source.open()?);
    let db = database::open_or_create(&args.data)?;
    let existing = RowTable::open(&db, &args.table)?;
    let is_new = existing.is_none();
    let table = match existing {
        Some(table) => table,
        None => create(&db, args, &source, format).map_err(|error| error.context(&source.name))?,
    };
    let schema = check_request(&table, args, is_new)?;
    let options = load::Options {
        format,
        missing: &args.missing,
        conflict: args.on_conflict,
        batch_rows: (!args.atomic).then_some(args.batch as usize),
        stride: 1,
    };
    let mut loaded = Loaded::default();
    let result = source.open().and_then(|input| {
        if args.sorted {
            load::load_sorted(&table, schema, input, options, &mut loaded)
        } else {
            load::load(&db, &table, schema, input, options, &mut loaded)
        }
    });
    if let Err(error) = result {
        let name = args.table.as_str();
        let kept = match loaded.rows {
            0 if is_new => {
                table.drop(&db)?;
                format!("nothing was imported and there is no table {name}")
            }
            0 => format!("nothing was imported, table {name} is as it was"),
            rows => format!(
                "the {} rows of the batches before stay in table {name}; import again with --on-conflict skip to go on after them",
                thousands(rows)
            ),
        };
        return Err(Failure::new(format!("{}: {error}; {kept}", source.name)));
    }
    report(args, &table, schema, loaded, watch)
}

fn report(args: &Args, table: &RowTable, schema: &Schema, loaded: Loaded, watch: Stopwatch) -> Result<()> {
    let elapsed = watch.elapsed();
    let table_rows = table.table.len()?;
    if args.json {
        let columns: Vec<_> = (schema.columns.iter())
            .map(|column| json!({"name": column.name, "type": column.column_type.to_string()}))
            .collect();
        let report = json!({
            "table": args.table, "rows": loaded.rows, "replaced": loaded.replaced, "skipped": loaded.skipped,
            "table_rows": table_rows, "columns": columns, "key": schema.key_columns().map(|c| &c.name).collect::<Vec<_>>(),
            "indexes": table.index_names().collect::<Vec<_>>(), "seconds": elapsed.as_secs_f64(),
        });
        writeln!(std::io::stdout(), "{report}")?;
        return Ok(());
    }
    let columns: Vec<String> =
        schema.columns.iter().map(|column| format!("{} {}", column.name, column.column_type)).collect();
    writeln!(std::io::stdout(), "{}: {}; key {}", args.table, columns.join(", "), schema.key_names())?;
    let others = match (loaded.replaced, loaded.skipped) {
        (0, 0) => String::new(),
        (0, skipped) => format!(" ({} skipped)", thousands(skipped)),
        (replaced, _) => format!(" ({} of them replaced a row)", thousands(replaced)),
    };
    writeln!(
        std::io::stdout(),
        "{} rows in {} ({} rows/s){others}; the table has {}",
        thousands(loaded.rows),
        crate::clock::show(elapsed),
        thousands((loaded.rows as f64 / elapsed.as_secs_f64()) as u64),
        thousands(table_rows)
    )?;
    Ok(())
}

/// Creates the table and the indexes that the arguments ask for, with the columns of the file.
fn create(db: &Db, args: &Args, source: &Source, format: Format) -> Result<RowTable> {
    if args.key.is_empty() {
        return Err(Failure::Usage(format!("table {} is new: name the columns of its key with --key", args.table)));
    }
    let columns = infer::columns(source, format, &args.missing, &args.types)?;
    if columns.is_empty() {
        return Err(Failure::new("there are no records, so the columns are not known"));
    }
    let schema = Schema::new(columns, &args.key)?;
    let sum = args.sum.as_deref().map(|name| sum_field(&schema, name)).transpose()?;
    let measures = Measures { bytes: true, hash: true, sum, ..Measures::ROWS };
    let compression = if args.compress { Compression::Lz4 } else { Compression::None };
    let options = TableOptions {
        measures,
        compression,
        in_memory: args.in_memory,
        comment: args.comment.clone(),
        ..TableOptions::default()
    };
    Ok(RowTable::create(db, &args.table, &schema, &args.indexes, options)?)
}

/// Where the column to be added up stands in the value.
pub(crate) fn sum_field(schema: &Schema, name: &str) -> Result<SumField> {
    let place = schema.place(name).ok_or_else(|| {
        Failure::new(format!("--sum: there is no column {name:?}; the columns are {}", schema.all_names()))
    })?;
    match schema.value.iter().position(|&value_place| value_place == place) {
        None => {
            Err(Failure::new(format!("--sum: column {name:?} is of the key; only a column of the value is added up")))
        }
        Some(_) if schema.columns[place].column_type != ColumnType::Int => {
            let column_type = schema.columns[place].column_type;
            Err(Failure::new(format!("--sum: column {name:?} is of type {column_type}; only ints are added up")))
        }
        Some(at) => Ok(SumField::Element { at: at as u32 }),
    }
}

/// The schema of the table, after a look whether the arguments ask for another.
fn check_request<'a>(table: &'a RowTable, args: &Args, is_new: bool) -> Result<&'a Schema> {
    let name = &args.table;
    let schema = table.schema.as_ref().ok_or_else(|| {
        Failure::new(format!("table {name} exists and has no schema: rows of a file do not go into it"))
    })?;
    if let Some(owner) = table.index_of() {
        return Err(Failure::new(format!("table {name} is an index: import into table {owner}, and it follows")));
    }
    if is_new {
        return Ok(schema);
    }
    let refuse = |what: String| {
        Err(Failure::new(format!("table {name} exists {what}; leave the option out, or import into a new table")))
    };
    if !args.key.is_empty() && args.key.join(",") != schema.key_names() {
        return refuse(format!("with the key {}", schema.key_names()));
    }
    for (column, column_type) in &args.types {
        match schema.place(column) {
            None => return refuse(format!("without a column {column:?}")),
            Some(place) if schema.columns[place].column_type != *column_type => {
                return refuse(format!("and its column {column} is of type {}", schema.columns[place].column_type));
            }
            Some(_) => {}
        }
    }
    if let Some((index, _)) = args.indexes.iter().find(|(index, _)| !table.index_names().any(|known| known == index)) {
        return refuse(format!("without an index {index}"));
    }
    if let Some(sum) = &args.sum
        && Some(sum_field(schema, sum)?) != table.table.options().measures.sum
    {
        return refuse(format!("and does not add up {sum}"));
    }
    let options = table.table.options();
    if args.sorted && table.index_names().next().is_some() {
        return refuse("with indexes, whose entries come in another order: --sorted is for tables without".to_owned());
    }
    if args.sorted && options.in_memory {
        return refuse("and is kept in memory: --sorted writes to disk".to_owned());
    }
    if args.compress && options.compression == Compression::None {
        return refuse("and is not compressed".to_owned());
    }
    if args.in_memory && !options.in_memory {
        return refuse("and is not kept in memory".to_owned());
    }
    Ok(schema)
}
