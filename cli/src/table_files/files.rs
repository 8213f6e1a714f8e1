//! Files that people name: the inputs of an import, compressed or not, and the output of an export.
#![expect(
    clippy::disallowed_methods,
    reason = "files of the user, not of the database; those go through the engine's Disk"
)]

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::failure::{Failure, Result};

const BUFFER_BYTES: usize = 256 << 10;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// The endings of compressed files' names, each with the program that writes and reads them; zstd alone is read here.
const COMPRESSED: [(&str, &str); 6] =
    [("zst", "zstd"), ("gz", "gzip"), ("bz2", "bzip2"), ("xz", "xz"), ("lz4", "lz4"), ("br", "brotli")];

/// The program that compresses files of such a name, if there is one.
pub(crate) fn compressor(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    let known = COMPRESSED.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known));
    known.map(|(_, program)| *program)
}

/// An input that can be read more than once.
pub(crate) struct Source {
    path: PathBuf,
    /// How messages call it.
    pub(crate) name: String,
    /// Where standard input was put; the file goes when this does.
    _spool: Option<tempfile::NamedTempFile>,
}

impl Source {
    /// The file `path`, or standard input for `-`, which is written to a temporary file first.
    pub(crate) fn new(path: &Path) -> Result<Source> {
        if path != Path::new("-") {
            return Ok(Source { path: path.to_owned(), name: path.display().to_string(), _spool: None });
        }
        let spooled = || -> io::Result<tempfile::NamedTempFile> {
            let mut spool = tempfile::NamedTempFile::new()?;
            io::copy(&mut io::stdin().lock(), &mut spool)?;
            Ok(spool)
        };
        let spool = spooled().map_err(|error| Failure::new(format!("cannot keep standard input: {error}")))?;
        Ok(Source { path: spool.path().to_owned(), name: "standard input".to_owned(), _spool: Some(spool) })
    }

    /// Opens it at its start, and through a decoder if it is compressed with zstd.
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
            let start = reader.fill_buf()?;
            if start.starts_with(&GZIP_MAGIC) {
                let how = "decompress it first, as `gzip -dc FILE | quipu import - --format csv ...` does";
                return Err(io::Error::new(io::ErrorKind::Unsupported, format!("it is compressed with gzip; {how}")));
            }
            let compressed = start.starts_with(&ZSTD_MAGIC);
            let reader: Box<dyn Read> =
                if compressed { Box::new(Unzstd { source: reader, decoder: None }) } else { Box::new(reader) };
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
        let compressed = bytes.starts_with(&ZSTD_MAGIC);
        let reader: Box<dyn Read> =
            if compressed { Box::new(Unzstd { source: reader, decoder: None }) } else { Box::new(reader) };
        Input { reader, file: None, consumed_bytes, total_bytes: bytes.len() as u64 }
    }
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

/// Decodes the zstd frames of `source`, one after the other, checksums included.
struct Unzstd<R> {
    source: BufReader<R>,
    /// The decoder of the frame at hand; none between frames.
    decoder: Option<FrameDecoder>,
}

impl<R: Read> Unzstd<R> {
    /// Begins the next frame that holds data; `false` at the end.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            let mut decoder = FrameDecoder::new();
            match decoder.init(&mut self.source) {
                Ok(()) => {
                    self.decoder = Some(decoder);
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for Unzstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(decoder) = &mut self.decoder else {
                if self.begin_frame()? {
                    continue;
                }
                return Ok(0);
            };
            while decoder.can_collect() == 0 && !decoder.is_finished() {
                decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBytes(BUFFER_BYTES))
                    .map_err(damaged)?;
            }
            let size = decoder.read(buffer)?;
            if size > 0 || buffer.is_empty() {
                return Ok(size);
            }
            if decoder.get_checksum_from_data().is_some_and(|sum| Some(sum) != decoder.get_calculated_checksum()) {
                return Err(damaged("its checksum is wrong"));
            }
            self.decoder = None;
        }
    }
}

fn damaged(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the zstd data is damaged or cut short: {what}"))
}

/// The text of a small file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let name = path.display();
    let unreadable = |error: io::Error| Failure::new(format!("cannot read {name}: {error}"));
    let mut text = String::new();
    File::open(path).and_then(|mut file| file.read_to_string(&mut text)).map_err(unreadable)?;
    Ok(text)
}

/// Where an export goes: the file `path`, or standard output.
pub(crate) fn create_output(path: Option<&Path>) -> Result<Box<dyn Write + Send>> {
    match path {
        None => Ok(Box::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout()))),
        Some(path) => match File::create(path) {
            Ok(file) => Ok(Box::new(BufWriter::with_capacity(BUFFER_BYTES, file))),
            Err(error) => Err(Failure::new(format!("cannot write {}: {error}", path.display()))),
        },
    }
}

/// The file that the shell keeps its history in, its directory created: under `XDG_STATE_HOME`, `LOCALAPPDATA` or the
/// home directory's `.local/state`. None if there is no such place.
pub(crate) fn history_file() -> Option<PathBuf> {
    state_file("history")
}

/// Where a file of this name is kept for the user, if the system has a place for that.
pub(crate) fn state_file(name: &str) -> Option<PathBuf> {
    let directory = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = directory("XDG_STATE_HOME")
        .or_else(|| directory("LOCALAPPDATA"))
        .or_else(|| directory("HOME").map(|home| home.join(".local").join("state")))?
        .join("quipu");
    std::fs::create_dir_all(&state).ok()?;
    Some(state.join(name))
}
