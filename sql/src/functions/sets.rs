//! Functions that return rows: `generate_series`, `unnest`, the elements of JSON.

use std::sync::LazyLock;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::dates::{add_to_clock, add_to_moment};
use crate::functions::definition::{Rows, RowsOfTypes, Signature, array, bool, int, interval, moment, number, text};
use crate::functions::postgres::known;
use crate::functions::resolve::{Candidate, resolve_among};
use crate::functions::{Environment, json_paths, json_records, patterns};
use crate::numeric::{self, Numeric};
use crate::types::datum::Datum;
use crate::types::json_raw::{self, Part};
use crate::types::range_values::{self, members};
use crate::types::{BaseType, SqlType};

/// What makes the rows: it may read the arguments while it is asked for them.
type Body = for<'r> fn(&'r dyn Environment, &'r [Datum]) -> Result<Rows<'r>>;

/// A function that returns rows.
pub struct SetFunction {
    /// Its name.
    pub name: &'static str,
    /// The types that it takes; of a variadic one, the last stands for any number of them.
    pub arguments: &'static [SqlType],
    /// Whether the last of the types stands for any number of arguments.
    pub is_variadic: bool,
    /// The columns of its rows: their names and types. One without a name has that of the function, or of its alias.
    pub columns: &'static [(&'static str, SqlType)],
    /// What it does. A NULL among the arguments makes no rows, without a call.
    pub call: Body,
    /// The same for callers that take its values one by one, if they need not be kept.
    series: Option<SeriesOf>,
    /// What it does instead, if it must know the types of its columns. It is called with NULL.
    of_types: Option<RowsOfTypes>,
}

/// Values that are computed as they are taken.
pub type Series = Box<dyn Iterator<Item = Datum> + Send>;
type SeriesOf = fn(&[Datum]) -> Result<Series>;

/// A function that returns rows, with the types of one call.
#[derive(Clone)]
pub struct SetCall {
    /// The function.
    pub function: &'static SetFunction,
    /// The types that its arguments must be cast to, one for each.
    pub arguments: Vec<SqlType>,
    /// The columns of its rows.
    pub columns: Vec<(&'static str, SqlType)>,
}

impl SetCall {
    /// The rows of a call with values of the types of `arguments`.
    ///
    /// # Errors
    /// Those of the function.
    pub fn run<'r>(&self, environment: &'r dyn Environment, values: &'r [Datum]) -> Result<Rows<'r>> {
        if let Some(rows) = self.function.of_types {
            let types: Vec<SqlType> = self.columns.iter().map(|(_, sql_type)| *sql_type).collect();
            return rows(environment, values, &types);
        }
        // Of this one, only a text that is NULL makes no rows.
        let asked = if self.function.name == "string_to_table" { &values[..1] } else { values };
        if asked.iter().any(Datum::is_null) {
            return Ok(Box::new(std::iter::empty()));
        }
        (self.function.call)(environment, values)
    }

    /// The values of a call, if they need not be kept: those of a series of whole numbers.
    ///
    /// # Errors
    /// Those of the function.
    pub fn series(&self, values: &[Datum]) -> Result<Option<Series>> {
        match self.function.series {
            Some(series) if !values.iter().any(Datum::is_null) => series(values).map(Some),
            _ => Ok(None),
        }
    }
}

impl std::fmt::Debug for SetCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?}) {:?}", self.function.name, self.arguments, self.columns)
    }
}

impl Candidate for &'static SetFunction {
    fn arguments(&self) -> &'static [SqlType] {
        self.arguments
    }

    fn is_variadic(&self) -> bool {
        self.is_variadic
    }

    fn returns(&self) -> SqlType {
        self.columns.first().map_or(SqlType::UNKNOWN, |(_, sql_type)| *sql_type)
    }
}

static SET_FUNCTIONS: LazyLock<Vec<SetFunction>> = LazyLock::new(|| {
    let mut list = Vec::new();
    series(&mut list);
    arrays(&mut list);
    texts(&mut list);
    jsons(&mut list);
    positions(&mut list);
    for (name, arguments, rows) in json_records::functions_of_rows() {
        let columns = vec![("", BaseType::AnyElement.into())].leak();
        let call: Body = |_, _| Ok(column([]));
        let (arguments, is_variadic) = (arguments.leak(), false);
        list.push(SetFunction { name, arguments, is_variadic, columns, call, series: None, of_types: Some(rows) });
    }
    of_server(&mut list);
    add(&mut list, "pg_listening_channels() text", "", |environment, v| asked(environment, "pg_listening_channels", v));
    list
});

/// All functions that return rows.
pub fn set_functions() -> &'static [SetFunction] {
    &SET_FUNCTIONS
}

/// The function of rows that a call means.
///
/// # Errors
/// 42883 if there is none of the name that takes such arguments, 42725 if there are several.
pub fn resolve_set_function(name: &str, types: &[SqlType]) -> Result<SetCall> {
    let candidates: Vec<&'static SetFunction> = set_functions().iter().filter(|known| known.name == name).collect();
    let (function, arguments, first) = resolve_among(&candidates, name, types)?;
    let mut columns = function.columns.to_vec();
    if let Some(column) = columns.first_mut() {
        column.1 = first;
    }
    Ok(SetCall { function, arguments, columns })
}

/// Defines a function whose rows have one column, which has the function's name unless it has one of its own.
fn add(list: &mut Vec<SetFunction>, signature: &'static str, column: &'static str, call: Body) {
    let Signature { name, arguments, is_variadic, returns } = Signature::parse(signature);
    let columns = vec![(column, returns)].leak();
    list.push(SetFunction { name, arguments, is_variadic, columns, call, series: None, of_types: None });
}

/// Rows of one column.
fn column<'r>(values: impl IntoIterator<Item = Datum> + 'r) -> Rows<'r> {
    Box::new(values.into_iter().map(|value| Ok(vec![value])))
}

/// Functions of counts in trees, which the session answers.
fn positions(list: &mut Vec<SetFunction>) {
    type Columns<'c> = &'c [(&'static str, SqlType)];
    let split: Columns = &[("part", SqlType::INT4), ("rows", SqlType::INT8), ("condition", SqlType::TEXT)];
    let tally: Columns = &[("rows", SqlType::INT8), ("bytes", SqlType::INT8), ("sum", BaseType::Numeric.into())];
    let sample: Columns = &[("key", BaseType::Jsonb.into())];
    let sequence: Columns = &[("last_value", SqlType::INT8), ("log_cnt", SqlType::INT8), ("is_called", SqlType::BOOL)];
    let calls: [(&str, Columns, Body); 6] = [
        ("quipu_sequence(regclass) record", sequence, |environment, v| asked(environment, "quipu_sequence", v)),
        ("quipu_split(regclass,int4) record", split, |environment, v| asked(environment, "quipu_split", v)),
        ("quipu_tally(regclass) record", tally, |environment, v| asked(environment, "quipu_tally", v)),
        ("quipu_tally(regclass,any,any) record", tally, |environment, v| asked(environment, "quipu_tally", v)),
        ("quipu_sample(regclass,int4) jsonb", sample, |environment, v| asked(environment, "quipu_sample", v)),
        ("quipu_sample(regclass,int4,int8) jsonb", sample, |environment, v| asked(environment, "quipu_sample", v)),
    ];
    for (signature, columns, call) in calls {
        let Signature { name, arguments, is_variadic, .. } = Signature::parse(signature);
        list.push(SetFunction {
            name,
            arguments,
            is_variadic,
            columns: columns.to_vec().leak(),
            call,
            series: None,
            of_types: None,
        });
    }
}

const SINGLE_CHAR: SqlType = SqlType { base: BaseType::SingleChar, is_array: false, modifier: -1 };
const OID: SqlType = SqlType { base: BaseType::Oid, is_array: false, modifier: -1 };

/// Functions that tell what a server has.
fn of_server(list: &mut Vec<SetFunction>) {
    let mut add = |name: &'static str, columns: &'static [(&'static str, SqlType)], call: Body| {
        let (arguments, is_variadic) = (&[][..], false);
        list.push(SetFunction { name, arguments, is_variadic, columns, call, series: None, of_types: None });
    };
    const SETTINGS: &[(&str, SqlType)] = &[
        ("name", SqlType::TEXT),
        ("setting", SqlType::TEXT),
        ("unit", SqlType::TEXT),
        ("category", SqlType::TEXT),
        ("short_desc", SqlType::TEXT),
        ("extra_desc", SqlType::TEXT),
        ("context", SqlType::TEXT),
        ("vartype", SqlType::TEXT),
        ("source", SqlType::TEXT),
        ("min_val", SqlType::TEXT),
        ("max_val", SqlType::TEXT),
        ("enumvals", SqlType { is_array: true, ..SqlType::TEXT }),
        ("boot_val", SqlType::TEXT),
        ("reset_val", SqlType::TEXT),
        ("sourcefile", SqlType::TEXT),
        ("sourceline", SqlType::INT4),
        ("pending_restart", SqlType::BOOL),
    ];
    add("pg_show_all_settings", SETTINGS, |environment, _| {
        Ok(Box::new(environment.catalogue_rows("pg_settings")?.into_iter().map(Ok)))
    });
    const WORDS: &[(&str, SqlType)] = &[
        ("word", SqlType::TEXT),
        ("catcode", SINGLE_CHAR),
        ("barelabel", SqlType::BOOL),
        ("catdesc", SqlType::TEXT),
        ("baredesc", SqlType::TEXT),
    ];
    add("pg_get_keywords", WORDS, |_, _| {
        Ok(Box::new(known().words.iter().map(|word| {
            let category = match word.category {
                "C" => "unreserved (cannot be function or type name)",
                "T" => "reserved (can be function or type name)",
                "R" => "reserved",
                _ => "unreserved",
            };
            let label = if word.is_bare_label { "can be bare label" } else { "requires AS" };
            Ok(vec![
                Datum::text(word.word),
                Datum::text(word.category),
                Datum::Bool(word.is_bare_label),
                Datum::text(category),
                Datum::text(label),
            ])
        })))
    });
    // No right is listed anywhere: what would be taken apart is NULL.
    let Signature { name, arguments, is_variadic, .. } = Signature::parse("aclexplode(text[]) record");
    let columns: &[(&str, SqlType)] =
        &[("grantor", OID), ("grantee", OID), ("privilege_type", SqlType::TEXT), ("is_grantable", SqlType::BOOL)];
    let call: Body = |_, _| Ok(Box::new(std::iter::empty()));
    list.push(SetFunction { name, arguments, is_variadic, columns, call, series: None, of_types: None });
}

fn asked<'r>(environment: &dyn Environment, function: &str, values: &[Datum]) -> Result<Rows<'r>> {
    Ok(Box::new(environment.ask_rows(function, values)?.into_iter().map(Ok)))
}

fn step_error() -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn whole_series(values: &[Datum]) -> Result<Series> {
    let (start, stop) = (int(values, 0)?, int(values, 1)?);
    let step = if values.len() > 2 { int(values, 2)? } else { 1 };
    if step == 0 {
        return Err(step_error());
    }
    let mut next = Some(start);
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.filter(|value| if step > 0 { *value <= stop } else { *value >= stop })?;
        next = value.checked_add(step);
        Some(Datum::Int(value))
    })))
}

fn exact_series<'r>(values: &[Datum]) -> Result<Rows<'r>> {
    let (start, stop) = (number(values, 0)?, number(values, 1)?);
    let step = if values.len() > 2 { number(values, 2)? } else { Numeric::ONE };
    for (number, what) in [(&start, "start value"), (&stop, "stop value"), (&step, "step size")] {
        if !number.is_finite() {
            let special = if number.is_nan() { "NaN" } else { "infinity" };
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("{what} cannot be {special}")));
        }
    }
    if step.is_zero() {
        return Err(step_error());
    }
    let mut next = Some(start);
    Ok(column(std::iter::from_fn(move || {
        let value = next.take().filter(|value| if step.signum() > 0 { *value <= stop } else { *value >= stop })?;
        next = numeric::add(&value, &step).ok();
        Some(Datum::Numeric(value))
    })))
}

fn time_series<'r>(environment: &'r dyn Environment, values: &[Datum], is_zoned: bool) -> Result<Rows<'r>> {
    let (start, stop, step) = (moment(values, 0)?, moment(values, 1)?, interval(values, 2)?);
    let direction = step.length();
    if direction == 0 {
        return Err(step_error());
    }
    let mut next = Some(start);
    Ok(column(std::iter::from_fn(move || {
        let value = next.filter(|value| if direction > 0 { *value <= stop } else { *value >= stop })?;
        let moved = if is_zoned { add_to_moment(environment, value, step) } else { add_to_clock(value, step) };
        // The end of the calendar ends the series, and so does a step that the clock takes back.
        next = moved.ok().filter(|moved| *moved != value);
        Some(Datum::Timestamp(value))
    })))
}

fn series(list: &mut Vec<SetFunction>) {
    for name in ["int4", "int8"] {
        for arguments in [format!("{name},{name}"), format!("{name},{name},{name}")] {
            let signature = format!("generate_series({arguments}) {name}").leak();
            add(list, signature, "", |_, v| Ok(column(whole_series(v)?)));
            if let Some(added) = list.last_mut() {
                added.series = Some(whole_series);
            }
        }
    }
    add(list, "generate_series(numeric,numeric) numeric", "", |_, v| exact_series(v));
    add(list, "generate_series(numeric,numeric,numeric) numeric", "", |_, v| exact_series(v));
    add(list, "generate_series(timestamp,timestamp,interval) timestamp", "", |environment, v| {
        time_series(environment, v, false)
    });
    add(list, "generate_series(timestamptz,timestamptz,interval) timestamptz", "", |environment, v| {
        time_series(environment, v, true)
    });
}

fn subscripts<'r>(values: &[Datum]) -> Result<Rows<'r>> {
    let is_reversed = values.len() > 2 && bool(values, 2)?;
    let dimension = usize::try_from(int(values, 1)? - 1).ok();
    let length = array(values, 0)?.and_then(|array| array.dimensions.get(dimension?).copied()).unwrap_or(0) as i64;
    let place = move |index: i64| Datum::Int(if is_reversed { length - index } else { index + 1 });
    Ok(column((0..length).map(place)))
}

/// `generate_subscripts` of a vector of the catalogue, whose places are counted from 0.
pub const SUBSCRIPTS_OF_VECTOR: &str = ".subscripts";

fn arrays(list: &mut Vec<SetFunction>) {
    // No table has partitions.
    add(list, "pg_partition_ancestors(regclass) regclass", "relid", |_, _| Ok(column([])));
    add(list, "unnest(anyarray) anyelement", "", |_, v| {
        Ok(column(array(v, 0)?.into_iter().flat_map(|array| array.elements.iter().cloned())))
    });
    add(list, "unnest(anymultirange) anyrange", "", |_, v| {
        Ok(column(members(&v[0])?.iter().map(|range| range_values::datum(range.clone()))))
    });
    add(list, "generate_subscripts(anyarray,int4) int4", "", |_, v| subscripts(v));
    add(list, "generate_subscripts(anyarray,int4,bool) int4", "", |_, v| subscripts(v));
    add(list, ".subscripts(anyarray,int4) int4", "", |_, v| {
        let length = array(v, 0)?.map_or(0, |array| array.elements.len() as i64);
        Ok(column((0..length).map(Datum::Int)))
    });
    // What options of a table are, written as `name=value`.
    let Signature { name, arguments, is_variadic, .. } = Signature::parse("pg_options_to_table(text[]) record");
    let columns = vec![("option_name", SqlType::TEXT), ("option_value", SqlType::TEXT)].leak();
    let call: Body = |_, v| {
        let options: Vec<Datum> = array(v, 0)?.map_or(Vec::new(), |array| array.elements.clone());
        Ok(Box::new(options.into_iter().map(|option| {
            let (name, value) = match option.as_text().unwrap_or_default().split_once('=') {
                Some((name, value)) => (name.to_owned(), Datum::text(value)),
                None => (option.as_text().unwrap_or_default().to_owned(), Datum::Null),
            };
            Ok(vec![Datum::text(name), value])
        })))
    };
    list.push(SetFunction { name, arguments, is_variadic, columns, call, series: None, of_types: None });
    // Of `information_schema`: the elements of an array with their places.
    let Signature { arguments, .. } = Signature::parse("_pg_expandarray(anyarray) anyelement");
    let columns = vec![("x", BaseType::AnyElement.into()), ("n", SqlType::INT4)].leak();
    let call: Body = |_, v| {
        let elements = array(v, 0)?.into_iter().flat_map(|array| array.elements.iter().cloned());
        Ok(Box::new((1..).zip(elements).map(|(place, element)| Ok(vec![element, Datum::Int(place)]))))
    };
    list.push(SetFunction {
        name: "_pg_expandarray",
        arguments,
        is_variadic: false,
        columns,
        call,
        series: None,
        of_types: None,
    });
}

fn texts(list: &mut Vec<SetFunction>) {
    for signature in ["regexp_split_to_table(text,text) text", "regexp_split_to_table(text,text,text) text"] {
        add(list, signature, "", |_, v| Ok(column(patterns::split(v, "regexp_split_to_table")?)));
    }
    for signature in ["regexp_matches(text,text) text[]", "regexp_matches(text,text,text) text[]"] {
        add(list, signature, "", |_, v| Ok(column(patterns::all_groups(v)?)));
    }
    for signature in ["string_to_table(text,text) text", "string_to_table(text,text,text) text"] {
        add(list, signature, "", |_, v| {
            let parts: Vec<Datum> = match (text(v, 0)?, &v[1]) {
                ("", _) => Vec::new(),
                (whole, Datum::Null) => whole.chars().map(|one| Datum::text(one.to_string())).collect(),
                (whole, _) => match text(v, 1)? {
                    "" => vec![Datum::text(whole)],
                    separator => whole.split(separator).map(Datum::text).collect(),
                },
            };
            let null = v.get(2).filter(|null| !null.is_null());
            let or_null = |part: Datum| if null == Some(&part) { Datum::Null } else { part };
            Ok(column(parts.into_iter().map(or_null).collect::<Vec<_>>()))
        });
    }
}

fn json_elements<'r>(values: &'r [Datum], part: Part) -> Result<Rows<'r>> {
    let whole = text(values, 0)?;
    let elements = json_raw::elements(whole).ok_or_else(|| {
        let message = match json_raw::kind(whole) {
            "object" => "cannot extract elements from an object",
            _ => "cannot extract elements from a scalar",
        };
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })?;
    Ok(Box::new(elements.into_iter().map(move |element| Ok(vec![json_raw::given(element, part)?]))))
}

/// The members of an object: of `jsonb` each name once, in its order.
fn json_members<'r>(values: &'r [Datum], what: &str) -> Result<Vec<(String, &'r str)>> {
    let whole = text(values, 0)?;
    json_raw::members(whole)?.ok_or_else(|| {
        let kind = if json_raw::kind(whole) == "array" { "an array" } else { "a scalar" };
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("cannot {what} {kind}"))
    })
}

fn json_pairs<'r>(values: &'r [Datum], part: Part) -> Result<Rows<'r>> {
    let members = json_members(values, "deconstruct")?;
    Ok(Box::new(members.into_iter().map(move |(name, text)| Ok(vec![Datum::text(name), json_raw::given(text, part)?]))))
}

fn jsons(list: &mut Vec<SetFunction>) {
    for arguments in ["jsonb,text", "jsonb,text,jsonb", "jsonb,text,jsonb,bool"] {
        add(list, format!("jsonb_path_query({arguments}) jsonb").leak(), "", |_, v| {
            let items = json_paths::query(v, false)?.unwrap_or_default();
            Ok(column(items.iter().map(json_paths::datum).collect::<Vec<_>>()))
        });
    }
    let kinds: [(&str, Body, Body); 2] = [
        ("json", |_, v| json_elements(v, Part::Text), |_, v| json_pairs(v, Part::Text)),
        ("jsonb", |_, v| json_elements(v, Part::TextOfJsonb), |_, v| json_pairs(v, Part::TextOfJsonb)),
    ];
    for (name, element_texts, pair_texts) in kinds {
        let elements = format!("{name}_array_elements({name}) {name}").leak();
        add(list, elements, "value", |_, v| json_elements(v, Part::Json));
        let texts = format!("{name}_array_elements_text({name}) text").leak();
        add(list, texts, "value", element_texts);
        add(list, format!("{name}_object_keys({name}) text").leak(), "", |_, v| {
            let members = json_members(v, "call json_object_keys on")?;
            Ok(column(members.into_iter().map(|(name, _)| Datum::text(name))))
        });
        let base = if name == "json" { BaseType::Json } else { BaseType::Jsonb };
        let argument: &'static [SqlType] = vec![SqlType::from(base)].leak();
        let pairs: [(String, SqlType, Body); 2] = [
            (format!("{name}_each"), base.into(), |_, v| json_pairs(v, Part::Json)),
            (format!("{name}_each_text"), SqlType::TEXT, pair_texts),
        ];
        for (each, value, call) in pairs {
            let columns = vec![("key", SqlType::TEXT), ("value", value)].leak();
            list.push(SetFunction {
                name: each.leak(),
                arguments: argument,
                is_variadic: false,
                columns,
                call,
                series: None,
                of_types: None,
            });
        }
    }
}
