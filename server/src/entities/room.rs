//! The room of a command: how much it may read or write while others wait.

use quipu::Snapshot;

use super::Failure;
use crate::keyspace::Data;

/// Rows above which an answer is put together beside the loop that serves connections, from a snapshot: some 2 ms.
pub const LONG_ROWS: u64 = 20_000;

/// The same once the turn of the loop has taken its time, so that those who come after do not wait: some 100 us.
const LATE_ROWS: u64 = 1000;

/// Bytes of strings above which the same holds, if the command knows of them beforehand: some hundred microseconds.
pub const LONG_BYTES: u64 = 1 << 20;

/// How much may be read or written while others wait.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Whether what takes long can be done again beside the loop: not inside a transaction.
    pub can_wait: bool,
    /// Whether the turn of the loop has taken its time.
    pub is_late: bool,
}

impl Room {
    /// However much it is, it is done here.
    pub const WHOLE: Room = Room { can_wait: false, is_late: false };

    /// Says how many rows will be read of `data`. Nothing may have been written before.
    ///
    /// # Errors
    /// [`Failure::Long`] if that is many, and others would wait.
    pub fn expect_rows(self, data: &Data<'_>, rows: u64) -> Result<(), Failure> {
        let rows_max = if self.is_late { LATE_ROWS } else { LONG_ROWS };
        if rows > rows_max && !data.is_patient() && self.can_wait { Err(Failure::Long) } else { Ok(()) }
    }

    /// Says how many bytes will be copied, as [`Room::expect_rows`] does for rows.
    ///
    /// # Errors
    /// [`Failure::Long`] if that is many, and others would wait.
    pub fn expect_bytes(self, data: &Data<'_>, bytes: u64) -> Result<(), Failure> {
        self.expect_rows(data, if bytes > LONG_BYTES { LONG_ROWS + 1 } else { 0 })
    }

    /// The snapshot from which an answer of so many rows, which [`Room::expect_rows`] has let pass, is to be made in
    /// pieces.
    pub fn in_pieces(self, data: &Data<'_>, rows: u64) -> Option<Snapshot> {
        if rows > LONG_ROWS && self.can_wait { data.patient_snapshot() } else { None }
    }
}
