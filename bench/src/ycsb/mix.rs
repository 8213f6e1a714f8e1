//! The six workloads: what they do how often, and to which records.

use super::zipfian::{Scatter, Zipfian};
use crate::rows::Draw;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Puts a record with a new key.
    Insert,
    /// Reads a record.
    Read,
    /// Puts a new value in the place of a record's.
    Update,
    /// Reads 1 to [`SCAN_RECORDS_MAX`] records from a key on, in key order.
    Scan,
    /// Reads a record, then puts a new value in its place. Not atomic.
    ReadModifyWrite,
}

impl Operation {
    pub(crate) const COUNT: usize = 5;

    pub(crate) const ALL: [Operation; Operation::COUNT] =
        [Operation::Insert, Operation::Read, Operation::Update, Operation::Scan, Operation::ReadModifyWrite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Read => "read",
            Operation::Update => "update",
            Operation::Scan => "scan",
            Operation::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// Records of the longest scan.
const SCAN_RECORDS_MAX: u64 = 100;

/// How records are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Some are popular, wherever they are.
    Zipfian,
    /// The newest are the most popular.
    Latest,
}

impl Choice {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Choice::Zipfian => "zipfian",
            Choice::Latest => "latest",
        }
    }
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    pub(crate) choice: Choice,
    /// The first operation, its share in percent, and the other one.
    first: (Operation, u64),
    second: Operation,
}

/// In the order in which they run: D and E add records, so they come last, and E last of all as its key range includes
/// D's.
pub(crate) const MIXES: [Mix; 6] = [
    Mix::zipfian("A", (Operation::Read, 50), Operation::Update),
    Mix::zipfian("B", (Operation::Read, 95), Operation::Update),
    Mix::zipfian("C", (Operation::Read, 100), Operation::Read),
    Mix::zipfian("F", (Operation::Read, 50), Operation::ReadModifyWrite),
    Mix { name: "D", choice: Choice::Latest, first: (Operation::Read, 95), second: Operation::Insert },
    Mix::zipfian("E", (Operation::Scan, 95), Operation::Insert),
];

/// One operation, before it is known how many records there will be then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    /// Records of a scan.
    pub(crate) scan_records: u8,
    /// Which record: its number, or how many are newer.
    place: u64,
}

impl Mix {
    const fn zipfian(name: &'static str, first: (Operation, u64), second: Operation) -> Self {
        Mix { name, choice: Choice::Zipfian, first, second }
    }

    /// Whether it scans, which not every server can.
    pub(crate) fn scans(&self) -> bool {
        self.first.0 == Operation::Scan
    }

    /// Draws requests for `threads` threads, `operations` in all, to `records` records, of which there must be one.
    pub(crate) fn draw(&self, records: u64, operations: u64, threads: usize, seed: u64) -> Vec<Vec<Request>> {
        let (zipfian, scatter) = (Zipfian::new(records), Scatter::new(records));
        let of_thread = |thread: u64| {
            let share = (operations + thread) / threads as u64;
            let mut draw = Draw::new(seed ^ (thread + 1).rotate_right(16) ^ u64::from(self.name.as_bytes()[0]) << 32);
            let request = |_| {
                let operation = if draw.below(100) < self.first.1 { self.first.0 } else { self.second };
                let scan_records = 1 + draw.below(SCAN_RECORDS_MAX) as u8;
                let rank = zipfian.rank(&mut draw);
                let place = if self.choice == Choice::Latest { rank } else { scatter.number_of(rank) };
                Request { operation, scan_records, place }
            };
            (0..share).map(request).collect()
        };
        (0..threads as u64).map(of_thread).collect()
    }
}

impl Request {
    /// An insert.
    pub(crate) const INSERT: Request = Request { operation: Operation::Insert, scan_records: 0, place: 0 };

    /// The number of the record to ask for, when there are `records`: at least as many as there were when it was drawn.
    pub(crate) fn number(&self, choice: Choice, records: u64) -> u64 {
        match choice {
            Choice::Zipfian => self.place,
            Choice::Latest => records - 1 - self.place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_name(name: &str) -> &'static Mix {
        MIXES.iter().find(|mix| mix.name == name).unwrap()
    }

    #[test]
    fn shares_are_those_of_the_paper() {
        use Operation::{Insert, Read, ReadModifyWrite, Scan, Update};
        for (name, first, percent, second) in [
            ("A", Read, 50.0, Update),
            ("B", Read, 95.0, Update),
            ("C", Read, 100.0, Read),
            ("D", Read, 95.0, Insert),
            ("E", Scan, 95.0, Insert),
            ("F", Read, 50.0, ReadModifyWrite),
        ] {
            let requests = of_name(name).draw(1_000, 100_000, 1, 3).remove(0);
            let firsts = requests.iter().filter(|request| request.operation == first).count();
            assert!((firsts as f64 / 1_000.0 - percent).abs() < 0.7, "{name}: {firsts}");
            assert!(requests.iter().all(|request| [first, second].contains(&request.operation)), "{name}");
        }
    }

    #[test]
    fn scans_are_of_1_to_100_records_equally() {
        let requests = of_name("E").draw(1_000, 100_000, 1, 3).remove(0);
        let lengths: Vec<u8> = requests.iter().map(|request| request.scan_records).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&1), Some(&100)));
        let mean = lengths.iter().map(|length| f64::from(*length)).sum::<f64>() / lengths.len() as f64;
        assert!((mean - 50.5).abs() < 0.5, "{mean}");
    }

    #[test]
    fn the_latest_are_asked_most_and_never_one_beyond() {
        let requests = of_name("D").draw(1_000, 100_000, 1, 3).remove(0);
        let mut newest = 0;
        for (number, request) in requests.iter().enumerate() {
            // Records come while requests are under way.
            let records = 1_000 + number as u64 / 20;
            let asked = request.number(Choice::Latest, records);
            assert!(asked < records);
            newest += u32::from(asked == records - 1);
        }
        assert!((12_000..14_500).contains(&newest), "13.2 % of 100,000: {newest}");
    }

    #[test]
    fn popular_records_are_asked_whichever_the_thread() {
        let shares = of_name("C").draw(500, 50_001, 4, 3);
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), 50_001);
        let mut asked = vec![0; 500];
        for request in shares.iter().flatten() {
            asked[request.number(Choice::Zipfian, 500) as usize] += 1;
        }
        assert!(asked.iter().all(|count| *count > 0), "requests cover all records");
        assert_ne!(shares[0][..10].iter().map(|r| r.place).max(), shares[1][..10].iter().map(|r| r.place).max());
    }
}
