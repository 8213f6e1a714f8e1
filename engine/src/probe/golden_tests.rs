//! Goal: the format does not change unnoticed, and the pages that describe it show what the code writes. Method: a
//! small run and a few pages as annotated hex (`testdata/`, `docs/internals/format-run.md`,
//! `docs/internals/format-page.md`); UPDATE_GOLDEN=1 rewrites.

use std::path::Path;

use super::tests::{Model, PATH, bytes_of};
use super::*;
use crate::compression::Compression;
use crate::io::Disk;
use crate::io::sim::SimDisk;
use crate::page::{KIND_LEAF, NewRecord, PageRef, UnitBuffer, check_unit, new_leaf};
use crate::run::filter::FilterRef;
use crate::run::format::made_up::IS_WRITTEN;
use crate::run::format::{FOOTER_BYTES, HEADER_BYTES, VERSION};
use crate::run::node::NodeRef;
use crate::run::packed::{self, PackedUnit};
use crate::run::place::UnitPlace;
use crate::run::{RunFile, RunOptions};
use crate::tally::Measures;
use crate::tally::SumField;

#[path = "../run/testdata/golden.rs"]
mod golden;
use golden::{Annotated, compare_with_file, compare_with_page, parse};

fn small_model() -> Model {
    let number = |number: i64| number.to_be_bytes().to_vec();
    let rows: [(&str, Vec<u8>); 9] = [
        ("cord/black", number(4)),
        ("cord/blue", number(21)),
        ("cord/brown", Vec::new()),
        ("cord/green", [number(100), b"a note of 32 bytes on this cord.".to_vec()].concat()),
        ("cord/red", number(-1)),
        ("cord/white, spun of the wool of two vicunas", number(7)),
        ("knot/figure eight", number(1)),
        ("knot/long", number(5)),
        ("knot/single", number(40)),
    ];
    rows.into_iter().map(|(key, value)| (key.as_bytes().to_vec(), value)).collect()
}

fn small_options() -> RunOptions {
    let measures = Measures { sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
    RunOptions { page_bytes: 256, measures, table_id: 3, run_id: 12, ..RunOptions::default() }
}

fn quoted(bytes: &[u8]) -> String {
    if bytes.iter().any(|byte| byte.is_ascii_control()) || !bytes.is_ascii() {
        return format!("{} bytes", bytes.len());
    }
    format!("\"{}\"", bytes.escape_ascii())
}

/// Describes a page that begins at the metadata's end.
fn describe_page(text: &mut Annotated<'_>, page: &PageRef<'_>, page_bytes: usize) {
    let count = page.count();
    let end = text.at() + page_bytes;
    text.field(2, &format!("kind: leaf; flags {:#x}", page.flags()));
    text.field(2, &format!("{count} entries"));
    text.field(2, &format!("prefix of {} bytes", page.prefix_len()));
    text.field(2, &format!("heap from {:#x}", page.heap_start()));
    text.field(5, "garbage, hint, run of inserts");
    text.field(1, &format!("level {}", page.level()));
    text.field(1, "no arrays of eight bytes an item");
    text.field(1, &format!("weights of {} bytes", page.weight_bytes()));
    text.field(8, &format!("epoch {}", page.epoch()));
    text.field(2, &format!("hole {}", page.hole()));
    text.field(2, &format!("page_bytes {}", page.stored_page_bytes()));
    text.field(4, "reserved");
    if page.prefix_len() > 0 {
        let padded = page.prefix_len().next_multiple_of(8);
        text.field(padded, &format!("prefix {}, padded", quoted(page.prefix())));
    }
    text.field(4 * count, "heads, as native numbers");
    text.field(2 * count, "slots");
    if page.gap() > 0 {
        text.field(page.gap(), "free");
    }
    let start = end - page_bytes;
    let mut records: Vec<usize> = (0..count).collect();
    records.sort_by_key(|&position| page.slot(position));
    for position in records {
        assert_eq!(text.at(), start + page.slot(position));
        let record = page.record(position);
        let parts = record.weights.len() + record.tail.len() + record.value.len();
        let key = page.key(position);
        let key = quoted(&key);
        text.field(record.len - parts, &format!("entry {position}, {key}: flags, lengths"));
        text.field(record.weights.len(), "weight");
        let tail = if record.key_is_out() { "offset and length of the key" } else { "key's tail" };
        text.field(record.tail.len(), tail);
        let value = if record.value_is_out() { "offset, length, crc32c, 0" } else { "value" };
        text.field(record.value.len(), value);
    }
    assert_eq!(text.at(), end);
}

/// Describes the unit of a leaf.
fn describe_leaf(text: &mut Annotated<'_>, place: &UnitPlace, page: &PageRef<'_>) {
    let start = text.at();
    let end = start + place.pointer.length as usize;
    describe_page(text, page, page.stored_page_bytes());
    for position in 0..page.count() {
        if page.record(position).key_is_out() {
            let key = page.key(position);
            text.field(key.len(), &format!("long key of entry {position}"));
        }
    }
    text.field(end - text.at(), "padding");
}

/// Describes the node at `place`.
fn describe_node(text: &mut Annotated<'_>, bytes: &[u8]) {
    let all = ["rows before", "sum before", "offset / 8", "length / 8", "crc32c"];
    let rows_alone = [all[0], all[2], all[3], all[4]];
    let columns = if NodeRef::new(bytes, all.len()).is_ok() { &all[..] } else { &rows_alone };
    let node = NodeRef::new(bytes, columns.len()).unwrap();
    for (len, note) in node.parts(columns) {
        text.field(len, &note);
    }
}

/// Describes the subtree at `place`, with the values before it.
fn describe_subtree(text: &mut Annotated<'_>, bytes: &[u8], run: &RunFile, place: &UnitPlace) {
    let unit = run.load(place).unwrap();
    if place.level > 0 {
        let page = run.inner(&unit);
        for position in 0..page.count() {
            describe_subtree(text, bytes, run, &run.child(place, &page, position));
        }
        for part in page.filters() {
            let filter = run.load_filter(&run.filter_at(place, &page, &part)).unwrap();
            text.heading(&format!("a filter over children {:?}", part.children));
            FilterRef::new(filter.as_slice()).unwrap().parts().iter().for_each(|(len, note)| text.field(*len, note));
        }
        text.heading("an inner page");
        describe_node(text, unit.as_slice());
        return;
    }
    let page = unit.leaf();
    for position in 0..page.count() {
        if page.leaf_record(position).value_is_out() {
            let reference = run.reference(place, page.leaf_record(position).value).unwrap();
            let (heading, len) = match reference.packed_bytes {
                0 => ("a value out of line", reference.length),
                packed => ("a value out of line, packed", u64::from(packed)),
            };
            text.heading(heading);
            text.field(len as usize, &quoted(&page.key(position)));
            text.field((reference.end().unwrap() - reference.offset - len) as usize, "padding");
        }
    }
    let stored = &bytes[place.pointer.offset as usize..place.end() as usize];
    match PackedUnit::new(stored, run.info().page_bytes).unwrap() {
        None => {
            text.heading("a leaf");
            describe_leaf(text, place, &page);
        }
        Some(packed) => {
            text.heading("a leaf, packed");
            let zeros = stored.len() - packed::HEADER_BYTES - packed.block().len();
            text.field(1, "kind: packed");
            text.field(1, &format!("{zeros} zeros after the block"));
            text.field(2, "reserved");
            text.field(4, &format!("{} bytes when unpacked", packed.plain_bytes()));
            text.field(packed.block().len(), "block");
            text.field(zeros, "zeros");
        }
    }
}

fn describe_run(bytes: &[u8]) -> String {
    let run = open(bytes);
    let mut text = Annotated::new(bytes);
    text.heading("header");
    for (len, note) in [(8, "magic"), (4, "version 1"), (4, "table_id"), (8, "run_id")] {
        text.field(len, note);
    }
    text.field(4, "reserved");
    text.field(4, "crc32c");
    assert_eq!(text.at(), HEADER_BYTES);
    describe_subtree(&mut text, bytes, &run, &run.root().unwrap());
    text.heading("footer");
    let (measures, sum) = match run.info().measures.sum {
        Some(_) => ("measures: a sum of the big-endian number at byte 0", "total: sum"),
        None => ("measures: rows alone", "total: sum, not measured"),
    };
    let compression = match run.info().compression {
        Compression::None => "compression: none",
        Compression::Lz4 => "compression: LZ4",
    };
    let fields = [
        (8, "magic"),
        (4, "version 1"),
        (4, "page_bytes"),
        (8, "file_bytes"),
        (8, "root: offset"),
        (4, "root: length"),
        (4, "root: crc32c"),
        (4, "root: reserved"),
        (4, "levels"),
        (8, measures),
        (8, "measures: the seed of the hash"),
        (8, "total: rows"),
        (8, "total: bytes, not measured"),
        (8, "total: hash, not measured"),
        (8, sum),
        (8, "entries"),
        (8, "erased"),
        (1, "kind: a tree, bottom"),
        (1, compression),
        (6, "reserved"),
        (8, "saved_bytes"),
        (60, "reserved"),
        (4, "crc32c"),
    ];
    assert_eq!(fields.iter().map(|field| field.0).sum::<usize>(), FOOTER_BYTES);
    for (len, note) in fields {
        text.field(len, note);
    }
    text.finish()
}

fn open(bytes: &[u8]) -> RunFile {
    let disk = SimDisk::new();
    disk.write_file(PATH, bytes);
    RunFile::open(&disk, Path::new(PATH)).unwrap()
}

#[test]
fn a_small_run_has_the_golden_bytes() {
    let bytes = bytes_of(&small_model(), small_options());
    let text = describe_run(&bytes);
    let golden = compare_with_file(&text, "src/run/testdata/small-1.hex");
    compare_with_page(&text, "../docs/internals/format-run.md", 0);
    read_golden(&parse(&golden), &small_model());
}

/// The rows of the packed example: the same word over and over, and a long value.
fn packed_model() -> Model {
    let value = |number: usize| "over under ".repeat(1 + number % 2).into_bytes();
    let rows = (0..12).map(|number| (format!("knot/{number:02}").into_bytes(), value(number)));
    rows.chain([(b"knot/05, and how it is tied".to_vec(), "over under ".repeat(12).into_bytes())]).collect()
}

fn packed_options() -> RunOptions {
    RunOptions { measures: Measures::ROWS, compression: Compression::Lz4, has_filters: false, ..small_options() }
}

#[test]
fn a_small_packed_run_has_the_golden_bytes() {
    let bytes = bytes_of(&packed_model(), packed_options());
    let text = describe_run(&bytes);
    let golden = compare_with_file(&text, "src/run/testdata/packed-1.hex");
    compare_with_page(&text, "../docs/internals/format-run.md", 1);
    read_golden(&parse(&golden), &packed_model());
}

fn read_golden(golden: &[u8], model: &Model) {
    assert_eq!(check_bytes(golden).unwrap().faults, [""; 0]);
    let mut rows = Model::new();
    open(golden)
        .scan(&mut |_| (), &mut |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            Ok(())
        })
        .unwrap();
    assert_eq!(rows, *model);
}

/// A run of an older version is read, and becomes what is written today.
#[test]
fn a_run_of_an_older_version_is_rewritten() {
    IS_WRITTEN.set(true);
    let older = bytes_of(&small_model(), small_options());
    IS_WRITTEN.set(false);
    let newest = bytes_of(&small_model(), small_options());
    assert_ne!(older, newest);
    let run = open(&older);
    assert_eq!(run.info().version, VERSION - 1);
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    run.rewrite(&disk, Path::new(PATH), small_options(), &mut |_| ()).unwrap();
    assert_eq!(disk.read_file(PATH).unwrap(), newest);
    read_golden(&older, &small_model());
}

#[test]
fn the_pages_of_the_format_page_are_true() {
    let page_of_docs = "../docs/internals/format-page.md";
    compare_with_page(&describe_memory_page(), page_of_docs, 0);
    let run = open(&bytes_of(&small_model(), small_options()));
    let root = run.root().unwrap();
    let root_unit = run.load(&root).unwrap();
    let leaf = run.child(&root, &run.inner(&root_unit), 1);
    let leaf_unit = run.load(&leaf).unwrap();
    let mut text = Annotated::new(leaf_unit.as_slice());
    describe_leaf(&mut text, &leaf, &leaf_unit.leaf());
    compare_with_page(&text.finish(), page_of_docs, 1);
    let mut text = Annotated::new(root_unit.as_slice());
    describe_node(&mut text, root_unit.as_slice());
    compare_with_page(&text.finish(), page_of_docs, 2);
}

/// A leaf as it is in memory: rows inserted one by one, not in order.
fn describe_memory_page() -> String {
    let mut buffer = UnitBuffer::new(256);
    let mut page = new_leaf(buffer.as_mut_slice(), 0);
    page.init(KIND_LEAF, 0, 0, 0, 5);
    page.set_prefix(b"knot/");
    for (position, key, value) in
        [(0, "knot/single", "1"), (0, "knot/long", "22"), (1, "knot/lost", "333"), (0, "knot/figure eight", "")]
    {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        let new = NewRecord { flags: 0, key, key_handle: 0, weights: &[], value };
        page.insert_leaf(position, &new).expect("room");
    }
    let bytes = buffer.as_slice().to_vec();
    check_unit(buffer.as_slice(), 256).unwrap();
    // SAFETY: checked in the line above.
    let page = unsafe { PageRef::new(buffer.as_slice().as_ptr()) };
    let mut text = Annotated::new(&bytes);
    describe_page(&mut text, &page, 256);
    text.finish()
}
