//! Operators, casts and how indexes sort: `pg_operator`, `pg_cast`, `pg_opfamily`, `pg_opclass`, `pg_amop`,
//! `pg_amproc`. Operators come out of the registry of functions, casts out of what can be cast.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::catalogue::oids;
use crate::catalogue::system::definition::{Rows, Written, oid};
use crate::catalogue::system::source::Source;
use crate::error::Result;
use crate::functions::functions;
use crate::functions::postgres::{KnownCast, KnownOperator, known};
use crate::types::SqlType;
use crate::types::cast::{CastContext, can_cast};
use crate::types::datum::Datum;

/// The table `pg_operator`.
pub(super) const PG_OPERATOR: u32 = 2617;

pub(super) const TABLES: &[Written] = &[
    Written {
        name: "pg_operator",
        number: PG_OPERATOR,
        columns: "oid oid, oprname name, oprnamespace oid=11, oprowner oid=10, oprkind char, \
                  oprcanmerge bool=false, oprcanhash bool=false, oprleft oid=0, oprright oid, oprresult oid, \
                  oprcom oid=0, oprnegate oid=0, oprcode regproc=0, oprrest regproc=0, oprjoin regproc=0",
        rows: operator_rows,
    },
    Written {
        name: "pg_cast",
        number: 2605,
        columns: "oid oid, castsource oid, casttarget oid, castfunc oid, castcontext char, castmethod char",
        rows: |_, rows| {
            for cast in casts() {
                rows.add(&[
                    ("oid", oid(cast.number)),
                    ("castsource", oid(cast.source)),
                    ("casttarget", oid(cast.target)),
                    ("castfunc", oid(cast.function)),
                    ("castcontext", Datum::text(cast.context)),
                    ("castmethod", Datum::text(cast.method)),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_opfamily",
        number: 2753,
        columns: "oid oid, opfmethod oid=403, opfname name, opfnamespace oid=11, opfowner oid=10",
        rows: |_, rows| {
            add_fields(rows, &["oid", "opfname"], known().families.iter());
            Ok(())
        },
    },
    Written {
        name: "pg_opclass",
        number: 2616,
        columns: "oid oid, opcmethod oid=403, opcname name, opcnamespace oid=11, opcowner oid=10, opcfamily oid=0, \
                  opcintype oid, opcdefault bool=true, opckeytype oid=0",
        rows: |_, rows| {
            let columns = ["oid", "opcname", "opcfamily", "opcintype", "opcdefault", "opckeytype"];
            add_fields(rows, &columns, known().classes.iter());
            Ok(())
        },
    },
    Written {
        name: "pg_amop",
        number: 2602,
        columns: "oid oid, amopfamily oid, amoplefttype oid, amoprighttype oid, amopstrategy int2, \
                  amoppurpose char=s, amopopr oid, amopmethod oid=403, amopsortfamily oid=0",
        rows: |_, rows| {
            let columns = ["oid", "amopfamily", "amoplefttype", "amoprighttype", "amopstrategy", "amopopr"];
            let is_here = |number: &str| number.parse().is_ok_and(|number| numbered(number).is_some());
            add_fields(rows, &columns, known().members.iter().filter(|fields| is_here(fields[5])));
            Ok(())
        },
    },
    Written {
        name: "pg_amproc",
        number: 2603,
        columns: "oid oid, amprocfamily oid, amproclefttype oid, amprocrighttype oid, amprocnum int2, amproc regproc",
        rows: |_, rows| {
            let columns = ["oid", "amprocfamily", "amproclefttype", "amprocrighttype", "amprocnum", "amproc"];
            add_fields(rows, &columns, known().supports.iter());
            Ok(())
        },
    },
];

/// Adds rows of fields: names, flags and numbers.
fn add_fields<'f>(rows: &mut Rows<'_>, columns: &[&'static str], lines: impl Iterator<Item = &'f Vec<&'static str>>) {
    for fields in lines {
        let value = |(column, field): (&&'static str, &&'static str)| match *column {
            "opfname" | "opcname" => (*column, Datum::text(*field)),
            "opcdefault" => (*column, Datum::Bool(*field == "t")),
            _ => (*column, Datum::Int(field.parse().unwrap_or(0))),
        };
        let row: Vec<(&str, Datum)> = columns.iter().zip(fields).map(value).collect();
        rows.add(&row);
    }
}

/// An operator.
pub(super) struct Operator {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// The types on its sides; one of a prefix operator.
    pub arguments: &'static [SqlType],
    returns: SqlType,
    /// The same one of PostgreSQL.
    pub known: Option<&'static KnownOperator>,
}

impl Operator {
    /// Its description in PostgreSQL.
    pub fn description(&self) -> Option<&'static str> {
        self.known.map(|known| known.description).filter(|text| !text.is_empty())
    }
}

static OPERATORS: LazyLock<Vec<Operator>> = LazyLock::new(|| {
    let mut seen = HashSet::new();
    let mut operators = Vec::new();
    for function in functions() {
        if !function.name.chars().all(|letter| "+-*/<>=~!@#%^&|`?".contains(letter)) {
            continue;
        }
        let (name, arguments) = (function.name, function.arguments);
        let known = known().operator_of(name, arguments);
        let signature = arguments.iter().map(|argument| argument.oid().to_string()).collect::<Vec<_>>().join(" ");
        let number = known.map_or_else(|| oids::named(0, name, &signature), |known| known.number);
        if seen.insert(number) {
            operators.push(Operator { number, name, arguments, returns: function.returns, known });
        }
    }
    operators
});

static BY_NUMBER: LazyLock<HashMap<u32, &'static Operator>> =
    LazyLock::new(|| OPERATORS.iter().map(|operator| (operator.number, operator)).collect());

/// All operators.
pub(super) fn operators() -> &'static [Operator] {
    &OPERATORS
}

/// The operator of this number.
pub(super) fn numbered(number: u32) -> Option<&'static Operator> {
    BY_NUMBER.get(&number).copied()
}

/// PostgreSQL's casts that are here too.
pub(super) fn casts() -> impl Iterator<Item = &'static KnownCast> {
    known().casts.iter().filter(|cast| match (SqlType::of_oid(cast.source), SqlType::of_oid(cast.target)) {
        (Some(source), Some(target)) => can_cast(source, target, CastContext::Explicit),
        _ => false,
    })
}

fn operator_rows(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    // A commutator or negator that is not here is given as 0.
    let here = |number: u32| oid(if numbered(number).is_some() { number } else { 0 });
    for operator in operators() {
        let (left, right) = match operator.arguments {
            [left, right] => (left.oid(), right.oid()),
            [right] => (0, right.oid()),
            _ => continue,
        };
        let mut row = vec![
            ("oid", oid(operator.number)),
            ("oprname", Datum::text(operator.name)),
            ("oprkind", Datum::text(if left == 0 { "l" } else { "b" })),
            ("oprleft", oid(left)),
            ("oprright", oid(right)),
            ("oprresult", oid(operator.returns.oid())),
        ];
        if let Some(known) = operator.known {
            row.push(("oprcanmerge", Datum::Bool(known.merges)));
            row.push(("oprcanhash", Datum::Bool(known.hashes)));
            row.push(("oprcom", here(known.commutator)));
            row.push(("oprnegate", here(known.negator)));
            row.push(("oprcode", oid(known.code)));
            row.push(("oprrest", oid(known.restriction)));
            row.push(("oprjoin", oid(known.join)));
        }
        rows.add(&row);
    }
    Ok(())
}
