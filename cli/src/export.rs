//! `quipu export`: the rows of a table, or of a range of it, as CSV, JSON lines or Parquet.

#[cfg(feature = "parquet")]
use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;

use quipu_rows::{Column, DataType, Database, TableSchema, Value};

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::counted;
use crate::import::parse_delimiter;
use crate::key::words_of_options;
use crate::query::{Queryable, Rows, Strings};
use crate::relation::Relation;
use crate::table_files::compression::{self, Compression};
use crate::table_files::csv;
use crate::table_files::files;
#[cfg(feature = "parquet")]
use crate::table_files::parquet::ParquetWriter;
use crate::table_files::records::{Format, delimiter_of_name, ending};

const EXAMPLES: &str = "\
Examples:
  quipu export --data air --table flights -o flights.csv
  quipu export --data air --table flights --prefix 2013,7,4 --format jsonl | jq .carrier
  quipu export --data air --table flights --from 2013,7 --to 2013,8 | head
  quipu export --data air --table flights --schema -o flights.json
  quipu export --data air --table flights -o flights.parquet
  quipu export --data air --table flights -o flights.tsv.gz

Keys are the values of the key's columns between commas, and a beginning of a key stands for all that begin with it. \
An index, TABLE.INDEX, has the rows in its order. The rows are those of one moment, whatever is written meanwhile. What was imported \
comes back as it was: import of an export gives an equal table, if it gets the same schema (export --schema, \
import --schema).

A name that ends in .gz or .zst has the file compressed; .tsv and .tab put tabs between fields, and .psv bars.

A Parquet file has the types of the columns as its logical types, columns that are NOT NULL as required, and rows in groups of up to \
122,880, compressed with zstd. Of a table without columns it has `key` and `value` as bytes. It needs a program that \
was built with `--features parquet`.";

/// Writes the rows of a table as CSV, JSON lines or Parquet.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    database: database::Named,
    /// The table, or an index of it: TABLE.INDEX
    #[arg(long)]
    table: String,
    /// Write the schema of the table, as `import --schema` takes it, and no rows
    #[arg(long, conflicts_with_all = ["format", "from", "to", "prefix"])]
    schema: bool,
    /// How to write the rows; else the name of the output tells, and to standard output it is csv
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// What stands between two fields of CSV, `tab` for instance; else a comma, a tab where the output ends in .tsv
    /// or .tab, or a bar where it ends in .psv
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
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
    let format = format(args)?;
    let database = Database::open(&database::open(args.database.dir(), true)?)?;
    let relation = Relation::find(&database, &args.table)?;
    if args.schema {
        return write_schema(args, &database, &relation);
    }
    let snapshot = database.snapshot();
    let rows = match &relation {
        Relation::Rows(name) => {
            let table = snapshot.table(name)?;
            write(args, format, &Rows::of_table(&table, table.schema()), &columns_of(table.schema()))?
        }
        Relation::Index { table, index } => {
            let table = snapshot.table(table)?;
            let index = table.index(index)?;
            let rows = Rows::of_index(&index, table.schema(), index.schema());
            write(args, format, &rows, &columns_of(table.schema()))?
        }
        Relation::Strings(table) => {
            if args.table.starts_with("cluster.") {
                eprintln!(
                    "quipu: warning: {} has what a node of a cluster keeps in its own form; a running node gives \
                     entities: curl 'http://HOST:PORT/v0/entities?start=%00&cluster=true'",
                    args.table
                );
            }
            let view = snapshot.engine().table(table)?;
            let columns = ["key", "value"].map(|name| Column::new(name, DataType::Bytes).not_null());
            write(args, format, &Strings { of: &view, measures: table.options().measures }, &columns)?
        }
    };
    if let Some(path) = &args.output {
        eprintln!("{} of table {} in {}", counted(rows, "row"), args.table, path.display());
    }
    Ok(())
}

/// How the rows are written: as it is said, or as the name of the output tells.
///
/// # Errors
/// The name tells nothing, or something else than what would be written.
fn format(args: &Args) -> Result<Format> {
    let Some(path) = &args.output else { return Ok(args.format.unwrap_or(Format::Csv)) };
    let name = path.to_string_lossy();
    if let Some(program) = compression::other_program(&name) {
        return Err(Failure::Usage(format!(
            "{name}: an export is compressed with gzip or zstd; write to standard output, and pipe it: `quipu export ... \
             --format csv | {program} > {name}`"
        )));
    }
    match args.format.or_else(|| Format::of_name(&name)) {
        Some(_) if args.schema => Ok(Format::Jsonl),
        Some(Format::Jsonl) if args.format.is_none() && ending(&name).as_deref() == Some("json") => {
            let how = "name it .jsonl, or add --format jsonl";
            Err(Failure::Usage(format!("{name}: an export is an object a line, and no array; {how}")))
        }
        Some(Format::Parquet) if Compression::of_name(&name).is_some() => {
            Err(Failure::Usage(format!("{name}: Parquet is compressed as it is; leave the ending out")))
        }
        Some(format) => Ok(format),
        None if args.schema => Ok(Format::Jsonl),
        None => {
            Err(Failure::Usage(format!("{name} has no name that tells its format: add --format csv, jsonl or parquet")))
        }
    }
}

fn write_schema(args: &Args, database: &Database, relation: &Relation) -> Result<()> {
    let Relation::Rows(name) = relation else {
        return Err(Failure::new(format!("{} is not a table with columns: it has no schema", args.table)));
    };
    let mut out = files::create_output(args.output.as_deref())?;
    writeln!(out, "{}", database.table(name)?.schema()?.to_json())?;
    Ok(out.finish()?)
}

/// The columns that rows show.
fn columns_of(schema: &TableSchema) -> Vec<Column> {
    schema.columns.iter().filter(|column| !column.hidden).cloned().collect()
}

/// Writes what is asked for, whose records have these columns. Returns how many rows there were.
fn write<A: Queryable>(args: &Args, format: Format, source: &A, columns: &[Column]) -> Result<u64> {
    let words = words_of_options(args.from.as_deref(), args.to.as_deref(), args.prefix.as_deref())?;
    let range = source.range(&words).map_err(|error| error.context(option_of(args)))?;
    if format == Format::Parquet {
        return write_parquet(args, source, &range, columns);
    }
    let mut out = files::create_output(args.output.as_deref())?;
    let mut rows: u64 = 0;
    match format {
        Format::Csv => {
            let header = source.header();
            let of_name = args.output.as_ref().and_then(|path| delimiter_of_name(&path.to_string_lossy()));
            let delimiter = args.delimiter.or(of_name).unwrap_or(b',');
            csv::write_header(&mut out, delimiter, header.iter().map(|(name, _)| name.as_str()))?;
            source.for_each(&range, &mut |record| {
                rows += 1;
                Ok(csv::write_record(&mut out, delimiter, source.texts(record)?.iter().map(Option::as_deref))?)
            })?;
        }
        Format::Jsonl => {
            let has_json = columns.iter().any(|column| column.data_type == DataType::Json);
            source.for_each(&range, &mut |record| {
                rows += 1;
                if has_json {
                    refuse_null_of_json(source, record, columns)?;
                }
                Ok(writeln!(out, "{}", source.json(record)?)?)
            })?;
        }
        Format::Parquet => {}
    }
    out.finish()?;
    Ok(rows)
}

/// Fails if a column of JSON has the value `null`, which would come back as NULL.
fn refuse_null_of_json<A: Queryable>(source: &A, record: &A::Record, columns: &[Column]) -> Result<()> {
    for (value, column) in source.values(record)?.iter().zip(columns) {
        if matches!(value, Value::Json(json) if json == "null") {
            let (key, column) = (source.key_text(record)?, &column.name);
            return Err(Failure::new(format!(
                "row {key}, column {column}: null of JSON is not NULL, and in JSON lines it would be; write CSV or Parquet"
            )));
        }
    }
    Ok(())
}

#[cfg(feature = "parquet")]
fn write_parquet<A: Queryable>(args: &Args, source: &A, range: &A::Range, columns: &[Column]) -> Result<u64> {
    if args.output.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::Usage("Parquet is not for a terminal: name a file with --output".to_owned()));
    }
    let mut writer = ParquetWriter::new(files::create_output(args.output.as_deref())?, columns)?;
    let mut rows: u64 = 0;
    source.for_each(range, &mut |record| {
        rows += 1;
        writer.push(&source.values(record)?)
    })?;
    writer.finish()?;
    Ok(rows)
}

#[cfg(not(feature = "parquet"))]
fn write_parquet<A: Queryable>(_: &Args, _: &A, _: &A::Range, _: &[Column]) -> Result<u64> {
    Err(crate::table_files::records::without_parquet())
}

/// The option that says the range, for errors.
fn option_of(args: &Args) -> &'static str {
    match (&args.prefix, &args.from, &args.to) {
        (Some(_), ..) => "--prefix",
        (None, Some(_), None) => "--from",
        (None, None, _) => "--to",
        (None, Some(_), Some(_)) => "--from and --to",
    }
}
