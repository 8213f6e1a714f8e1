//! All functions and operators by their names.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::functions::Function;
use crate::functions::definition::Definitions;
use crate::functions::{
    arithmetic, arrays, bits, byte_strings, comparison, date_parts, dates, degrees, encoding, enums, formats,
    identifiers, json_paths, json_records, jsons, mathematics, money, networks, patterns, postgres, ranges, strings,
    subscripts, system,
};

static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let mut definitions = Definitions::default();
    for define in [
        comparison::define,
        arithmetic::define,
        mathematics::define,
        degrees::define,
        strings::define,
        patterns::define,
        encoding::define,
        byte_strings::define,
        identifiers::define,
        networks::define,
        bits::define,
        money::define,
        formats::define,
        dates::define,
        date_parts::define,
        arrays::define,
        subscripts::define,
        json_paths::define,
        jsons::define,
        json_records::define,
        enums::define,
        ranges::define,
        system::define,
    ] {
        define(&mut definitions);
    }
    definitions.functions
});

static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static Function>>> = LazyLock::new(|| {
    let mut by_name: HashMap<_, Vec<&'static Function>> = HashMap::new();
    for function in FUNCTIONS.iter() {
        by_name.entry(function.name).or_default().push(function);
    }
    // An operator can be called by the name of the function that does it: `int4pl(1, 2)`.
    for function in FUNCTIONS.iter() {
        let code = postgres::known().operator_of(function.name, function.arguments).map(|operator| operator.code);
        if let Some(name) = code.and_then(|code| postgres::known().name_of(code)) {
            let same: &mut Vec<&'static Function> = by_name.entry(name).or_default();
            if same.iter().all(|known| known.arguments != function.arguments) {
                same.push(function);
            }
        }
    }
    by_name
});

/// All functions and operators. The name of an operator is its characters.
pub fn functions() -> &'static [Function] {
    &FUNCTIONS
}

/// Those of a name.
pub(crate) fn named(name: &str) -> &'static [&'static Function] {
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}
