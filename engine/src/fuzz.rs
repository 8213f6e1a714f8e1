//! Decoders of untrusted bytes, for the fuzz targets. No promise of stability.

use crate::error::Result;

/// A log segment: frames, as recovery reads them.
pub fn log_segment(bytes: &[u8]) {
    let _ = crate::log::decode_segment(bytes);
}

/// The payload of a log record.
pub fn log_record(bytes: &[u8]) -> Result<()> {
    crate::record::decode(bytes, &mut |_| Ok(()))
}

/// A whole run file.
pub fn run_file(bytes: &[u8]) {
    let _ = crate::run::check_bytes(bytes);
}

/// A manifest.
pub fn manifest(bytes: &[u8]) {
    let _ = crate::manifest::Manifest::decode(bytes);
}
