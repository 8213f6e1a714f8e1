//! Functions and operators of JSON.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::functions::definition::{Body, Definitions, array, bool, int, text, typed};
use crate::functions::json_values::{write, write_in_lines, write_name};
use crate::functions::subscripts::ELEMENTS_MAX;
use crate::types::datum::Datum;
use crate::types::json::{self, Json, Layout, position};
use crate::types::json_raw::{self, Part};

pub(crate) fn define(definitions: &mut Definitions) {
    makers(definitions);
    getters(definitions);
    questions(definitions);
    changes(definitions);
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A value of `json`, or of `jsonb` in its one form.
fn result(text: String, is_binary: bool) -> Result<Datum> {
    Ok(Datum::Json(if is_binary { json::normalise(&text)?.into() } else { text.into() }))
}

fn of_json(value: &Json) -> Datum {
    Datum::Json(value.compact().into())
}

fn value_as_json(environment: &dyn Environment, values: &[Datum], is_binary: bool) -> Result<Datum> {
    let [(sql_type, value)] = typed(values)? else { return Ok(Datum::Null) };
    if value.is_null() {
        return Ok(Datum::Null);
    }
    let mut out = String::new();
    write(value, *sql_type, environment, &mut out)?;
    result(out, is_binary)
}

/// The same with a line for each value of the array or the row, if that is asked for.
fn value_in_lines(environment: &dyn Environment, values: &[Datum]) -> Result<Datum> {
    let [(sql_type, value), (_, Datum::Bool(in_lines))] = typed(values)? else { return Ok(Datum::Null) };
    if value.is_null() {
        return Ok(Datum::Null);
    }
    let mut out = String::new();
    match in_lines {
        true => write_in_lines(value, *sql_type, environment, &mut out)?,
        false => write(value, *sql_type, environment, &mut out)?,
    }
    result(out, false)
}

fn build_object(environment: &dyn Environment, values: &[Datum], is_binary: bool) -> Result<Datum> {
    let fields = typed(values)?;
    if !fields.len().is_multiple_of(2) {
        let name = if is_binary { "jsonb" } else { "json" };
        let hint = format!("The arguments of {name}_build_object() must consist of alternating keys and values.");
        return Err(invalid("argument list must have even number of elements").with_hint(hint));
    }
    let mut out = "{".to_owned();
    for (index, pair) in fields.chunks(2).enumerate() {
        let [(name_type, name), (value_type, value)] = pair else { continue };
        out.push_str(if index > 0 { ", " } else { "" });
        write_name(name, *name_type, 2 * index + 1, environment, &mut out)?;
        out.push_str(" : ");
        write(value, *value_type, environment, &mut out)?;
    }
    out.push('}');
    result(out, is_binary)
}

fn build_array(environment: &dyn Environment, values: &[Datum], is_binary: bool) -> Result<Datum> {
    let mut out = "[".to_owned();
    for (index, (sql_type, value)) in typed(values)?.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        write(value, *sql_type, environment, &mut out)?;
    }
    out.push(']');
    result(out, is_binary)
}

/// An object of texts: names and values in turn, or in two arrays.
fn object_of_texts(values: &[Datum], is_binary: bool) -> Result<Datum> {
    let Some(first) = array(values, 0)? else { return Ok(Datum::Null) };
    let pairs: Vec<(&Datum, &Datum)> = if values.len() > 1 {
        let Some(second) = array(values, 1)? else { return Ok(Datum::Null) };
        if first.elements.len() != second.elements.len() {
            return Err(invalid("mismatched array dimensions"));
        }
        first.elements.iter().zip(&second.elements).collect()
    } else {
        if !first.elements.len().is_multiple_of(2) {
            return Err(invalid("array must have even number of elements"));
        }
        first.elements.chunks(2).map(|pair| (&pair[0], &pair[1])).collect()
    };
    let mut out = "{".to_owned();
    for (index, (name, value)) in pairs.into_iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        let name = name
            .as_text()
            .ok_or_else(|| SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key"))?;
        json::write_string(name, &mut out);
        out.push_str(" : ");
        match value.as_text() {
            Some(value) => json::write_string(value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    result(out, is_binary)
}

fn makers(definitions: &mut Definitions) {
    let to_json: Body = |environment, v| value_as_json(environment, v, false);
    for signature in ["to_json(anyelement) json", "row_to_json(record) json", "array_to_json(anyarray) json"] {
        definitions.add(signature, to_json).typed().lenient().stable();
    }
    for signature in ["row_to_json(record,bool) json", "array_to_json(anyarray,bool) json"] {
        definitions.add(signature, value_in_lines).typed().lenient().stable();
    }
    let to_jsonb: Body = |environment, v| value_as_json(environment, v, true);
    definitions.add("to_jsonb(anyelement) jsonb", to_jsonb).typed().lenient().stable();
    let objects: [(&'static str, Body); 2] = [
        ("json_build_object(any...) json", |environment, v| build_object(environment, v, false)),
        ("jsonb_build_object(any...) jsonb", |environment, v| build_object(environment, v, true)),
    ];
    let arrays: [(&'static str, Body); 2] = [
        ("json_build_array(any...) json", |environment, v| build_array(environment, v, false)),
        ("jsonb_build_array(any...) jsonb", |environment, v| build_array(environment, v, true)),
    ];
    for (signature, body) in objects.into_iter().chain(arrays) {
        definitions.add(signature, body).typed().lenient().stable();
    }
    definitions
        .each(&["json_object(text[]) json", "json_object(text[],text[]) json"], |_, v| object_of_texts(v, false));
    definitions
        .each(&["jsonb_object(text[]) jsonb", "jsonb_object(text[],text[]) jsonb"], |_, v| object_of_texts(v, true));
}

/// The part of a text of JSON by a name or an index, as it stands.
enum Step<'s> {
    Name(&'s str),
    Index(i64),
    /// A step of a path, which is a name in an object and an index in an array.
    Either(&'s str),
}

fn part<'t>(whole: &'t str, step: &Step<'_>) -> Result<Option<&'t str>> {
    let of_name = |name: &str| -> Result<Option<&'t str>> {
        let members = json_raw::members(whole)?;
        Ok(members.and_then(|members| members.into_iter().rev().find(|(known, _)| known == name).map(|found| found.1)))
    };
    let of_index = |index: i64| {
        let elements = json_raw::elements(whole)?;
        position(index, elements.len()).map(|index| elements[index])
    };
    match step {
        Step::Name(name) => of_name(name),
        Step::Index(index) => Ok(of_index(*index)),
        Step::Either(step) if json_raw::kind(whole) == "array" => Ok(step.trim().parse().ok().and_then(of_index)),
        Step::Either(step) => of_name(step),
    }
}

fn given(found: Option<&str>, part: Part) -> Result<Datum> {
    found.map_or(Ok(Datum::Null), |found| json_raw::given(found, part))
}

fn member(values: &[Datum], as_part: Part) -> Result<Datum> {
    given(part(text(values, 0)?, &Step::Name(text(values, 1)?))?, as_part)
}

fn element(values: &[Datum], as_part: Part) -> Result<Datum> {
    given(part(text(values, 0)?, &Step::Index(int(values, 1)?))?, as_part)
}

fn at_path<'p>(whole: &str, path: impl Iterator<Item = &'p Datum>, as_part: Part) -> Result<Datum> {
    let mut found = Some(whole);
    for step in path {
        let Some(step) = step.as_text() else { return Ok(Datum::Null) };
        found = match found {
            Some(whole) => part(whole, &Step::Either(step))?,
            None => return Ok(Datum::Null),
        };
    }
    given(found, as_part)
}

fn path(values: &[Datum], as_part: Part) -> Result<Datum> {
    match array(values, 1)? {
        Some(steps) => at_path(text(values, 0)?, steps.elements.iter(), as_part),
        None => Ok(Datum::Null),
    }
}

/// Getters of `json` or `jsonb`, whose parts are given as such texts.
macro_rules! getters_of {
    ($definitions:ident, $name:literal, $text:expr) => {
        let add = &mut |signature: &'static str, body: Body| {
            $definitions.add(signature, body);
        };
        add(concat!("->(", $name, ",text) ", $name), |_, v| member(v, Part::Json));
        add(concat!("->>(", $name, ",text) text"), |_, v| member(v, $text));
        add(concat!("->(", $name, ",int4) ", $name), |_, v| element(v, Part::Json));
        add(concat!("->>(", $name, ",int4) text"), |_, v| element(v, $text));
        add(concat!("#>(", $name, ",text[]) ", $name), |_, v| path(v, Part::Json));
        add(concat!("#>>(", $name, ",text[]) text"), |_, v| path(v, $text));
        add(concat!($name, "_object_field(", $name, ",text) ", $name), |_, v| member(v, Part::Json));
        add(concat!($name, "_object_field_text(", $name, ",text) text"), |_, v| member(v, $text));
        add(concat!($name, "_extract_path(", $name, ",text...) ", $name), |_, v| {
            at_path(text(v, 0)?, v.iter().skip(1), Part::Json)
        });
        add(concat!($name, "_extract_path_text(", $name, ",text...) text"), |_, v| {
            at_path(text(v, 0)?, v.iter().skip(1), $text)
        });
    };
}

fn getters(definitions: &mut Definitions) {
    getters_of!(definitions, "json", Part::Text);
    getters_of!(definitions, "jsonb", Part::TextOfJsonb);
    for name in ["json", "jsonb"] {
        definitions
            .add(format!("{name}_typeof({name}) text").leak(), |_, v| Ok(Datum::text(json_raw::kind(text(v, 0)?))));
        definitions.add(format!("{name}_array_length({name}) int4").leak(), |_, v| {
            let whole = text(v, 0)?;
            match json_raw::elements(whole) {
                Some(elements) => Ok(Datum::Int(elements.len() as i64)),
                None if json_raw::kind(whole) == "object" => Err(invalid("cannot get array length of a non-array")),
                None => Err(invalid("cannot get array length of a scalar")),
            }
        });
        let strip = format!("{name}_strip_nulls({name}) {name}").leak();
        definitions.add(strip, |_, v| {
            let stripped = strip_nulls(json::parse(text(v, 0)?)?);
            Ok(of_json(&stripped))
        });
    }
}

fn strip_nulls(value: Json) -> Json {
    match value {
        Json::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(name, value)| (name, strip_nulls(value))).collect())
        }
        Json::Array(elements) => Json::Array(elements.into_iter().map(strip_nulls).collect()),
        value => value,
    }
}

fn parsed(values: &[Datum], index: usize) -> Result<Json> {
    json::parse_sorted(text(values, index)?)
}

/// Whether a name is one of an object, or a text of an array.
fn has(value: &Json, name: &str) -> bool {
    match value {
        Json::Object(_) => value.member(name).is_some(),
        Json::Array(elements) => elements.iter().any(|element| matches!(element, Json::String(text) if text == name)),
        Json::String(text) => text == name,
        _ => false,
    }
}

fn questions(definitions: &mut Definitions) {
    for (symbol, name) in [("@>", "jsonb_contains"), ("<@", "jsonb_contained")] {
        let body: Body = match symbol {
            "@>" => |_, v| Ok(Datum::Bool(parsed(v, 0)?.contains(&parsed(v, 1)?))),
            _ => |_, v| Ok(Datum::Bool(parsed(v, 1)?.contains(&parsed(v, 0)?))),
        };
        definitions.add(format!("{symbol}(jsonb,jsonb) bool").leak(), body);
        definitions.add(format!("{name}(jsonb,jsonb) bool").leak(), body);
    }
    for name in ["?", "jsonb_exists"] {
        definitions
            .add(format!("{name}(jsonb,text) bool").leak(), |_, v| Ok(Datum::Bool(has(&parsed(v, 0)?, text(v, 1)?))));
    }
    for name in ["?|", "jsonb_exists_any"] {
        definitions.add(format!("{name}(jsonb,text[]) bool").leak(), |_, v| has_names(v, false));
    }
    for name in ["?&", "jsonb_exists_all"] {
        definitions.add(format!("{name}(jsonb,text[]) bool").leak(), |_, v| has_names(v, true));
    }
}

fn has_names(values: &[Datum], all: bool) -> Result<Datum> {
    let value = parsed(values, 0)?;
    let Some(names) = array(values, 1)? else { return Ok(Datum::Null) };
    let mut names = names.elements.iter().filter_map(Datum::as_text);
    Ok(Datum::Bool(if all { names.all(|name| has(&value, name)) } else { names.any(|name| has(&value, name)) }))
}

fn concatenate(left: Json, right: Json) -> Json {
    match (left, right) {
        (Json::Object(mut left), Json::Object(right)) => {
            left.extend(right);
            Json::Object(left).sorted()
        }
        (left, right) => {
            let elements = |value| match value {
                Json::Array(elements) => elements,
                value => vec![value],
            };
            let mut all = elements(left);
            all.extend(elements(right));
            Json::Array(all)
        }
    }
}

fn remove(value: Json, names: &[&str]) -> Result<Json> {
    match value {
        Json::Object(members) => {
            Ok(Json::Object(members.into_iter().filter(|(name, _)| !names.contains(&name.as_str())).collect()))
        }
        Json::Array(elements) => {
            let is_removed = |element: &Json| matches!(element, Json::String(text) if names.contains(&text.as_str()));
            Ok(Json::Array(elements.into_iter().filter(|element| !is_removed(element)).collect()))
        }
        _ => Err(invalid("cannot delete from scalar")),
    }
}

/// What is done at the end of a path.
enum Change<'j> {
    Set {
        new: &'j Json,
        creates: bool,
    },
    Insert {
        new: &'j Json,
        is_after: bool,
    },
    Remove,
    /// Sets it, and makes what lacks on the way.
    Fill(&'j Json),
}

/// What a path leads through, where nothing is there: an array for a number, else an object.
fn made(path: &[&str], new: &Json) -> Result<Json> {
    let places = path.iter().filter_map(|step| step.parse::<i32>().ok());
    // All arrays together have no more elements than one may have.
    if places.map(|place| place.max(0) as usize).sum::<usize>() >= ELEMENTS_MAX {
        return Err(too_many_elements());
    }
    path.iter().rev().try_fold(new.clone(), |value, step| match step.parse::<i32>() {
        Ok(place) => with_last(Vec::new(), place.max(0).into(), value).map(Json::Array),
        Err(_) => Ok(Json::Object(vec![((*step).to_owned(), value)])),
    })
}

#[cold]
fn too_many_elements() -> SqlError {
    let what = format!("total size of jsonb array elements exceeds the maximum of {ELEMENTS_MAX}");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
}

/// An array with a value at a place after its end, and null at those between.
fn with_last(mut elements: Vec<Json>, place: i64, value: Json) -> Result<Vec<Json>> {
    let place = usize::try_from(place).ok().filter(|place| *place < ELEMENTS_MAX).ok_or_else(too_many_elements)?;
    elements.resize(place, Json::Null);
    elements.push(value);
    Ok(elements)
}

fn change(value: Json, path: &[&str], place: usize, change_to: &Change<'_>) -> Result<Json> {
    let Some((step, rest)) = path.split_first() else { return Ok(value) };
    match value {
        Json::Object(mut members) => {
            let found = members.iter().position(|(name, _)| name == step);
            match (found, rest.is_empty(), change_to) {
                (Some(index), true, Change::Remove) => {
                    members.remove(index);
                }
                (Some(index), true, Change::Set { new, .. } | Change::Fill(new)) => members[index].1 = (*new).clone(),
                (None, _, Change::Fill(new)) => members.push(((*step).to_owned(), made(rest, new)?)),
                (Some(_), true, Change::Insert { .. }) => {
                    return Err(invalid("cannot replace existing key")
                        .with_hint("Try using the function jsonb_set to replace key value."));
                }
                (None, true, Change::Set { new, creates: true } | Change::Insert { new, .. }) => {
                    members.push(((*step).to_owned(), (*new).clone()));
                }
                (Some(index), false, _) => {
                    let inner = std::mem::replace(&mut members[index].1, Json::Null);
                    members[index].1 = change(inner, rest, place + 1, change_to)?;
                }
                _ => {}
            }
            Ok(Json::Object(members).sorted())
        }
        Json::Array(mut elements) => {
            let index: i64 = step.trim().parse().map_err(|_| {
                let message = format!("path element at position {place} is not an integer: \"{step}\"");
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            })?;
            let count = elements.len();
            match (position(index, count), rest.is_empty(), change_to) {
                (Some(at), true, Change::Remove) => {
                    elements.remove(at);
                }
                (Some(at), true, Change::Set { new, .. } | Change::Fill(new)) => elements[at] = (*new).clone(),
                (None, _, Change::Fill(_)) if index < 0 => {
                    let message = format!("path element at position {place} is out of range: {index}");
                    return Err(invalid(message));
                }
                (None, _, Change::Fill(new)) => elements = with_last(elements, index, made(rest, new)?)?,
                (Some(at), true, Change::Insert { new, is_after }) => {
                    elements.insert(at + usize::from(*is_after), (*new).clone());
                }
                (None, true, Change::Set { new, creates: true } | Change::Insert { new, .. }) => {
                    elements.insert(if index < 0 { 0 } else { count }, (*new).clone());
                }
                (Some(at), false, _) => {
                    let inner = std::mem::replace(&mut elements[at], Json::Null);
                    elements[at] = change(inner, rest, place + 1, change_to)?;
                }
                _ => {}
            }
            Ok(Json::Array(elements))
        }
        _ if matches!(change_to, Change::Fill(_)) => Err(invalid("cannot replace existing key")
            .with_detail("The path assumes key is a composite object, but it is a scalar value.")),
        value if place > 1 => Ok(value),
        _ => Err(invalid(match change_to {
            Change::Remove => "cannot delete path in scalar",
            _ => "cannot set path in scalar",
        })),
    }
}

fn steps(values: &[Datum]) -> Result<Vec<&str>> {
    let Some(steps) = array(values, 1)? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for (index, step) in steps.elements.iter().enumerate() {
        names.push(step.as_text().ok_or_else(|| {
            let message = format!("path element at position {} is null", index + 1);
            SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
        })?);
    }
    Ok(names)
}

/// The subscripts of an assignment, none of which may be NULL.
fn steps_of_assignment(path: &Datum) -> Result<Vec<&str>> {
    let Datum::Array(path) = path else { return Ok(Vec::new()) };
    let refused = || SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "jsonb subscript in assignment must not be null");
    path.elements.iter().map(|step| step.as_text().ok_or_else(refused)).collect()
}

fn changes(definitions: &mut Definitions) {
    for name in ["||", "jsonb_concat"] {
        definitions.add(format!("{name}(jsonb,jsonb) jsonb").leak(), |_, v| {
            Ok(of_json(&concatenate(parsed(v, 0)?, parsed(v, 1)?)))
        });
    }
    definitions.add("-(jsonb,text) jsonb", |_, v| Ok(of_json(&remove(parsed(v, 0)?, &[text(v, 1)?])?)));
    definitions.add("-(jsonb,text[]) jsonb", |_, v| {
        let names = array(v, 1)?;
        let names: Vec<&str> =
            names.iter().flat_map(|names| names.elements.iter()).filter_map(Datum::as_text).collect();
        Ok(of_json(&remove(parsed(v, 0)?, &names)?))
    });
    definitions.add("-(jsonb,int4) jsonb", |_, v| match parsed(v, 0)? {
        Json::Array(mut elements) => {
            if let Some(index) = position(int(v, 1)?, elements.len()) {
                elements.remove(index);
            }
            Ok(of_json(&Json::Array(elements)))
        }
        Json::Object(_) => Err(invalid("cannot delete from object using integer index")),
        _ => Err(invalid("cannot delete from scalar")),
    });
    for name in ["#-", "jsonb_delete_path"] {
        definitions.add(format!("{name}(jsonb,text[]) jsonb").leak(), |_, v| {
            Ok(of_json(&change(parsed(v, 0)?, &steps(v)?, 1, &Change::Remove)?))
        });
    }
    definitions.each(&["jsonb_set(jsonb,text[],jsonb) jsonb", "jsonb_set(jsonb,text[],jsonb,bool) jsonb"], |_, v| {
        let creates = if v.len() > 3 { bool(v, 3)? } else { true };
        let new = parsed(v, 2)?;
        Ok(of_json(&change(parsed(v, 0)?, &steps(v)?, 1, &Change::Set { new: &new, creates })?))
    });
    definitions.each(
        &["jsonb_insert(jsonb,text[],jsonb) jsonb", "jsonb_insert(jsonb,text[],jsonb,bool) jsonb"],
        |_, v| {
            let is_after = if v.len() > 3 { bool(v, 3)? } else { false };
            let new = parsed(v, 2)?;
            Ok(of_json(&change(parsed(v, 0)?, &steps(v)?, 1, &Change::Insert { new: &new, is_after })?))
        },
    );
    // `SET column['a'][0] = value`: whether the first subscript is a number, which makes an array of NULL.
    definitions
        .add(".set_in_json(jsonb,jsonb,bool,text[]) jsonb", |_, v| {
            let new = if v[1].is_null() { Json::Null } else { parsed(v, 1)? };
            let path = steps_of_assignment(&v[3])?;
            let value = match (v[0].is_null(), bool(v, 2)?) {
                (false, _) => parsed(v, 0)?,
                (true, true) => Json::Array(Vec::new()),
                (true, false) => Json::Object(Vec::new()),
            };
            Ok(of_json(&change(value, &path, 1, &Change::Fill(&new))?))
        })
        .lenient();
    definitions.add("jsonb_pretty(jsonb) text", |_, v| {
        let mut out = String::new();
        parsed(v, 0)?.write(Layout::Indented(0), &mut out);
        Ok(Datum::text(out))
    });
}
