//! Finds what paths of SQL/JSON name: `jsonb_path_query` and its like, `@?`, `@@`. A path is read each time that it is
//! used.
//!
//! Not here: `.datetime()` and comparisons of dates.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::slice;

use super::json_path_text::{Expr, Path, Step};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definitions, bool, text};
use crate::functions::patterns;
use crate::numeric::{self, Numeric};
use crate::types::datum::Datum;
use crate::types::json::{self, Json};

/// How many items a step finds.
const ITEMS_MAX: usize = 10_000_000;

/// What a path finds: values within the document and the variables are borrowed, computed ones are its own.
type Items<'v> = Vec<Cow<'v, Json>>;

/// What a path is asked of.
struct Question<'q> {
    root: &'q Json,
    variables: &'q Json,
    is_lax: bool,
}

/// The value under way, and the last place of the array whose places are computed.
#[derive(Clone, Copy)]
struct At<'q> {
    current: &'q Json,
    last: Option<usize>,
}

fn failure(state: SqlState, what: impl Into<String>) -> SqlError {
    SqlError::new(state, what)
}

/// What was found; none if a value does not fit what is asked of it.
fn known<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.state().code().starts_with("22") => Ok(None),
        Err(error) => Err(error),
    }
}

fn of_truth(truth: Option<bool>) -> Json {
    truth.map_or(Json::Null, Json::Bool)
}

impl Question<'_> {
    fn items<'v>(&'v self, expr: &'v Expr, at: At<'v>) -> Result<Items<'v>> {
        Ok(match expr {
            Expr::Root => vec![Cow::Borrowed(self.root)],
            Expr::Current => vec![Cow::Borrowed(at.current)],
            Expr::Last => match at.last {
                Some(last) => vec![Cow::Owned(Json::Number((last as i64 - 1).to_string()))],
                None => return Err(failure(SqlState::SYNTAX_ERROR, "LAST is allowed only in array subscripts")),
            },
            Expr::Variable(name) => match self.variables.member(name) {
                Some(value) => vec![Cow::Borrowed(value)],
                None => {
                    let what = format!("could not find jsonpath variable \"{name}\"");
                    return Err(failure(SqlState::UNDEFINED_OBJECT, what));
                }
            },
            Expr::Literal(value) => vec![Cow::Borrowed(value)],
            Expr::Step(of, step) => {
                let mut found = Vec::new();
                for item in self.items(of, at)? {
                    match item {
                        Cow::Borrowed(item) => self.step(item, step, &mut found)?,
                        Cow::Owned(item) => {
                            let mut inner = Vec::new();
                            self.step(&item, step, &mut inner)?;
                            found.extend(inner.into_iter().map(|item| Cow::Owned(item.into_owned())));
                        }
                    }
                    check_count(&found)?;
                }
                found
            }
            Expr::Sign(is_negative, of) => {
                let mut signed = Vec::new();
                for item in self.unwrapped(of, at)? {
                    let number = number_of(&item).ok_or_else(|| {
                        let sign = if *is_negative { '-' } else { '+' };
                        let what = format!("operand of unary jsonpath operator {sign} is not a numeric value");
                        failure(SqlState::SQL_JSON_NUMBER_NOT_FOUND, what)
                    })?;
                    signed.push(Cow::Owned(of_number(if *is_negative { numeric::negate(&number) } else { number })));
                }
                signed
            }
            Expr::Arithmetic(sign, sides) => {
                let side = |place: usize, name: &str| -> Result<Numeric> {
                    let items = self.unwrapped(&sides[place], at)?;
                    let number = if let [item] = &items[..] { number_of(item) } else { None };
                    number.ok_or_else(|| {
                        let what = format!("{name} operand of jsonpath operator {sign} is not a single numeric value");
                        failure(SqlState::SINGLETON_SQL_JSON_ITEM_REQUIRED, what)
                    })
                };
                let (a, b) = (side(0, "left")?, side(1, "right")?);
                vec![Cow::Owned(of_number(match sign {
                    '+' => numeric::add(&a, &b)?,
                    '-' => numeric::subtract(&a, &b)?,
                    '*' => numeric::product(&a, &b)?,
                    '/' => numeric::quotient(&a, &b)?,
                    _ => numeric::remainder(&a, &b)?,
                }))]
            }
            predicate => vec![Cow::Owned(of_truth(self.truth(predicate, at)?))],
        })
    }

    /// The items of an expression; in lax mode, elements in the place of arrays.
    fn unwrapped<'v>(&'v self, expr: &'v Expr, at: At<'v>) -> Result<Items<'v>> {
        let items = self.items(expr, at)?;
        if !self.is_lax {
            return Ok(items);
        }
        let mut found = Vec::new();
        for item in items {
            match item {
                Cow::Borrowed(Json::Array(elements)) => found.extend(elements.iter().map(Cow::Borrowed)),
                Cow::Owned(Json::Array(elements)) => found.extend(elements.into_iter().map(Cow::Owned)),
                item => found.push(item),
            }
            check_count(&found)?;
        }
        Ok(found)
    }

    /// Whether a predicate is so; none if that is not known.
    fn truth(&self, predicate: &Expr, at: At<'_>) -> Result<Option<bool>> {
        Ok(match predicate {
            Expr::And(sides) => match (self.truth(&sides[0], at)?, self.truth(&sides[1], at)?) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Expr::Or(sides) => match (self.truth(&sides[0], at)?, self.truth(&sides[1], at)?) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Expr::Not(of) => self.truth(of, at)?.map(|truth| !truth),
            Expr::IsUnknown(of) => Some(self.truth(of, at)?.is_none()),
            Expr::Exists(of) => known(self.items(of, at))?.map(|items| !items.is_empty()),
            Expr::Compare(word, sides) => {
                let sides = (known(self.unwrapped(&sides[0], at))?, known(self.unwrapped(&sides[1], at))?);
                let (Some(left), Some(right)) = sides else {
                    return Ok(None);
                };
                let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
                self.any(pairs, |(a, b)| compare(a, b, word))
            }
            Expr::LikeRegex(of, pattern, flags) => {
                let Some(items) = known(self.unwrapped(of, at))? else { return Ok(None) };
                self.any(items.iter(), |item| match &**item {
                    Json::String(text) => patterns::is_like_regex(text, pattern, flags).ok(),
                    _ => None,
                })
            }
            Expr::StartsWith(sides) => {
                let sides = (known(self.unwrapped(&sides[0], at))?, known(self.items(&sides[1], at))?);
                let (Some(left), Some(right)) = sides else {
                    return Ok(None);
                };
                let [begin] = &right[..] else { return Ok(None) };
                let Json::String(begin) = &**begin else { return Ok(None) };
                self.any(left.iter(), |item| match &**item {
                    Json::String(text) => Some(text.starts_with(begin.as_str())),
                    _ => None,
                })
            }
            other => match &self.items(other, at)?[..] {
                [item] => match **item {
                    Json::Bool(truth) => Some(truth),
                    _ => None,
                },
                _ => None,
            },
        })
    }

    /// Whether something is so of any of some; in strict mode it must be known of each.
    fn any<T>(&self, all: impl Iterator<Item = T>, is_so: impl Fn(T) -> Option<bool>) -> Option<bool> {
        let (mut found, mut is_unknown) = (false, false);
        for one in all {
            match is_so(one) {
                Some(true) if self.is_lax => return Some(true),
                Some(true) => found = true,
                Some(false) => {}
                None if self.is_lax => is_unknown = true,
                None => return None,
            }
        }
        if is_unknown && !found { None } else { Some(found) }
    }

    fn step<'v>(&self, item: &'v Json, step: &Step, found: &mut Items<'v>) -> Result<()> {
        match (step, item) {
            (Step::Member(name), Json::Object(_)) => match item.member(name) {
                Some(value) => found.push(Cow::Borrowed(value)),
                None if self.is_lax => {}
                None => {
                    let what = format!("JSON object does not contain key \"{name}\"");
                    return Err(failure(SqlState::SQL_JSON_MEMBER_NOT_FOUND, what));
                }
            },
            (Step::AnyMember, Json::Object(members)) => {
                found.extend(members.iter().map(|(_, value)| Cow::Borrowed(value)))
            }
            (Step::Member(_) | Step::AnyMember, Json::Array(elements)) if self.is_lax => {
                let objects = elements.iter().filter(|element| matches!(element, Json::Object(_)));
                objects.into_iter().try_for_each(|element| self.step(element, step, found))?;
            }
            (Step::Member(_), _) if !self.is_lax => {
                let what = "jsonpath member accessor can only be applied to an object";
                return Err(failure(SqlState::SQL_JSON_MEMBER_NOT_FOUND, what));
            }
            (Step::AnyMember, _) if !self.is_lax => {
                let what = "jsonpath wildcard member accessor can only be applied to an object";
                return Err(failure(SqlState::SQL_JSON_OBJECT_NOT_FOUND, what));
            }
            (Step::Member(_) | Step::AnyMember, _) => {}
            (Step::AnyElement, Json::Array(elements)) => found.extend(elements.iter().map(Cow::Borrowed)),
            (Step::AnyElement, item) if self.is_lax => found.push(Cow::Borrowed(item)),
            (Step::AnyElement, _) => {
                let what = "jsonpath wildcard array accessor can only be applied to an array";
                return Err(failure(SqlState::SQL_JSON_ARRAY_NOT_FOUND, what));
            }
            (Step::Elements(places), item) => self.elements(item, places, found)?,
            (Step::Within(from, to), item) => within(item, 0, (*from, *to), found)?,
            (Step::Filter(filter), Json::Array(elements)) if self.is_lax => {
                for element in elements {
                    if self.truth(filter, At { current: element, last: None })? == Some(true) {
                        found.push(Cow::Borrowed(element));
                    }
                }
            }
            (Step::Filter(filter), item) => {
                if self.truth(filter, At { current: item, last: None })? == Some(true) {
                    found.push(Cow::Borrowed(item));
                }
            }
            (Step::Method(method), Json::Array(elements)) if self.is_lax && !matches!(*method, "type" | "size") => {
                elements.iter().try_for_each(|element| self.method(element, method, found))?;
            }
            (Step::Method(method), item) => self.method(item, method, found)?,
        }
        Ok(())
    }

    fn elements<'v>(&self, item: &'v Json, places: &[(Expr, Option<Expr>)], found: &mut Items<'v>) -> Result<()> {
        let elements = match item {
            Json::Array(elements) => &elements[..],
            item if self.is_lax => slice::from_ref(item),
            _ => {
                let what = "jsonpath array accessor can only be applied to an array";
                return Err(failure(SqlState::SQL_JSON_ARRAY_NOT_FOUND, what));
            }
        };
        let place = |expr: &Expr| -> Result<i64> {
            let items = self.items(expr, At { current: item, last: Some(elements.len()) })?;
            let number = if let [item] = &items[..] { number_of(item) } else { None };
            let whole = number.and_then(|number| numeric::truncate(&number, 0).ok());
            whole.and_then(|number| number.to_string().parse().ok()).ok_or_else(|| {
                let what = "jsonpath array subscript is not a single numeric value";
                failure(SqlState::INVALID_SQL_JSON_SUBSCRIPT, what)
            })
        };
        for (from, to) in places {
            let from = place(from)?;
            let to = to.as_ref().map_or(Ok(from), place)?;
            if !self.is_lax && (from < 0 || from > to || to >= elements.len() as i64) {
                let what = "jsonpath array subscript is out of bounds";
                return Err(failure(SqlState::INVALID_SQL_JSON_SUBSCRIPT, what));
            }
            let kept = (from.max(0)..=to.min(elements.len() as i64 - 1)).filter_map(|at| elements.get(at as usize));
            found.extend(kept.map(Cow::Borrowed));
            check_count(found)?;
        }
        Ok(())
    }

    fn method(&self, item: &Json, method: &str, found: &mut Items<'_>) -> Result<()> {
        match (method, item) {
            ("type", item) => found.push(Cow::Owned(Json::String(item.type_name().to_owned()))),
            ("size", Json::Array(elements)) => found.push(Cow::Owned(Json::Number(elements.len().to_string()))),
            ("size", _) if self.is_lax => found.push(Cow::Owned(Json::Number("1".to_owned()))),
            ("size", _) => {
                let what = "jsonpath item method .size() can only be applied to an array";
                return Err(failure(SqlState::SQL_JSON_ARRAY_NOT_FOUND, what));
            }
            ("keyvalue", Json::Object(members)) => {
                for (name, value) in members {
                    let pair = vec![
                        ("id".to_owned(), Json::Number("0".to_owned())),
                        ("key".to_owned(), Json::String(name.clone())),
                        ("value".to_owned(), value.clone()),
                    ];
                    found.push(Cow::Owned(Json::Object(pair)));
                }
            }
            ("keyvalue", _) => {
                let what = "jsonpath item method .keyvalue() can only be applied to an object";
                return Err(failure(SqlState::SQL_JSON_OBJECT_NOT_FOUND, what));
            }
            ("double", Json::Number(_) | Json::String(_)) => {
                let (Json::Number(text) | Json::String(text)) = item else { return Ok(()) };
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let number = number.and_then(|_| Numeric::parse(text).ok()).ok_or_else(|| {
                    let what = "string argument of jsonpath item method .double() is not a valid representation of a \
                                double precision number";
                    failure(SqlState::NON_NUMERIC_SQL_JSON_ITEM, what)
                })?;
                found.push(Cow::Owned(of_number(number)));
            }
            ("double", _) => {
                let what = "jsonpath item method .double() can only be applied to a string or numeric value";
                return Err(failure(SqlState::NON_NUMERIC_SQL_JSON_ITEM, what));
            }
            ("datetime", _) => {
                return Err(SqlError::unsupported(
                    ".datetime() is not supported",
                    "Cast the text outside of the path.",
                ));
            }
            (method, item) => {
                let number = number_of(item).ok_or_else(|| {
                    let what = format!("jsonpath item method .{method}() can only be applied to a numeric value");
                    failure(SqlState::NON_NUMERIC_SQL_JSON_ITEM, what)
                })?;
                let number = match method {
                    "ceiling" => numeric::ceiling(&number)?,
                    "floor" => numeric::floor(&number)?,
                    _ if number.signum() < 0 => numeric::negate(&number),
                    _ => number,
                };
                found.push(Cow::Owned(of_number(number)));
            }
        }
        Ok(())
    }
}

fn number_of(item: &Json) -> Option<Numeric> {
    match item {
        Json::Number(text) => Numeric::parse(text).ok(),
        _ => None,
    }
}

fn of_number(number: Numeric) -> Json {
    Json::Number(number.to_string())
}

fn check_count(found: &Items<'_>) -> Result<()> {
    if found.len() <= ITEMS_MAX {
        return Ok(());
    }
    let what = format!("a step of a jsonpath finds more than {ITEMS_MAX} items");
    Err(failure(SqlState::PROGRAM_LIMIT_EXCEEDED, what))
}

/// What is within an item at these depths, itself at the depth 0.
fn within<'v>(item: &'v Json, depth: usize, (from, to): (usize, usize), found: &mut Items<'v>) -> Result<()> {
    let inner: Vec<&Json> = match item {
        Json::Array(elements) => elements.iter().collect(),
        Json::Object(members) => members.iter().map(|(_, value)| value).collect(),
        _ => Vec::new(),
    };
    // Of the last depth alone, what has nothing within.
    let is_last = from == usize::MAX && inner.is_empty();
    if is_last || depth >= from && depth <= to {
        found.push(Cow::Borrowed(item));
        check_count(found)?;
    }
    if depth < to {
        inner.into_iter().try_for_each(|item| within(item, depth + 1, (from, to), found))?;
    }
    Ok(())
}

/// How two items compare; none if they do not.
fn compare(a: &Json, b: &Json, word: &str) -> Option<bool> {
    let order = match (a, b) {
        (Json::Null, Json::Null) => Ordering::Equal,
        (Json::Null, _) | (_, Json::Null) => return Some(word == "!="),
        (Json::Bool(_), Json::Bool(_)) | (Json::Number(_), Json::Number(_)) | (Json::String(_), Json::String(_)) => {
            a.compare(b)
        }
        _ => return None,
    };
    Some(match word {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

/// The items that a path finds: of arguments (document, path, variables, is silent). None if it fails silently.
pub(crate) fn query(values: &[Datum], is_silent: bool) -> Result<Option<Vec<Json>>> {
    let is_silent = is_silent || values.len() > 3 && bool(values, 3)?;
    let (root, path) = (json::parse(text(values, 0)?)?, Path::parse(text(values, 1)?)?);
    let variables = if values.len() > 2 { json::parse(text(values, 2)?)? } else { Json::Object(Vec::new()) };
    if !matches!(variables, Json::Object(_)) {
        let what = "\"vars\" argument is not an object";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
            .with_detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
    }
    let question = Question { root: &root, variables: &variables, is_lax: path.is_lax };
    match question.items(&path.expr, At { current: &root, last: None }) {
        Ok(items) => Ok(Some(items.into_iter().map(Cow::into_owned).collect())),
        Err(error) if is_silent && error.state().code().starts_with("22") => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn datum(item: &Json) -> Datum {
    Datum::Json(item.compact().into())
}

fn matches(values: &[Datum], is_silent: bool) -> Result<Datum> {
    match query(values, is_silent)?.as_deref() {
        Some([Json::Bool(truth)]) => Ok(Datum::Bool(*truth)),
        Some([Json::Null]) | None => Ok(Datum::Null),
        _ if is_silent || values.len() > 3 && bool(values, 3)? => Ok(Datum::Null),
        _ => Err(failure(SqlState::SINGLETON_SQL_JSON_ITEM_REQUIRED, "single boolean result is expected")),
    }
}

fn exists(values: &[Datum], is_silent: bool) -> Result<Datum> {
    Ok(query(values, is_silent)?.map_or(Datum::Null, |items| Datum::Bool(!items.is_empty())))
}

pub(crate) fn define(definitions: &mut Definitions) {
    for arguments in ["jsonb,text", "jsonb,text,jsonb", "jsonb,text,jsonb,bool"] {
        let signature = |name: &str, returns: &str| -> &'static str { format!("{name}({arguments}) {returns}").leak() };
        definitions.add(signature("jsonb_path_exists", "bool"), |_, v| exists(v, false));
        definitions.add(signature("jsonb_path_match", "bool"), |_, v| matches(v, false));
        definitions.add(signature("jsonb_path_query_first", "jsonb"), |_, v| {
            Ok(query(v, false)?.and_then(|items| items.first().map(datum)).unwrap_or(Datum::Null))
        });
        definitions.add(signature("jsonb_path_query_array", "jsonb"), |_, v| {
            Ok(datum(&Json::Array(query(v, false)?.unwrap_or_default())))
        });
    }
    definitions.add("@?(jsonb,text) bool", |_, v| exists(v, true));
    definitions.add("@@(jsonb,text) bool", |_, v| matches(v, true));
}
