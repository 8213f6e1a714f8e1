//! Goal: data of COPY are read as PostgreSQL reads them, however they are cut, and what is written is read again.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use quipu_testing::seeds::seeds;

use super::{Columns, CopyOptions, Decoder, Encoder, Header};
use crate::copy::CopyFormat;
use crate::error::{Result, SqlError};

type Rows = Vec<(u64, Vec<Option<Vec<u8>>>)>;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| char::from(b'a' + number as u8).to_string()).collect()
}

/// Rows of data in these pieces.
fn decode<'p>(
    options: &CopyOptions,
    columns: usize,
    row_bytes_max: usize,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Result<Rows> {
    let mut decoder = Decoder::new(options.clone(), "t", names(columns), row_bytes_max);
    let mut rows = Vec::new();
    let mut take = |row: &super::Row<'_>| {
        rows.push((row.line, row.fields.iter().map(|field| field.as_ref().map(|field| field.to_vec())).collect()));
        Ok(())
    };
    for piece in pieces {
        decoder.feed(piece, &mut take)?;
    }
    decoder.finish(&mut take)?;
    Ok(rows)
}

/// Rows as text: fields between bars, `-` for NULL. They are the same in one piece and byte by byte.
fn rows(options: &CopyOptions, columns: usize, data: &[u8]) -> Result<Vec<String>, String> {
    let told = |error: SqlError| {
        let parts = error.parts();
        format!("{} {} [{}]", parts.state.code(), parts.message, parts.context.as_deref().unwrap_or_default())
    };
    let whole = decode(options, columns, 1000, [data]).map_err(told);
    let bytes = decode(options, columns, 1000, data.chunks(1)).map_err(told);
    assert_eq!(whole, bytes);
    let shown = |field: &Option<Vec<u8>>| field.as_ref().map_or("-".into(), |field| field.escape_ascii().to_string());
    let line = |(line, fields): &(u64, Vec<_>)| {
        format!("{line}|{}", fields.iter().map(shown).collect::<Vec<String>>().join("|"))
    };
    whole.map(|rows| rows.iter().map(line).collect())
}

fn ok(lines: &[&str]) -> Result<Vec<String>, String> {
    Ok(lines.iter().map(|line| (*line).to_owned()).collect())
}

#[test]
fn text() {
    let options = CopyOptions::new(CopyFormat::Text);
    let read = |data: &[u8]| rows(&options, 2, data);
    assert_eq!(read(b"1\t2\n\\N\t\\\\N\n"), ok(&["1|1|2", "2|-|\\\\N"]));
    assert_eq!(read(b"a\\tb\\\nc\t\\x41\\101\\8\\x\n"), ok(&["1|a\\tb\\nc|AA8x"]));
    assert_eq!(read(b"1\t2"), ok(&["1|1|2"]), "the last line need not end");
    assert_eq!(read(b"1\t2\r\n3\t4\r\n"), ok(&["1|1|2", "2|3|4"]));
    assert_eq!(read(b"1\t2\r3\t4\r"), ok(&["1|1|2", "2|3|4"]));
    assert_eq!(read(b"1\t2\n\\.\nwhat follows is\tleft\tout"), ok(&["1|1|2"]));
    assert_eq!(read(b""), ok(&[]));
    for (data, error) in [
        (&b"1\n"[..], "22P04 missing data for column \"b\" [COPY t, line 1: \"1\"]"),
        (b"1\t2\n\n", "22P04 missing data for column \"b\" [COPY t, line 2: \"\"]"),
        (b"1\t2\t3\n", "22P04 extra data after last expected column [COPY t, line 1: \"1\t2\t3\"]"),
        (b"1\t2\n3\r\t4\n", "22P04 literal carriage return found in data [COPY t, line 2]"),
        (b"1\t2\r\n3\t4\n", "22P04 literal newline found in data [COPY t, line 2]"),
    ] {
        assert_eq!(read(data), Err(error.to_owned()));
    }
    let own = CopyOptions { delimiter: b'|', null: b"NULL".to_vec(), header: Header::Yes, ..options.clone() };
    assert_eq!(rows(&own, 2, b"x\n1\\|2|NULL\n"), ok(&["2|1|2|-"]), "a delimiter within a value");
    let matches = CopyOptions { header: Header::Match, ..options };
    assert_eq!(rows(&matches, 2, b"a\tb\n1\t2\n"), ok(&["2|1|2"]));
    for (data, error) in [
        (&b"a\n"[..], "wrong number of fields in header line: got 1, expected 2"),
        (b"a\tc\n", "column name mismatch in header line field 2: got \"c\", expected \"b\""),
        (b"\\N\tb\n", "column name mismatch in header line field 1: got null value (\"\\N\"), expected \"a\""),
    ] {
        assert_eq!(rows(&matches, 2, data), Err(format!("22P04 {error} [COPY t, line 1]")));
    }
}

#[test]
fn csv() {
    let options = CopyOptions::new(CopyFormat::Csv);
    let read = |data: &[u8]| rows(&options, 2, data);
    assert_eq!(read(b"1,\n\"\",\"a\"\"b\"\n"), ok(&["1|1|-", "2||a\\\"b"]));
    assert_eq!(read(b"\"1\n2\",x\n3,4\n"), ok(&["2|1\\n2|x", "3|3|4"]));
    assert_eq!(read(b"a\"b,c\"d,e\n"), ok(&["1|ab,cd|e"]), "quotes may stand within");
    assert_eq!(read(b"1,2\n\\.\nrest"), ok(&["1|1|2"]));
    for (data, error) in [
        (&b"1\n"[..], "missing data for column \"b\" [COPY t, line 1: \"1\"]"),
        (b"1,2,3\n", "extra data after last expected column [COPY t, line 1: \"1,2,3\"]"),
        (b"1,2\n\"3,4\n5,6\n", "unterminated CSV quoted field [COPY t, line 2]"),
    ] {
        assert_eq!(read(data), Err(format!("22P04 {error}")));
    }
    let own = CopyOptions {
        quote: b'\'',
        escape: b'\\',
        null: b"-".to_vec(),
        force_null: Columns::Some(vec![0]),
        force_not_null: Columns::Some(vec![1]),
        ..options
    };
    assert_eq!(rows(&own, 2, b"'-',-\n-,'a\\'b\\\\'\n"), ok(&["1|-|-", "2|-|a\\'b\\\\"]));
    let mut out = Vec::new();
    let encoder = Encoder::new(CopyOptions { header: Header::Yes, ..own }, names(2));
    encoder.begin(&mut out);
    encoder.row([Some(&b"-"[..]), Some(b"it's\\")], &mut out).expect("written");
    assert_eq!(out.escape_ascii().to_string(), "a,b\\n\\'-\\',\\'it\\\\\\'s\\\\\\\\\\'\\n");
}

#[test]
fn binary() {
    let options = CopyOptions::new(CopyFormat::Binary);
    let encoder = Encoder::new(options.clone(), names(2));
    let mut out = Vec::new();
    encoder.begin(&mut out);
    encoder.row([Some(&b"ab"[..]), None], &mut out).expect("written");
    let without_end = out.clone();
    encoder.end(&mut out);
    assert_eq!(out, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x02ab\xff\xff\xff\xff\xff\xff");
    let read = |data: &[u8]| rows(&options, 2, data);
    assert_eq!(read(&out), ok(&["1|ab|-"]));
    assert_eq!(read(&without_end), ok(&["1|ab|-"]));
    let with = |from: usize, bytes: &[u8]| [&out[..from], bytes].concat();
    for (data, error) in [
        (Vec::new(), "COPY file signature not recognized [COPY t, line 0]"),
        (b"PGCOPZ".to_vec(), "COPY file signature not recognized [COPY t, line 0]"),
        (out[..15].to_vec(), "unexpected EOF in COPY data [COPY t, line 0]"),
        (out[..25].to_vec(), "unexpected EOF in COPY data [COPY t, line 0]"),
        (with(11, &[0, 1, 0, 0, 0, 0, 0, 0]), "invalid COPY file header (WITH OIDS) [COPY t, line 0]"),
        (with(11, &[0, 2, 0, 0, 0, 0, 0, 0]), "unrecognized critical flags in COPY file header [COPY t, line 0]"),
        (with(15, &[255; 4]), "invalid COPY file header (wrong length) [COPY t, line 0]"),
        (with(19, &[0, 3]), "row field count is 3, expected 2 [COPY t, line 1]"),
        (with(19, &[0, 2, 255, 255, 255, 254]), "invalid field size [COPY t, line 1]"),
        (with(out.len(), b"x"), "received copy data after EOF marker [COPY t, line 2]"),
    ] {
        assert_eq!(read(&data), Err(format!("22P04 {error}")));
    }
}

#[test]
fn a_row_is_no_longer_than_it_may_be() {
    for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
        let encoder = Encoder::new(CopyOptions::new(format), names(1));
        let mut data = Vec::new();
        encoder.begin(&mut data);
        encoder.row([Some(&[b'x'; 900][..])], &mut data).expect("written");
        encoder.row([Some(&[b'x'; 1100][..])], &mut data).expect("written");
        for piece in [7, 5000] {
            let error = decode(&CopyOptions::new(format), 1, 1000, data.chunks(piece)).expect_err("too long");
            assert_eq!(error.state().code(), "54000", "{format:?}");
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let csv = CopyOptions::new(CopyFormat::Csv);
    let text = CopyOptions::new(CopyFormat::Text);
    assert!(csv.check().is_ok() && text.check().is_ok() && CopyOptions::new(CopyFormat::Binary).check().is_ok());
    for options in [
        CopyOptions { delimiter: b'\n', ..text.clone() },
        CopyOptions { delimiter: b'n', ..text.clone() },
        CopyOptions { delimiter: b'N', ..text.clone() },
        CopyOptions { null: b"\n".to_vec(), ..text },
        CopyOptions { delimiter: b'"', ..csv.clone() },
        CopyOptions { null: b"a,".to_vec(), ..csv.clone() },
        CopyOptions { null: b"\"".to_vec(), ..csv },
    ] {
        assert!(options.check().is_err(), "{options:?}");
    }
}

/// A value of letters that formats treat in a way of their own.
fn value(random: &mut StdRng) -> Option<Vec<u8>> {
    const LETTERS: &[u8] = b"ab\\N\t,\"'\n\r.;|x01\0\x08\x7f\xff";
    if random.random_range(0..6) == 0 {
        return None;
    }
    let length = [0, 1, 2, 3, 20][random.random_range(0..5)];
    Some((0..length).map(|_| LETTERS[random.random_range(0..LETTERS.len())]).collect())
}

fn options(random: &mut StdRng) -> CopyOptions {
    let format = [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary][random.random_range(0..3)];
    let options = CopyOptions::new(format);
    let header = [Header::No, Header::Yes, Header::Match][random.random_range(0..3)];
    // In text, what stands for NULL must be no value.
    match format {
        CopyFormat::Text => CopyOptions { delimiter: b"\t|;"[random.random_range(0..3)], header, ..options },
        CopyFormat::Csv => CopyOptions {
            delimiter: b",;\t"[random.random_range(0..3)],
            null: [&b""[..], b"NULL", b"\\N"][random.random_range(0..3)].to_vec(),
            quote: b"\"'"[random.random_range(0..2)],
            escape: b"\"'\\"[random.random_range(0..3)],
            force_quote: [Columns::NONE, Columns::All][random.random_range(0..2)].clone(),
            header,
            ..options
        },
        CopyFormat::Binary => options,
    }
}

#[test]
fn what_is_written_is_read_however_it_is_cut() {
    for seed in seeds(3000) {
        let random = &mut StdRng::seed_from_u64(seed);
        let options = options(random);
        let columns = random.random_range(1..5);
        let encoder = Encoder::new(options.clone(), names(columns));
        let rows: Vec<Vec<_>> =
            (0..random.random_range(0..6)).map(|_| (0..columns).map(|_| value(random)).collect()).collect();
        let mut data = Vec::new();
        encoder.begin(&mut data);
        for row in &rows {
            encoder.row(row.iter().map(|value| value.as_deref()), &mut data).expect("written");
        }
        encoder.end(&mut data);
        let mut pieces = Vec::new();
        let mut rest = &data[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(random.random_range(0..=rest.len().min(9)));
            pieces.push(piece);
            rest = after;
        }
        let read = decode(&options, columns, 1 << 20, pieces).expect("well formed");
        let read: Vec<_> = read.into_iter().map(|(_, row)| row).collect();
        assert_eq!(read, rows, "SEED={seed} {options:?} {}", data.escape_ascii());
    }
}
