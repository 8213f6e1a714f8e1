//! Finds the function that a call means, by PostgreSQL's rules of overloading ("Type Conversion" in its manual).
//!
//! 1. A function of exactly these types.
//! 2. Else, of those whose types the arguments can be cast to: those of most exact types, then those of most exact or
//!    preferred types.
//! 3. Literals of unknown type are strings if one of the functions takes a string, else of the category that all
//!    take; a preferred type of it is taken.
//! 4. Literals are of the type that all other arguments have.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::{Call, Function, registry};
use crate::types::cast::{CastContext, can_cast};
use crate::types::{BaseType, RangeKind, SqlType};

/// What is chosen among: the types that something takes.
pub(crate) trait Candidate: Copy {
    /// The declared types of the arguments.
    fn arguments(&self) -> &'static [SqlType];
    /// Whether the last of them stands for any number.
    fn is_variadic(&self) -> bool;
    /// The declared type of the result.
    fn returns(&self) -> SqlType;

    /// The declared type of an argument.
    fn argument(&self, index: usize) -> SqlType {
        let arguments = self.arguments();
        arguments.get(index).or(arguments.last()).copied().unwrap_or(SqlType::UNKNOWN)
    }

    /// Whether it takes so many arguments.
    fn takes(&self, count: usize) -> bool {
        let declared = self.arguments().len();
        count == declared || (self.is_variadic() && count + 1 >= declared)
    }
}

impl Candidate for &'static Function {
    fn arguments(&self) -> &'static [SqlType] {
        self.arguments
    }

    fn is_variadic(&self) -> bool {
        self.is_variadic
    }

    fn returns(&self) -> SqlType {
        self.returns
    }
}

/// Why nothing was chosen.
enum Unresolved {
    Missing,
    Ambiguous,
}

/// PostgreSQL's category of a type.
fn category(sql_type: SqlType) -> char {
    use BaseType::{CaselessText, Char, Date, Name, Text, Time, Timestamp, TimestampTz, Varchar};
    match sql_type.base {
        base if base.is_pseudo() => 'P',
        _ if sql_type.is_array => 'A',
        BaseType::Unknown => 'X',
        BaseType::Bool => 'B',
        base if base.is_number() || base.is_oid() => 'N',
        Text | Varchar | Char | Name | CaselessText => 'S',
        Date | Time | Timestamp | TimestampTz => 'D',
        BaseType::Interval => 'T',
        BaseType::Inet | BaseType::Cidr => 'I',
        BaseType::SingleChar => 'Z',
        BaseType::Bit | BaseType::VarBit => 'V',
        BaseType::Money => 'N',
        BaseType::Enum(_) => 'E',
        BaseType::Composite(_) => 'C',
        BaseType::Range(_) | BaseType::Multirange(_) => 'R',
        _ => 'U',
    }
}

/// Whether it is the type that its category prefers.
fn is_preferred(sql_type: SqlType) -> bool {
    use BaseType::{Bool, Float8, Inet, Interval, Oid, Text, TimestampTz, VarBit};
    !sql_type.is_array && matches!(sql_type.base, Bool | Text | Float8 | Oid | TimestampTz | Interval | Inet | VarBit)
}

fn is_unknown(sql_type: SqlType) -> bool {
    sql_type == SqlType::UNKNOWN
}

/// Whether it stands for a type that the arguments of a call say: `anyelement`, `anyarray`, `anyenum`, `anyrange`.
fn is_polymorphic(declared: SqlType) -> bool {
    matches!(declared.base, BaseType::AnyElement | BaseType::AnyEnum) || is_any_range(declared)
}

fn is_any_range(declared: SqlType) -> bool {
    matches!(declared.base, BaseType::AnyRange | BaseType::AnyMultirange)
}

/// What `anyelement` stands for if a declared type is this one; none if that cannot be.
fn element_of(declared: SqlType, given: SqlType) -> Option<SqlType> {
    match (declared.base, given.base) {
        _ if declared.is_array => given.is_array.then(|| given.element().bare()),
        (BaseType::AnyRange, BaseType::Range(kind)) | (BaseType::AnyMultirange, BaseType::Multirange(kind)) => {
            (!given.is_array).then(|| kind.element().into())
        }
        (BaseType::AnyRange | BaseType::AnyMultirange, _) => None,
        _ => Some(given.bare()),
    }
}

/// The type that `anyelement` stands for in a call: none if the arguments do not agree, unknown if all are so.
fn element_type(candidate: impl Candidate, types: &[SqlType]) -> Option<SqlType> {
    let mut elements = Vec::new();
    for (index, sql_type) in types.iter().enumerate() {
        let declared = candidate.argument(index);
        if !is_polymorphic(declared) || is_unknown(*sql_type) {
            continue;
        }
        elements.push(element_of(declared, *sql_type)?);
    }
    let of_ranges = candidate.arguments().iter().any(|declared| is_any_range(*declared));
    match elements[..] {
        // Literals alone are of no enum, and of no range.
        [] if of_ranges || candidate.arguments().iter().any(|declared| declared.base == BaseType::AnyEnum) => None,
        // A value is of the type of the bounds.
        [first, ref rest @ ..] if of_ranges => rest.iter().all(|other| *other == first).then_some(first),
        [] => Some(SqlType::UNKNOWN),
        _ => common_type(&elements).ok(),
    }
}

/// Whether all arguments can be cast to what a candidate takes.
fn accepts(candidate: impl Candidate, types: &[SqlType]) -> bool {
    let is_polymorphic = candidate.arguments().iter().copied().any(is_polymorphic);
    let fits = |(index, sql_type): (usize, &SqlType)| {
        let declared = candidate.argument(index);
        declared.base == BaseType::AnyElement || can_cast(*sql_type, declared, CastContext::Implicit)
    };
    types.iter().enumerate().all(fits) && (!is_polymorphic || element_type(candidate, types).is_some())
}

/// Keeps the candidates that score most; all of them if none scores.
fn keep_best<C: Candidate>(candidates: &mut Vec<C>, score: impl Fn(C) -> usize) {
    let best = candidates.iter().map(|candidate| score(*candidate)).max().unwrap_or(0);
    candidates.retain(|candidate| score(*candidate) == best);
}

/// Decides by the categories that literals of unknown type can be of.
fn keep_by_category<C: Candidate>(candidates: &mut Vec<C>, types: &[SqlType]) {
    let mut slots = Vec::new();
    for index in (0..types.len()).filter(|index| is_unknown(types[*index])) {
        let mut slot = None;
        for candidate in candidates.iter() {
            let declared = candidate.argument(index);
            let (found, preferred) = (category(declared), is_preferred(declared));
            slot = match slot {
                None => Some((found, preferred)),
                Some((known, has_preferred)) if known == found => Some((known, has_preferred || preferred)),
                Some(_) if found == 'S' => Some(('S', preferred)),
                Some(('S', has_preferred)) => Some(('S', has_preferred)),
                // Two categories, neither of strings: literals say nothing.
                Some(_) => return,
            };
        }
        slots.extend(slot.map(|(known, has_preferred)| (index, known, has_preferred)));
    }
    let fits = |candidate: &C| {
        slots.iter().all(|(index, known, has_preferred)| {
            let declared = candidate.argument(*index);
            category(declared) == *known && (!has_preferred || is_preferred(declared))
        })
    };
    if candidates.iter().any(fits) {
        candidates.retain(fits);
    }
}

/// Chooses the candidate that a call of these types means.
fn choose<C: Candidate>(candidates: &[C], types: &[SqlType]) -> Result<C, Unresolved> {
    let is_exact = |candidate: C, index: usize| candidate.argument(index) == types[index].bare();
    let taking: Vec<C> = candidates.iter().copied().filter(|candidate| candidate.takes(types.len())).collect();
    let exact = taking.iter().find(|candidate| (0..types.len()).all(|index| is_exact(**candidate, index)));
    if let Some(exact) = exact {
        return Ok(*exact);
    }
    let mut left: Vec<C> = taking.into_iter().filter(|candidate| accepts(*candidate, types)).collect();
    let known: Vec<usize> = (0..types.len()).filter(|index| !is_unknown(types[*index])).collect();
    if left.len() > 1 {
        keep_best(&mut left, |candidate| known.iter().filter(|index| is_exact(candidate, **index)).count());
    }
    if left.len() > 1 {
        let is_good = |candidate: C, index: usize| {
            let declared = candidate.argument(index);
            is_exact(candidate, index) || (category(declared) == category(types[index]) && is_preferred(declared))
        };
        keep_best(&mut left, |candidate| known.iter().filter(|index| is_good(candidate, **index)).count());
    }
    if left.len() > 1 && known.len() < types.len() {
        keep_by_category(&mut left, types);
        if let (2.., [first, rest @ ..]) = (left.len(), &known[..])
            && rest.iter().all(|index| types[*index].bare() == types[*first].bare())
        {
            let same = vec![types[*first]; types.len()];
            let fitting: Vec<C> = left.iter().copied().filter(|candidate| accepts(*candidate, &same)).collect();
            if fitting.len() == 1 {
                left = fitting;
            }
        }
    }
    match left[..] {
        [] => Err(Unresolved::Missing),
        [chosen] => Ok(chosen),
        _ => Err(Unresolved::Ambiguous),
    }
}

/// The types of the arguments and of the result of a chosen candidate.
fn types_of(candidate: impl Candidate, types: &[SqlType]) -> (Vec<SqlType>, SqlType) {
    let element = element_type(candidate, types).unwrap_or(SqlType::UNKNOWN);
    let element = if is_unknown(element) { SqlType::TEXT } else { element };
    let actual = |declared: SqlType, given: Option<SqlType>| match (declared.base, given) {
        (BaseType::AnyElement, _) if declared.is_array => SqlType::array_of(element.base),
        (BaseType::AnyElement | BaseType::AnyEnum, _) => element,
        (BaseType::AnyRange, _) => {
            RangeKind::of_element(element.base).map_or(element, |kind| BaseType::Range(kind).into())
        }
        (BaseType::AnyMultirange, _) => {
            RangeKind::of_element(element.base).map_or(element, |kind| BaseType::Multirange(kind).into())
        }
        (BaseType::Any | BaseType::AnyNonArray, Some(given)) if !is_unknown(given) => given,
        (BaseType::Any | BaseType::AnyNonArray, _) => SqlType::TEXT,
        _ => declared,
    };
    let arguments = types.iter().enumerate().map(|(index, given)| actual(candidate.argument(index), Some(*given)));
    (arguments.collect(), actual(candidate.returns(), None))
}

fn call_of(function: &'static Function, types: &[SqlType]) -> Call {
    let (arguments, returns) = types_of(function, types);
    Call { function, arguments, returns, is_spread: false }
}

/// The types of a call in parentheses, as messages have them.
pub(crate) fn list(types: &[SqlType]) -> String {
    let names: Vec<String> = types.iter().map(|sql_type| sql_type.bare().to_string()).collect();
    names.join(", ")
}

/// The error of a function, an aggregate or a function of rows that was not found.
fn function_error(name: &str, types: &[SqlType], why: Unresolved) -> SqlError {
    let called = format!("function {name}({})", list(types));
    match why {
        Unresolved::Missing => SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("{called} does not exist"))
            .with_hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            ),
        Unresolved::Ambiguous => SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("{called} is not unique"))
            .with_hint("Could not choose a best candidate function. You might need to add explicit type casts."),
    }
}

/// The function that a call means.
///
/// # Errors
/// 42883 if there is none of the name that takes such arguments, 42725 if there are several.
pub fn resolve_function(name: &str, types: &[SqlType]) -> Result<Call> {
    let (function, arguments, returns) = resolve_among(registry::named(name), name, types)?;
    Ok(Call { function, arguments, returns, is_spread: false })
}

/// The function that a call means whose last argument is an array of the function's last arguments; none if no function
/// of the name takes any number of them.
///
/// # Errors
/// 42804 if it is no array, 42883 if no function takes such arguments.
pub(crate) fn resolve_spread(name: &str, types: &[SqlType]) -> Result<Option<Call>> {
    let mut candidates = registry::named(name).iter().copied().filter(|function| function.is_variadic).peekable();
    if candidates.peek().is_none() {
        return Ok(None);
    }
    let missing = || function_error(name, types, Unresolved::Missing);
    let (last, fixed) = types.split_last().ok_or_else(missing)?;
    let fits = |function: &&'static Function| {
        let declared = function.arguments;
        let mut pairs = fixed.iter().zip(declared);
        let takes_last = match declared[declared.len() - 1] {
            SqlType { base: BaseType::Any, .. } => true,
            of_last => can_cast(*last, SqlType::array_of(of_last.base), CastContext::Implicit),
        };
        declared.len() == types.len()
            && takes_last
            && pairs.all(|(given, to)| can_cast(*given, *to, CastContext::Implicit))
    };
    let function = candidates.find(fits).ok_or_else(missing)?;
    let of_last = match function.arguments[fixed.len()] {
        SqlType { base: BaseType::Any, .. } if last.is_array => last.bare(),
        SqlType { base: BaseType::Any, .. } => {
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "VARIADIC argument must be an array"));
        }
        of_last => SqlType::array_of(of_last.base),
    };
    let arguments = function.arguments[..fixed.len()].iter().copied().chain([of_last]).collect();
    Ok(Some(Call { function, arguments, returns: function.returns, is_spread: true }))
}

/// Which of the candidates of this name a call means, the types that its arguments must be cast to, and the type of its
/// result.
///
/// # Errors
/// 42883 if none takes such arguments, 42725 if several do.
pub(crate) fn resolve_among<C: Candidate>(
    candidates: &[C],
    name: &str,
    types: &[SqlType],
) -> Result<(C, Vec<SqlType>, SqlType)> {
    let chosen = choose(candidates, types).map_err(|why| function_error(name, types, why))?;
    let (arguments, returns) = types_of(chosen, types);
    Ok((chosen, arguments, returns))
}

/// The operator between two values, or before one: then `left` is `None`.
///
/// # Errors
/// 42883 if there is none that takes such values, 42725 if there are several.
pub fn resolve_operator(symbol: &str, left: Option<SqlType>, right: SqlType) -> Result<Call> {
    let symbol = if symbol == "!=" { "<>" } else { symbol };
    let candidates = registry::named(symbol);
    let types: Vec<SqlType> = left.into_iter().chain([right]).collect();
    // A literal of unknown type is first taken to be of the type of the other side.
    let assumed: Vec<SqlType> = match types[..] {
        [left, right] if is_unknown(left) && !is_unknown(right) => vec![right.bare(); 2],
        [left, right] if is_unknown(right) && !is_unknown(left) => vec![left.bare(); 2],
        _ => types.iter().map(|sql_type| sql_type.bare()).collect(),
    };
    if let Some(exact) = candidates.iter().find(|candidate| candidate.arguments == assumed.as_slice()) {
        return Ok(call_of(exact, &assumed));
    }
    let why = match choose(candidates, &types) {
        Ok(function) => return Ok(call_of(function, &types)),
        Err(why) => why,
    };
    let name = |sql_type: SqlType| sql_type.bare().to_string();
    let shown = match left {
        Some(left) => format!("{} {symbol} {}", name(left), name(right)),
        None => format!("{symbol} {}", name(right)),
    };
    Err(match why {
        Unresolved::Missing => SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {shown}"))
            .with_hint(
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            ),
        Unresolved::Ambiguous => {
            SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {shown}"))
                .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
        }
    })
}

/// The type that values of several types can all be: of the branches of CASE, the arguments of COALESCE, of UNION.
///
/// # Errors
/// 42804 if there is none.
pub fn common_type(types: &[SqlType]) -> Result<SqlType> {
    common_type_of("CASE", types)
}

/// The same; errors begin with where the types stand: `UNION`, `COALESCE`, `VALUES`.
///
/// # Errors
/// 42804 if there is none.
pub fn common_type_of(place: &str, types: &[SqlType]) -> Result<SqlType> {
    let mut known = types.iter().copied().filter(|sql_type| !is_unknown(*sql_type));
    let Some(first) = known.next() else { return Ok(SqlType::TEXT) };
    let mut chosen = first;
    for next in known {
        if next.bare() == chosen.bare() {
            if next.modifier != chosen.modifier {
                chosen = chosen.bare();
            }
            continue;
        }
        let can = |from, to| can_cast(from, to, CastContext::Implicit);
        if category(next) != category(chosen) {
            let message = format!("{place} types {} and {} cannot be matched", chosen.bare(), next.bare());
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        chosen = if !is_preferred(chosen) && can(chosen, next) && !can(next, chosen) { next } else { chosen }.bare();
    }
    if types.iter().any(|sql_type| is_unknown(*sql_type)) {
        // A literal is as long as it is.
        chosen = chosen.bare();
    }
    match types.iter().find(|sql_type| !can_cast(**sql_type, chosen, CastContext::Implicit)) {
        None => Ok(chosen),
        Some(sql_type) => {
            let message = format!("{place} could not convert type {} to {}", sql_type.bare(), chosen.bare());
            Err(SqlError::new(SqlState::CANNOT_COERCE, message))
        }
    }
}
