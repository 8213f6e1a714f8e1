//! `quipu import`: a CSV file, JSON lines or a Parquet file become a table and its secondary indexes.

use std::io::Write;
use std::path::PathBuf;

use encoding_rs::Encoding;
use quipu_rows::{DataType, Database, IndexSchema, RowTable, TableSchema};
use serde_json::json;

use crate::clock::Stopwatch;
use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{counted, thousands};
use crate::relation::Relation;
use crate::table_files::compression;
use crate::table_files::csv;
use crate::table_files::files::Source;
use crate::table_files::inference;
use crate::table_files::load::{self, Conflict, Loaded, Marked, Writing, key_column};
use crate::table_files::notation::{DateFormat, Notations};
use crate::table_files::records::{CsvNotation, Format, delimiter_of_name};
use crate::table_files::sniffing::{self, Known};

const EXAMPLES: &str = "\
Examples:
  Any file, its rows numbered, into the table `penguins`:
    quipu import penguins.csv --data zoo

  Flights in the order of time, with an index by airport:
    quipu import flights.csv.zst --data air --table flights \\
      --key year,month,day,sched_dep_time,carrier,flight --index airport=origin,month

  First a look at what it finds, then as it was corrected by hand:
    quipu import flights.csv --table flights --key year,month,day,carrier,flight --show-schema > flights.json
    quipu import flights.csv --data air --schema flights.json

  Add up the column `distance`, so that `tally` in the shell tells the miles of any range:
    quipu import flights.csv --data air --table flights \\
      --key year,month,day,carrier,flight,origin --sum distance

  From another program, all or nothing:
    generate | quipu import - --data air --table events --key id --atomic

  Again, with newer rows:
    quipu import more.csv --data air --table flights --on-conflict replace

  A Parquet file, whose columns have types:
    quipu import flights.parquet --data air --table flights --key year,month,day,carrier,flight

The format is what the name of the file tells, else what it begins as; so is what stands between fields: a comma, a tab, a semicolon \
or a bar. Files may be compressed with gzip or zstd. A byte order mark of UTF-16 is followed; other encodings are for --encoding to \
say. A column without a name is c1, c2 and so on by its place, and the second one of a name gets `_2`.

Without --key rows are numbered in the order of the file, in a column `rowid` that is shown only if it is asked for. A key sorts \
them as you look for them, and finds each one at once.

A CSV file or JSON are read twice: first to find a type for each column (bool, i64, u64, f64, date, timestamp, text, and \
json for nested or mixed members of JSON), then to load it. Numbers that would be written otherwise, as 007, or that f64 does \
not hold, are text. A column of integers and floats is f64. Dates with times, as 2013-07-04 05:15:00+02:00, are timestamps in UTC, \
and True and FALSE are bools. Dates as 04.07.2013 and words as yes are text unless --date-format and --booleans say what they \
are. Numbers as 1.234,56 are for --decimal-comma to read; a column of nothing else in a file with semicolons is read so at once, \
and a line says so.

A field in quotes is never missing. Without quotes, an empty field is missing, which sorts first, but in a column of text that is \
NOT NULL it is the empty text; NA is missing in all columns but those of text. A member that JSON leaves out has the default \
of its column. Numbers that a file has for an identity column are kept, and the next one comes after the greatest.

A Parquet file says its types, and which columns are NOT NULL: integers, floats, decimals, dates, timestamps, texts, bytes, UUIDs \
and JSON are what they are, nested columns become json, and times of day and intervals are refused; --types and --schema say it \
otherwise where values allow that. Parquet needs a program that was built with `--features parquet`.

A table that exists keeps its types; a field that does not fit is an error.

A table without rows is loaded all or nothing: rows and the entries of indexes are sorted and written straight to disk. Into a table \
with rows they go in transactions.";

/// Loads a CSV file, JSON lines or a Parquet file into a table.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file, CSV and JSON also compressed (gzip, zstd), or `-` for standard input
    file: PathBuf,
    /// The directory of the database; created if need be
    #[arg(long, value_name = "DIR", required_unless_present = "show_schema")]
    data: Option<PathBuf>,
    /// The table; created if need be. Unless it is named, the file's name says it
    #[arg(long)]
    table: Option<String>,
    /// A schema as JSON, in place of what the file looks like and of the options below: columns with types, the key,
    /// indexes, constraints
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "indexes", "sum", "types", "compress", "comment", "in_memory"])]
    schema: Option<PathBuf>,
    /// Print the schema that the table would get, for --schema, and import nothing
    #[arg(long, conflicts_with = "schema")]
    show_schema: bool,
    /// The columns of the key, in its order; rows sort by them and each key is there once. Without a key, rows are
    /// numbered
    #[arg(long, value_name = "COL,COL", value_delimiter = ',')]
    key: Vec<String>,
    /// A secondary index, TABLE.NAME in the shell: the rows sorted by these columns
    #[arg(long = "index", value_name = "NAME=COL,COL", value_parser = parse_index)]
    indexes: Vec<IndexSchema>,
    /// A column of integers whose sum over any range is kept
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
    /// Write in transactions of so many rows: after an error those before it stay. Into a table with rows, 10,000
    /// unless told otherwise
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// One transaction for the whole file: after an error nothing is imported, also into a table with rows. The rows
    /// are held in memory until the end
    #[arg(long, conflicts_with = "batch")]
    atomic: bool,
    /// Types of columns, instead of what their fields look like: `id=u64`, `price=decimal(10,2)`
    #[arg(long, value_name = "COL=TYPE,...", value_parser = parse_types)]
    types: Vec<Vec<(String, DataType)>>,
    /// The mark of a missing field in CSV, without quotes, beside the empty one. In columns of text, NA is a text
    /// unless it is asked for here; '' turns all marks off
    #[arg(long, value_name = "TEXT")]
    missing: Option<String>,
    /// What stands between two fields in CSV, if it is not what the file looks as if it were: a character of ASCII, or
    /// `tab`
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// Numbers of a CSV file have a comma before their fraction, and perhaps points or blanks between thousands, as
    /// 1.234,56
    #[arg(long)]
    decimal_comma: bool,
    /// The order of day, month and year in dates of a CSV file: `DD.MM.YYYY`, `MM/DD/YYYY`, `D.M.YYYY` with one digit
    /// or two; a time may follow. Of one column: `born=DD.MM.YYYY`
    #[arg(long = "date-format", value_name = "[COL=]FORMAT", value_parser = parse_date_format)]
    date_formats: Vec<(Option<String>, DateFormat)>,
    /// The words of true and false in a CSV file: `yes,no`, `1,0`. Columns that have nothing else are bools; of one
    /// column: `paid=J,N`
    #[arg(long, value_name = "[COL=]TRUE,FALSE", value_parser = parse_booleans)]
    booleans: Vec<(Option<String>, (String, String))>,
    /// The first line of the CSV file is a record: the columns are c1, c2 and so on, or those of --columns
    #[arg(long)]
    no_header: bool,
    /// The names of the columns of a CSV file that does not begin with them
    #[arg(long, value_name = "COL,COL", value_delimiter = ',', requires = "no_header")]
    columns: Vec<String>,
    /// Pass over so many lines of a CSV file that stand before the table
    #[arg(long, value_name = "LINES", default_value_t = 0, hide_default_value = true)]
    skip_lines: u64,
    /// How the text is encoded, if it is not UTF-8: latin1, utf-16le, windows-1251, shift_jis and others, by the names
    /// that browsers know
    #[arg(long, value_name = "NAME", value_parser = parse_encoding)]
    encoding: Option<&'static Encoding>,
    /// How the file holds its records, if it is not what its name or its first bytes tell
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

fn parse_index(text: &str) -> Result<IndexSchema, String> {
    match text.split_once('=') {
        Some((name, columns)) if !name.is_empty() && !columns.is_empty() => {
            Ok(IndexSchema::new(name, split_list(columns)))
        }
        _ => Err("write it as name=column,column".to_owned()),
    }
}

/// What stands between two fields: a character of ASCII, or `tab`.
pub(crate) fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" | b"\t" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("a delimiter is neither a quote nor the end of a line".to_owned()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("write one character of ASCII, or tab".to_owned()),
    }
}

/// What an option says of one column, or of all.
fn of_column(text: &str) -> (Option<String>, &str) {
    match text.rsplit_once('=') {
        Some((column, said)) => (Some(column.to_owned()), said),
        None => (None, text),
    }
}

fn parse_date_format(text: &str) -> Result<(Option<String>, DateFormat), String> {
    let (column, format) = of_column(text);
    Ok((column, DateFormat::parse(format)?))
}

fn parse_booleans(text: &str) -> Result<(Option<String>, (String, String)), String> {
    let (column, words) = of_column(text);
    match words.split_once(',') {
        Some((yes, no)) if !yes.is_empty() && !no.is_empty() && yes != no && !no.contains(',') => {
            Ok((column, (yes.to_owned(), no.to_owned())))
        }
        _ => Err("write the word of true, a comma and the word of false, as yes,no".to_owned()),
    }
}

fn parse_encoding(label: &str) -> Result<&'static Encoding, String> {
    let known = Encoding::for_label(label.as_bytes());
    known.ok_or_else(|| {
        "it is not a name of an encoding; there are latin1, utf-16le, utf-16be, gbk and others".to_owned()
    })
}

/// Between commas that stand in no parentheses.
pub(crate) fn split_list(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The type of that name; the error names those there are.
pub(crate) fn parse_type(name: &str) -> Result<DataType, String> {
    DataType::parse(name).ok_or_else(|| format!("{name:?} is not a type; there are {}", DataType::names()))
}

fn parse_types(text: &str) -> Result<Vec<(String, DataType)>, String> {
    let one = |part: &str| {
        let (name, data_type) = part.split_once('=').ok_or("write it as column=type")?;
        Ok((name.to_owned(), parse_type(data_type)?))
    };
    split_list(text).into_iter().map(one).collect()
}

impl Args {
    /// How a CSV file of this name is written, which begins so, of a table with this schema if one is known. The file
    /// is looked at for what the options leave open.
    fn csv(&self, name: &str, start: &[u8], schema: Option<&TableSchema>) -> CsvNotation<'_> {
        let columns: Vec<String> = (schema.into_iter().flat_map(|schema| &schema.columns))
            .filter(|column| !column.hidden)
            .map(|column| column.name.clone())
            .collect();
        let known = match (self.no_header, self.columns.len(), columns.as_slice()) {
            (false, _, []) | (true, 0, []) => Known::Nothing,
            (false, _, names) => Known::Names(names),
            (true, 0, names) => Known::Number(names.len()),
            // Columns after those that are named get names.
            (true, 1, _) => Known::Nothing,
            (true, number, _) => Known::Number(number),
        };
        let delimiter = self.delimiter.or_else(|| delimiter_of_name(name));
        CsvNotation {
            delimiter: delimiter.unwrap_or_else(|| sniffing::delimiter(start, self.skip_lines, known)),
            mark: self.mark(),
            names: self.no_header.then_some(self.columns.as_slice()),
            skipped_lines: self.skip_lines,
        }
    }

    /// How the fields of a CSV file are written, as the options say.
    fn notations(&self, format: Format) -> Result<Notations> {
        let is_asked = self.decimal_comma || !self.date_formats.is_empty() || !self.booleans.is_empty();
        if is_asked && format != Format::Csv {
            let options = "--decimal-comma, --date-format and --booleans";
            return Err(Failure::Usage(format!("{options} are for CSV; other files say their types")));
        }
        Ok(Notations {
            decimal_comma: self.decimal_comma,
            dates: self.date_formats.clone(),
            booleans: self.booleans.clone(),
            ..Notations::default()
        })
    }

    fn mark(&self) -> &str {
        self.missing.as_deref().unwrap_or(csv::MISSING)
    }

    /// The table that is named, by an option, a schema, or the file.
    fn table_name(&self, declared: Option<&TableSchema>) -> Result<String> {
        if let Some(name) = &self.table {
            return Ok(name.clone());
        }
        if let Some(schema) = declared {
            return Ok(schema.table.clone());
        }
        let file = self.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = file.split('.').next().unwrap_or_default();
        match stem {
            "" | "-" => Err(Failure::Usage("name the table: --table".to_owned())),
            stem => Ok(stem.to_owned()),
        }
    }

    fn types(&self) -> Vec<(String, DataType)> {
        self.types.concat()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let watch = Stopwatch::start();
    let name = args.file.to_string_lossy();
    if let Some(program) = compression::other_program(&name) {
        return Err(Failure::Usage(format!(
            "{name} is compressed with {program}, which is not read: decompress it first, as \
             `{program} -dc {name} | quipu import - ...` does"
        )));
    }
    // The files are opened before the database, so that a wrong name creates nothing.
    let source = Source::new(&args.file, args.encoding)?;
    let format = args.format.map_or_else(|| sniffing::format(&source), Ok)?;
    let start = if format == Format::Csv { source.start(sniffing::SAMPLE_BYTES)? } else { Vec::new() };
    let declared = args.schema.as_ref().map(|file| read_schema(args, file)).transpose()?;
    let name = args.table_name(declared.as_ref())?;
    let mut notations = args.notations(format)?;
    let inferred = |csv, notations: &mut Notations| {
        infer_schema(args, &name, &source, format, csv, notations).map_err(|error| error.context(&source.name))
    };
    if args.show_schema {
        let (schema, notes) = inferred(args.csv(&source.name, &start, None), &mut notations)?;
        notes.iter().for_each(|note| eprintln!("{note}"));
        writeln!(std::io::stdout(), "{}", schema.to_json())?;
        return Ok(());
    }
    let mut notes = Vec::new();
    let Some(dir) = &args.data else { return Err(Failure::Usage("name a database: --data".to_owned())) };
    let database = Database::open(&database::open_or_create(dir)?)?;
    let existing = database.open_table(&name)?;
    let is_new = existing.is_none();
    let known = match &existing {
        Some(table) => Some(table.schema()?),
        None => declared.clone(),
    };
    let csv = args.csv(&source.name, &start, known.as_ref());
    let table = match (existing, declared) {
        (None, None) => {
            check_other_relation(&database, &name)?;
            let schema;
            (schema, notes) = inferred(csv, &mut notations)?;
            database.create_table(&schema).map_err(|error| Failure::from(error).context(&source.name))?
        }
        (None, Some(schema)) => {
            check_other_relation(&database, &name)?;
            database.create_table(&schema)?
        }
        (Some(table), declared) => {
            match declared {
                Some(schema) => contradiction(&table.schema()?, &schema.completed())?,
                None => check_request(&table.schema()?, args)?,
            }
            table
        }
    };
    let schema = table.schema()?;
    let refers_to_itself = schema.foreign_keys.iter().any(|foreign_key| foreign_key.table == name);
    let can_load =
        table.is_empty()? && args.on_conflict == Conflict::Error && args.batch.is_none() && !refers_to_itself;
    let writing = match args.atomic {
        _ if can_load => Writing::Load,
        true => Writing::Transactions(None),
        false => Writing::Transactions(Some(args.batch.unwrap_or(10_000) as usize)),
    };
    let options = load::Options {
        format,
        csv,
        notations: &notations,
        mark_in_texts: args.missing.is_some(),
        conflict: args.on_conflict,
        writing,
        stride: 1,
        may_change_key: is_new && args.schema.is_none(),
    };
    let mut loaded = Loaded::default();
    if let Err(error) = load::load(&database, &schema, &|| source.open(), options, &mut loaded) {
        if is_new && loaded.rows == 0 {
            database.drop_table(&name)?;
        }
        return Err(Failure::new(format!("{}: {error}; {}", source.name, what_stays(&name, is_new, loaded.rows))));
    }
    notes.extend(loaded.marks.iter().map(|marked| told(marked, args.mark())));
    if format == Format::Csv && args.delimiter.is_none() && csv.delimiter != b',' {
        notes.push(format!("fields stand between {}", shown_delimiter(csv.delimiter)));
    }
    let is_numbered = schema.columns.iter().any(|column| column.hidden && schema.key == [column.name.as_str()]);
    if is_new && args.schema.is_none() && is_numbered {
        notes.push("no key was named: rows are numbered in the order of the file".to_owned());
    }
    report(args, &table, &schema, &loaded, &notes, watch)
}

/// What an import that has failed has left in a table.
fn what_stays(table: &str, is_new: bool, rows: u64) -> String {
    match rows {
        0 if is_new => format!("nothing was imported and there is no table {table}"),
        0 => format!("nothing was imported, table {table} is as it was"),
        rows => format!(
            "the {} of the batches before {} in table {table}; import again with --on-conflict skip to go on after {}",
            counted(rows, "row"),
            if rows == 1 { "stays" } else { "stay" },
            if rows == 1 { "it" } else { "them" }
        ),
    }
}

/// The schema in a file, of the table that is asked for.
fn read_schema(args: &Args, file: &std::path::Path) -> Result<TableSchema> {
    let name = file.display();
    let json = crate::table_files::files::read_text(file)?;
    let schema = TableSchema::from_json(&json).map_err(|error| Failure::from(error).context(&name))?;
    match &args.table {
        Some(table) if *table != schema.table => {
            Err(Failure::new(format!("{name} is the schema of table {}, not of {table}", schema.table)))
        }
        _ => Ok(schema),
    }
}

/// What became of the marks of missing fields in a column.
fn told(marked: &Marked, mark: &str) -> String {
    let Marked { column, fields, are_missing } = marked;
    let fields = counted(*fields, "field");
    match are_missing {
        true => format!("column {column}: {fields} {mark} taken as missing"),
        false => format!("column {column}: {fields} {mark} taken as text; `--missing {mark}` takes them as missing"),
    }
}

/// How a delimiter is called.
fn shown_delimiter(delimiter: u8) -> &'static str {
    match delimiter {
        b'\t' => "tabs",
        b';' => "semicolons",
        b'|' => "bars",
        _ => "other characters than commas",
    }
}

/// The schema that the file and the options make, and what to know of its types.
fn infer_schema(
    args: &Args,
    name: &str,
    source: &Source,
    format: Format,
    csv: CsvNotation<'_>,
    notations: &mut Notations,
) -> Result<(TableSchema, Vec<String>)> {
    let found = inference::columns(source, format, csv, &args.types(), notations)?;
    notations.decided.extend(found.notations);
    let (columns, notes) = (found.columns, found.notes);
    if columns.is_empty() {
        return Err(Failure::new("there are no records, so the columns are not known"));
    }
    let schema = TableSchema {
        table: name.to_owned(),
        columns,
        key: args.key.clone(),
        indexes: args.indexes.clone(),
        sum: args.sum.clone(),
        comment: args.comment.clone(),
        in_memory: args.in_memory,
        compressed: args.compress,
        ..TableSchema::default()
    };
    Ok((schema, notes))
}

fn report(
    args: &Args,
    table: &RowTable,
    schema: &TableSchema,
    loaded: &Loaded,
    notes: &[String],
    watch: Stopwatch,
) -> Result<()> {
    let elapsed = watch.elapsed();
    let (name, table_rows) = (&schema.table, table.len()?);
    let columns = schema.columns.iter().filter(|column| !column.hidden);
    if args.json {
        let columns: Vec<_> =
            columns.map(|column| json!({"name": column.name, "type": column.data_type.to_string()})).collect();
        let report = json!({
            "table": name, "rows": loaded.rows, "replaced": loaded.replaced, "skipped": loaded.skipped,
            "table_rows": table_rows, "columns": columns, "key": schema.key,
            "indexes": schema.indexes.iter().map(|index| &index.name).collect::<Vec<_>>(),
            "seconds": elapsed.as_secs_f64(),
            "notes": notes,
        });
        writeln!(std::io::stdout(), "{report}")?;
        return Ok(());
    }
    let columns: Vec<String> = columns.map(|column| format!("{} {}", column.name, column.data_type)).collect();
    writeln!(std::io::stdout(), "{name}: {}; key {}", columns.join(", "), schema.key.join(","))?;
    for note in notes {
        writeln!(std::io::stdout(), "{note}")?;
    }
    let others = match (loaded.replaced, loaded.skipped) {
        (0, 0) => String::new(),
        (0, skipped) => format!(" ({} skipped)", thousands(skipped)),
        (replaced, _) => format!(" ({} of them replaced a row)", thousands(replaced)),
    };
    writeln!(
        std::io::stdout(),
        "{} in {} ({} rows/s){others}; the table has {}",
        counted(loaded.rows, "row"),
        crate::clock::show(elapsed),
        thousands((loaded.rows as f64 / elapsed.as_secs_f64()) as u64),
        thousands(table_rows)
    )?;
    Ok(())
}

/// Refuses a name that something else than a table of rows has.
fn check_other_relation(database: &Database, name: &str) -> Result<()> {
    match Relation::find(database, name) {
        Ok(Relation::Index { table, .. }) => {
            Err(Failure::new(format!("table {name} is an index: import into table {table}, and it follows")))
        }
        Ok(Relation::Strings(_)) => {
            Err(Failure::new(format!("table {name} exists and has no columns: rows of a file do not go into it")))
        }
        _ => Ok(()),
    }
}

/// What a schema file says that the table does not have.
fn contradiction(schema: &TableSchema, declared: &TableSchema) -> Result<()> {
    let name = &schema.table;
    let refuse =
        |what: String| Err(Failure::new(format!("table {name} exists {what}; the schema file says otherwise")));
    for column in &declared.columns {
        match schema.columns.iter().find(|known| known.name == column.name) {
            None => return refuse(format!("without a column {:?}", column.name)),
            Some(known) if known != column => return refuse(format!("and its column is `{known}`, not `{column}`")),
            Some(_) => {}
        }
    }
    if let Some(column) = schema.columns.iter().find(|column| declared.place(&column.name).is_none()) {
        return refuse(format!("and has a column {:?}", column.name));
    }
    if schema.key != declared.key {
        return refuse(format!("with the key {}", schema.key.join(",")));
    }
    if let Some(index) = declared.indexes.iter().find(|index| !schema.indexes.contains(index)) {
        return refuse(format!("without the index `{index}`"));
    }
    if let Some(check) = declared.checks.iter().find(|check| !schema.checks.contains(check)) {
        return refuse(format!("without the check {} ({})", check.name, check.condition));
    }
    let has_foreign_key = |name: &String| schema.foreign_keys.iter().any(|known| known.name == *name);
    if let Some(foreign_key) = declared.foreign_keys.iter().find(|declared| !has_foreign_key(&declared.name)) {
        return refuse(format!("without the foreign key {}", foreign_key.name));
    }
    if schema.sum != declared.sum {
        return refuse(match &schema.sum {
            Some(sum) => format!("and adds up {sum}"),
            None => "and adds up no column".to_owned(),
        });
    }
    Ok(())
}

/// Refuses arguments that ask for another table than there is.
fn check_request(schema: &TableSchema, args: &Args) -> Result<()> {
    let name = &schema.table;
    let refuse = |what: String| {
        Err(Failure::new(format!("table {name} exists {what}; leave the option out, or import into a new table")))
    };
    let key: Vec<&str> = schema.key.iter().map(|column| key_column(column)).collect();
    if !args.key.is_empty() && args.key.iter().map(|column| key_column(column)).ne(key.iter().copied()) {
        return refuse(format!("with the key {}", key.join(",")));
    }
    for (column, data_type) in args.types() {
        match schema.columns.iter().find(|known| known.name == column) {
            None => return refuse(format!("without a column {column:?}")),
            Some(known) if known.data_type != data_type => {
                return refuse(format!("and its column {column} is of type {}", known.data_type));
            }
            Some(_) => {}
        }
    }
    let has_index = |index: &&IndexSchema| !schema.indexes.iter().any(|known| known.name == index.name);
    if let Some(index) = args.indexes.iter().find(has_index) {
        return refuse(format!("without an index {}", index.name));
    }
    if let Some(sum) = args.sum.as_ref().filter(|sum| schema.sum.as_ref() != Some(sum)) {
        return refuse(format!("and does not add up {sum}"));
    }
    if args.compress && !schema.compressed {
        return refuse("and is not compressed".to_owned());
    }
    if args.in_memory && !schema.in_memory {
        return refuse("and is not kept in memory".to_owned());
    }
    Ok(())
}
