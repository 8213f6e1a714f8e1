//! Facts of the commands about the ordered keys of a database, which Redis lacks.

use super::spec::{Flags, Group, Spec};

const FAST_EXACT_READ: Flags = Flags::READ.and(Flags::EXACT).and(Flags::FAST);

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("q.count", -1, FAST_EXACT_READ, Group::Ordered)
        .replicated()
        .about("[min max]", "The number of keys in a range, or in the database.", "0.1.0")
        .costs("O(log n)", ""),
    Spec::new("q.rank", 2, FAST_EXACT_READ, Group::Ordered)
        .replicated()
        .about("key", "The number of keys below a key, which need not exist.", "0.1.0")
        .costs("O(log n)", ""),
    Spec::new("q.nth", -2, FAST_EXACT_READ, Group::Ordered)
        .replicated()
        .about(
            "offset [min max]",
            "The key at an offset of a range, or of all keys; a negative offset counts from the end.",
            "0.1.0",
        )
        .costs("O(log n)", ""),
    Spec::new("q.range", -3, Flags::READ.and(Flags::EXACT), Group::Ordered)
        .replicated()
        .about(
            "min max [REV] [OFFSET n] [LIMIT n] [WITHVALUES] [WITHTOTAL]",
            "Keys of a range from an offset on; if asked, with their strings and the exact number of keys in the range.",
            "0.1.0",
        )
        .costs("O(log n + keys returned)", ""),
    Spec::new("q.quantile", -4, FAST_EXACT_READ, Group::Ordered)
        .about("min max q [q ...]", "The keys at quantiles (0 to 1, nearest rank) of a range.", "0.1.0")
        .costs("O(log n) a quantile", ""),
    Spec::new("q.sample", 4, FAST_EXACT_READ, Group::Ordered)
        .about("min max n", "Different keys of a range, each as likely as any other, in key order.", "0.1.0")
        .costs("O(log n) a key", ""),
    Spec::new("q.split", 4, FAST_EXACT_READ, Group::Ordered)
        .about("min max parts", "Keys that cut a range into parts of equal counts.", "0.1.0")
        .costs("O(log n) a part", ""),
    Spec::new("q.tally", -1, FAST_EXACT_READ, Group::Ordered)
        .about("[min max]", "Rows, bytes and hash of a range: equal hashes mean equal content.", "0.1.0")
        .costs("O(log n)", ""),
    Spec::new("q.delrange", 3, Flags::WRITE.and(Flags::EXACT).and(Flags::FREES), Group::Ordered)
        .about("min max", "Removes all keys of a range, and answers how many there were.", "0.1.0")
        .costs(
            "O(log n) over runs, one step a leaf in memory; and O(log n) for each key that expires, is a collection, or is long",
            "",
        ),
];
