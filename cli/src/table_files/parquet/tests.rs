//! Files that other programs write: older types, other units, nested columns.

use std::sync::Arc;

use parquet::data_type::{
    ByteArray, ByteArrayType, DataType as PhysicalType, FixedLenByteArrayType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::table_files::parquet::ParquetRecords;

/// The values of one column of a file, with their levels.
type Chunk = Box<dyn Fn(&mut SerializedRowGroupWriter<'_, std::fs::File>)>;

fn chunk<T: PhysicalType>(values: Vec<T::T>, levels: &'static [i16], repeated: &'static [i16]) -> Chunk {
    let some = |levels: &'static [i16]| (!levels.is_empty()).then_some(levels);
    Box::new(move |group| {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<T>().write_batch(&values, some(levels), some(repeated)).unwrap();
        column.close().unwrap();
    })
}

/// A file of this schema, with one group of rows.
fn file(schema: &str, chunks: &[Chunk]) -> std::fs::File {
    let file = tempfile::tempfile().unwrap();
    let schema = Arc::new(parse_message_type(&format!("message m {{ {schema} }}")).unwrap());
    let properties = Arc::new(WriterProperties::new());
    let mut writer = SerializedFileWriter::new(file.try_clone().unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for chunk in chunks {
        chunk(&mut group);
    }
    group.close().unwrap();
    writer.close().unwrap();
    file
}

/// The columns and the rows of a file as text.
fn read(file: std::fs::File) -> Result<(String, Vec<String>), String> {
    let mut records = ParquetRecords::open(file).map_err(|error| error.to_string())?;
    let columns: Vec<String> = records.columns().map(|column| column.to_string()).collect();
    let mut rows = Vec::new();
    while records.advance().map_err(|error| error.to_string())? {
        let values: Vec<String> = (0..columns.len()).map(|place| records.value(place).to_string()).collect();
        rows.push(values.join("|"));
    }
    Ok((columns.join(", "), rows))
}

fn bytes(texts: &[&str]) -> Vec<ByteArray> {
    texts.iter().map(|text| ByteArray::from(*text)).collect()
}

#[test]
fn older_types_are_read() {
    let schema = "REQUIRED INT32 a (UINT_16); OPTIONAL BYTE_ARRAY b (UTF8); REQUIRED INT64 c (TIMESTAMP_MILLIS); \
                  REQUIRED BYTE_ARRAY d (DECIMAL(20,3)); REQUIRED INT32 e (DATE); REQUIRED INT96 f; \
                  REQUIRED FIXED_LEN_BYTE_ARRAY(3) g (DECIMAL(6,1)); REQUIRED BYTE_ARRAY h;";
    let mut noon = Int96::new();
    let nanoseconds: u64 = 43_200_000_001_000;
    noon.set_data(nanoseconds as u32, (nanoseconds >> 32) as u32, 2_440_589);
    let chunks = [
        chunk::<Int32Type>(vec![65_535, 0], &[], &[]),
        chunk::<ByteArrayType>(bytes(&["x"]), &[1, 0], &[]),
        chunk::<Int64Type>(vec![-1, 1], &[], &[]),
        chunk::<ByteArrayType>(vec![vec![0xff].into(), vec![0, 0xff, 0xff].into()], &[], &[]),
        chunk::<Int32Type>(vec![-1, 0], &[], &[]),
        chunk::<Int96Type>(vec![noon, noon], &[], &[]),
        chunk::<FixedLenByteArrayType>(vec![vec![0xff, 0xff, 0xfe].into(), vec![0, 1, 0].into()], &[], &[]),
        chunk::<ByteArrayType>(bytes(&["y", "z"]), &[], &[]),
    ];
    let (columns, rows) = read(file(schema, &chunks)).unwrap();
    let expected = "a u16 not null, b text, c timestamp not null, d decimal(20,3) not null, e date not null, \
                    f timestamp not null, g decimal(6,1) not null, h bytes not null";
    assert_eq!(columns, expected);
    let first = "65535|\"x\"|1969-12-31T23:59:59.999Z|-0.001|1969-12-31|1970-01-02T12:00:00.000001Z|-0.2|";
    assert!(rows[0].starts_with(first), "{rows:?}");
    assert!(rows[1].starts_with("0|NULL|1970-01-01T00:00:00.001Z|65.535|1970-01-01|"), "{rows:?}");
    assert!(rows[1].contains("|25.6|"), "{rows:?}");
}

#[test]
fn nanoseconds_are_read_if_nothing_is_lost() {
    let schema = "REQUIRED INT64 t (TIMESTAMP(NANOS,false));";
    let (_, rows) = read(file(schema, &[chunk::<Int64Type>(vec![-1_000, 86_400_000_000_000], &[], &[])])).unwrap();
    assert_eq!(rows, ["1969-12-31T23:59:59.999999Z", "1970-01-02T00:00:00Z"]);
    let refused = read(file(schema, &[chunk::<Int64Type>(vec![0, 1], &[], &[])])).unwrap_err();
    assert_eq!(refused, "row 2: column t: 1 nanoseconds are not whole microseconds, which a timestamp has");
    let schema = "REQUIRED INT32 d (DATE);";
    // As dates are stored: the first and the last number are the two ends of time.
    let (_, ends) = read(file(schema, &[chunk::<Int32Type>(vec![i32::MIN, i32::MAX], &[], &[])])).unwrap();
    assert_eq!(ends, ["-infinity", "infinity"]);
    let refused = read(file(schema, &[chunk::<Int32Type>(vec![i32::MAX - 1], &[], &[])])).unwrap_err();
    assert!(refused.starts_with("row 1: column d: day 2147483646 is not a date"), "{refused}");
    let schema = "REQUIRED BYTE_ARRAY s (STRING);";
    let values = vec![ByteArray::from(vec![b'a', 0xff])];
    let refused = read(file(schema, &[chunk::<ByteArrayType>(values, &[], &[])])).unwrap_err();
    assert_eq!(refused, "row 1: column s: it is not UTF-8 from byte 1 on");
}

#[test]
fn nested_columns_are_json() {
    let schema = "REQUIRED INT32 id; OPTIONAL group tags (LIST) { REPEATED group list { OPTIONAL BYTE_ARRAY element \
                  (STRING); } } REQUIRED group at { REQUIRED INT32 day (DATE); OPTIONAL INT64 n; } \
                  REPEATED INT32 bare;";
    let chunks = [
        chunk::<Int32Type>(vec![1, 2, 3], &[], &[]),
        chunk::<ByteArrayType>(bytes(&["a", "b"]), &[3, 2, 3, 1, 0], &[0, 1, 1, 0, 0]),
        chunk::<Int32Type>(vec![0, 1, 2], &[], &[]),
        chunk::<Int64Type>(vec![i64::MIN], &[1, 0, 0], &[]),
        chunk::<Int32Type>(vec![7, 8], &[1, 1, 0, 0], &[0, 1, 0, 0]),
    ];
    let (columns, rows) = read(file(schema, &chunks)).unwrap();
    assert_eq!(columns, "id i32 not null, tags json, at json not null, bare json not null");
    let unquoted: Vec<String> = rows.iter().map(|row| row.replace('\\', "")).collect();
    assert_eq!(
        unquoted,
        [
            r#"1|"["a",null,"b"]"|"{"day":"1970-01-01","n":-9223372036854775808}"|"[7,8]""#,
            r#"2|"[]"|"{"day":"1970-01-02","n":null}"|"[]""#,
            r#"3|NULL|"{"day":"1970-01-03","n":null}"|"[]""#,
        ]
    );
}

#[test]
fn types_that_no_column_has_are_refused_with_the_column() {
    let refused = |schema: &str, chunk: Chunk| read(file(schema, &[chunk])).unwrap_err();
    let time = refused("REQUIRED INT32 t (TIME_MILLIS);", chunk::<Int32Type>(vec![1], &[], &[]));
    assert_eq!(time, "column \"t\": a time of day, which no column of a table holds");
    let wide = refused("REQUIRED BYTE_ARRAY d (DECIMAL(50,2));", chunk::<ByteArrayType>(bytes(&["1"]), &[], &[]));
    assert_eq!(wide, "column \"d\": decimal(50,2), of more than 38 digits or none, which no column of a table holds");
    let schema = "REQUIRED group g { REQUIRED INT64 t (TIMESTAMP(NANOS,true)); }";
    let nested = refused(schema, chunk::<Int64Type>(vec![1], &[], &[]));
    let expected = "column \"g.t\": timestamps of nanoseconds in a nested column, which no column of a table holds";
    assert_eq!(nested, expected);
}
