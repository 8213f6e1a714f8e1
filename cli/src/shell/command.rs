//! Parses a line of the shell into a command.

use crate::failure::{Failure, Result};
use crate::import::split_list;
use crate::shell_words::{self, Word, escape};

/// The rows that `scan` shows without a limit.
pub(super) const SCAN_ROWS: u64 = 20;

/// One command.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    Help { topic: Option<String> },
    Use { table: String },
    Tables,
    Schema,
    Create(Box<Creation>),
    Index { name: String, columns: Vec<String>, unique: bool },
    Number { column: String, next: Option<i128> },
    Drop { table: String },
    Rebuild { index: String },
    Stats,
    Get { key: Word },
    Put { key: Word, value: Vec<Word> },
    Insert { key: Word, value: Vec<Word> },
    Update { key: Word, value: Vec<Word> },
    Remove { key: Word },
    Scan { range: Vec<Word>, limit: u64, reverse: bool },
    Count { range: Vec<Word> },
    Len,
    Rank { key: Word },
    Nth { offset: Offset, range: Vec<Word> },
    Page { offset: u64, limit: u64, range: Vec<Word> },
    Quantile { q: f64, range: Vec<Word> },
    Sample { rows: u64, range: Vec<Word> },
    Split { parts: u64, range: Vec<Word> },
    Groups { columns: Grouping, range: Vec<Word> },
    Tally { range: Vec<Word> },
    First { range: Vec<Word> },
    Last { range: Vec<Word> },
    Explain { question: Box<Command> },
    Begin,
    Commit,
    Rollback { savepoint: Option<String> },
    Savepoint { name: String },
    Release { name: String },
    Checkpoint,
    Json { on: bool },
    Timing { on: bool },
    Quit,
}

/// A place in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offset {
    /// So many rows after the first.
    FromStart(u64),
    /// So many rows before the end: 1 is the last row.
    FromEnd(u64),
}

/// The first columns of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// So many.
    Number(u64),
    /// These.
    Names(Vec<String>),
}

impl Command {
    /// Whether it is a question to a table.
    fn reads_a_table(&self) -> bool {
        use Command::*;
        matches!(
            self,
            Get { .. }
                | Scan { .. }
                | Count { .. }
                | Len
                | Rank { .. }
                | Nth { .. }
                | Page { .. }
                | Quantile { .. }
                | Sample { .. }
                | Split { .. }
                | Groups { .. }
                | Tally { .. }
                | First { .. }
                | Last { .. }
        )
    }
}

impl Command {
    /// The range that a question is about.
    pub(super) fn range(&self) -> Option<&[Word]> {
        use Command::*;
        match self {
            Scan { range, .. }
            | Count { range }
            | Nth { range, .. }
            | Page { range, .. }
            | Quantile { range, .. }
            | Sample { range, .. }
            | Split { range, .. }
            | Groups { range, .. }
            | Tally { range }
            | First { range }
            | Last { range } => Some(range),
            Get { key } | Rank { key } => Some(std::slice::from_ref(key)),
            Len => Some(&[]),
            _ => None,
        }
    }
}

/// What `create` is told.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Creation {
    pub(super) table: String,
    /// Names and types.
    pub(super) key: Vec<(String, String)>,
    pub(super) value: Vec<(String, String)>,
    /// Names and columns, or expressions of one.
    pub(super) indexes: Vec<(String, Vec<String>)>,
    pub(super) sum: Option<String>,
}

/// Every command's name, in the order of the help.
pub(super) const NAMES: [&str; 38] = [
    "use",
    "tables",
    "schema",
    "create",
    "index",
    "number",
    "drop",
    "rebuild",
    "stats",
    "get",
    "put",
    "insert",
    "update",
    "remove",
    "scan",
    "count",
    "len",
    "rank",
    "nth",
    "page",
    "quantile",
    "sample",
    "split",
    "groups",
    "tally",
    "first",
    "last",
    "explain",
    "begin",
    "commit",
    "rollback",
    "savepoint",
    "release",
    "checkpoint",
    "json",
    "timing",
    "help",
    "quit",
];

/// The command in `line`; none if it is empty or a comment.
pub(super) fn parse(line: &str) -> Result<Option<Command>> {
    let words = shell_words::split(line)?;
    if words.is_empty() { Ok(None) } else { parse_words(&words).map(Some) }
}

fn parse_words(words: &[Word]) -> Result<Command> {
    let Some((name, rest)) = words.split_first() else {
        return Err(Failure::new("there is no command"));
    };
    let name = name.plain().unwrap_or_default().to_ascii_lowercase();
    let mut arguments = Arguments { rest, usage: super::help::usage(&name) };
    let command = match name.as_str() {
        "help" | "?" => Command::Help { topic: arguments.optional_name()? },
        "use" => Command::Use { table: arguments.name()? },
        "tables" => Command::Tables,
        "schema" => Command::Schema,
        "index" => arguments.index()?,
        "create" => Command::Create(Box::new(arguments.creation()?)),
        "number" => Command::Number { column: arguments.name()?, next: arguments.optional_number()? },
        "drop" => Command::Drop { table: arguments.name()? },
        "rebuild" => Command::Rebuild { index: arguments.name()? },
        "stats" => Command::Stats,
        "get" => Command::Get { key: arguments.word()? },
        "put" => Command::Put { key: arguments.word()?, value: arguments.all() },
        "insert" => Command::Insert { key: arguments.word()?, value: arguments.all() },
        "update" => Command::Update { key: arguments.word()?, value: arguments.all() },
        "remove" => Command::Remove { key: arguments.word()? },
        "scan" => arguments.scan()?,
        "count" => Command::Count { range: arguments.all() },
        "len" => Command::Len,
        "rank" => Command::Rank { key: arguments.word()? },
        "nth" => Command::Nth { offset: arguments.offset()?, range: arguments.all() },
        "page" => Command::Page { offset: arguments.number()?, limit: arguments.number()?, range: arguments.all() },
        "quantile" => Command::Quantile { q: arguments.fraction()?, range: arguments.all() },
        "sample" => Command::Sample { rows: arguments.number()?, range: arguments.all() },
        "split" => Command::Split { parts: arguments.number()?, range: arguments.all() },
        "groups" => Command::Groups { columns: arguments.grouping()?, range: arguments.all() },
        "tally" => Command::Tally { range: arguments.all() },
        "first" => Command::First { range: arguments.all() },
        "last" => Command::Last { range: arguments.all() },
        "explain" => arguments.explain()?,
        "begin" => Command::Begin,
        "commit" => Command::Commit,
        "rollback" => Command::Rollback { savepoint: arguments.rollback()? },
        "savepoint" => Command::Savepoint { name: arguments.name()? },
        "release" => Command::Release { name: arguments.name()? },
        "checkpoint" => Command::Checkpoint,
        "json" => Command::Json { on: arguments.switch()? },
        "timing" => Command::Timing { on: arguments.switch()? },
        "quit" | "exit" => Command::Quit,
        _ => {
            let word = escape(&words[0].bytes());
            let near = NAMES.iter().find(|known| known.starts_with(&name) && !name.is_empty());
            let hint = near.map_or("`help` lists the commands".to_owned(), |near| format!("is it `{near}`?"));
            return Err(Failure::new(format!("there is no command {word:?}; {hint}")));
        }
    };
    match arguments.rest {
        [] => Ok(command),
        [word, ..] => {
            let word = escape(&word.bytes());
            Err(Failure::new(format!("{word:?} is too much; usage: {}", arguments.usage)))
        }
    }
}

/// The name and the columns of an index, written as `name:column,column`.
fn index_of(text: &str) -> Result<(String, Vec<String>)> {
    let wrong = || Failure::new(format!("{text:?}: write an index as name:column,column"));
    let (name, columns) = text.split_once(':').ok_or_else(wrong)?;
    Ok((name.to_owned(), split_list(columns).into_iter().map(str::to_owned).collect()))
}

/// The words after a command's name that are not taken yet.
struct Arguments<'a> {
    rest: &'a [Word],
    usage: &'static str,
}

impl<'a> Arguments<'a> {
    fn wrong(&self) -> Failure {
        Failure::new(format!("usage: {}", self.usage))
    }

    fn next(&mut self) -> Option<&'a Word> {
        let (word, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(word)
    }

    fn word(&mut self) -> Result<Word> {
        self.next().cloned().ok_or_else(|| self.wrong())
    }

    fn all(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.rest).to_vec()
    }

    fn name(&mut self) -> Result<String> {
        self.word()?.text()
    }

    fn optional_name(&mut self) -> Result<Option<String>> {
        self.next().map(Word::text).transpose()
    }

    /// A whole number, which may be negative; none if there is no word left.
    fn optional_number(&mut self) -> Result<Option<i128>> {
        let Some(text) = self.optional_name()? else { return Ok(None) };
        let number = text.replace([',', '_'], "").parse().map(Some);
        number.map_err(|_| Failure::new(format!("{text:?} is not a whole number; usage: {}", self.usage)))
    }

    /// A whole number; `200,000` and `200_000` are the same.
    fn number(&mut self) -> Result<u64> {
        let text = self.name()?;
        text.replace([',', '_'], "")
            .parse()
            .map_err(|_| Failure::new(format!("{text:?} is not a whole number; usage: {}", self.usage)))
    }

    /// A place from the start, or from the end if it is negative.
    fn offset(&mut self) -> Result<Offset> {
        let is_negative = self.rest.first().and_then(Word::plain).is_some_and(|word| word.starts_with('-'));
        match is_negative {
            true => {
                let text = self.name()?;
                let number = text[1..].replace('_', "").parse();
                let number = number.ok().filter(|number| *number > 0);
                let wrong = || Failure::new(format!("{text:?} is not a whole number; usage: {}", self.usage));
                number.map(Offset::FromEnd).ok_or_else(wrong)
            }
            false => self.number().map(Offset::FromStart),
        }
    }

    /// Names of columns, or how many.
    fn grouping(&mut self) -> Result<Grouping> {
        match self.rest.first() {
            Some(word) if word.bytes().first().is_some_and(u8::is_ascii_digit) => self.number().map(Grouping::Number),
            _ => {
                let names = self.name()?;
                Ok(Grouping::Names(names.split(',').map(str::to_owned).collect()))
            }
        }
    }

    fn fraction(&mut self) -> Result<f64> {
        let text = self.name()?;
        match text.parse() {
            Ok(q) if (0.0..=1.0).contains(&q) => Ok(q),
            _ => Err(Failure::new(format!("{text:?} is not a number from 0 to 1; usage: {}", self.usage))),
        }
    }

    fn switch(&mut self) -> Result<bool> {
        match self.name()?.as_str() {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(self.wrong()),
        }
    }

    fn rollback(&mut self) -> Result<Option<String>> {
        match self.next() {
            None => Ok(None),
            Some(to) if to.is("to") => self.name().map(Some),
            Some(_) => Err(self.wrong()),
        }
    }

    /// A command that reads a table.
    fn explain(&mut self) -> Result<Command> {
        if self.rest.is_empty() {
            return Err(self.wrong());
        }
        let question = Box::new(parse_words(&self.all())?);
        if question.reads_a_table() { Ok(Command::Explain { question }) } else { Err(self.wrong()) }
    }

    /// `[RANGE] [limit N|all] [reverse]`, the last two in any order.
    fn scan(&mut self) -> Result<Command> {
        let (mut limit, mut reverse) = (SCAN_ROWS, false);
        loop {
            match self.rest {
                [range @ .., last] if last.is("reverse") => {
                    reverse = true;
                    self.rest = range;
                }
                [range @ .., word, number] if word.is("limit") => {
                    limit = if number.is("all") {
                        u64::MAX
                    } else {
                        Arguments { rest: std::slice::from_ref(number), usage: self.usage }.number()?
                    };
                    self.rest = range;
                }
                _ => return Ok(Command::Scan { range: self.all(), limit, reverse }),
            }
        }
    }

    /// `NAME:COL,COL [unique]`.
    fn index(&mut self) -> Result<Command> {
        let (name, columns) = index_of(&self.name()?)?;
        let unique = match self.next() {
            None => false,
            Some(word) if word.is("unique") => true,
            Some(_) => return Err(self.wrong()),
        };
        Ok(Command::Index { name, columns, unique })
    }

    /// `TABLE [key COL:TYPE,... [value COL:TYPE,...]] [index NAME:COL,...]... [sum COL]`.
    fn creation(&mut self) -> Result<Creation> {
        let mut creation = Creation { table: self.name()?, ..Creation::default() };
        while let Some(word) = self.next() {
            let part = word.plain().unwrap_or_default().to_owned();
            let list = self.name()?;
            let columns = || -> Result<Vec<(String, String)>> {
                let column = |text: &str| text.split_once(':').map(|(name, kind)| (name.to_owned(), kind.to_owned()));
                let wrong = || Failure::new(format!("{list:?}: write columns as name:type,name:type"));
                split_list(&list).into_iter().map(|text| column(text).ok_or_else(wrong)).collect()
            };
            match part.as_str() {
                "key" => creation.key = columns()?,
                "value" => creation.value = columns()?,
                "sum" => creation.sum = Some(list),
                "index" => creation.indexes.push(index_of(&list)?),
                _ => return Err(self.wrong()),
            }
        }
        Ok(creation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Vec<Word> {
        shell_words::split(text).unwrap()
    }

    fn parsed(line: &str) -> Command {
        parse(line).unwrap().unwrap()
    }

    fn error(line: &str) -> String {
        parse(line).unwrap_err().to_string()
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(parse("  # nothing").unwrap(), None);
        assert_eq!(parsed("COUNT JFK,7 .. JFK,8"), Command::Count { range: range("JFK,7 .. JFK,8") });
        assert_eq!(parsed("nth 200,000"), Command::Nth { offset: Offset::FromStart(200_000), range: vec![] });
        assert_eq!(parsed("nth -2 LAX"), Command::Nth { offset: Offset::FromEnd(2), range: range("LAX") });
        assert_eq!(parsed("groups 2"), Command::Groups { columns: Grouping::Number(2), range: vec![] });
        let names = Grouping::Names(vec!["year".to_owned(), "month".to_owned()]);
        assert_eq!(parsed("groups year,month 2013"), Command::Groups { columns: names, range: range("2013") });
        assert_eq!(parsed("page 14_130 3 LAX"), Command::Page { offset: 14_130, limit: 3, range: range("LAX") });
        assert_eq!(parsed("scan"), Command::Scan { range: vec![], limit: SCAN_ROWS, reverse: false });
        let scan = Command::Scan { range: range("a .. b"), limit: 5, reverse: true };
        assert_eq!(parsed("scan a .. b limit 5 reverse"), scan);
        assert_eq!(parsed("scan a .. b reverse limit 5"), scan);
        assert_eq!(parsed("scan limit all"), Command::Scan { range: vec![], limit: u64::MAX, reverse: false });
        assert_eq!(parsed("rollback to here"), Command::Rollback { savepoint: Some("here".to_owned()) });
        let question = Box::new(Command::Count { range: range("JFK") });
        assert_eq!(parsed("explain count JFK"), Command::Explain { question });
        let creation = Creation {
            table: "towns".to_owned(),
            key: vec![("city".to_owned(), "text".to_owned())],
            value: vec![("people".to_owned(), "i64".to_owned())],
            indexes: vec![("size".to_owned(), vec!["people".to_owned(), "city".to_owned()])],
            sum: Some("people".to_owned()),
        };
        let line = "create towns key city:text value people:i64 index size:people,city sum people";
        assert_eq!(parsed(line), Command::Create(Box::new(creation)));
    }

    #[test]
    fn wrong_commands_are_explained() {
        assert_eq!(error("quant 0.5"), r#"there is no command "quant"; is it `quantile`?"#);
        assert_eq!(error("select *"), r#"there is no command "select"; `help` lists the commands"#);
        assert_eq!(error("get"), "usage: get KEY");
        assert_eq!(error("get a b"), r#""b" is too much; usage: get KEY"#);
        assert_eq!(error("nth first"), r#""first" is not a whole number; usage: nth OFFSET [RANGE]"#);
        assert_eq!(error("nth -0"), r#""-0" is not a whole number; usage: nth OFFSET [RANGE]"#);
        assert_eq!(error("quantile 2"), r#""2" is not a number from 0 to 1; usage: quantile Q [RANGE]"#);
        assert_eq!(error("json maybe"), "usage: json on|off");
        for line in ["explain", "explain commit", "explain explain len"] {
            assert_eq!(error(line), "usage: explain QUESTION");
        }
        for name in ["get", "scan", "count", "len", "rank", "nth", "page", "quantile", "sample", "split", "groups"] {
            let example = super::super::help::example(name);
            assert!(matches!(parsed(&format!("explain {example}")), Command::Explain { .. }), "{example}");
        }
        assert_eq!(error("create t key a"), r#""a": write columns as name:type,name:type"#);
    }

    #[test]
    fn every_command_has_its_help() {
        for name in NAMES {
            assert!(super::super::help::usage(name).starts_with(name), "{name}");
        }
    }
}
