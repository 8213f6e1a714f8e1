//! Facts of the commands about bits of strings.

use super::spec::{Flags, Group, Spec};

const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const GROWTH: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const READ: Flags = Flags::READ;

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("setbit", 4, GROWTH, Group::Bitmap)
        .keys(1, 1, 1)
        .about("key offset value", "Sets a bit of a string, and answers its previous value.", "2.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getbit", 3, FAST_READ, Group::Bitmap)
        .keys(1, 1, 1)
        .about("key offset", "A bit of a string.", "2.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("bitcount", -2, READ, Group::Bitmap)
        .keys(1, 1, 1)
        .about("key [start end [BYTE | BIT]]", "How many bits of a string, or of a part of it, are set.", "2.6.0")
        .costs("O(log n + length)", "O(length)"),
    Spec::new("bitpos", -3, READ, Group::Bitmap)
        .keys(1, 1, 1)
        .about(
            "key bit [start [end [BYTE | BIT]]]",
            "The position of the first bit of a string that is set, or of the first that is not.",
            "2.8.7",
        )
        .costs("O(log n + length)", "O(length)"),
    Spec::new("bitop", -4, GROWTH, Group::Bitmap)
        .keys(2, -1, 1)
        .about(
            "AND | OR | XOR | NOT destkey key [key ...]",
            "Combines strings bit by bit, and puts the result at another key.",
            "2.6.0",
        )
        .costs("O(k (log n + length))", "O(k length)"),
    Spec::new("bitfield", -2, GROWTH, Group::Bitmap)
        .keys(1, 1, 1)
        .about(
            "key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | INCRBY encoding \
             offset increment ...]",
            "Reads and writes integers of any width within a string.",
            "3.2.0",
        )
        .costs("O(log n) for each integer", "O(1) for each integer"),
    Spec::new("bitfield_ro", -2, FAST_READ, Group::Bitmap)
        .keys(1, 1, 1)
        .about("key [GET encoding offset ...]", "Reads integers of any width within a string.", "6.0.0")
        .costs("O(log n)", "O(1) for each integer"),
];
