//! `quipu export`: the rows of a table, or of a range of it, as CSV or JSON lines.

use std::io::Write;
use std::path::PathBuf;

use quipu::{Entry, ReadableTable};
use quipu_rows::old::{KeyRange, Schema, bounds, element_text, escape};
use serde_json::{Map, Value as Json};

use crate::database;
use crate::failure::{Failure, Result};
use crate::files;
use crate::grid::thousands;
use crate::key;
use crate::records::Format;

const EXAMPLES: &str = "\
Examples:
  quipu export --data air --table flights -o flights.csv
  quipu export --data air --table flights --prefix 2013,7,4 --format jsonl | jq .carrier
  quipu export --data air --table flights --from 2013,7 --to 2013,8 | head

Keys are the values of the key's columns between commas, and a beginning of a key stands for all that begin with it. \
The rows are those of one moment, whatever is written meanwhile. What was imported comes back as it was: import of an export gives \
an equal table, if the columns get the same types (--types; the summary of `export -o` prints the options).";

/// Writes the rows of a table as CSV or JSON lines.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The table
    #[arg(long)]
    table: String,
    /// How to write the rows; else the name of the output tells, else csv
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Only rows from this key on
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only rows before this key
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Only rows whose key begins with this
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// The file to write; else standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let db = database::open(&args.data, true)?;
    let table = database::table(&db, &args.table)?;
    let schema = Schema::of(&table);
    let range = range(args, schema.as_ref())?;
    let named = args.output.as_ref().and_then(|path| Format::of_name(&path.to_string_lossy()));
    let format = args.format.or(named).unwrap_or(Format::Csv);
    let snapshot = db.snapshot();
    let view = snapshot.table(&table)?;
    let mut out = files::create_output(args.output.as_deref())?;
    let mut rows: u64 = 0;
    match format {
        Format::Csv => {
            let mut csv = csv::Writer::from_writer(&mut out);
            match &schema {
                Some(schema) => csv.write_record(schema.columns.iter().map(|column| &column.name)),
                None => csv.write_record(["key", "value"]),
            }
            .map_err(csv_failure)?;
            for entry in view.range(bounds(&range)) {
                csv.write_record(texts(&entry?, schema.as_ref())?).map_err(csv_failure)?;
                rows += 1;
            }
            csv.flush()?;
        }
        Format::Jsonl => {
            for entry in view.range(bounds(&range)) {
                serde_json::to_writer(&mut out, &row_json(&entry?, schema.as_ref())).map_err(std::io::Error::from)?;
                out.write_all(b"\n")?;
                rows += 1;
            }
        }
    }
    out.flush()?;
    if let Some(path) = &args.output {
        eprintln!("{} rows of table {} in {}", thousands(rows), args.table, path.display());
        if let Some(schema) = &schema {
            let types: Vec<String> =
                schema.columns.iter().map(|column| format!("{}={}", column.name, column.column_type)).collect();
            eprintln!("to import them again: --key {} --types {}", schema.key_names(), types.join(","));
        }
    }
    Ok(())
}

fn csv_failure(error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::from(error),
        other => Failure::new(format!("cannot write the output: {other:?}")),
    }
}

fn range(args: &Args, schema: Option<&Schema>) -> Result<KeyRange> {
    match &args.prefix {
        Some(prefix) => key::range_of_option("--prefix", "", prefix, schema),
        None => key::range_of_options(args.from.as_deref(), args.to.as_deref(), schema),
    }
}

/// The fields of a row as text.
fn texts(entry: &Entry, schema: Option<&Schema>) -> Result<Vec<String>> {
    let Some(schema) = schema else {
        return Ok(vec![escape(&entry.key), escape(&entry.value)]);
    };
    let row = schema.decode_row(&entry.key, &entry.value).ok_or_else(|| {
        Failure::new(format!("the row of key {} does not fit the schema", key::show(&entry.key, Some(schema))))
    })?;
    Ok(row.iter().map(element_text).collect())
}

/// A row as a JSON object: its columns, or `key` and `value` (`key_hex`, `value_hex` if they are not UTF-8).
pub(crate) fn row_json(entry: &Entry, schema: Option<&Schema>) -> Json {
    let mut object = Map::new();
    match schema.and_then(|schema| Some((schema, schema.decode_row(&entry.key, &entry.value)?))) {
        Some((schema, row)) => {
            for (column, element) in schema.columns.iter().zip(&row) {
                object.insert(column.name.clone(), column.column_type.to_json(element));
            }
        }
        None => {
            for (name, bytes) in [("key", &*entry.key), ("value", &*entry.value)] {
                match std::str::from_utf8(bytes) {
                    Ok(text) => object.insert(name.to_owned(), Json::from(text)),
                    Err(_) => {
                        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                        object.insert(format!("{name}_hex"), Json::from(digits))
                    }
                };
            }
        }
    }
    Json::Object(object)
}
