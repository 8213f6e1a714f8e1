//! The directory of the files of stores while they are measured.

use std::path::{Path, PathBuf};

use crate::store::Result;

/// The directory under which every store gets a fresh one.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    root: PathBuf,
}

impl Place {
    /// The directory asked for, else that of the environment variable `QUIPU_BENCH_DIR`, else the system's temporary
    /// one.
    pub(crate) fn new(asked: Option<&Path>) -> Result<Self> {
        let root = match asked {
            Some(dir) => dir.to_owned(),
            None => std::env::var_os("QUIPU_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from),
        };
        std::fs::create_dir_all(&root).map_err(|error| format!("cannot create {}: {error}", root.display()))?;
        Ok(Place { root })
    }

    /// A fresh directory, removed with everything in it when the value is dropped.
    pub(crate) fn fresh(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::Builder::new().prefix("quipu-bench-").tempdir_in(&self.root)?)
    }

    /// The file system's name, with a warning where it makes syncing free.
    pub(crate) fn file_system(&self) -> String {
        const TMPFS_MAGIC: i64 = 0x0102_1994;
        const EXT_MAGIC: i64 = 0xef53;
        const XFS_MAGIC: i64 = 0x5846_5342;
        const BTRFS_MAGIC: i64 = 0x9123_683e;
        const OVERLAY_MAGIC: i64 = 0x794c_7630;
        match rustix::fs::statfs(&self.root).map(|stat| stat.f_type) {
            Ok(TMPFS_MAGIC) => "tmpfs: IN MEMORY, SYNCING IS FREE, name a disk with --dir".to_owned(),
            Ok(EXT_MAGIC) => "ext4".to_owned(),
            Ok(XFS_MAGIC) => "xfs".to_owned(),
            Ok(BTRFS_MAGIC) => "btrfs".to_owned(),
            Ok(OVERLAY_MAGIC) => "overlay".to_owned(),
            Ok(other) => format!("type {other:#x}"),
            Err(error) => format!("unknown ({error})"),
        }
    }
}
