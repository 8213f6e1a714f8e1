//! Goal: a manifest comes back as it was, or as the one before, or as an error; never otherwise.
//! Method: every bit of a small one inverted, every truncation, a crash at every step of replacing one.

use super::*;
use crate::compression::Compression;
use crate::inner_pages::InnerPages;
use crate::io::sim::{CrashMode, SimDisk};
use crate::options::{RunLayout, TableOptions};
use crate::tally::SumField;

#[expect(clippy::duplicate_mod, reason = "a helper of tests, so that `manifest` needs nothing of `run`")]
#[path = "../../run/testdata/golden.rs"]
mod golden;

const DIR: &str = "/db";

fn small() -> Manifest {
    Manifest {
        database_id: 0x5175_6970_7521,
        checkpoint: 3,
        sequence: 1002,
        log_position: 65_536,
        next_table_id: 5,
        catalog_sequence: 1200,
        tables: vec![
            ManifestTable {
                declaration: declared(
                    1,
                    "flights",
                    TableOptions {
                        measures: Measures {
                            bytes: true,
                            hash: false,
                            hash_seed: 9,
                            sum: Some(SumField::Element { at: 2 }),
                        },
                        metadata: b"v1".to_vec(),
                        in_memory: true,
                        ..TableOptions::default()
                    },
                ),
                is_on_disk: false,
                sequence: 1002,
                ingested: LastIngest::default(),
                excised: 1002,
                runs: vec![of_file("run-3-1.quipu")],
                total: Tally { rows: 1000, bytes: 64_000, hash: 0, sum: -7 },
            },
            ManifestTable {
                declaration: declared(3, "empty", TableOptions::default()),
                is_on_disk: false,
                sequence: 0,
                ingested: LastIngest::default(),
                excised: 0,
                runs: Vec::new(),
                total: Tally::ZERO,
            },
            ManifestTable {
                declaration: declared(
                    4,
                    "log",
                    TableOptions {
                        blind_writes: true,
                        comment: "x".to_owned(),
                        compression: Compression::Lz4,
                        inner_pages: InnerPages::Pinned,
                        ..TableOptions::default()
                    },
                ),
                is_on_disk: true,
                sequence: 1180,
                ingested: LastIngest { sequence: 1100, keys: (b"k".to_vec(), b"lm".to_vec()) },
                excised: 1190,
                runs: vec![
                    of_file("run-3-4.quipu"),
                    excised(of_parts(&[("run-1-4.quipu", ""), ("run-2-4.quipu", "k")])),
                ],
                total: Tally { rows: 70, ..Tally::ZERO },
            },
        ],
    }
}

fn declared(id: u32, name: &str, options: TableOptions) -> Arc<Declaration> {
    Arc::new(Declaration { id, name: name.to_owned(), options })
}

fn of_parts(parts: &[(&str, &str)]) -> ManifestRun {
    let part = |(name, low): &(&str, &str)| ManifestPart {
        name: name.to_string(),
        identity: 0x1dea + name.len() as u64,
        low: low.as_bytes().to_vec(),
        excisions: Vec::new(),
    };
    ManifestRun { parts: parts.iter().map(part).collect() }
}

/// The run with two excisions from its last part, of which the second goes on to the end.
fn excised(mut run: ManifestRun) -> ManifestRun {
    let prefix = |rows: i64| {
        let tally = Tally { rows, bytes: 16 * rows, hash: 3, sum: -rows };
        Prefix { sums: Sums { entries: rows, erased: 0, tally }, bytes: 32 * rows as u64 }
    };
    let key = |text: &str| KeyBuffer::from_slice(text.as_bytes());
    let excision = |start, end: Option<&str>, rows: [i64; 2]| Excision {
        start: key(start),
        end: end.map(key),
        before: prefix(rows[0]),
        through: prefix(rows[1]),
    };
    let last = run.parts.last_mut().expect("a run has a part");
    last.excisions = vec![excision("ka", Some("kb"), [1, 4]), excision("kz", None, [5, 9])];
    run
}

fn of_file(name: &str) -> ManifestRun {
    of_parts(&[(name, "")])
}

fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk
}

#[test]
fn comes_back() {
    let disk = new_disk();
    let dir = Path::new(DIR);
    assert_eq!(Manifest::read(&disk, dir).unwrap(), None);
    let mut manifest = small();
    for checkpoint in 3..6 {
        manifest.checkpoint = checkpoint;
        manifest.write(&disk, dir).unwrap();
        assert_eq!(Manifest::read(&disk, dir).unwrap().as_ref(), Some(&manifest));
    }
    assert_eq!(disk.list(dir).unwrap(), [FILE_NAME]);
    let none = Manifest { tables: Vec::new(), next_table_id: 0, ..manifest };
    assert_eq!(Manifest::decode(&none.encode()).unwrap(), none);
}

#[test]
fn an_index_that_is_flat_comes_back() {
    let mut manifest = small();
    let options = TableOptions { layout: RunLayout::Flat, ..TableOptions::default() };
    manifest.tables[2].declaration = declared(4, "log", options);
    assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
}

#[test]
fn every_inverted_bit_and_every_truncation_is_seen() {
    let bytes = small().encode();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = Manifest::decode(&damaged).expect_err("a bit is wrong");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}");
    }
    for len in 0..bytes.len() {
        let error = Manifest::decode(&bytes[..len]).expect_err("bytes are missing");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "length {len}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(Manifest::decode(&longer).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_forged_checksum_does_not_make_nonsense_sound() {
    let bytes = small().encode();
    for at in DATABASE_ID_AT..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut forged = bytes.clone();
            forged[at] = value;
            let checksum = checksum_of(&forged);
            forged[CHECKSUM_AT..DATABASE_ID_AT].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(manifest) = Manifest::decode(&forged) {
                assert_eq!(manifest.encode(), forged);
            }
        }
    }
}

#[test]
fn contradictions_are_refused() {
    let change: [fn(&mut Manifest); 13] = [
        |manifest| manifest.next_table_id = 4,
        |manifest| manifest.tables.swap(0, 1),
        |manifest| manifest.tables[1].declaration = declared(3, "flights", TableOptions::default()),
        |manifest| manifest.tables[0].runs.clear(),
        |manifest| manifest.tables[0].runs = vec![of_file("../elsewhere")],
        |manifest| manifest.tables[1].runs = vec![of_file("run")],
        |manifest| manifest.tables[0].runs.push(of_file("another")),
        |manifest| manifest.tables[2].runs[1] = of_file("run-3-1.quipu"),
        |manifest| manifest.tables[2].runs[1].parts[1].name = "run-3-4.quipu".into(),
        |manifest| manifest.tables[2].runs[1].parts[0].low = b"a".to_vec(),
        |manifest| manifest.tables[2].runs[1].parts.clear(),
        |manifest| manifest.tables[2].total.rows = -1,
        |manifest| manifest.catalog_sequence = 1001,
    ];
    for (number, change) in change.into_iter().enumerate() {
        let mut manifest = small();
        change(&mut manifest);
        let error = Manifest::decode(&manifest.encode()).expect_err("a contradiction");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "change {number}");
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let mut bytes = small().encode();
    bytes[VERSION_AT] = VERSION as u8 + 1;
    let checksum = checksum_of(&bytes);
    bytes[CHECKSUM_AT..DATABASE_ID_AT].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(Manifest::decode(&bytes).unwrap_err().kind(), ErrorKind::Version);
}

#[test]
fn a_damaged_one_names_the_directory_and_what_to_do() {
    let disk = new_disk();
    disk.write_file(Path::new(DIR).join(FILE_NAME), b"nonsense".to_vec());
    let error = Manifest::read(&disk, Path::new(DIR)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(DIR) && text.contains(FILE_NAME) && text.contains("quipu check"), "{text}");
}

#[test]
fn a_crash_leaves_the_old_or_the_new_one() {
    let (old, dir) = (small(), Path::new(DIR));
    let new = Manifest { checkpoint: 4, next_table_id: 9, ..small() };
    for step in 0.. {
        let disk = new_disk();
        old.write(&disk, dir).unwrap();
        let start = disk.steps();
        disk.cut_at(start + step);
        let written = new.write(&disk, dir);
        for seed in 0..20 {
            let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random][seed as usize % 3];
            let after = disk.crash_with(mode, seed);
            let found = Manifest::read(&after, dir).unwrap().expect("one of the two");
            assert!(found == new || found == old && written.is_err(), "step {step}, seed {seed}");
            // What the crash left of the next manifest is no hindrance to writing it again.
            new.write(&after, dir).unwrap();
            assert_eq!(Manifest::read(&after, dir).unwrap().as_ref(), Some(&new));
        }
        if written.is_ok() {
            assert!(step > 3, "a manifest is written in several steps");
            return;
        }
    }
}

#[test]
fn a_small_manifest_has_the_golden_bytes() {
    let bytes = small().encode();
    let text = describe(&bytes);
    let golden = golden::compare_with_file(&text, "src/catalog/manifest/testdata/small-1.hex");
    golden::compare_with_page(&text, "../docs/internals/format-manifest.md", 0);
    assert_eq!(Manifest::decode(&golden::parse(&golden)).unwrap(), small());
}

fn describe(bytes: &[u8]) -> String {
    let mut text = golden::Annotated::new(bytes);
    let header = [
        (8, "magic"),
        (4, "version 1"),
        (4, "crc32c"),
        (8, "database_id"),
        (8, "checkpoint"),
        (8, "sequence"),
        (8, "log_position"),
        (4, "next_table_id"),
        (4, "table_count"),
        (8, "catalog_sequence"),
    ];
    header.into_iter().for_each(|(len, note)| text.field(len, note));
    for table in small().tables {
        text.heading("table");
        let fixed = [
            (4, "id"),
            (4, "length of the name"),
            (4, "number of runs"),
            (4, "length of the declaration"),
            (8, "total: rows"),
            (8, "total: bytes"),
            (8, "total: hash"),
            (8, "total: sum"),
            (8, "sequence"),
            (8, "state"),
            (8, "ingested"),
            (4, "length of the first key ingested"),
            (4, "length of the last"),
            (8, "excised"),
        ];
        fixed.into_iter().for_each(|(len, note)| text.field(len, note));
        text.field(table.name().len(), table.name());
        text.field(table.ingested.keys.0.len(), "first key ingested");
        text.field(table.ingested.keys.1.len(), "last key ingested");
        for run in &table.runs {
            text.field(4, "number of parts");
            for part in &run.parts {
                text.field(8, "identity of the file");
                text.field(4, "length of the file's name");
                text.field(part.name.len(), &part.name);
                text.field(4, "length of the low key");
                text.field(part.low.len(), "low key");
                text.field(4, "number of excisions");
                for excision in &part.excisions {
                    text.field(4, "length of its start");
                    text.field(excision.start.len(), "start");
                    text.field(4, "whether it has an end");
                    if let Some(end) = &excision.end {
                        text.field(4, "length of its end");
                        text.field(end.len(), "end");
                    }
                    for place in ["before the start", "before the end"] {
                        for sum in ["entries", "erased", "rows", "bytes", "hash", "sum", "bytes of the file"] {
                            text.field(8, &format!("{place}: {sum}"));
                        }
                    }
                }
            }
        }
        let options = &table.declaration.options;
        text.field(8, "declaration: measures");
        text.field(8, "declaration: seed of the hash");
        text.field(8, "declaration: flags");
        text.field(4, "declaration: length of the metadata");
        text.field(options.metadata.len(), "metadata");
        text.field(4, "declaration: length of the comment");
        text.field(options.comment.len(), "comment");
    }
    text.finish()
}
