//! Files that are compressed, on their way in and out: zstd and gzip.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::table_files::files::BUFFER_BYTES;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// Bytes that become one frame of zstd.
const FRAME_BYTES: usize = 1 << 20;

/// The endings of compressed files' names, each with the program that writes and reads them.
const PROGRAMS: [(&str, &str); 6] =
    [("zst", "zstd"), ("gz", "gzip"), ("bz2", "bzip2"), ("xz", "xz"), ("lz4", "lz4"), ("br", "brotli")];

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// What the ending of a name says.
    pub(crate) fn of_name(name: &str) -> Option<Compression> {
        match program(name)? {
            "gzip" => Some(Compression::Gzip),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// What the first bytes of a file say.
    pub(crate) fn of_content(start: &[u8]) -> Option<Compression> {
        if start.starts_with(&ZSTD_MAGIC) {
            return Some(Compression::Zstd);
        }
        start.starts_with(&GZIP_MAGIC).then_some(Compression::Gzip)
    }

    /// What was compressed.
    pub(crate) fn decoded<R: Read + 'static>(compression: Option<Compression>, reader: BufReader<R>) -> Box<dyn Read> {
        match compression {
            None => Box::new(reader),
            Some(Compression::Gzip) => Box::new(Gunzip(MultiGzDecoder::new(reader))),
            Some(Compression::Zstd) => Box::new(Unzstd { source: reader, decoder: None }),
        }
    }
}

/// A name without the ending that tells of compression.
pub(crate) fn plain_name(name: &str) -> &str {
    if Compression::of_name(name).is_none() {
        return name;
    }
    name.rsplit_once('.').map_or(name, |(plain, _)| plain)
}

/// The program that reads files whose name has this ending, if they are compressed in a way that is not known here.
pub(crate) fn other_program(name: &str) -> Option<&'static str> {
    program(name).filter(|_| Compression::of_name(name).is_none())
}

fn program(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    PROGRAMS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known)).map(|(_, program)| *program)
}

/// Decodes the members of a gzip file, with an error that says what is wrong.
struct Gunzip<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                io::Error::new(io::ErrorKind::InvalidData, format!("the gzip data is damaged or cut short: {error}"))
            }
            _ => error,
        })
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

/// Where text or bytes are written. What is not finished may lack its end.
pub(crate) enum Output {
    Plain(BufWriter<Box<dyn Write + Send>>),
    Gzip(GzEncoder<BufWriter<Box<dyn Write + Send>>>),
    Zstd(Zstd),
}

/// Writes frames of zstd, one after the other.
pub(crate) struct Zstd {
    target: Box<dyn Write + Send>,
    frame: Vec<u8>,
}

impl Zstd {
    fn write_frame(&mut self) -> io::Result<()> {
        let compressed = compress_to_vec(&self.frame[..], CompressionLevel::Fastest);
        self.frame.clear();
        self.target.write_all(&compressed)
    }
}

impl Output {
    pub(crate) fn new(target: Box<dyn Write + Send>, compression: Option<Compression>) -> Output {
        let buffered = |target| BufWriter::with_capacity(BUFFER_BYTES, target);
        match compression {
            None => Output::Plain(buffered(target)),
            Some(Compression::Gzip) => Output::Gzip(GzEncoder::new(buffered(target), flate2::Compression::default())),
            Some(Compression::Zstd) => Output::Zstd(Zstd { target, frame: Vec::new() }),
        }
    }

    /// Writes what is left.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Output::Plain(mut plain) => plain.flush(),
            Output::Gzip(gzip) => gzip.finish()?.flush(),
            Output::Zstd(mut zstd) => {
                zstd.write_frame()?;
                zstd.target.flush()
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Plain(plain) => plain.write(bytes),
            Output::Gzip(gzip) => gzip.write(bytes),
            Output::Zstd(zstd) => {
                let taken = bytes.len().min(FRAME_BYTES - zstd.frame.len());
                zstd.frame.extend_from_slice(&bytes[..taken]);
                if zstd.frame.len() == FRAME_BYTES {
                    zstd.write_frame()?;
                }
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(plain) => plain.flush(),
            Output::Gzip(gzip) => gzip.flush(),
            Output::Zstd(zstd) => zstd.target.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// A target that two sides know.
    #[derive(Clone, Default)]
    struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn decoded(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let compression = Compression::of_content(&bytes);
        let mut plain = Vec::new();
        Compression::decoded(compression, BufReader::new(io::Cursor::new(bytes))).read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn what_is_compressed_comes_back_whatever_its_size_and_the_sizes_of_writes() {
        for seed in quipu_testing::seeds::seeds(12) {
            let mut rng = StdRng::seed_from_u64(seed);
            let sizes = [0, 1, 5000, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES + 17];
            let size = sizes[seed as usize % sizes.len()];
            let bytes: Vec<u8> = (0..size).map(|_| b'a' + rng.random_range(0..4u8)).collect();
            for compression in [None, Some(Compression::Gzip), Some(Compression::Zstd)] {
                let target = Shared::default();
                let mut output = Output::new(Box::new(target.clone()), compression);
                let mut left = &bytes[..];
                while !left.is_empty() {
                    let (part, rest) = left.split_at(rng.random_range(1..=left.len()));
                    output.write_all(part).unwrap();
                    left = rest;
                }
                output.finish().unwrap();
                let written = target.0.lock().unwrap().clone();
                assert_eq!(Compression::of_content(&written), compression, "SEED={seed}");
                assert!(
                    size < 5000 || compression.is_none() || written.len() < size * 3 / 4,
                    "SEED={seed}: {}",
                    written.len()
                );
                assert!(decoded(written).unwrap() == bytes, "SEED={seed}, {compression:?}");
            }
        }
    }

    #[test]
    fn data_that_is_cut_short_or_damaged_is_an_error_that_says_so() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let target = Shared::default();
            let mut output = Output::new(Box::new(target.clone()), Some(compression));
            output.write_all(&b"a,b\n1,2\n".repeat(1000)).unwrap();
            output.finish().unwrap();
            let written = target.0.lock().unwrap().clone();
            let cut = decoded(written[..written.len() - 6].to_vec()).unwrap_err();
            assert!(cut.to_string().contains("damaged or cut short"), "{compression:?}: {cut}");
        }
    }

    #[test]
    fn names_tell_how_a_file_is_compressed() {
        assert_eq!(Compression::of_name("a.csv.gz"), Some(Compression::Gzip));
        assert_eq!(Compression::of_name("a.CSV.ZST"), Some(Compression::Zstd));
        assert_eq!((Compression::of_name("a.csv"), other_program("a.csv")), (None, None));
        assert_eq!((Compression::of_name("a.csv.xz"), other_program("a.csv.xz")), (None, Some("xz")));
        assert_eq!((plain_name("a.csv.gz"), plain_name("a.csv"), plain_name("gz")), ("a.csv", "a.csv", "gz"));
    }
}
