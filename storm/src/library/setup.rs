//! Under which limits a database is opened, and which keys and values come: drawn for each run, and the head of its
//! script.

use std::fmt;
use std::sync::Arc;

use quipu::io::Disk;
use quipu::{Compression, Durability, InnerPages, Measures, Options, RunLayout, SumField, TableOptions};
use quipu_suite::dice::Dice;

use crate::library::value::Value;
use crate::library::word::Key;

/// Numbers by name: all that a run is given beside its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup(Vec<(String, u64)>);

impl Setup {
    /// With one more number.
    pub fn set(&mut self, name: &str, number: u64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = number,
            None => self.0.push((name.to_owned(), number)),
        }
    }

    /// A number; 0 if it was not given.
    pub fn get(&self, name: &str) -> u64 {
        self.0.iter().find(|(known, _)| known == name).map_or(0, |(_, number)| *number)
    }

    /// Takes a line of a script, if it is one of these.
    pub fn parse(&mut self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next().and_then(|number| number.parse().ok())) {
            (Some("set"), Some(name), Some(number)) => {
                self.set(name, number);
                true
            }
            _ => false,
        }
    }

    /// Draws the limits of a database.
    pub fn draw(dice: &mut Dice) -> Setup {
        let mut setup = Setup::default();
        let tiny = dice.percent(60);
        let mut one_of = |name: &str, choices: &[(usize, u64)]| setup.set(name, dice.weighted(choices));
        let page = if tiny { &[(5, 256), (1, 512), (1, 1024)][..] } else { &[(4, 4096), (1, 8192), (1, 1024)][..] };
        one_of("page_bytes", page);
        one_of("run_page_bytes", page);
        one_of("memory_bytes", &[(1, 3 << 20), (1, 8 << 20), (6, 256 << 20)]);
        one_of("memtable_bytes", &[(2, 0), (2, 1 << 20), (2, 256 << 20)]);
        one_of("cache_bytes", &[(1, 64 << 10), (2, 1 << 20), (2, 64 << 20)]);
        one_of("log_segment_bytes", if tiny { &[(2, 8192), (1, 64 << 10)] } else { &[(1, 64 << 10), (2, 1 << 20)] });
        one_of("run_file_bytes", if tiny { &[(3, 1200), (1, 20_000)] } else { &[(1, 20_000), (2, 64 << 20)] });
        one_of("excised_rows_min", &[(3, 1), (2, 4), (1, 30), (1, 256)]);
        one_of("durability", &[(2, 0), (1, 1), (1, 2)]);
        one_of("tables", &[(3, 1), (2, 2), (1, 4)]);
        setup.draw_rows(dice);
        setup
    }

    /// Draws which keys and values come. Sizes are sought that fill pages to the brim: a page holds a whole number
    /// of such rows, more or less a few bytes.
    fn draw_rows(&mut self, dice: &mut Dice) {
        let page = self.get("page_bytes") as usize;
        self.set("keys", *dice.pick(&[&12_u64, &40, &150, &1000, &5000]));
        let key_bytes = match dice.below(5) {
            0..=1 => 6,
            2 => 6 + dice.below(30),
            _ => 6 + dice.below(page / 10),
        };
        self.set("key_bytes", key_bytes as u64);
        // 0: the number stands last, so keys share what is before; 1: it stands first; 2: its lowest byte first.
        self.set("key_shape", dice.below(3) as u64);
        self.set("key_jitter", *dice.pick(&[&0_u64, &0, &0, &3, &40]));
        let share = page / *dice.pick(&[&2_usize, &3, &4, &5, &6, &7, &8, &10, &12, &20, &50]);
        self.set("value_bytes", share.saturating_sub(key_bytes) as u64);
        self.set("value_jitter", *dice.pick(&[&0_u64, &4, &16, &40, &(page as u64 / 4)]));
        self.set("long_values", *dice.pick(&[&0_u64, &0, &2, &10]));
        // Of a hundred steps, so many that write rows.
        self.set("writes", *dice.pick(&[&40_u64, &60, &85]));
        self.set("ascending", *dice.pick(&[&0_u64, &0, &0, &50, &90]));
    }

    /// The options to open with.
    pub fn options(&self, disk: Arc<dyn Disk>) -> Options {
        let size = |name: &str, default: u64| if self.get(name) == 0 { default } else { self.get(name) };
        Options {
            page_bytes: size("page_bytes", 4096) as usize,
            run_page_bytes: size("run_page_bytes", 4096) as usize,
            memory_bytes: size("memory_bytes", 256 << 20),
            memtable_bytes: self.get("memtable_bytes"),
            cache_bytes: size("cache_bytes", 1 << 20),
            log_segment_bytes: size("log_segment_bytes", 64 << 10) as usize,
            run_file_bytes: size("run_file_bytes", 64 << 20),
            excised_rows_min: size("excised_rows_min", 256),
            checkpoint_log_bytes: self.get("checkpoint_log_bytes"),
            background: self.get("background") == 1,
            durability: durability(self.get("durability")),
            disk,
            ..Options::default()
        }
    }

    /// Whether memory may run out.
    pub fn is_tight(&self) -> bool {
        self.get("memory_bytes") < 64 << 20
    }

    /// A key of some number.
    pub fn key(&self, number: u64, jitter: u64) -> Key {
        let digits = match self.get("key_shape") {
            2 => format!("{:06}", number).bytes().rev().collect(),
            _ => format!("{number:06}").into_bytes(),
        };
        let pad = (self.get("key_bytes") as usize).saturating_sub(6) + jitter as usize;
        let pad = vec![b'k'; pad];
        if self.get("key_shape") == 0 { [pad, digits].concat() } else { [digits, pad].concat() }
    }

    /// Draws a key.
    pub fn draw_key(&self, dice: &mut Dice) -> Key {
        let number = dice.below(self.get("keys").max(1) as usize) as u64;
        // The same number has the same length, so that keys meet again.
        let jitter = self.get("key_jitter");
        self.key(number, if jitter == 0 { 0 } else { number * 7 % (jitter + 1) })
    }

    /// Draws a value.
    pub fn draw_value(&self, dice: &mut Dice) -> Value {
        let fill = *dice.pick(&[&0_u32, &2, &1, &7, &9]) + 10 * dice.below(50) as u32;
        let jitter = self.get("value_jitter") as usize;
        let usual = self.get("value_bytes") as usize;
        let len = match dice.below(100) {
            0..=1 => 0,
            2..=8 => dice.below(usual + 2),
            9..=13 => dice.below(40),
            lot if lot < 14 + self.get("long_values") as usize => {
                let page = self.get("page_bytes").max(256) as usize;
                *dice.pick(&[&page, &(2 * page), &20_000, &70_000]) + dice.below(9) - 4
            }
            _ => usual + dice.below(2 * jitter + 1) - jitter.min(usual),
        };
        Value { len: len as u32, fill }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, number)| writeln!(f, "set {name} {number}"))
    }
}

/// The durability of a number.
pub fn durability(number: u64) -> Durability {
    [Durability::Sync, Durability::Os, Durability::None][number as usize % 3]
}

/// How a table is declared, as bits: so that a script says it in a word.
pub fn table_options(bits: u64) -> TableOptions {
    let bit = |place: u64| bits >> place & 1 == 1;
    let compression = |place: u64| if bit(place) { Compression::Lz4 } else { Compression::None };
    TableOptions {
        measures: Measures {
            bytes: bit(0),
            hash: bit(1),
            sum: bit(2).then_some(SumField::BigEndian { at: 0 }),
            ..Measures::ROWS
        },
        in_memory: bit(3) && bit(4),
        blind_writes: bit(5),
        layout: if bit(6) && bit(7) { RunLayout::Flat } else { RunLayout::Tree },
        compression: compression(8),
        upper_compression: compression(9),
        inner_pages: [InnerPages::AsNeeded, InnerPages::AsNeeded, InnerPages::Preloaded, InnerPages::Pinned]
            [(bits >> 10) as usize % 4],
        metadata: vec![b'n'; (bits >> 12) as usize % 8],
        comment: "c".repeat((bits >> 13) as usize % 3),
    }
}
