//! Notations of numbers, dates and booleans that other programs write: `1.234,56`, `04.07.2013`, `yes`. A field in one
//! of them is rewritten as Quipu writes it, exactly, and only where the user or the whole column says which it is.

use std::borrow::Cow;
use std::collections::HashMap;

use quipu_rows::{DataType, Date, Value};

use crate::table_files::column_types::is_json_number;

/// How the fields of a column are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notation {
    /// Whether numbers have a comma before their fraction, and points or blanks between groups of three digits.
    pub(crate) decimal_comma: bool,
    /// The order of day, month and year.
    pub(crate) dates: Option<DateFormat>,
    /// The words of true and false.
    pub(crate) booleans: Option<(String, String)>,
}

/// The notations of a file: what the user says of it, or of some columns, and what the first pass has decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notations {
    pub(crate) decimal_comma: bool,
    /// Each of a column, or of all.
    pub(crate) dates: Vec<(Option<String>, DateFormat)>,
    pub(crate) booleans: Vec<(Option<String>, (String, String))>,
    /// The columns whose notation the first pass has found.
    pub(crate) decided: HashMap<String, Notation>,
}

impl Notations {
    /// That of a column.
    pub(crate) fn of(&self, column: &str) -> Notation {
        self.decided.get(column).cloned().unwrap_or_else(|| self.asked(column))
    }

    /// What the user says of a column.
    pub(crate) fn asked(&self, column: &str) -> Notation {
        Notation {
            decimal_comma: self.decimal_comma,
            dates: named(&self.dates, column).cloned(),
            booleans: named(&self.booleans, column).cloned(),
        }
    }

    /// The type of a column of which alone the user says the words of true and false, or the format of dates.
    pub(crate) fn type_of(&self, column: &str) -> Option<DataType> {
        let is_of = |name: &Option<String>| name.as_deref() == Some(column);
        if self.booleans.iter().any(|(name, _)| is_of(name)) {
            return Some(DataType::Bool);
        }
        self.dates.iter().any(|(name, _)| is_of(name)).then_some(DataType::Date)
    }

    /// The columns that the user names.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        let dates = self.dates.iter().filter_map(|(column, _)| column.as_deref());
        dates.chain(self.booleans.iter().filter_map(|(column, _)| column.as_deref()))
    }
}

/// What is said of a column, else of all. The last word counts.
fn named<'a, T>(said: &'a [(Option<String>, T)], column: &str) -> Option<&'a T> {
    let of = |wanted: Option<&str>| said.iter().rev().find(|(name, _)| name.as_deref() == wanted);
    of(Some(column)).or_else(|| of(None)).map(|(_, what)| what)
}

impl Notation {
    /// Whether fields are written as Quipu writes them.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Notation::default()
    }

    /// A field whose column has no type yet, as Quipu writes it; none of a number that this notation does not have.
    pub(crate) fn rewritten<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        if let Some(value) = self.boolean(text) {
            return Some(Cow::Borrowed(if value { "true" } else { "false" }));
        }
        if let Some(date) = self.dates.as_ref().and_then(|format| format.rewritten(text)) {
            return Some(Cow::Owned(date));
        }
        match self.decimal_comma {
            true => match with_point(text) {
                Some(number) => Some(Cow::Owned(number)),
                None => (!is_json_number(text)).then_some(Cow::Borrowed(text)),
            },
            false => Some(Cow::Borrowed(text)),
        }
    }

    /// The value that a field stands for in a column of this type.
    ///
    /// # Errors
    /// What is wrong with it, and which option would read it.
    pub(crate) fn parse<'t>(&self, data_type: DataType, text: &'t str) -> Result<Value<'t>, String> {
        use DataType::{Bool, Date, Decimal, F32, F64, I8, I16, I32, I64, Numeric, Timestamp, U8, U16, U32, U64};
        match data_type {
            Bool => match (&self.booleans, self.boolean(text)) {
                (_, Some(value)) => Ok(Value::Bool(value)),
                (None, None) => data_type
                    .parse_text(text)
                    .map_err(|wrong| format!("{wrong}; `--booleans yes,no` says other words for true and false")),
                (Some((yes, no)), None) => data_type
                    .parse_text(text)
                    .map_err(|_| format!("{text:?} is neither {yes:?} nor {no:?}, which --booleans says")),
            },
            Date | Timestamp => match &self.dates {
                None => data_type.parse_text(text).map_err(|wrong| match DateSigns::of(text) {
                    Some(signs) => format!("{wrong}; `--date-format` reads it, as {}", signs.formats()),
                    None => wrong,
                }),
                Some(format) => {
                    let iso = format.rewritten(text);
                    let wrong = || format!("{text:?} is not of type {data_type} with the date as {}", format.text);
                    match iso {
                        Some(iso) => data_type.parse_text(&iso).map(Value::into_owned).map_err(|_| wrong()),
                        None if format.begins_with_year() => Err(wrong()),
                        None => data_type.parse_text(text).map_err(|_| wrong()),
                    }
                }
            },
            I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | F32 | F64 | Decimal { .. } | Numeric => {
                if !self.decimal_comma {
                    return data_type.parse_text(text).map_err(|wrong| match with_point(text) {
                        Some(number) if number != text => {
                            format!("{wrong}; `--decimal-comma` reads it as {number}")
                        }
                        _ => wrong,
                    });
                }
                match with_point(text) {
                    Some(number) => data_type.parse_text(&number).map(Value::into_owned).map_err(|wrong| {
                        if number == text { wrong } else { format!("{text:?}, which is {number}: {wrong}") }
                    }),
                    None => Err(format!("{text:?} is not a number with a decimal comma, such as 1.234,56")),
                }
            }
            _ => data_type.parse_text(text),
        }
    }

    fn boolean(&self, text: &str) -> Option<bool> {
        let (yes, no) = self.booleans.as_ref()?;
        if text == yes {
            Some(true)
        } else if text == no {
            Some(false)
        } else {
            None
        }
    }
}

/// Characters that stand between groups of three digits where a comma stands before the fraction.
const GROUPERS: [char; 4] = ['.', ' ', '\u{a0}', '\u{202f}'];

/// A number with a decimal comma as JSON writes it; `None` of other texts.
///
/// Points, blanks or narrow blanks may stand between all groups of three digits, one kind of them in a number.
pub(crate) fn with_point(text: &str) -> Option<String> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (whole, fraction) = match unsigned.split_once(',') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (unsigned, None),
    };
    let whole: Cow<'_, str> = match whole.chars().find(|letter| GROUPERS.contains(letter)) {
        None => Cow::Borrowed(whole),
        Some(grouper) => {
            let mut groups = whole.split(grouper);
            let first = groups.next()?;
            let is_grouped = (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3);
            is_grouped.then(|| Cow::Owned(whole.replace(grouper, "")))?
        }
    };
    let number = match fraction {
        Some(fraction) => format!("{sign}{whole}.{fraction}"),
        None => format!("{sign}{whole}"),
    };
    // A point of the text itself is gone, so one that is left stands where the comma stood.
    is_json_number(&number).then_some(number)
}

/// What the fields of a column say of a decimal comma, where all of them may be such numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommaSigns {
    /// A comma that can stand for nothing else: `12,5`, `0,125` and `1.234,567`, but not `12,345`.
    pub(crate) is_sure: bool,
    /// A number with groups and a comma, so that groups are written.
    has_groups: bool,
    /// A number with groups of points and no comma, which with a point before its fraction would be another.
    has_bare_points: bool,
}

impl CommaSigns {
    /// Looks at a field that [`with_point`] reads.
    pub(crate) fn see(&mut self, text: &str) {
        let text = text.strip_prefix('-').unwrap_or(text);
        let is_grouped = text.contains(GROUPERS);
        match text.split_once(',') {
            Some((whole, fraction)) => {
                self.has_groups |= is_grouped;
                self.is_sure |= is_grouped || fraction.len() != 3 || whole.len() > 3 || whole == "0";
            }
            None => self.has_bare_points |= text.contains('.'),
        }
    }

    /// Whether the numbers of the column can be nothing but those with a decimal comma.
    pub(crate) fn are_decisive(self) -> bool {
        self.is_sure && (self.has_groups || !self.has_bare_points)
    }
}

/// The order in which a date has its day, month and year, and what stands between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DateFormat {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Four digits.
    Year,
    /// Two digits, or also one.
    Month {
        is_short: bool,
    },
    Day {
        is_short: bool,
    },
    Letter(char),
}

impl DateFormat {
    /// The format that a text such as `DD.MM.YYYY`, `M/D/YYYY` or `%d.%m.%Y` says.
    ///
    /// # Errors
    /// Why it says none.
    pub(crate) fn parse(text: &str) -> Result<DateFormat, String> {
        let letters = text.replace("%Y", "YYYY").replace("%m", "M").replace("%d", "D");
        let mut rest = letters.as_str();
        let mut parts = Vec::new();
        while let Some(letter) = rest.chars().next() {
            let count = rest.chars().take_while(|other| *other == letter).count();
            let (part, taken) = match (letter.to_ascii_uppercase(), count) {
                ('Y', 4) => (Part::Year, count),
                ('Y', _) => return Err("a year has four digits: YYYY".to_owned()),
                ('M', 1 | 2) => (Part::Month { is_short: count == 1 }, count),
                ('D', 1 | 2) => (Part::Day { is_short: count == 1 }, count),
                (other, _) if other.is_alphanumeric() || other == '%' => {
                    return Err(
                        "write it with YYYY, MM and DD, as DD.MM.YYYY; M and D take one digit as well".to_owned()
                    );
                }
                _ => (Part::Letter(letter), 1),
            };
            parts.push(part);
            rest = &rest[letter.len_utf8() * taken..];
        }
        let count = |is_it: fn(&Part) -> bool| parts.iter().filter(|part| is_it(part)).count();
        let is_whole = count(|part| *part == Part::Year) == 1
            && count(|part| matches!(part, Part::Month { .. })) == 1
            && count(|part| matches!(part, Part::Day { .. })) == 1;
        let is_number = |part: &Part| !matches!(part, Part::Letter(_));
        let is_short = |part: &Part| matches!(part, Part::Month { is_short: true } | Part::Day { is_short: true });
        if !is_whole {
            return Err("a date has YYYY, MM and DD once each, as DD.MM.YYYY".to_owned());
        }
        if parts.windows(2).any(|pair| is_short(&pair[0]) && is_number(&pair[1])) {
            return Err("what stands after M or D must not be a digit: write MM and DD".to_owned());
        }
        Ok(DateFormat { text: text.to_owned(), parts })
    }

    /// Whether dates in it could be taken for those that Quipu writes.
    pub(crate) fn begins_with_year(&self) -> bool {
        self.parts.first() == Some(&Part::Year)
    }

    /// A date that is written so, with or without a time after it, as Quipu writes it: `2013-07-04`; none of a text
    /// that begins otherwise, or that names no day of the calendar.
    pub(crate) fn rewritten(&self, text: &str) -> Option<String> {
        let (mut year, mut month, mut day) = (0, 0, 0);
        let mut rest = text;
        for part in &self.parts {
            match part {
                Part::Letter(letter) => rest = rest.strip_prefix(*letter)?,
                Part::Year => (year, rest) = number(rest, 4, 4)?,
                Part::Month { is_short } => (month, rest) = number(rest, if *is_short { 1 } else { 2 }, 2)?,
                Part::Day { is_short } => (day, rest) = number(rest, if *is_short { 1 } else { 2 }, 2)?,
            }
        }
        if !rest.is_empty() && !rest.starts_with([' ', 'T']) {
            return None;
        }
        let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?)?;
        Some(format!("{date}{rest}"))
    }
}

/// The number that so many digits at the front say, and what stands after them.
fn number(text: &str, digits_min: usize, digits_max: usize) -> Option<(i16, &str)> {
    let digits = text.bytes().take(digits_max).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    if digits < digits_min { None } else { Some((number.parse().ok()?, rest)) }
}

/// What the fields of a column say of the order of day and month, where all of them may be dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateSigns {
    separator: u8,
    may_begin_with_day: bool,
    may_begin_with_month: bool,
    /// Whether each day and each month has two digits.
    are_long: bool,
}

impl DateSigns {
    /// What a text says that may be a date, or a time that begins with one; none of another.
    pub(crate) fn of(text: &str) -> Option<DateSigns> {
        let separator = text.bytes().find(|byte| !byte.is_ascii_digit()).filter(|byte| b"./-".contains(byte))?;
        let letter = char::from(separator);
        let is_of = |format: [&str; 2]| {
            let format = DateFormat::parse(&format!("{}{letter}{}{letter}YYYY", format[0], format[1]));
            format.is_ok_and(|format| format.rewritten(text).is_some())
        };
        let (may_begin_with_day, may_begin_with_month) = (is_of(["D", "M"]), is_of(["M", "D"]));
        let are_long = is_of(["DD", "MM"]) || is_of(["MM", "DD"]);
        let signs = DateSigns { separator, may_begin_with_day, may_begin_with_month, are_long };
        (may_begin_with_day || may_begin_with_month).then_some(signs)
    }

    /// What two texts say together; none if no format has both.
    pub(crate) fn and(self, other: DateSigns) -> Option<DateSigns> {
        let signs = DateSigns {
            separator: self.separator,
            may_begin_with_day: self.may_begin_with_day && other.may_begin_with_day,
            may_begin_with_month: self.may_begin_with_month && other.may_begin_with_month,
            are_long: self.are_long && other.are_long,
        };
        let is_possible = signs.may_begin_with_day || signs.may_begin_with_month;
        (self.separator == other.separator && is_possible).then_some(signs)
    }

    /// The formats that fit, for a person to choose.
    pub(crate) fn formats(self) -> String {
        let (letter, [day, month]) =
            (char::from(self.separator), if self.are_long { ["DD", "MM"] } else { ["D", "M"] });
        let fitting = [
            self.may_begin_with_day.then(|| format!("{day}{letter}{month}{letter}YYYY")),
            self.may_begin_with_month.then(|| format!("{month}{letter}{day}{letter}YYYY")),
        ];
        fitting.into_iter().flatten().collect::<Vec<_>>().join(" or ")
    }
}

/// Words of true and false that programs write.
const BOOLEAN_WORDS: [(&str, &str); 9] = [
    ("yes", "no"),
    ("Yes", "No"),
    ("YES", "NO"),
    ("y", "n"),
    ("Y", "N"),
    ("t", "f"),
    ("T", "F"),
    ("on", "off"),
    ("ON", "OFF"),
];

/// What the fields of a column say of its words, where all of them may be true or false.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordSigns {
    words: (&'static str, &'static str),
    has_true: bool,
    has_false: bool,
}

impl WordSigns {
    /// What a text says that may be such a word; none of another.
    pub(crate) fn of(text: &str) -> Option<WordSigns> {
        let words = BOOLEAN_WORDS.into_iter().find(|(yes, no)| text == *yes || text == *no)?;
        Some(WordSigns { words, has_true: text == words.0, has_false: text == words.1 })
    }

    /// What two texts say together; none if they are not of one pair.
    pub(crate) fn and(self, other: WordSigns) -> Option<WordSigns> {
        let (has_true, has_false) = (self.has_true || other.has_true, self.has_false || other.has_false);
        (self.words == other.words).then_some(WordSigns { words: self.words, has_true, has_false })
    }

    /// The words, if both are there.
    pub(crate) fn words(self) -> Option<String> {
        (self.has_true && self.has_false).then(|| format!("{},{}", self.words.0, self.words.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_a_decimal_comma_are_written_with_a_point() {
        for (text, number) in [
            ("12,5", "12.5"),
            ("-0,125", "-0.125"),
            ("1.234,56", "1234.56"),
            ("1.234.567", "1234567"),
            ("1 234,5", "1234.5"),
            ("1\u{202f}234\u{202f}567,5", "1234567.5"),
            ("12,50", "12.50"),
            ("1,5e-7", "1.5e-7"),
            ("1234", "1234"),
        ] {
            assert_eq!(with_point(text).as_deref(), Some(number), "{text}");
        }
        for text in [
            "1.5",
            "12,",
            ",5",
            "1,2,3",
            "1.23,4",
            "1234.567,8",
            "1.234 567,8",
            "01,5",
            "+1,5",
            "1,5 EUR",
            "",
            "-",
            "x",
            "1.,5",
        ] {
            assert_eq!(with_point(text), None, "{text}");
        }
    }

    #[test]
    fn a_comma_is_sure_where_it_can_stand_for_nothing_else() {
        let decisive = |fields: &[&str]| {
            let mut signs = CommaSigns::default();
            fields.iter().for_each(|field| signs.see(field));
            signs.are_decisive()
        };
        assert!(
            decisive(&["12,5", "7"]) && decisive(&["0,125"]) && decisive(&["1.234,567"]) && decisive(&["1234,567"])
        );
        assert!(!decisive(&["12,345", "7"]), "perhaps twelve thousand");
        assert!(!decisive(&["12,5", "1.234"]), "perhaps one and a quarter");
        assert!(decisive(&["1.234,5", "1.234"]) && !decisive(&["7"]));
    }

    #[test]
    fn dates_have_the_order_that_their_format_says() {
        let of = |format: &str, text: &str| DateFormat::parse(format).unwrap().rewritten(text);
        assert_eq!(of("DD.MM.YYYY", "04.07.2013").as_deref(), Some("2013-07-04"));
        assert_eq!(of("MM/DD/YYYY", "04/07/2013").as_deref(), Some("2013-04-07"));
        assert_eq!(of("%d.%m.%Y", "4.7.2013 05:15").as_deref(), Some("2013-07-04 05:15"));
        assert_eq!(of("YYYYMMDD", "20130704").as_deref(), Some("2013-07-04"));
        assert_eq!(of("d-m-yyyy", "4-12-2013").as_deref(), Some("2013-12-04"));
        for (format, text) in [
            ("DD.MM.YYYY", "4.7.2013"),
            ("DD.MM.YYYY", "31.02.2013"),
            ("DD.MM.YYYY", "04/07/2013"),
            ("DD.MM.YYYY", "04.07.20134"),
            ("DD.MM.YYYY", "04.07.13"),
            ("MM/DD/YYYY", "13/07/2013"),
        ] {
            assert_eq!(of(format, text), None, "{format} {text}");
        }
        for (format, why) in [
            ("DD.MM.YY", "four digits"),
            ("DD.MM", "once each"),
            ("DD.DD.YYYY", "once each"),
            ("DMYYYY", "must not be a digit"),
            ("DD Mon YYYY", "write it with"),
            ("", "once each"),
        ] {
            let error = DateFormat::parse(format).unwrap_err();
            assert!(error.contains(why), "{format}: {error}");
        }
    }

    #[test]
    fn what_looks_like_a_date_has_the_formats_that_it_fits() {
        let of = |texts: &[&str]| {
            let mut signs = texts.iter().map(|text| DateSigns::of(text));
            let first = signs.next().unwrap();
            signs.fold(first, |all, one| all?.and(one?)).map(DateSigns::formats)
        };
        assert_eq!(of(&["04/07/2013"]).as_deref(), Some("DD/MM/YYYY or MM/DD/YYYY"));
        assert_eq!(of(&["04.07.2013", "24.07.2013 05:15"]).as_deref(), Some("DD.MM.YYYY"));
        assert_eq!(of(&["04/07/2013", "4/27/2013"]).as_deref(), Some("M/D/YYYY"));
        assert_eq!(of(&["24.07.2013", "07.24.2013"]), None);
        assert_eq!(of(&["24.07.2013", "24/07/2013"]), None);
        for text in ["2013-07-04", "1.5", "31.31.2013", "x", "", "7"] {
            assert_eq!(of(&[text]), None, "{text}");
        }
    }

    #[test]
    fn words_are_told_where_both_are_there() {
        let of = |texts: &[&str]| {
            let mut signs = texts.iter().map(|text| WordSigns::of(text));
            let first = signs.next().unwrap();
            signs.fold(first, |all, one| all?.and(one?)).and_then(WordSigns::words)
        };
        assert_eq!(of(&["yes", "no", "yes"]).as_deref(), Some("yes,no"));
        assert_eq!((of(&["yes"]), of(&["yes", "No"]), of(&["Y", "X"])), (None, None, None));
    }

    #[test]
    fn words_are_true_and_false_where_the_user_says_so() {
        let notation = Notation { booleans: Some(("yes".to_owned(), "no".to_owned())), ..Notation::default() };
        assert_eq!(notation.parse(DataType::Bool, "yes"), Ok(Value::Bool(true)));
        assert_eq!(notation.parse(DataType::Bool, "FALSE"), Ok(Value::Bool(false)));
        assert_eq!(notation.parse(DataType::TEXT, "yes"), Ok(Value::from("yes")));
        let error = notation.parse(DataType::Bool, "maybe").unwrap_err();
        assert_eq!(error, "\"maybe\" is neither \"yes\" nor \"no\", which --booleans says");
    }
}
