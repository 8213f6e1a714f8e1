//! Keys and ranges of keys as people write them.
//!
//! In a table with columns a key is the values of its columns between commas, `JFK,7`, and fewer values than the key
//! has columns stand for all keys that begin with them. In other tables a key is a string, and a beginning of strings
//! as well. A missing value is `null`.
//!
//! | written | range |
//! |---|---|
//! | nothing, or `..` | all |
//! | `JFK` | what begins with JFK |
//! | `JF*` | text that begins with JF |
//! | `JFK,7 .. JFK,9` | from the first of (JFK, 7) to before the first of (JFK, 9) |
//! | `JFK,7 ..= JFK,9` | to the last of (JFK, 9) |
//! | `JFK ..`, `.. JFK`, `..= JFK` | open at one end; without the keys that have NULL there |
//! | `null .. JFK` | with them |
//! | `..1900`, `1900..`, `1900..2000` | the same: dots may touch a key at an open end, and between digits |

use std::ops::Bound;

use quipu_rows::{DataType, Span, Value};

use crate::failure::{Failure, Result};
use crate::grid::counted;
use crate::shell_words::{self, Item, Word};

/// The columns of a key.
pub(crate) struct KeyNotation {
    /// Names and types.
    pub(crate) columns: Vec<(String, DataType)>,
}

/// A range of strings.
pub(crate) type StringRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The words of a range, by their places.
enum Range<'w> {
    All,
    /// What begins with a word.
    Beginning(&'w Word),
    /// From a word to before, or to the last of, another.
    Between {
        start: Option<&'w Word>,
        end: Option<(&'w Word, bool)>,
    },
}

/// The same words, with dots that touch a key on their own: at the beginning of a word or at its end, or between what
/// begins with digits on both sides.
fn with_dots_apart(words: &[Word]) -> Vec<Word> {
    let mut apart = Vec::with_capacity(words.len());
    for word in words {
        let [first, ..] = &word.items[..] else { continue };
        let dots = |text: &[u8]| if text.starts_with(b"..=") { 3 } else { 2 };
        let is_bare = word
            .items
            .iter()
            .all(|item| !item.quoted && item.equals.is_none_or(|at| item.bytes[..at].ends_with(b"..")));
        let alone = |text: &[u8]| Word { items: vec![Item { bytes: text.to_vec(), ..Item::default() }] };
        if !is_bare || word.is("..") || word.is("..=") {
            apart.push(word.clone());
        } else if first.bytes.starts_with(b"..") {
            let (taken, mut rest) = (dots(&first.bytes), word.clone());
            apart.push(alone(&first.bytes[..taken]));
            rest.items[0] = Item { bytes: first.bytes[taken..].to_vec(), star: first.star, ..Item::default() };
            apart.push(rest);
        } else if let Some(last) = word.items.last().filter(|last| !last.star && last.bytes.ends_with(b"..")) {
            let mut rest = word.clone();
            let place = rest.items.len() - 1;
            rest.items[place] = Item { bytes: last.bytes[..last.bytes.len() - 2].to_vec(), ..Item::default() };
            apart.extend([rest, alone(b"..")]);
        } else if let [Item { bytes, star: false, .. }] = &word.items[..]
            && let Some(at) = bytes.windows(2).position(|pair| pair == b"..")
            && let (start, end) = (&bytes[..at], &bytes[at + dots(&bytes[at..])..])
            && begins_as_number(start)
            && begins_as_number(end)
        {
            apart.extend([alone(start), alone(&bytes[at..bytes.len() - end.len()]), alone(end)]);
        } else {
            apart.push(word.clone());
        }
    }
    apart
}

fn begins_as_number(text: &[u8]) -> bool {
    text.strip_prefix(b"-").unwrap_or(text).first().is_some_and(u8::is_ascii_digit)
}

/// The parts of the range that `words` say.
fn parts(words: &[Word]) -> Result<Range<'_>> {
    let Some(dots) = words.iter().position(|word| word.is("..") || word.is("..=")) else {
        return match words {
            [] => Ok(Range::All),
            [word] => Ok(Range::Beginning(word)),
            [_, second, ..] => Err(Failure::new(format!(
                "{:?} is too much: a range is `a`, `a .. b`, `a ..= b`, `a ..` or `.. b`",
                shell_words::escape(&second.bytes())
            ))),
        };
    };
    let start = match &words[..dots] {
        [] => None,
        [word] => Some(word),
        _ => return Err(Failure::new("more than one key stands before `..`")),
    };
    let to_last = words[dots].is("..=");
    let end = match &words[dots + 1..] {
        [] if to_last => return Err(Failure::new("there is no key after `..=`")),
        [] => None,
        [word] => Some((word, to_last)),
        _ => return Err(Failure::new("more than one key follows `..`")),
    };
    Ok(Range::Between { start, end })
}

impl KeyNotation {
    /// The names of the columns, between commas.
    pub(crate) fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// The key that `word` says in full.
    pub(crate) fn whole_key(&self, word: &Word) -> Result<Vec<Value<'static>>> {
        match word.items.len() {
            found if found < self.columns.len() => Err(self.wrong_count(found)),
            _ => self.values(word),
        }
    }

    /// The values that the items of `word` are, as the key's columns have them.
    pub(crate) fn values(&self, word: &Word) -> Result<Vec<Value<'static>>> {
        refuse_star(word)?;
        self.beginning(word)
    }

    /// The same of a word that may end with a star, which is left out.
    fn beginning(&self, word: &Word) -> Result<Vec<Value<'static>>> {
        let is_of_key = |item: &&Item| {
            let name = item.equals.map(|at| &item.bytes[..at]);
            self.columns.iter().any(|(column, _)| Some(column.as_bytes()) == name)
        };
        if let Some(item) = word.items.iter().find(is_of_key) {
            let what = shell_words::escape(&item.bytes);
            return Err(Failure::new(format!(
                "a key is written as its values alone, without names; put quotes around {what} if it is a text"
            )));
        }
        if word.items.len() > self.columns.len() {
            return Err(self.wrong_count(word.items.len()));
        }
        (word.items.iter().zip(&self.columns)).map(|(item, (name, data_type))| value(item, *data_type, name)).collect()
    }

    fn wrong_count(&self, found: usize) -> Failure {
        let (columns, names) = (counted(self.columns.len(), "column"), self.names());
        Failure::new(format!("a key of this table has {columns}, {names}; here are {found}"))
    }

    /// The range that `words` say.
    pub(crate) fn span(&self, words: &[Word]) -> Result<Span<'static>> {
        Ok(match parts(&with_dots_apart(words))? {
            Range::All => Span::all(),
            Range::Beginning(word) => {
                let values = self.beginning(word)?;
                match has_star(word) {
                    false => Span::eq(values),
                    true if matches!(values.last(), Some(Value::Text(_))) => Span::starts_with(values),
                    true => return Err(Failure::new("a star continues text, and this column is not of type text")),
                }
            }
            Range::Between { start, end } => {
                let all = match start {
                    Some(word) => Span::ge(self.end_values(word)?),
                    None => Span::all(),
                };
                match end {
                    Some((word, true)) => all.and_le(self.end_values(word)?),
                    Some((word, false)) => all.and_lt(self.end_values(word)?),
                    None => all,
                }
            }
        })
    }

    /// The values of a word beside dots.
    fn end_values(&self, word: &Word) -> Result<Vec<Value<'static>>> {
        match has_star(word) {
            true => Err(Failure::new("a star stands for a range of its own, not for an end of one")),
            false => self.values(word),
        }
    }

    /// Values of the first columns as text; of a missing one, none.
    pub(crate) fn texts(&self, values: &[Value<'_>]) -> Vec<String> {
        values.iter().zip(&self.columns).map(|(value, (_, kind))| kind.to_text(value).into_owned()).collect()
    }

    /// Values of the first columns as a JSON array.
    pub(crate) fn json(&self, values: &[Value<'_>]) -> String {
        let mut json = String::from("[");
        for (value, (_, data_type)) in values.iter().zip(&self.columns) {
            if json.len() > 1 {
                json.push(',');
            }
            data_type.write_json(value, &mut json);
        }
        json + "]"
    }

    /// A key as [`KeyNotation::values`] reads it.
    pub(crate) fn show(&self, values: &[Value<'_>]) -> String {
        let item = |(value, (_, data_type)): (&Value<'_>, &(String, DataType))| match value {
            Value::Null => "null".to_owned(),
            other => shell_words::item(data_type.to_text(other).as_bytes()),
        };
        values.iter().zip(&self.columns).map(item).collect::<Vec<_>>().join(",")
    }
}

/// Fails if a star stands where it would be no continuation.
fn refuse_star(word: &Word) -> Result<()> {
    match word.items.iter().any(|item| item.star) {
        true => Err(Failure::new("a star stands for a range of keys; put quotes around a text that ends with one")),
        false => Ok(()),
    }
}

fn has_star(word: &Word) -> bool {
    word.items.last().is_some_and(|item| item.star)
}

/// The value of a column that an item says.
pub(crate) fn value(item: &Item, data_type: DataType, name: &str) -> Result<Value<'static>> {
    if !item.quoted && item.bytes == b"null" {
        return Ok(Value::Null);
    }
    if !item.quoted && !item.star && item.bytes.is_empty() {
        return Err(Failure::new(format!("column {name}: there is nothing; write null, or \"\" for an empty text")));
    }
    let text = std::str::from_utf8(&item.bytes).map_err(|_| Failure::new(format!("column {name}: not UTF-8")))?;
    match data_type.parse_text(text) {
        Ok(value) => Ok(value.into_owned()),
        Err(reason) => Err(Failure::new(format!("column {name}: {reason}"))),
    }
}

/// The values of other columns than those of the key: `a,b,c` for all, or `name=value` for some. Each with its place in
/// `columns`.
///
/// An equals sign that is not in quotes stands after the name of a column: else a name with a typing error
/// would become part of a text.
pub(crate) fn assignments(
    words: &[Word],
    columns: &[(String, DataType)],
    key: &[(String, DataType)],
) -> Result<Vec<(usize, Value<'static>)>> {
    let of = |place: usize, item: &Item| {
        let (name, data_type) = &columns[place];
        value(item, *data_type, name).map(|value| (place, value))
    };
    words.iter().try_for_each(refuse_star)?;
    if let [word] = words
        && word.items.len() == columns.len()
        && word.items.iter().all(|item| item.equals.is_none())
    {
        return word.items.iter().enumerate().map(|(place, item)| of(place, item)).collect();
    }
    let mut assigned: Vec<(usize, Value<'static>)> = Vec::with_capacity(words.len());
    for word in words {
        let (place, item) = assignment(word, columns, key)?;
        if assigned.iter().any(|(known, _)| *known == place) {
            return Err(Failure::new(format!("column {} has two values", columns[place].0)));
        }
        assigned.push(of(place, &item)?);
    }
    Ok(assigned)
}

/// The place of the column that a word names, and what it assigns.
fn assignment(word: &Word, columns: &[(String, DataType)], key: &[(String, DataType)]) -> Result<(usize, Item)> {
    let names = || match columns {
        [] => "none".to_owned(),
        columns => columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(","),
    };
    let Some((item, at)) = word.items.iter().find_map(|item| Some((item, item.equals?))) else {
        return Err(Failure::new(format!(
            "a row of this table has {} beside its key, {}; write all between commas, or some as name=value",
            counted(columns.len(), "column"),
            names()
        )));
    };
    let name = &item.bytes[..at];
    let is_named = |(column, _): &(String, DataType)| column.as_bytes() == name;
    let Some(place) = columns.iter().position(is_named) else {
        let name = shell_words::escape(name);
        return Err(Failure::new(match key.iter().any(is_named) {
            true => format!("column {name} is one of the key, which stands before the values and does not change"),
            false => format!(
                "there is no column {name:?} beside the key; there are {}; a text with an = stands in quotes",
                names()
            ),
        }));
    };
    match word.items.len() {
        1 => {
            let bytes = item.bytes[at + 1..].to_vec();
            Ok((place, Item { bytes, quoted: item.value_quoted, ..Item::default() }))
        }
        _ => Err(Failure::new(format!("column {}: put quotes around a text with a comma or an =", columns[place].0))),
    }
}

/// The range of strings that `words` say.
pub(crate) fn string_range(words: &[Word]) -> Result<StringRange> {
    Ok(match parts(words)? {
        Range::All => (Bound::Unbounded, Bound::Unbounded),
        Range::Beginning(word) => strings_that_begin(word),
        Range::Between { start, end } => {
            let start = start.map_or(Bound::Unbounded, |word| strings_that_begin(word).0);
            let end = match end {
                None => Bound::Unbounded,
                Some((word, true)) if has_star(word) => strings_that_begin(word).1,
                Some((word, true)) => Bound::Included(word.bytes()),
                Some((word, false)) => match strings_that_begin(word).0 {
                    Bound::Included(start) => Bound::Excluded(start),
                    other => other,
                },
            };
            (start, end)
        }
    })
}

fn strings_that_begin(word: &Word) -> StringRange {
    let mut prefix = word.bytes();
    if has_star(word) {
        prefix.pop();
    }
    let end = prefix.iter().rposition(|&byte| byte < 0xff).map(|last| {
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        end
    });
    (Bound::Included(prefix), end.map_or(Bound::Unbounded, Bound::Excluded))
}

/// The words of a range that options of the command line say; none if they say none.
pub(crate) fn words_of_options(from: Option<&str>, to: Option<&str>, prefix: Option<&str>) -> Result<Vec<Word>> {
    let one = |option: &str, text: &str| shell_words::single(text).map_err(|error| error.context(option));
    if let Some(prefix) = prefix {
        return Ok(vec![one("--prefix", prefix)?]);
    }
    let mut range = Vec::new();
    range.extend(from.map(|text| one("--from", text)).transpose()?);
    range.extend(shell_words::split("..")?);
    range.extend(to.map(|text| one("--to", text)).transpose()?);
    Ok(range)
}

#[cfg(test)]
mod tests;
