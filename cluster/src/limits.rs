//! The bounds of everything that a node keeps, and its times. Tests use tiny ones.

/// What a node may hold, and how long it waits.
///
/// Times are in milliseconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest key.
    pub key_bytes_max: usize,
    /// The longest value.
    pub value_bytes_max: usize,
    /// Requests under way at once; more are answered "overloaded".
    pub requests_max: usize,
    /// Bytes of keys and values of the requests under way.
    pub request_bytes_max: usize,
    /// Bytes sent to one peer and not answered; above it the peer counts as slow.
    pub peer_bytes_max: usize,
    /// When a request is answered "not enough replicas".
    pub request_timeout_ms: u64,
    /// A write has a millisecond more for so many bytes of its value, and a read whose answer has begun to come.
    pub bytes_a_ms: u64,
    /// A longer value is sent by one of the replicas that a read asks; the others say only which version they have.
    pub long_value_bytes: usize,
    /// How long the rest of the replicas is waited for after the answer, before they get a hint or a repair.
    pub linger_ms: u64,
    /// A peer without an answer for so long, or four times its usual time if that is longer, is slow.
    pub slow_after_ms: u64,
    /// How long a slow peer is left alone before it is probed; doubles up to 32 times that.
    pub probe_after_ms: u64,
    /// Whether a write that may be stored somewhere is never stamped again, and answered "not enough replicas" instead
    /// where others have something newer.
    pub stamps_once: bool,
    /// How far ahead of the wall clock a version may be.
    pub ahead_ms_max: u64,
    /// Bytes of the hints for one peer; hints beyond are not kept, and its partitions are repaired instead.
    pub hint_bytes_max: u64,
    /// How old a hint gets.
    pub hint_age_ms_max: u64,
    /// Hints on their way to one peer at once.
    pub hints_in_flight_max: usize,
    /// Bytes of their rows, from which on no other is sent.
    pub hint_bytes_in_flight_max: usize,
    /// Bytes a second that a node spends on repair and on copies, each.
    pub repair_bytes_per_second: u64,
    /// Ranges into which a range that differs is cut.
    pub repair_fan_out: usize,
    /// Rows up to which a range is compared row by row.
    pub repair_leaf_rows: u64,
    /// Bytes of rows in one message of a repair or a copy.
    pub chunk_bytes: usize,
    /// Writes younger than this are on their way everywhere: a repair leaves them alone.
    pub young_ms: u64,
    /// How often each partition is compared with its replicas.
    pub repair_every_ms: u64,
    /// How long a message of a repair is waited for, before it is sent again.
    pub repair_timeout_ms: u64,
    /// How long tombstones are kept at least. Far above all delays and clock errors.
    pub grace_ms: u64,
    /// Rows that housekeeping looks at in one tick.
    pub housekeeping_rows: usize,
    /// Rows of one answer to a position query.
    pub page_rows_max: usize,
    /// Bytes of one answer to a position query.
    pub page_bytes_max: usize,
    /// Keys that a node proposes to cut a range, for each of its partitions.
    pub cuts: usize,
    /// Conditional writes that wait for one key.
    pub conditional_waiting_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            key_bytes_max: 65_000,
            value_bytes_max: 64 << 20,
            requests_max: 4096,
            request_bytes_max: 256 << 20,
            peer_bytes_max: 4 << 20,
            request_timeout_ms: 1000,
            bytes_a_ms: 4096,
            long_value_bytes: 16 << 10,
            linger_ms: 2000,
            slow_after_ms: 20,
            probe_after_ms: 50,
            stamps_once: false,
            ahead_ms_max: 60_000,
            hint_bytes_max: 1 << 30,
            hint_age_ms_max: 3 * 3_600_000,
            hints_in_flight_max: 128,
            hint_bytes_in_flight_max: 4 << 20,
            repair_bytes_per_second: 16 << 20,
            repair_fan_out: 16,
            repair_leaf_rows: 16,
            chunk_bytes: 256 << 10,
            young_ms: 2000,
            repair_every_ms: 600_000,
            repair_timeout_ms: 5000,
            grace_ms: 24 * 3_600_000,
            housekeeping_rows: 512,
            page_rows_max: 1000,
            page_bytes_max: 1 << 20,
            cuts: 16,
            conditional_waiting_max: 64,
        }
    }
}

impl Limits {
    /// Small enough that everything overflows within the first ten operations, and fast enough for a minute of
    /// simulated time.
    pub fn tiny() -> Limits {
        Limits {
            key_bytes_max: 64,
            value_bytes_max: 256,
            requests_max: 32,
            request_bytes_max: 4096,
            peer_bytes_max: 2048,
            request_timeout_ms: 300,
            bytes_a_ms: 4096,
            long_value_bytes: 24,
            linger_ms: 400,
            slow_after_ms: 40,
            probe_after_ms: 50,
            stamps_once: true,
            ahead_ms_max: 60_000,
            hint_bytes_max: 600,
            hint_age_ms_max: 4000,
            hints_in_flight_max: 2,
            hint_bytes_in_flight_max: 40,
            repair_bytes_per_second: 64 << 10,
            repair_fan_out: 3,
            repair_leaf_rows: 2,
            chunk_bytes: 64,
            young_ms: 200,
            repair_every_ms: 1500,
            repair_timeout_ms: 300,
            grace_ms: 8000,
            housekeeping_rows: 4,
            page_rows_max: 3,
            page_bytes_max: 256,
            cuts: 3,
            conditional_waiting_max: 3,
        }
    }
}
