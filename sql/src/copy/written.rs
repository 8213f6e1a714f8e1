//! Options of COPY as a statement says them.

use crate::copy::options::{Columns, CopyFormat, CopyOptions, Header};
use crate::error::{Result, SqlError, SqlState};
use crate::types::text_encoding::TextEncoding;

/// An option, with its name in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenOption {
    /// The name: `format`, `delimiter`.
    pub name: String,
    /// The value.
    pub value: OptionValue,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// There is none.
    None,
    /// A text, a word or a number.
    Text(String),
    /// `*`.
    All,
    /// Names in parentheses.
    List(Vec<String>),
}

/// The rows of a COPY that options are for.
pub struct CopiedRows<'c> {
    /// Whether rows come in.
    pub is_from: bool,
    /// The names of its columns.
    pub names: &'c [String],
    /// The encoding of the data if none is said.
    pub encoding: TextEncoding,
}

fn error<T>(state: SqlState, text: impl Into<String>) -> Result<T> {
    Err(SqlError::new(state, text.into()))
}

impl WrittenOption {
    fn text(&self) -> Result<String> {
        match &self.value {
            OptionValue::Text(text) => Ok(text.clone()),
            OptionValue::All => Ok("*".to_owned()),
            OptionValue::List(names) => Ok(names.join(", ")),
            OptionValue::None => error(SqlState::SYNTAX_ERROR, format!("{} requires a parameter", self.name)),
        }
    }

    /// Whether it is said, or none if its value is another word.
    fn choice(&self) -> Option<bool> {
        match &self.value {
            OptionValue::None => Some(true),
            OptionValue::Text(text) => match &*text.to_ascii_lowercase() {
                "true" | "on" | "1" => Some(true),
                "false" | "off" | "0" => Some(false),
                _ => None,
            },
            OptionValue::All | OptionValue::List(_) => None,
        }
    }

    /// The one byte that it gives.
    fn byte(&self) -> Result<u8> {
        match self.text()?.as_bytes() {
            [byte] => Ok(*byte),
            _ => {
                let what = format!("COPY {} must be a single one-byte character", self.name);
                error(SqlState::FEATURE_NOT_SUPPORTED, what)
            }
        }
    }

    fn columns(&self, names: &[String]) -> Result<Columns> {
        let place = |name: &String| match names.iter().position(|known| known == name) {
            Some(place) => Ok(place),
            None => {
                let what = format!("{} column \"{name}\" not referenced by COPY", self.name.to_uppercase());
                error(SqlState::INVALID_COLUMN_REFERENCE, what)
            }
        };
        match &self.value {
            OptionValue::All => Ok(Columns::All),
            OptionValue::List(named) => Ok(Columns::Some(named.iter().map(place).collect::<Result<_>>()?)),
            _ => {
                let what = format!("argument to option \"{}\" must be a list of column names", self.name);
                error(SqlState::INVALID_PARAMETER_VALUE, what)
            }
        }
    }

    fn format(&self) -> Result<CopyFormat> {
        match &*self.text()? {
            "text" => Ok(CopyFormat::Text),
            "csv" => Ok(CopyFormat::Csv),
            "binary" => Ok(CopyFormat::Binary),
            other => error(SqlState::INVALID_PARAMETER_VALUE, format!("COPY format \"{other}\" not recognized")),
        }
    }

    fn header(&self, is_from: bool) -> Result<Header> {
        match self.choice() {
            Some(true) => Ok(Header::Yes),
            Some(false) => Ok(Header::No),
            None if self.value == OptionValue::Text("match".to_owned()) && is_from => Ok(Header::Match),
            None if self.value == OptionValue::Text("match".to_owned()) => {
                error(SqlState::FEATURE_NOT_SUPPORTED, "cannot use \"match\" with HEADER in COPY TO")
            }
            None => error(SqlState::SYNTAX_ERROR, "header requires a Boolean value or \"match\""),
        }
    }

    /// What this option needs that is not so.
    fn refuse_wrong(&self, format: CopyFormat, is_from: bool) -> Result<()> {
        let unsupported = |what: String| error(SqlState::FEATURE_NOT_SUPPORTED, what);
        let shown = self.name.replace('_', " ");
        match (&*self.name, format) {
            ("delimiter" | "null", CopyFormat::Binary) => {
                let what = format!("cannot specify {} in BINARY mode", self.name.to_uppercase());
                error(SqlState::SYNTAX_ERROR, what)
            }
            ("header", CopyFormat::Binary) => unsupported("cannot specify HEADER in BINARY mode".to_owned()),
            (
                "quote" | "escape" | "force_quote" | "force_not_null" | "force_null",
                CopyFormat::Text | CopyFormat::Binary,
            ) => unsupported(format!("COPY {shown} available only in CSV mode")),
            ("force_quote", _) if is_from => unsupported("COPY force quote only available using COPY TO".to_owned()),
            ("force_not_null" | "force_null", _) if !is_from => {
                unsupported(format!("COPY {shown} only available using COPY FROM"))
            }
            _ => Ok(()),
        }
    }
}

/// What options say together.
///
/// # Errors
/// PostgreSQL's: of an unknown option or one that is said twice, of a value that it cannot have, of what does not go
/// together.
pub fn options_of(written: &[WrittenOption], copied: &CopiedRows<'_>) -> Result<CopyOptions> {
    for (at, option) in written.iter().enumerate() {
        if written[..at].iter().any(|before| before.name == option.name) {
            return error(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
        }
    }
    let format = written.iter().find(|option| option.name == "format").map(WrittenOption::format).transpose()?;
    let format = format.unwrap_or(CopyFormat::Text);
    let mut options = CopyOptions { encoding: copied.encoding, ..CopyOptions::new(format) };
    let mut escape = None;
    for option in written {
        option.refuse_wrong(format, copied.is_from)?;
        match &*option.name {
            "format" => {}
            "freeze" if option.choice().is_some() => {}
            "freeze" => return error(SqlState::SYNTAX_ERROR, "freeze requires a Boolean value"),
            "delimiter" => options.delimiter = option.byte()?,
            "null" => options.null = option.text()?.into_bytes(),
            "header" => options.header = option.header(copied.is_from)?,
            "quote" => options.quote = option.byte()?,
            "escape" => escape = Some(option.byte()?),
            "force_quote" => options.force_quote = option.columns(copied.names)?,
            "force_not_null" => options.force_not_null = option.columns(copied.names)?,
            "force_null" => options.force_null = option.columns(copied.names)?,
            "encoding" => match option.text().ok().and_then(|name| TextEncoding::of_name(&name)) {
                Some(encoding) => options.encoding = encoding,
                None => {
                    let what = "argument to option \"encoding\" must be a valid encoding name";
                    return error(SqlState::INVALID_PARAMETER_VALUE, what);
                }
            },
            other => return error(SqlState::SYNTAX_ERROR, format!("option \"{other}\" not recognized")),
        }
    }
    // If none is said, a quote is escaped by itself.
    options.escape = escape.unwrap_or(options.quote);
    options.check()?;
    Ok(options)
}
