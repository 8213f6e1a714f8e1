//! All functions and operators by their names.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::functions::Function;
use crate::functions::definition::Definitions;
use crate::functions::{arithmetic, arrays, comparison, date_parts, dates, encoding, formats, jsons, mathematics};
use crate::functions::{patterns, strings, system};

static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let mut definitions = Definitions::default();
    for define in [
        comparison::define,
        arithmetic::define,
        mathematics::define,
        strings::define,
        patterns::define,
        encoding::define,
        formats::define,
        dates::define,
        date_parts::define,
        arrays::define,
        jsons::define,
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
