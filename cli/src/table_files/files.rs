//! Files that people name: the inputs of an import, compressed or not, and the output of an export.
#![expect(
    clippy::disallowed_methods,
    reason = "files of the user, not of the database; those go through the engine's Disk"
)]

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use encoding_rs::Encoding;
use encoding_rs_io::DecodeReaderBytesBuilder;

use crate::failure::{Failure, Result};
use crate::table_files::compression::{Compression, Output};

pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// An input that can be read more than once.
pub(crate) struct Source {
    path: PathBuf,
    /// The encoding of the text; none for UTF-8, or UTF-16 where a byte order mark says so.
    encoding: Option<&'static Encoding>,
    /// How messages call it.
    pub(crate) name: String,
    /// Where standard input was put; the file goes when this does.
    _spool: Option<tempfile::NamedTempFile>,
}

impl Source {
    /// The file `path`, or standard input for `-`, which is written to a temporary file first.
    pub(crate) fn new(path: &Path, encoding: Option<&'static Encoding>) -> Result<Source> {
        if path != Path::new("-") {
            let name = path.display().to_string();
            return Ok(Source { path: path.to_owned(), encoding, name, _spool: None });
        }
        let spooled = || -> io::Result<tempfile::NamedTempFile> {
            let mut spool = tempfile::NamedTempFile::new()?;
            io::copy(&mut io::stdin().lock(), &mut spool)?;
            Ok(spool)
        };
        let spool = spooled().map_err(|error| Failure::new(format!("cannot keep standard input: {error}")))?;
        let name = "standard input".to_owned();
        Ok(Source { path: spool.path().to_owned(), encoding, name, _spool: Some(spool) })
    }

    /// The first bytes of what [`Source::open`] reads, up to so many.
    pub(crate) fn start(&self, bytes: usize) -> Result<Vec<u8>> {
        let mut start = Vec::new();
        let read = self.open()?.reader.take(bytes as u64).read_to_end(&mut start);
        read.map_err(|error| Failure::new(format!("cannot read {}: {error}", self.name)))?;
        Ok(start)
    }

    /// Opens it at its start: decompressed if it is compressed with zstd or gzip, and as UTF-8 if its encoding is
    /// another one that is known.
    pub(crate) fn open(&self) -> Result<Input> {
        let opened = || -> io::Result<Input> {
            let file = File::open(&self.path)?;
            let whole = file.try_clone()?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            let consumed_bytes = Rc::new(Cell::new(0));
            let counted = Counted { reader: file, consumed_bytes: Rc::clone(&consumed_bytes) };
            let mut reader = BufReader::with_capacity(BUFFER_BYTES, counted);
            let compression = Compression::of_content(reader.fill_buf()?);
            let reader = decoded(Compression::decoded(compression, reader), self.encoding)?;
            Ok(Input { reader, file: Some(whole), consumed_bytes, total_bytes: metadata.len() })
        };
        opened().map_err(|error| Failure::new(format!("cannot read {}: {error}", self.name)))
    }
}

/// An open input.
pub(crate) struct Input {
    pub(crate) reader: Box<dyn Read>,
    /// The file as it is, for formats that are read from the end; none of bytes in the program. Its position is that of
    /// the reader.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet is read from the end"))]
    pub(crate) file: Option<File>,
    /// Bytes of the file read so far, before they are decompressed.
    pub(crate) consumed_bytes: Rc<Cell<u64>>,
    /// Bytes of the file.
    pub(crate) total_bytes: u64,
}

impl Input {
    /// An input whose bytes are in the program.
    pub(crate) fn from_bytes(bytes: &'static [u8]) -> Input {
        let consumed_bytes = Rc::new(Cell::new(0));
        let counted = Counted { reader: bytes, consumed_bytes: Rc::clone(&consumed_bytes) };
        let reader = BufReader::with_capacity(BUFFER_BYTES, counted);
        let reader = Compression::decoded(Compression::of_content(bytes), reader);
        Input { reader, file: None, consumed_bytes, total_bytes: bytes.len() as u64 }
    }
}

/// The text of `reader` as UTF-8: from this encoding, else from UTF-16 if a byte order mark says so.
fn decoded(reader: Box<dyn Read>, encoding: Option<&'static Encoding>) -> io::Result<Box<dyn Read>> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    let start = reader.fill_buf()?;
    let is_utf16 = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
    if encoding.is_none() && !is_utf16 {
        return Ok(Box::new(reader));
    }
    Ok(Box::new(DecodeReaderBytesBuilder::new().encoding(encoding).build(reader)))
}

struct Counted<R> {
    reader: R,
    consumed_bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.reader.read(buffer)?;
        self.consumed_bytes.set(self.consumed_bytes.get() + size as u64);
        Ok(size)
    }
}

/// The text of a small file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let name = path.display();
    let unreadable = |error: io::Error| Failure::new(format!("cannot read {name}: {error}"));
    let mut text = String::new();
    File::open(path).and_then(|mut file| file.read_to_string(&mut text)).map_err(unreadable)?;
    Ok(text)
}

/// Where an export goes: the file `path`, compressed as its name says, or standard output.
pub(crate) fn create_output(path: Option<&Path>) -> Result<Output> {
    let Some(path) = path else { return Ok(Output::new(Box::new(io::stdout()), None)) };
    match File::create(path) {
        Ok(file) => Ok(Output::new(Box::new(file), Compression::of_name(&path.to_string_lossy()))),
        Err(error) => Err(Failure::new(format!("cannot write {}: {error}", path.display()))),
    }
}
