//! Functions and operators of ranges and multiranges.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Body, Definitions, typed};
use crate::types::datum::Datum;
use crate::types::range::{self, Lower, Range, Upper};
use crate::types::range_values::{datum, make, members, multirange};
use crate::types::refusal::mismatch;
use crate::types::{BaseType, RangeKind, SqlType};

pub(crate) fn define(definitions: &mut Definitions) {
    for kind in RangeKind::ALL {
        constructors(definitions, kind);
    }
    ends(definitions);
    relations(definitions);
    sets(definitions);
}

fn constructors(definitions: &mut Definitions, kind: RangeKind) {
    let name = |base: BaseType| base.catalogue_name();
    let (element, of_one) = (name(kind.element()), name(BaseType::Range(kind)));
    let of_several = name(BaseType::Multirange(kind));
    for arguments in [format!("{element},{element}"), format!("{element},{element},text")] {
        definitions.add(format!("{of_one}({arguments}) {of_one}").leak(), |_, v| made(v)).typed().lenient();
    }
    let several: Body = |_, v| {
        let mut ranges = Vec::new();
        for value in v {
            ranges.extend_from_slice(members(value)?);
        }
        Ok(multirange(ranges))
    };
    definitions.add(format!("{of_several}() {of_several}").leak(), several);
    definitions.add(format!("{of_several}({of_one}) {of_several}").leak(), several);
    definitions.add(format!("{of_several}({of_one}...) {of_several}").leak(), several);
}

/// The range of two bounds, and of what says whether it has them.
fn made(arguments: &[Datum]) -> Result<Datum> {
    let fields = typed(arguments)?;
    let [(sql_type, lower), (_, upper), flags @ ..] = fields else { return Err(mismatch(BaseType::AnyRange)) };
    let kind = RangeKind::of_element(sql_type.base).ok_or_else(|| mismatch(BaseType::AnyRange))?;
    let (has_lower, has_upper) = match flags.first().map(|(_, flags)| flags) {
        None => (true, false),
        Some(Datum::Text(flags)) => match &**flags {
            "[]" => (true, true),
            "[)" => (true, false),
            "(]" => (false, true),
            "()" => (false, false),
            _ => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid range bound flags")
                    .with_hint("Valid values are \"[]\", \"[)\", \"(]\", and \"()\"."));
            }
        },
        Some(_) => {
            let what = "range constructor flags argument must not be null";
            return Err(SqlError::new(SqlState::DATA_EXCEPTION, what));
        }
    };
    let value = |bound: &Datum| Some(bound.clone()).filter(|bound| !bound.is_null());
    make(kind, Lower::new(value(lower), has_lower), Upper::new(value(upper), has_upper)).map(datum)
}

/// The lower bound of a range or a multirange; none of an empty or an infinite one.
fn lower(arguments: &[Datum]) -> Result<Option<(&Datum, bool)>> {
    Ok(range::ends(members(&arguments[0])?).and_then(|(lower, _)| lower.parts()))
}

/// The upper bound of a range or a multirange; none of an empty or an infinite one.
fn upper(arguments: &[Datum]) -> Result<Option<(&Datum, bool)>> {
    Ok(range::ends(members(&arguments[0])?).and_then(|(_, upper)| upper.parts()))
}

fn ends(definitions: &mut Definitions) {
    let mut each = |name: &str, returns: &str, body: Body| {
        for of in ["anyrange", "anymultirange"] {
            definitions.add(format!("{name}({of}) {returns}").leak(), body);
        }
    };
    each("lower", "anyelement", |_, v| Ok(lower(v)?.map_or(Datum::Null, |(value, _)| value.clone())));
    each("upper", "anyelement", |_, v| Ok(upper(v)?.map_or(Datum::Null, |(value, _)| value.clone())));
    each("isempty", "bool", |_, v| Ok(Datum::Bool(members(&v[0])?.is_empty())));
    each("lower_inc", "bool", |_, v| Ok(Datum::Bool(lower(v)?.is_some_and(|(_, has_it)| has_it))));
    each("upper_inc", "bool", |_, v| Ok(Datum::Bool(upper(v)?.is_some_and(|(_, has_it)| has_it))));
    each("lower_inf", "bool", |_, v| {
        Ok(Datum::Bool(range::ends(members(&v[0])?).is_some_and(|(lower, _)| *lower == Lower::Infinite)))
    });
    each("upper_inf", "bool", |_, v| {
        Ok(Datum::Bool(range::ends(members(&v[0])?).is_some_and(|(_, upper)| *upper == Upper::Infinite)))
    });
}

/// What two ranges or multiranges are to each other.
fn relations(definitions: &mut Definitions) {
    let mut each = |symbol: &str, body: Body| {
        for left in ["anyrange", "anymultirange"] {
            for right in ["anyrange", "anymultirange"] {
                definitions.add(format!("{symbol}({left},{right}) bool").leak(), body);
            }
        }
    };
    each("@>", |_, v| Ok(Datum::Bool(range::contain(members(&v[0])?, members(&v[1])?))));
    each("<@", |_, v| Ok(Datum::Bool(range::contain(members(&v[1])?, members(&v[0])?))));
    each("&&", |_, v| Ok(Datum::Bool(range::overlap(members(&v[0])?, members(&v[1])?))));
    each("<<", |_, v| Ok(Datum::Bool(range::are_before(members(&v[0])?, members(&v[1])?))));
    each(">>", |_, v| Ok(Datum::Bool(range::are_before(members(&v[1])?, members(&v[0])?))));
    each("&<", |_, v| Ok(Datum::Bool(range::end_within(members(&v[0])?, members(&v[1])?))));
    each("&>", |_, v| Ok(Datum::Bool(range::begin_within(members(&v[0])?, members(&v[1])?))));
    each("-|-", |_, v| Ok(Datum::Bool(range::are_adjacent(members(&v[0])?, members(&v[1])?))));
    for of in ["anyrange", "anymultirange"] {
        definitions.add(format!("@>({of},anyelement) bool").leak(), |_, v| {
            Ok(Datum::Bool(range::have(members(&v[0])?, &v[1])))
        });
        definitions.add(format!("<@(anyelement,{of}) bool").leak(), |_, v| {
            Ok(Datum::Bool(range::have(members(&v[1])?, &v[0])))
        });
    }
}

/// The range at an index of the arguments.
fn one(arguments: &[Datum], index: usize) -> Result<&Range<Datum>> {
    match arguments.get(index) {
        Some(Datum::Range(range)) => Ok(range),
        _ => Err(mismatch(SqlType::from(BaseType::AnyRange))),
    }
}

/// What has the values of one, the other or both.
fn sets(definitions: &mut Definitions) {
    definitions.add("+(anyrange,anyrange) anyrange", |_, v| one(v, 0)?.union(one(v, 1)?).map(datum));
    definitions.add("-(anyrange,anyrange) anyrange", |_, v| one(v, 0)?.difference(one(v, 1)?).map(datum));
    definitions.add("*(anyrange,anyrange) anyrange", |_, v| Ok(datum(one(v, 0)?.intersection(one(v, 1)?))));
    definitions.add("+(anymultirange,anymultirange) anymultirange", |_, v| {
        Ok(multirange([members(&v[0])?, members(&v[1])?].concat()))
    });
    definitions.add("-(anymultirange,anymultirange) anymultirange", |_, v| {
        Ok(multirange(range::difference(members(&v[0])?, members(&v[1])?)))
    });
    definitions.add("*(anymultirange,anymultirange) anymultirange", |_, v| {
        Ok(multirange(range::intersection(members(&v[0])?, members(&v[1])?)))
    });
    definitions.add("range_merge(anyrange,anyrange) anyrange", |_, v| Ok(datum(one(v, 0)?.merged(one(v, 1)?))));
    definitions.add("range_merge(anymultirange) anyrange", |_, v| {
        let merged = |ranges: &[Range<Datum>]| ranges.iter().fold(Range::Empty, |all, range| all.merged(range));
        Ok(datum(merged(members(&v[0])?)))
    });
    definitions.add("multirange(anyrange) anymultirange", |_, v| Ok(multirange(vec![one(v, 0)?.clone()])));
}
