//! The decoders of COPY's data, for the fuzz target `copy_data` and `tests/fuzz_smoke.rs`. Unstable.

use crate::copy::CopyFormat;
use crate::copy::{CopyOptions, Decoder, Encoder, Header, Row};
use crate::error::Result;

const FORMATS: [CopyFormat; 3] = [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary];

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("c{number}")).collect()
}

fn decode(options: &CopyOptions, columns: usize, data: &[u8], piece_bytes: usize) -> Result<Rows> {
    let mut decoder = Decoder::new(options.clone(), "t", names(columns), 1 << 16);
    let mut rows = Vec::new();
    let mut take = |row: &Row<'_>| {
        rows.push(row.fields.iter().map(|field| field.as_ref().map(|field| field.to_vec())).collect());
        Ok(())
    };
    for piece in data.chunks(piece_bytes) {
        decoder.feed(piece, &mut take)?;
    }
    decoder.finish(&mut take)?;
    Ok(rows)
}

/// A format, a number of columns and the bytes of a piece, a byte each, and then data.
///
/// # Panics
/// If the rows depend on how the data are cut, or do not come back from what is written of them.
pub fn copy_data(bytes: &[u8]) {
    let Some((&[kind, columns, piece_bytes], data)) = bytes.split_first_chunk::<3>() else { return };
    let header = if kind & 4 != 0 { Header::Yes } else { Header::No };
    let options = CopyOptions { header, ..CopyOptions::new(FORMATS[usize::from(kind % 4).min(2)]) };
    let columns = usize::from(columns % 8) + 1;
    let whole = decode(&options, columns, data, data.len().max(1));
    let cut = decode(&options, columns, data, usize::from(piece_bytes) + 1);
    let told = |rows: &Result<Rows>| rows.clone().map_err(|error| format!("{:?}", error.parts()));
    assert_eq!(told(&whole), told(&cut), "the rows do not depend on how the data are cut");
    let Ok(rows) = whole else { return };
    let encoder = Encoder::new(options.clone(), names(columns));
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for row in &rows {
        let written = encoder.row(row.iter().map(Option::as_deref), &mut out);
        assert!(written.is_ok(), "no value is too long");
    }
    encoder.end(&mut out);
    if out.len() < 1 << 16 {
        assert_eq!(told(&decode(&options, columns, &out, 7)), Ok(rows), "what is written is read");
    }
}

/// Valid inputs.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts: [(u8, &[u8]); 6] = [
        (0, b"1\ta\\tb\n\\N\t\\x41\\101\n"),
        (0, b"1\t2\r\n3\t4\r\n\\.\r\n"),
        (1, b"1,\"a\"\"b\"\n\"2\n3\",\n"),
        (5, b"a,b\n1,2\n"),
        (2, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x02ab\xff\xff\xff\xff\xff\xff"),
        (2, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x02xx\0\x02\0\0\0\0\0\0\0\x01a"),
    ];
    texts.iter().map(|(kind, data)| [&[*kind, 1, 3][..], data].concat()).collect()
}
