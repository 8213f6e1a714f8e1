//! Objects of PostgreSQL 15 whose types are known here: functions, operators, casts, classes of operators, with the
//! numbers that they have there. `postgres.sql` has made `postgres.txt` out of a server's own catalogue.
//!
//! Which of them are here too, the registries say: this table gives them their numbers and descriptions.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::SqlType;

/// A function of PostgreSQL.
pub struct KnownFunction {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// `f`, `a` of an aggregate, `w` of a window function.
    pub kind: &'static str,
    /// The numbers of the types that it takes.
    pub arguments: Vec<u32>,
    /// The number of the type that it returns.
    pub returns: u32,
    /// Whether it may run in parallel: `s`, `r` or `u`.
    pub parallel: &'static str,
    /// Whether it tells nothing of its arguments but by its result.
    pub is_leakproof: bool,
    /// How many rows it is expected to return; 0 if it returns no rows.
    pub rows: f64,
    /// The numbers of the types of all its arguments, if some are of its result.
    pub all_arguments: Vec<u32>,
    /// `i`, `o` and their like for each of them.
    pub modes: Vec<&'static str>,
    /// The names of its arguments.
    pub names: Vec<&'static str>,
    /// Its description.
    pub description: &'static str,
}

/// An operator of PostgreSQL. Of numbers, 0 is for none.
pub struct KnownOperator {
    /// Its number.
    pub number: u32,
    /// The number of the type on its left, if it has one, and of that on its right.
    pub arguments: [u32; 2],
    /// The operators with the sides exchanged, and with the opposite result.
    pub commutator: u32,
    /// See `commutator`.
    pub negator: u32,
    /// The function that does it, and those that estimate how many rows it chooses alone and in joins.
    pub code: u32,
    /// See `code`.
    pub restriction: u32,
    /// See `code`.
    pub join: u32,
    /// Whether joins can merge by it.
    pub merges: bool,
    /// Whether joins can hash by it.
    pub hashes: bool,
    /// Its description.
    pub description: &'static str,
}

/// A cast of PostgreSQL.
pub struct KnownCast {
    /// Its number.
    pub number: u32,
    /// The number of the type that it takes.
    pub source: u32,
    /// The number of the type that it makes.
    pub target: u32,
    /// The function that does it; 0 if it needs no function.
    pub function: u32,
    /// `i` by itself, `a` where a value is stored, `e` where it is written.
    pub context: &'static str,
    /// `f` by the function, `b` if the values are the same, `i` by their texts.
    pub method: &'static str,
}

/// How a type of PostgreSQL is read, written and stored.
pub struct KnownType {
    /// Functions that read and write it as text and binary, that read and write what stands in parentheses, that
    /// collect statistics, and that take an element.
    pub functions: [u32; 8],
    /// `c`, `s`, `i` or `d`: to how many bytes it is aligned.
    pub alignment: &'static str,
    /// `p`, `x`, `e` or `m`: how long values are stored.
    pub storage: &'static str,
    /// Its description.
    pub description: &'static str,
}

/// A function of PostgreSQL that only has a name here: one that reads, writes, compares or adds up values of a type.
pub struct NamedFunction {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// The numbers of the types that it takes.
    pub arguments: Vec<u32>,
    /// Their names, with commas and without blanks between them.
    pub argument_names: &'static str,
    /// The number of the type that it returns.
    pub returns: u32,
}

/// A word of SQL.
pub struct KeyWord {
    /// The word.
    pub word: &'static str,
    /// `U`, `C`, `T` or `R`: how far it is reserved.
    pub category: &'static str,
    /// Whether it may be the name of a column without AS.
    pub is_bare_label: bool,
}

/// A line of a kind that is handed on field by field: numbers, flags and texts, as the catalogue has them.
pub type Fields = Vec<&'static str>;

/// All that is known.
pub struct Known {
    /// Functions.
    pub functions: Vec<KnownFunction>,
    /// Operators.
    pub operators: Vec<KnownOperator>,
    /// Casts.
    pub casts: Vec<KnownCast>,
    /// Fields of `pg_aggregate`, by the number of the function.
    pub aggregates: HashMap<u32, Fields>,
    /// Fields of `pg_opfamily`, of which all are of `btree`: number, name.
    pub families: Vec<Fields>,
    /// Fields of `pg_opclass`: number, name, family, type, whether it is the default, type of the key.
    pub classes: Vec<Fields>,
    /// Fields of `pg_amop`: number, family, types on both sides, strategy, operator.
    pub members: Vec<Fields>,
    /// Fields of `pg_amproc`: number, family, two types, which it is, function.
    pub supports: Vec<Fields>,
    /// Types, by their numbers.
    pub types: HashMap<u32, KnownType>,
    /// Functions that only have names here.
    pub named: Vec<NamedFunction>,
    /// Words, in alphabetical order.
    pub words: Vec<KeyWord>,
    /// The names of functions by their numbers, of those that are not among `functions` too.
    names: HashMap<u32, &'static str>,
    numbers: HashMap<&'static str, u32>,
    functions_by_types: HashMap<(&'static str, Vec<u32>), usize>,
    operators_by_types: HashMap<(&'static str, Vec<u32>), usize>,
    functions_by_number: HashMap<u32, usize>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| read(include_str!("postgres.txt")));

/// What PostgreSQL has.
pub fn known() -> &'static Known {
    &KNOWN
}

/// A number as it is compared: types that PostgreSQL has twice are one type here.
fn comparable(number: u32) -> u32 {
    match number {
        // `anycompatible` and its like, and trees of expressions, which are texts here.
        5077 => 2283,
        5078 => 2277,
        5079 => 2776,
        5080 => 3831,
        4538 => 4537,
        194 => 25,
        number => number,
    }
}

fn key(arguments: impl IntoIterator<Item = u32>) -> Vec<u32> {
    arguments.into_iter().filter(|number| *number != 0).map(comparable).collect()
}

fn numbers(text: &str) -> Vec<u32> {
    text.split(' ').filter_map(|number| number.parse().ok()).collect()
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

fn read(text: &'static str) -> Known {
    let mut known = Known {
        functions: Vec::new(),
        operators: Vec::new(),
        casts: Vec::new(),
        aggregates: HashMap::new(),
        families: Vec::new(),
        classes: Vec::new(),
        members: Vec::new(),
        supports: Vec::new(),
        types: HashMap::new(),
        named: Vec::new(),
        words: Vec::new(),
        names: HashMap::new(),
        numbers: HashMap::new(),
        functions_by_types: HashMap::new(),
        operators_by_types: HashMap::new(),
        functions_by_number: HashMap::new(),
    };
    for line in text.lines() {
        let fields: Fields = line.split('\t').collect();
        match fields[..] {
            ["family", ..] => known.families.push(fields[1..].to_vec()),
            ["class", ..] => known.classes.push(fields[1..].to_vec()),
            ["member", ..] => known.members.push(fields[1..].to_vec()),
            ["support", ..] => known.supports.push(fields[1..].to_vec()),
            ["aggregate", of, ..] => drop(known.aggregates.insert(number(of), fields[1..].to_vec())),
            ["name", of, name, arguments, argument_names, returns] => {
                let (number, arguments, returns) = (number(of), numbers(arguments), number(returns));
                known.name(number, name);
                known.named.push(NamedFunction { number, name, arguments, argument_names, returns });
            }
            ["word", word, category, bare] => {
                known.words.push(KeyWord { word, category, is_bare_label: bare == "t" });
            }
            ["cast", of, source, target, function, context, method] => known.casts.push(KnownCast {
                number: number(of),
                source: number(source),
                target: number(target),
                function: number(function),
                context,
                method,
            }),
            ["type", of, _, ref functions @ .., alignment, storage, description] => {
                let mut read = [0; 8];
                read.iter_mut().zip(functions).for_each(|(place, text)| *place = number(text));
                known.types.insert(number(of), KnownType { functions: read, alignment, storage, description });
            }
            ["function", ..] => known.function(&fields),
            ["operator", ..] => known.operator(&fields),
            _ => debug_assert!(false, "a line cannot be read: {line}"),
        }
    }
    known
}

impl Known {
    fn name(&mut self, number: u32, name: &'static str) {
        self.names.insert(number, name);
        self.numbers.entry(name).or_insert(number);
    }

    fn function(&mut self, fields: &[&'static str]) {
        let (
            &[_, of, name, kind, arguments, returns, parallel, ..],
            &[.., leakproof, rows, all, modes, names, description],
        ) = (fields, fields)
        else {
            return debug_assert!(false, "a function cannot be read: {fields:?}");
        };
        // Some of the names can be empty.
        let words = |text: &'static str| if text.is_empty() { Vec::new() } else { text.split(' ').collect() };
        let function = KnownFunction {
            number: number(of),
            name,
            kind,
            arguments: numbers(arguments),
            returns: number(returns),
            parallel,
            is_leakproof: leakproof == "t",
            rows: rows.parse().unwrap_or(0.0),
            all_arguments: numbers(all),
            modes: words(modes),
            names: words(names),
            description,
        };
        let place = self.functions.len();
        self.functions_by_types.insert((name, key(function.arguments.iter().copied())), place);
        self.functions_by_number.insert(function.number, place);
        self.name(function.number, name);
        self.functions.push(function);
    }

    fn operator(&mut self, fields: &[&'static str]) {
        let (
            &[_, of, name, left, right, ..],
            &[.., commutator, negator, code, restriction, join, merges, hashes, description],
        ) = (fields, fields)
        else {
            return debug_assert!(false, "an operator cannot be read: {fields:?}");
        };
        let operator = KnownOperator {
            number: number(of),
            arguments: [number(left), number(right)],
            commutator: number(commutator),
            negator: number(negator),
            code: number(code),
            restriction: number(restriction),
            join: number(join),
            merges: merges == "t",
            hashes: hashes == "t",
            description,
        };
        self.operators_by_types.insert((name, key(operator.arguments)), self.operators.len());
        self.operators.push(operator);
    }

    /// The function of this name that takes these types.
    pub fn function_of(&self, name: &'static str, arguments: &[SqlType]) -> Option<&KnownFunction> {
        let key = (name, key(arguments.iter().map(|argument| argument.oid())));
        self.functions_by_types.get(&key).map(|place| &self.functions[*place])
    }

    /// The operator of these characters that takes these types.
    pub fn operator_of(&self, name: &'static str, arguments: &[SqlType]) -> Option<&KnownOperator> {
        let key = (name, key(arguments.iter().map(|argument| argument.oid())));
        self.operators_by_types.get(&key).map(|place| &self.operators[*place])
    }

    /// The function of this number.
    pub fn function_numbered(&self, number: u32) -> Option<&KnownFunction> {
        self.functions_by_number.get(&number).map(|place| &self.functions[*place])
    }

    /// The name of the function of this number, which need not be here.
    pub fn name_of(&self, number: u32) -> Option<&'static str> {
        self.names.get(&number).copied()
    }

    /// The number of the first function of this name, which need not be here.
    pub fn number_of(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }
}
