//! Functions: `pg_proc`, `pg_aggregate`, `pg_language`. They come out of the registries of functions; those that
//! PostgreSQL has, too, have its numbers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use crate::catalogue::oids;
use crate::catalogue::oids::{INFORMATION_SCHEMA, PG_CATALOG};
use crate::catalogue::system::definition::{Rows, Written, int, numbers, oid};
use crate::catalogue::system::operators;
use crate::catalogue::system::source::Source;
use crate::error::Result;
use crate::functions::postgres::{KnownFunction, NamedFunction, known};
use crate::functions::strings::quote_identifier;
use crate::functions::{Volatility, aggregates, functions, set_functions};
use crate::types::datum::{Array, Datum};
use crate::types::{BaseType, SqlType};

/// The table `pg_proc`.
pub(super) const PG_PROC: u32 = 1255;

pub(super) const TABLES: &[Written] = &[
    Written {
        name: "pg_proc",
        number: PG_PROC,
        columns: "oid oid, proname name, pronamespace oid=11, proowner oid=10, prolang oid=12, procost float4=1, \
                  prorows float4=0, provariadic oid=0, prosupport regproc=0, prokind char=f, prosecdef bool=false, \
                  proleakproof bool=false, proisstrict bool=true, proretset bool=false, provolatile char=i, \
                  proparallel char=s, pronargs int2, pronargdefaults int2=0, prorettype oid, proargtypes oidvector, \
                  proallargtypes oid[], proargmodes char[], proargnames text[], proargdefaults text, \
                  protrftypes oid[], prosrc text, probin text, prosqlbody text, proconfig text[], proacl text[]",
        rows,
    },
    Written {
        name: "pg_aggregate",
        number: 2600,
        columns: "aggfnoid regproc, aggkind char=n, aggnumdirectargs int2=0, aggtransfn regproc=0, \
                  aggfinalfn regproc=0, aggcombinefn regproc=0, aggserialfn regproc=0, aggdeserialfn regproc=0, \
                  aggmtransfn regproc=0, aggminvtransfn regproc=0, aggmfinalfn regproc=0, aggfinalextra bool=false, \
                  aggmfinalextra bool=false, aggfinalmodify char=r, aggmfinalmodify char=r, aggsortop oid=0, \
                  aggtranstype oid=0, aggtransspace int4=0, aggmtranstype oid=0, aggmtransspace int4=0, \
                  agginitval text, aggminitval text",
        rows: aggregate_rows,
    },
    Written {
        name: "pg_language",
        number: 2612,
        columns: "oid oid, lanname name, lanowner oid=10, lanispl bool=false, lanpltrusted bool=true, \
                  lanplcallfoid oid=0, laninline oid=0, lanvalidator oid=0, lanacl text[]",
        rows: |_, rows| {
            rows.add(&[("oid", oid(12)), ("lanname", Datum::text("internal"))]);
            Ok(())
        },
    },
];

/// A function, an aggregate or a window function.
pub(super) struct Routine {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// `f`, `a` of an aggregate, `w` of a window function.
    kind: &'static str,
    /// The types that it takes; of a variadic one, the last is an array, or `any`.
    arguments: Vec<SqlType>,
    /// The type that it returns.
    returns: SqlType,
    is_variadic: bool,
    is_strict: bool,
    /// The columns of its rows, of one that returns rows.
    columns: Option<&'static [(&'static str, SqlType)]>,
    volatility: Volatility,
    /// How many arguments stand in WITHIN GROUP, of an aggregate.
    ordered_arguments: usize,
    /// The same one of PostgreSQL.
    known: Option<&'static KnownFunction>,
}

impl Routine {
    fn new(name: &'static str, arguments: &[SqlType], returns: SqlType, is_variadic: bool) -> Routine {
        let mut arguments = arguments.to_vec();
        if let Some(last) = arguments.last_mut().filter(|last| is_variadic && last.base != BaseType::Any) {
            *last = SqlType::array_of(last.base);
        }
        let signature = arguments.iter().map(|argument| argument.oid().to_string()).collect::<Vec<_>>().join(" ");
        let known = known().function_of(name, &arguments);
        Routine {
            number: known.map_or_else(|| oids::named(0, name, &signature), |known| known.number),
            name,
            kind: "f",
            arguments,
            returns,
            is_variadic,
            is_strict: true,
            columns: None,
            volatility: Volatility::Immutable,
            ordered_arguments: 0,
            known,
        }
    }

    /// One that only PostgreSQL's table tells of; none if it has types that are not here.
    fn known(known: &'static KnownFunction) -> Option<Routine> {
        let types: Option<Vec<SqlType>> = known.arguments.iter().map(|number| SqlType::of_oid(*number)).collect();
        Some(Routine { kind: known.kind, ..Routine::new(known.name, &types?, SqlType::of_oid(known.returns)?, false) })
    }

    /// Its arguments as they are declared, or only those that tell it from others of its name.
    pub fn arguments_text(&self, is_identity: bool) -> String {
        let known = self.known.filter(|known| !known.names.is_empty() || !known.modes.is_empty());
        let Some(known) = known else {
            let mut texts: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
            if let Some(last) = texts.last_mut().filter(|_| self.is_variadic) {
                last.insert_str(0, "VARIADIC ");
            }
            return self.with_order(texts);
        };
        let all = if known.all_arguments.is_empty() { &known.arguments } else { &known.all_arguments };
        let mut texts = Vec::new();
        for (place, number) in all.iter().enumerate() {
            let mode = match known.modes.get(place).copied().unwrap_or("i") {
                "o" | "t" if is_identity => continue,
                "t" => continue,
                "o" => "OUT ",
                "b" => "INOUT ",
                "v" => "VARIADIC ",
                _ => "",
            };
            let name = known.names.get(place).filter(|name| !name.is_empty());
            let name = name.map_or_else(String::new, |name| format!("{} ", quote_identifier(name)));
            let sql_type = SqlType::of_oid(*number).map_or_else(|| "???".to_owned(), |known| known.to_string());
            texts.push(format!("{mode}{name}{sql_type}"));
        }
        self.with_order(texts)
    }

    fn with_order(&self, mut texts: Vec<String>) -> String {
        let ordered = texts.split_off(texts.len() - self.ordered_arguments.min(texts.len())).join(", ");
        match (texts.join(", "), &*ordered) {
            (direct, "") => direct,
            (direct, ordered) if direct.is_empty() => format!("ORDER BY {ordered}"),
            (direct, ordered) => format!("{direct} ORDER BY {ordered}"),
        }
    }

    /// What it returns.
    pub fn result_text(&self) -> String {
        match self.columns {
            Some(_) => format!("SETOF {}", self.returns),
            None => self.returns.to_string(),
        }
    }

    /// Its description in PostgreSQL.
    pub fn description(&self) -> Option<&'static str> {
        self.known.map(|known| known.description).filter(|text| !text.is_empty())
    }
}

/// Names that only stand without parentheses.
const WORDS: &[&str] = &[
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "user",
];

static ROUTINES: LazyLock<Vec<Routine>> = LazyLock::new(|| {
    let is_named = |name: &str| name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let mut routines = Vec::new();
    for function in functions().iter().filter(|function| is_named(function.name)) {
        // Words of SQL, which are no functions in PostgreSQL.
        if WORDS.contains(&function.name) {
            continue;
        }
        let routine = Routine::new(function.name, function.arguments, function.returns, function.is_variadic);
        routines.push(Routine { is_strict: function.is_strict, volatility: function.volatility, ..routine });
    }
    for aggregate in aggregates() {
        let routine = Routine::new(aggregate.name, aggregate.arguments, aggregate.returns, false);
        let ordered_arguments = aggregate.ordered_arguments;
        routines.push(Routine { kind: "a", is_strict: false, ordered_arguments, ..routine });
    }
    for function in set_functions().iter().filter(|function| is_named(function.name)) {
        let returns = match function.columns {
            [(_, sql_type)] => *sql_type,
            _ => BaseType::Record.into(),
        };
        let routine = Routine::new(function.name, function.arguments, returns, function.is_variadic);
        routines.push(Routine { columns: Some(function.columns), ..routine });
    }
    let windows = known().functions.iter().filter(|function| function.kind == "w");
    routines.extend(windows.filter_map(Routine::known));
    // What does operators and casts.
    let of_operators = operators::operators().iter().filter_map(|operator| operator.known.map(|known| known.code));
    let codes = of_operators.chain(operators::casts().map(|cast| cast.function));
    routines.extend(codes.filter_map(|code| known().function_numbered(code)).filter_map(Routine::known));
    let mut seen = HashSet::new();
    routines.retain(|routine| seen.insert(routine.number));
    routines
});

static BY_NUMBER: LazyLock<HashMap<u32, &'static Routine>> =
    LazyLock::new(|| ROUTINES.iter().map(|routine| (routine.number, routine)).collect());

/// The function of this number.
pub(super) fn numbered(number: u32) -> Option<&'static Routine> {
    BY_NUMBER.get(&number).copied()
}

/// All functions.
pub(super) fn all() -> &'static [Routine] {
    &ROUTINES
}

/// The number of the first function of a name, which may be one that is only named.
pub(super) fn number_of(name: &str) -> Option<u32> {
    let own = ROUTINES.iter().find(|routine| routine.name == name).map(|routine| routine.number);
    own.or_else(|| known().number_of(name))
}

/// The name of the function of a number, which may be one that is only named.
pub(super) fn name_of(number: u32) -> Option<&'static str> {
    numbered(number).map(|routine| routine.name).or_else(|| known().name_of(number))
}

/// The number of the function of a name that takes types of these names, which may be one that is only named.
pub(super) fn number_with(name: &str, arguments: &[String], numbers: &[Option<u32>]) -> Option<u32> {
    let takes_them = |routine: &&Routine| {
        let own = routine.arguments.iter().map(|argument| Some(argument.oid()));
        routine.name == name && own.eq(numbers.iter().copied())
    };
    let takes_them_by_names = |named: &&NamedFunction| {
        let own = named.arguments.iter().zip(named.argument_names.split(','));
        let asked = numbers.iter().zip(arguments);
        named.name == name
            && named.arguments.len() == arguments.len()
            && own.zip(asked).all(|((own, own_name), (number, name))| *number == Some(*own) || name == own_name)
    };
    let named = || known().named.iter().find(takes_them_by_names);
    ROUTINES.iter().find(takes_them).map(|routine| routine.number).or_else(|| named().map(|named| named.number))
}

/// The name of the function of a number, and the names of the types that it takes.
pub(super) fn name_with_types(number: u32) -> Option<(&'static str, String)> {
    if let Some(routine) = numbered(number) {
        let types: Vec<String> = routine.arguments.iter().map(ToString::to_string).collect();
        return Some((routine.name, types.join(",")));
    }
    let named = known().named.iter().find(|named| named.number == number)?;
    Some((named.name, named.argument_names.to_owned()))
}

fn texts<'t>(words: impl IntoIterator<Item = &'t str>, base: BaseType) -> Datum {
    Datum::Array(Arc::new(Array::new(base, words.into_iter().map(Datum::text).collect())))
}

fn rows(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for routine in all() {
        let arguments = routine.arguments.iter().map(|argument| i64::from(argument.oid()));
        let volatility = match routine.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        };
        let variadic = routine.arguments.last().filter(|_| routine.is_variadic);
        let variadic = variadic.map_or(0, |last| if last.is_array { last.element().oid() } else { last.oid() });
        // `_pg_expandarray` is one of `information_schema`.
        let namespace = if routine.name.starts_with('_') { INFORMATION_SCHEMA } else { PG_CATALOG };
        let (rows_of, parallel) = routine.known.map_or((1_000.0, "s"), |known| (known.rows, known.parallel));
        let mut row = vec![
            ("oid", oid(routine.number)),
            ("proname", Datum::text(routine.name)),
            ("pronamespace", oid(namespace)),
            ("prorows", Datum::Float(if routine.columns.is_some() { rows_of } else { 0.0 })),
            ("provariadic", oid(variadic)),
            ("prokind", Datum::text(routine.kind)),
            ("proleakproof", Datum::Bool(routine.known.is_some_and(|known| known.is_leakproof))),
            ("proisstrict", Datum::Bool(routine.is_strict)),
            ("proretset", Datum::Bool(routine.columns.is_some())),
            ("provolatile", Datum::text(volatility)),
            ("proparallel", Datum::text(parallel)),
            ("pronargs", int(routine.arguments.len())),
            ("prorettype", oid(routine.returns.oid())),
            ("proargtypes", numbers(arguments, BaseType::Oid)),
            ("prosrc", Datum::text(if routine.kind == "a" { "aggregate_dummy" } else { routine.name })),
            // What is not said is NULL, unlike other arrays of the catalogue.
            ("proallargtypes", Datum::Null),
            ("proargmodes", Datum::Null),
            ("proargnames", Datum::Null),
        ];
        if let Some(known) = routine.known {
            let all = known.all_arguments.iter().map(|number| i64::from(*number));
            if !known.all_arguments.is_empty() {
                row.push(("proallargtypes", numbers(all, BaseType::Oid)));
            }
            if !known.modes.is_empty() {
                row.push(("proargmodes", texts(known.modes.iter().copied(), BaseType::SingleChar)));
            }
            if !known.names.is_empty() {
                row.push(("proargnames", texts(known.names.iter().copied(), BaseType::Text)));
            }
        }
        rows.add(&row);
    }
    for named in &known().named {
        rows.add(&[
            ("oid", oid(named.number)),
            ("proname", Datum::text(named.name)),
            ("pronargs", int(named.arguments.len())),
            ("prorettype", oid(named.returns)),
            ("proargtypes", numbers(named.arguments.iter().map(|number| i64::from(*number)), BaseType::Oid)),
            ("prosrc", Datum::text(named.name)),
            ("proallargtypes", Datum::Null),
            ("proargmodes", Datum::Null),
            ("proargnames", Datum::Null),
        ]);
    }
    Ok(())
}

/// The columns of `pg_aggregate` after the number, of which texts are told from numbers by their names.
const AGGREGATE_COLUMNS: &[&str] = &[
    "aggkind",
    "aggnumdirectargs",
    "aggtransfn",
    "aggfinalfn",
    "aggcombinefn",
    "aggserialfn",
    "aggdeserialfn",
    "aggmtransfn",
    "aggminvtransfn",
    "aggmfinalfn",
    "aggfinalextra",
    "aggmfinalextra",
    "aggfinalmodify",
    "aggmfinalmodify",
    "aggsortop",
    "aggtranstype",
    "aggtransspace",
    "aggmtranstype",
    "aggmtransspace",
    "agginitval",
    "aggminitval",
];

fn aggregate_rows(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for routine in all().iter().filter(|routine| routine.kind == "a") {
        let mut row = vec![("aggfnoid", oid(routine.number))];
        match known().aggregates.get(&routine.number) {
            Some(fields) => {
                for (column, field) in AGGREGATE_COLUMNS.iter().zip(&fields[1..]) {
                    let value = match *column {
                        "aggkind" | "aggfinalmodify" | "aggmfinalmodify" => Datum::text(*field),
                        "aggfinalextra" | "aggmfinalextra" => Datum::Bool(*field == "t"),
                        "agginitval" | "aggminitval" if *field == "-" => Datum::Null,
                        "agginitval" | "aggminitval" => Datum::text(*field),
                        _ => Datum::Int(field.parse().unwrap_or(0)),
                    };
                    row.push((column, value));
                }
            }
            None if routine.ordered_arguments > 0 => {
                row.push(("aggkind", Datum::text("o")));
                row.push(("aggnumdirectargs", int(routine.arguments.len() - routine.ordered_arguments)));
            }
            None => {}
        }
        rows.add(&row);
    }
    Ok(())
}
