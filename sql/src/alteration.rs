//! Statements that change what there is, of which the parser knows no tree: ALTER of sequences, views and schemas,
//! REFRESH MATERIALIZED VIEW, and parts of ALTER TABLE and ALTER INDEX; those of types are read by `type_change`.

use std::sync::Arc;

use sqlparser::ast::{
    AlterTableOperation, ConstraintCharacteristics, DataType, DeferrableInitial, Expr, Ident, ObjectName, SchemaName,
    SequenceOptions,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::block::Block;
use crate::dialect::{parser_of, written};
use crate::error::{SqlError, SqlState};
use crate::type_change::{self, TypeChange};
use crate::upkeep::{self, Upkeep};

/// What a statement says that it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A materialized view.
    Materialized,
    /// An index.
    Index,
    /// A sequence.
    Sequence,
    /// A schema.
    Schema,
    /// A type that is an enum.
    Type,
    /// A type that is a domain.
    Domain,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Alteration {
    /// What it changes.
    pub kind: Kind,
    /// The name of that.
    pub name: ObjectName,
    /// Whether it may be missing.
    pub if_exists: bool,
    /// What becomes of it, one after the other.
    pub changes: Vec<Change>,
    /// What it is if it is upkeep, and changes nothing.
    pub upkeep: Option<Upkeep>,
}

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// What the parser knows of tables.
    Known(Box<AlterTableOperation>),
    /// Another name.
    Rename(Ident),
    /// Another name of a column.
    RenameColumn(Ident, Ident),
    /// Another schema.
    SetSchema(Ident),
    /// Other options of a sequence.
    Sequence(Vec<SequenceOption>),
    /// A column that becomes an identity column.
    AddIdentity(Ident, NewIdentity),
    /// Whether an identity column always gives numbers.
    SetGenerated(Ident, bool),
    /// The next number of an identity column; none: its first one.
    Restart(Ident, Option<Box<Expr>>),
    /// A column that is an identity column no more, or, if the flag is set, may have been none.
    DropIdentity(Ident, bool),
    /// A generated column that is computed no more, or, if the flag is set, may have been none.
    DropExpression(Ident, bool),
    /// When a foreign key is looked at.
    Constraint(Ident, ConstraintCharacteristics),
    /// What becomes of a type.
    Type(Box<TypeChange>),
    /// Other rows of a materialized view.
    Refresh(Refresh),
    /// A checkpoint of the database.
    Checkpoint,
    /// The block of a DO.
    Do(Arc<Block>),
    /// A schema that is made with what is in it.
    CreateSchema(NewSchema),
    /// What is said of the numbers of an identity column, and whether it always gives them, if that is said too.
    Identity(Ident, Option<bool>, Vec<SequenceOption>),
    /// Options of a view.
    ViewOptions(Vec<ViewOption>),
    /// A comment on a constraint of the table.
    CommentOnConstraint(Ident, Option<String>),
    /// Something that has no meaning here: how rows lie on the disk, and who owns them.
    Nothing,
}

/// The name of an option of a view, and what it becomes; none: what it is without being said.
pub type ViewOption = (String, Option<String>);

/// GENERATED ALWAYS AS IDENTITY, or BY DEFAULT.
#[derive(Clone, Debug)]
pub struct NewIdentity {
    /// Whether it always gives numbers.
    pub is_always: bool,
    /// The name of its sequence, if it is said.
    pub name: Option<ObjectName>,
    /// What is said of its numbers.
    pub options: Vec<SequenceOptions>,
}

/// CREATE SCHEMA with what is made in it.
#[derive(Clone, Debug)]
pub struct NewSchema {
    /// Its name.
    pub name: SchemaName,
    /// Whether it may be there.
    pub if_not_exists: bool,
    /// The statements that make what is in it.
    pub elements: Vec<String>,
}

/// REFRESH MATERIALIZED VIEW.
#[derive(Clone, Copy, Debug)]
pub struct Refresh {
    /// Whether readers go on meanwhile, which they always do here.
    pub is_concurrent: bool,
    /// Whether it has rows afterwards.
    pub has_data: bool,
}

/// One option of ALTER SEQUENCE.
#[derive(Clone, Debug)]
pub enum SequenceOption {
    /// One that CREATE SEQUENCE has too.
    Known(SequenceOptions),
    /// The type of the numbers.
    As(DataType),
    /// The column that it belongs to; none for NONE.
    OwnedBy(Option<ObjectName>),
    /// The next number; none: the first one.
    Restart(Option<Expr>),
}

type Parsed<T> = Result<T, ParserError>;

impl Alteration {
    /// That a block is run.
    pub(crate) fn of_block(block: Block) -> Alteration {
        let (name, changes) = (ObjectName(Vec::new()), vec![Change::Do(Arc::new(block))]);
        Alteration { kind: Kind::Schema, name, if_exists: false, changes, upkeep: None }
    }

    /// Reads a statement. Returns none if the parser knows it.
    ///
    /// # Errors
    /// Those of the text.
    pub fn parse(tokens: &[TokenWithSpan]) -> Parsed<Option<Alteration>> {
        if let Some(of_type) = type_change::parse(tokens)? {
            return Ok(Some(of_type));
        }
        if let Some(upkeep) = upkeep::parse(tokens)? {
            return Ok(Some(upkeep));
        }
        let first = tokens.first().map_or(&Token::EOF, |token| &token.token);
        if is_word(first, "refresh") {
            return refresh(&mut parser_of(tokens));
        }
        if is_word(first, "create") && tokens.get(1).is_some_and(|second| is_word(&second.token, "schema")) {
            return create_schema(tokens);
        }
        if !is_word(first, "comment") && !is_word(first, "alter") {
            return Ok(None);
        }
        let mut parser = parser_of(tokens);
        if parser.parse_keyword(Keyword::COMMENT) {
            return comment_on_constraint(&mut parser);
        }
        if !parser.parse_keyword(Keyword::ALTER) {
            return Ok(None);
        }
        let kinds = [Keyword::TABLE, Keyword::VIEW, Keyword::INDEX, Keyword::SEQUENCE, Keyword::SCHEMA];
        let kind = match parser.parse_one_of_keywords(&kinds) {
            None if words(&mut parser, "materialized view") => Kind::Materialized,
            Some(Keyword::TABLE) => Kind::Table,
            Some(Keyword::VIEW) => Kind::View,
            Some(Keyword::INDEX) => Kind::Index,
            Some(Keyword::SEQUENCE) => Kind::Sequence,
            Some(Keyword::SCHEMA) => Kind::Schema,
            _ => return Ok(None),
        };
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let _ = parser.parse_keyword(Keyword::ONLY);
        let name = parser.parse_object_name(false)?;
        let rest = rest_of(&mut parser);
        if kind == Kind::Sequence
            && let Some(options) = sequence_options(&rest)?
        {
            return Ok(Some(Alteration {
                kind,
                name,
                if_exists,
                changes: vec![Change::Sequence(options)],
                upkeep: None,
            }));
        }
        let parts = parts(&rest);
        let own: Vec<Option<Change>> = parts.iter().map(|part| own_change(kind, part)).collect::<Parsed<_>>()?;
        if own.iter().all(Option::is_none) {
            return Ok(None);
        }
        let change = |(own, part): (Option<Change>, &&[TokenWithSpan])| match own {
            Some(change) => Ok(change),
            None => {
                let mut parser = parser_of(*part);
                let operation = parser.parse_alter_table_operation()?;
                at_end(&mut parser, Change::Known(Box::new(operation)))
            }
        };
        let changes = own.into_iter().zip(&parts).map(change).collect::<Parsed<_>>()?;
        Ok(Some(Alteration { kind, name, if_exists, changes, upkeep: None }))
    }
}

/// The block of a DO, as its text; none if it is another statement.
pub(crate) fn text_of_do(tokens: &[TokenWithSpan]) -> Option<Result<&str, SqlError>> {
    let [first, rest @ ..] = tokens else { return None };
    let [.., last] = rest else { return None };
    if !is_word(&first.token, "do") {
        return None;
    }
    let is_language = |token: &TokenWithSpan| is_word(&token.token, "language");
    let body = match rest {
        [body] => body,
        [body, language, _] if is_language(language) => body,
        [language, _, body] if is_language(language) => body,
        _ => last,
    };
    let named = rest.iter().position(is_language).and_then(|at| rest.get(at + 1)).map(|token| token.token.to_string());
    if let Some(language) = named.filter(|name| !name.trim_matches(['"', '\'']).eq_ignore_ascii_case("plpgsql")) {
        let hint = "Leave it out: a block is written as in PL/pgSQL.";
        return Some(Err(SqlError::unsupported(format!("DO in the language {language} is not supported"), hint)));
    }
    match &body.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Some(Ok(text)),
        Token::DollarQuotedString(text) => Some(Ok(&text.value)),
        token => {
            let what = format!("syntax error at or near \"{token}\"");
            Some(Err(SqlError::new(SqlState::SYNTAX_ERROR, what)))
        }
    }
}

pub(crate) fn rest_of(parser: &mut Parser<'_>) -> Vec<TokenWithSpan> {
    let mut rest = Vec::new();
    loop {
        let token = parser.next_token();
        if token.token == Token::EOF {
            return rest;
        }
        rest.push(token);
    }
}

/// What was read, if nothing follows.
pub(crate) fn at_end<T>(parser: &mut Parser<'_>, read: T) -> Parsed<T> {
    match parser.peek_token().token {
        Token::EOF => Ok(read),
        _ => parser.expected("end of statement", parser.peek_token()),
    }
}

/// The parts between commas that stand in no parentheses.
fn parts(tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let mut depth = 0_i64;
    let is_comma = |token: &TokenWithSpan| {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            _ => {}
        }
        depth == 0 && token.token == Token::Comma
    };
    tokens.split(is_comma).collect()
}

pub(crate) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Takes these words if they are next.
pub(crate) fn words(parser: &mut Parser<'_>, wanted: &str) -> bool {
    let is_next = |(place, word)| is_word(&parser.peek_nth_token(place).token, word);
    let are_next = wanted.split(' ').enumerate().all(is_next);
    if are_next {
        wanted.split(' ').for_each(|_| parser.advance_token());
    }
    are_next
}

/// One change that the parser does not know; none if it may know it.
fn own_change(kind: Kind, tokens: &[TokenWithSpan]) -> Parsed<Option<Change>> {
    let mut parser = parser_of(tokens);
    let parser = &mut parser;
    if words(parser, "set schema") {
        let schema = parser.parse_identifier()?;
        return at_end(parser, Some(Change::SetSchema(schema)));
    }
    if words(parser, "owner to") {
        return Ok(Some(Change::Nothing));
    }
    if kind == Kind::View
        && let Some(options) = view_options(parser)?
    {
        return at_end(parser, Some(Change::ViewOptions(options)));
    }
    let of_storage = [
        "set logged",
        "set unlogged",
        "set tablespace",
        "set without cluster",
        "set without oids",
        "set access method",
        "cluster on",
        "replica identity",
        "reset",
    ];
    let is_storage = of_storage.iter().any(|text| words(parser, text))
        || words(parser, "set") && parser.peek_token().token == Token::LParen;
    if is_storage {
        return Ok(Some(Change::Nothing));
    }
    if words(parser, "rename to") {
        let name = parser.parse_identifier()?;
        return at_end(parser, Some(Change::Rename(name)));
    }
    if matches!(kind, Kind::View | Kind::Materialized) && words(parser, "rename") {
        let _ = words(parser, "column");
        let from = parser.parse_identifier()?;
        parser.expect_keyword(Keyword::TO)?;
        let to = parser.parse_identifier()?;
        return at_end(parser, Some(Change::RenameColumn(from, to)));
    }
    if !matches!(kind, Kind::Table | Kind::Materialized) {
        return Ok(None);
    }
    if words(parser, "alter constraint") {
        let name = parser.parse_identifier()?;
        let when = characteristics(parser);
        return at_end(parser, Some(Change::Constraint(name, when)));
    }
    let mut parser = parser_of(tokens);
    if !words(&mut parser, "alter") {
        return Ok(None);
    }
    let _ = words(&mut parser, "column");
    let Ok(column) = parser.parse_identifier() else { return Ok(None) };
    own_change_of_column(&mut parser, column)
}

/// SET and RESET of options of a view; none if it is neither.
fn view_options(parser: &mut Parser<'_>) -> Parsed<Option<Vec<ViewOption>>> {
    let is_set = is_word(&parser.peek_nth_token(0).token, "set");
    let is_either = is_set || is_word(&parser.peek_nth_token(0).token, "reset");
    if !is_either || parser.peek_nth_token(1).token != Token::LParen {
        return Ok(None);
    }
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let options = parser.parse_comma_separated(|parser| {
        let name = parser.parse_identifier()?.value.to_lowercase();
        let value = match (is_set, parser.consume_token(&Token::Eq)) {
            (false, _) => None,
            (true, false) => Some("true".to_owned()),
            (true, true) => Some(match parser.next_token().token {
                Token::Word(word) => word.value,
                Token::SingleQuotedString(text) => text,
                other => other.to_string(),
            }),
        };
        Ok((name, value))
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(Some(options))
}

fn own_change_of_column(parser: &mut Parser<'_>, column: Ident) -> Parsed<Option<Change>> {
    if words(parser, "add generated") {
        let is_always = always_or_by_default(parser)?;
        if !words(parser, "as identity") {
            return parser.expected("AS IDENTITY", parser.peek_token());
        }
        let (mut name, mut options) = (None, Vec::new());
        if parser.consume_token(&Token::LParen) {
            let mut rest = rest_of(parser);
            if rest.pop().is_none_or(|last| last.token != Token::RParen) {
                return parser.expected(")", parser.peek_token());
            }
            (name, options) = identity_options(&rest)?;
        }
        return at_end(parser, Some(Change::AddIdentity(column, NewIdentity { is_always, name, options })));
    }
    let of_numbers = ["generated", "increment", "start", "minvalue", "maxvalue", "cycle", "cache", "no"];
    let next = [0, 1].map(|at| parser.peek_nth_token(at).token);
    let sets_numbers = is_word(&next[0], "set") && of_numbers.iter().any(|word| is_word(&next[1], word));
    if sets_numbers && !is_word(&parser.peek_nth_token(2).token, "null") || is_word(&next[0], "restart") {
        return identity_change(parser, column).map(Some);
    }
    if words(parser, "drop identity") {
        let if_exists = words(parser, "if exists");
        return at_end(parser, Some(Change::DropIdentity(column, if_exists)));
    }
    if words(parser, "drop expression") {
        let if_exists = words(parser, "if exists");
        return at_end(parser, Some(Change::DropExpression(column, if_exists)));
    }
    let of_storage = ["set statistics", "set storage", "set compression", "reset"];
    let is_storage = of_storage.iter().any(|text| words(parser, text))
        || words(parser, "set") && parser.peek_token().token == Token::LParen;
    Ok(is_storage.then_some(Change::Nothing))
}

/// SET and RESTART of an identity column, one after the other.
fn identity_change(parser: &mut Parser<'_>, column: Ident) -> Parsed<Change> {
    let (mut generated, mut options) = (None, Vec::new());
    while parser.peek_token().token != Token::EOF {
        if words(parser, "set generated") {
            generated = Some(always_or_by_default(parser)?);
        } else {
            // SET stands before each option, and before none of those of a sequence.
            let is_set = words(parser, "set");
            if !is_set && !is_word(&parser.peek_token().token, "restart") {
                return parser.expected("SET or RESTART", parser.peek_token());
            }
            options.push(parser.next_token());
            while !["set", "restart"].iter().any(|word| is_word(&parser.peek_token().token, word))
                && parser.peek_token().token != Token::EOF
            {
                options.push(parser.next_token());
            }
        }
    }
    let options = sequence_options(&options)?.unwrap_or_default();
    Ok(match (generated, &options[..]) {
        (Some(is_always), []) => Change::SetGenerated(column, is_always),
        (None, [SequenceOption::Restart(number)]) => Change::Restart(column, number.clone().map(Box::new)),
        _ => Change::Identity(column, generated, options),
    })
}

/// Whether it says ALWAYS, and not BY DEFAULT.
fn always_or_by_default(parser: &mut Parser<'_>) -> Parsed<bool> {
    let is_always = words(parser, "always");
    match is_always || words(parser, "by default") {
        true => Ok(is_always),
        false => parser.expected("ALWAYS or BY DEFAULT", parser.peek_token()),
    }
}

fn characteristics(parser: &mut Parser<'_>) -> ConstraintCharacteristics {
    let mut when = ConstraintCharacteristics { deferrable: None, initially: None, enforced: None };
    loop {
        if words(parser, "not deferrable") {
            when.deferrable = Some(false);
        } else if words(parser, "deferrable") {
            when.deferrable = Some(true);
        } else if words(parser, "initially deferred") {
            when.initially = Some(DeferrableInitial::Deferred);
        } else if words(parser, "initially immediate") {
            when.initially = Some(DeferrableInitial::Immediate);
        } else {
            return when;
        }
    }
}

/// A number with a sign.
fn number(parser: &mut Parser<'_>) -> Parsed<Expr> {
    parser.parse_number()
}

fn restart(parser: &mut Parser<'_>) -> Parsed<Option<Expr>> {
    let says_with = words(parser, "with");
    let has_number = matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus);
    if says_with || has_number { number(parser).map(Some) } else { Ok(None) }
}

/// Options of a sequence in any order; none if what stands there is something else.
pub fn sequence_options(tokens: &[TokenWithSpan]) -> Parsed<Option<Vec<SequenceOption>>> {
    let mut parser = parser_of(tokens);
    let parser = &mut parser;
    let mut options = Vec::new();
    while parser.peek_token().token != Token::EOF {
        options.push(if words(parser, "increment") {
            let by = words(parser, "by");
            SequenceOption::Known(SequenceOptions::IncrementBy(number(parser)?, by))
        } else if words(parser, "no minvalue") {
            SequenceOption::Known(SequenceOptions::MinValue(None))
        } else if words(parser, "minvalue") {
            SequenceOption::Known(SequenceOptions::MinValue(Some(number(parser)?)))
        } else if words(parser, "no maxvalue") {
            SequenceOption::Known(SequenceOptions::MaxValue(None))
        } else if words(parser, "maxvalue") {
            SequenceOption::Known(SequenceOptions::MaxValue(Some(number(parser)?)))
        } else if words(parser, "start") {
            let with = words(parser, "with");
            SequenceOption::Known(SequenceOptions::StartWith(number(parser)?, with))
        } else if words(parser, "restart") {
            SequenceOption::Restart(restart(parser)?)
        } else if words(parser, "cache") {
            SequenceOption::Known(SequenceOptions::Cache(number(parser)?))
        } else if words(parser, "no cycle") {
            SequenceOption::Known(SequenceOptions::Cycle(true))
        } else if words(parser, "cycle") {
            SequenceOption::Known(SequenceOptions::Cycle(false))
        } else if words(parser, "as") {
            SequenceOption::As(parser.parse_data_type()?)
        } else if words(parser, "owned by none") {
            SequenceOption::OwnedBy(None)
        } else if words(parser, "owned by") {
            SequenceOption::OwnedBy(Some(parser.parse_object_name(false)?))
        } else if options.is_empty() {
            return Ok(None);
        } else {
            return parser.expected("an option of a sequence", parser.peek_token());
        });
    }
    Ok((!options.is_empty()).then_some(options))
}

/// The name of the sequence of an identity column, and its options, in any order.
pub fn identity_options(tokens: &[TokenWithSpan]) -> Parsed<(Option<ObjectName>, Vec<SequenceOptions>)> {
    let mut rest = tokens.to_vec();
    let is_name = |part: &[TokenWithSpan]| is_word(&part[0].token, "sequence") && is_word(&part[1].token, "name");
    let mut name = None;
    if let Some(at) = rest.windows(2).position(is_name) {
        let mut parser = parser_of(&rest[at + 2..]);
        name = Some(parser.parse_object_name(false)?);
        let left = rest_of(&mut parser);
        rest.truncate(at);
        rest.extend(left);
    }
    let known = |option| match option {
        SequenceOption::Known(option) => Ok(option),
        SequenceOption::As(_) | SequenceOption::OwnedBy(_) | SequenceOption::Restart(_) => {
            Err(ParserError::ParserError("an identity column takes no AS, OWNED BY and RESTART".to_owned()))
        }
    };
    match sequence_options(&rest)? {
        Some(options) => Ok((name, options.into_iter().map(known).collect::<Parsed<_>>()?)),
        None if rest.is_empty() => Ok((name, Vec::new())),
        None => parser_of(&rest[..]).expected("an option of a sequence", rest[0].clone()),
    }
}

/// Options as a text, in the order that the parser knows.
pub fn in_order(options: &[SequenceOption]) -> String {
    let place = |option: &SequenceOption| match option {
        SequenceOption::As(_) => 0,
        SequenceOption::Known(SequenceOptions::IncrementBy(..)) => 1,
        SequenceOption::Known(SequenceOptions::MinValue(_)) => 2,
        SequenceOption::Known(SequenceOptions::MaxValue(_)) => 3,
        SequenceOption::Known(SequenceOptions::StartWith(..)) => 4,
        SequenceOption::Known(SequenceOptions::Cache(_)) => 5,
        SequenceOption::Known(SequenceOptions::Cycle(_)) => 6,
        SequenceOption::OwnedBy(_) => 7,
        SequenceOption::Restart(_) => 8,
    };
    let mut options: Vec<&SequenceOption> = options.iter().collect();
    options.sort_by_key(|option| place(option));
    let text = |option: &SequenceOption| match option {
        SequenceOption::As(data_type) => format!(" AS {data_type}"),
        SequenceOption::Known(option) => option.to_string(),
        SequenceOption::OwnedBy(None) => " OWNED BY NONE".to_owned(),
        SequenceOption::OwnedBy(Some(name)) => format!(" OWNED BY {name}"),
        SequenceOption::Restart(_) => " RESTART".to_owned(),
    };
    options.into_iter().map(text).collect()
}

/// CREATE SCHEMA with elements; none if it has no elements.
fn create_schema(tokens: &[TokenWithSpan]) -> Parsed<Option<Alteration>> {
    let mut depth = 0_i64;
    let mut begins = Vec::new();
    for (at, token) in tokens.iter().enumerate().skip(2) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let is_option = is_word(&tokens[at - 1].token, "with");
        let is_element = is_word(&token.token, "create") || is_word(&token.token, "grant") && !is_option;
        if depth == 0 && is_element {
            begins.push(at);
        }
    }
    let Some(&first) = begins.first() else { return Ok(None) };
    let mut parser = parser_of(&tokens[2..first]);
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = match parser.parse_keyword(Keyword::AUTHORIZATION) {
        true => SchemaName::UnnamedAuthorization(parser.parse_identifier()?),
        false => {
            let name = parser.parse_object_name(false)?;
            match parser.parse_keyword(Keyword::AUTHORIZATION) {
                true => SchemaName::NamedAuthorization(name, parser.parse_identifier()?),
                false => SchemaName::Simple(name),
            }
        }
    };
    at_end(&mut parser, ())?;
    let ends = begins.iter().skip(1).copied().chain([tokens.len()]);
    let text = |part: &[TokenWithSpan]| part.iter().map(|token| written(&token.token)).collect::<Vec<_>>().join(" ");
    let elements = begins.iter().zip(ends).map(|(&begin, end)| text(&tokens[begin..end])).collect();
    let changes = vec![Change::CreateSchema(NewSchema { name, if_not_exists, elements })];
    let name = ObjectName::from(Vec::new());
    Ok(Some(Alteration { kind: Kind::Schema, name, if_exists: false, changes, upkeep: None }))
}

/// REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA].
fn refresh(parser: &mut Parser<'_>) -> Parsed<Option<Alteration>> {
    parser.advance_token();
    if !words(parser, "materialized view") {
        return parser.expected("MATERIALIZED VIEW", parser.peek_token());
    }
    let is_concurrent = words(parser, "concurrently");
    let name = parser.parse_object_name(false)?;
    let has_data = !words(parser, "with no data");
    if has_data {
        let _ = words(parser, "with data");
    }
    let changes = vec![Change::Refresh(Refresh { is_concurrent, has_data })];
    at_end(parser, Some(Alteration { kind: Kind::Materialized, name, if_exists: false, changes, upkeep: None }))
}

/// COMMENT ON CONSTRAINT name ON table IS text.
fn comment_on_constraint(parser: &mut Parser<'_>) -> Parsed<Option<Alteration>> {
    if !words(parser, "on constraint") {
        return Ok(None);
    }
    let constraint = parser.parse_identifier()?;
    parser.expect_keyword(Keyword::ON)?;
    let name = parser.parse_object_name(false)?;
    parser.expect_keyword(Keyword::IS)?;
    let text = if words(parser, "null") { None } else { Some(parser.parse_literal_string()?) };
    let changes = vec![Change::CommentOnConstraint(constraint, text)];
    at_end(parser, Some(Alteration { kind: Kind::Table, name, if_exists: false, changes, upkeep: None }))
}
