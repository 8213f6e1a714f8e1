//! The table of commands: all lines, found by name or by number.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::spec::Spec;

/// The table, with each command under its number.
struct Table {
    commands: &'static [Spec],
    by_name: HashMap<&'static [u8], &'static Spec>,
    by_number: Vec<&'static Spec>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // What is made here lives as long as the process, so that a line of the table is a plain reference.
        let mut commands: Vec<Spec> = FILES.iter().copied().flatten().copied().collect();
        let mut next = 0;
        for spec in &mut commands {
            number(spec, &mut next);
            let subcommands = spec.subcommands.iter().map(|sub| number(&mut { *sub }, &mut next)).collect::<Vec<_>>();
            spec.subcommands = subcommands.leak();
        }
        let commands: &'static [Spec] = commands.leak();
        let by_number = commands.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands)).collect();
        Table { commands, by_name: commands.iter().map(|spec| (spec.name.as_bytes(), spec)).collect(), by_number }
    })
}

fn number(spec: &mut Spec, next: &mut u16) -> Spec {
    spec.number = *next;
    *next += 1;
    *spec
}

/// All commands, family by family.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    table().commands.iter()
}

/// All commands and subcommands, by number.
pub fn by_number() -> &'static [&'static Spec] {
    &table().by_number
}

/// The lines of all commands. One line for each file.
const FILES: &[&[Spec]] = &[
    super::strings::SPECS,
    super::bits::SPECS,
    super::keys::SPECS,
    super::ordered::SPECS,
    super::transactions::SPECS,
    super::sorted_sets::SPECS,
    super::connection::SPECS,
    super::server::SPECS,
    super::absent::SPECS,
];

/// Names longer than any command.
const NAME_BYTES_MAX: usize = 24;

/// The command of that name, in any case.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    table().by_name.get(&*lower).copied()
}

/// The command that words are, or its subcommand.
pub fn resolve(args: &[&[u8]]) -> Option<&'static Spec> {
    let spec = find(args.first()?)?;
    match args.get(1) {
        Some(word) if !spec.subcommands.is_empty() => spec.subcommands.iter().find(|sub| sub.is_named(word)),
        _ => Some(spec),
    }
}
