//! Statements that the parser does not know and that need no tree of their own: CHECKPOINT; upkeep of tables and
//! indexes, for which there is nothing to do here but to look at the names; and statements that are not there, with
//! what to use instead.

use sqlparser::ast::{Ident, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::alteration::{Alteration, Change, Kind, at_end, is_word, words};
use crate::dialect::parser_of;

type Parsed<T> = Result<T, ParserError>;

/// Reads CHECKPOINT, REINDEX and CLUSTER. Returns none if it is another statement.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Parsed<Option<Alteration>> {
    let Some((first, rest)) = tokens.split_first() else { return Ok(None) };
    let read = match &first.token {
        first if is_word(first, "reindex") => reindex,
        first if is_word(first, "cluster") => cluster,
        first if is_word(first, "checkpoint") => checkpoint,
        _ => return Ok(None),
    };
    read(&mut parser_of(rest)).map(Some)
}

fn nothing(kind: Kind, name: ObjectName, tag: &'static str, is_alone: bool) -> Alteration {
    let changes = vec![Change::Nothing];
    Alteration { kind, name, if_exists: false, changes, upkeep: Some(Upkeep { tag, is_alone }) }
}

/// What a statement of upkeep is.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep {
    /// Its tag.
    pub tag: &'static str,
    /// Whether it may not stand in a transaction block.
    pub is_alone: bool,
}

/// A schema that is always there.
fn any_schema() -> ObjectName {
    ObjectName::from(vec![Ident::new("public")])
}

fn reindex(parser: &mut Parser<'_>) -> Parsed<Alteration> {
    let mut is_concurrent = false;
    if parser.consume_token(&Token::LParen) {
        let options = parser.parse_comma_separated(|parser| {
            let name = parser.parse_identifier()?;
            let is_on = !words(parser, "false") && !words(parser, "off");
            let _ = words(parser, "true") || words(parser, "on");
            Ok((name, is_on))
        })?;
        parser.expect_token(&Token::RParen)?;
        is_concurrent = options.iter().any(|(name, is_on)| *is_on && name.value.eq_ignore_ascii_case("concurrently"));
    }
    let kinds = ["index", "table", "schema", "database", "system"];
    let Some(kind) = kinds.into_iter().find(|kind| words(parser, kind)) else {
        return parser.expected("INDEX, TABLE, SCHEMA, DATABASE or SYSTEM", parser.peek_token());
    };
    is_concurrent |= words(parser, "concurrently");
    let name = parser.parse_object_name(false)?;
    let (kind, name, is_whole) = match kind {
        "index" => (Kind::Index, name, false),
        "table" => (Kind::Table, name, false),
        "schema" => (Kind::Schema, name, true),
        _ => (Kind::Schema, any_schema(), true),
    };
    at_end(parser, nothing(kind, name, "REINDEX", is_whole || is_concurrent))
}

fn checkpoint(parser: &mut Parser<'_>) -> Parsed<Alteration> {
    let alteration = nothing(Kind::Schema, any_schema(), "CHECKPOINT", false);
    at_end(parser, Alteration { changes: vec![Change::Checkpoint], ..alteration })
}

fn cluster(parser: &mut Parser<'_>) -> Parsed<Alteration> {
    let _ = words(parser, "verbose");
    if parser.peek_token().token == Token::EOF {
        return Ok(nothing(Kind::Schema, any_schema(), "CLUSTER", true));
    }
    let name = parser.parse_object_name(false)?;
    if parser.parse_keyword(Keyword::USING) {
        parser.parse_identifier()?;
    }
    at_end(parser, nothing(Kind::Table, name, "CLUSTER", false))
}

/// Statements that are not there, by what they begin with, and what to use instead.
const NOT_THERE: &[(&str, &str)] = &[
    ("call", "Send the statements of the procedure one after the other."),
    ("prepare transaction", "Commit in one step: there is no second phase."),
    ("commit prepared", "Commit in one step: there is no second phase."),
    ("rollback prepared", "Commit in one step: there is no second phase."),
    ("create procedure", "Send its statements one after the other."),
    ("create or replace procedure", "Send its statements one after the other."),
    ("create trigger", "Use a generated column, a check, a foreign key, or a statement beside the change."),
    ("create or replace trigger", "Use a generated column, a check, a foreign key, or a statement beside the change."),
    ("create constraint trigger", "Use a check, a foreign key, or a constraint that is deferred."),
    ("create event trigger", "There is nothing that is told of definitions."),
    ("create rule", "Use a view, and name the tables in changes."),
    ("create or replace rule", "Use a view, and name the tables in changes."),
    ("create database", "Start a server for each, or use schemas: a connection may name any database."),
    ("drop database", "There is one database: drop its schemas and tables."),
    ("create function", "Write the expression where it is used, or use a view or a generated column."),
    ("create or replace function", "Write the expression where it is used, or use a view or a generated column."),
    ("create aggregate", "Use array_agg, and a function of the array."),
    ("create policy", "All users may see all rows: use views."),
    ("create statistics", "Counts are exact without them."),
    ("create publication", "There is no logical replication: LISTEN and NOTIFY tell of changes."),
    ("create subscription", "There is no logical replication."),
    ("create foreign table", "Import the data with COPY or `quipu import`."),
    ("create tablespace", "All of a database lies in its directory."),
    ("create collation", "Use the type citext to compare without case and accents."),
    ("create cast", "Write the conversion where the value is used."),
    ("create transform", "There are no functions of users."),
    ("create language", "There are no functions of users."),
    ("create or replace language", "There are no functions of users."),
    ("create conversion", "Texts are UTF-8; clients have theirs by client_encoding."),
    ("create access method", "Each index is a counted B-tree."),
    ("create text search", "Use LIKE, ILIKE, or patterns."),
    ("alter text search", "Use LIKE, ILIKE, or patterns."),
    ("drop text search", "There is none."),
    ("drop rule", "There are none."),
    ("drop event trigger", "There are none."),
    ("drop cast", "Only those of the server are there."),
    ("drop language", "Only those of the server are there."),
    ("drop owned", "Nothing belongs to a user: drop each object by its name."),
    ("reassign owned", "Nothing belongs to a user."),
    ("alter default privileges", "Patterns in the rules of users (`~sales.*`) hold for tables to come."),
    ("alter database", "Settings are those of a session, of a user, or of the server."),
    ("alter system", "Settings are those of a session, of a user, or of the server."),
    ("security label", "What users may do is said by their rules, `ACL SETUSER`."),
    ("import foreign schema", "Import the data with COPY or `quipu import`."),
];

/// What is said of a statement that is not there, and what to use instead.
pub(crate) fn not_there(tokens: &[TokenWithSpan]) -> Option<(String, &'static str)> {
    let begins = |wanted: &str| {
        let mut own = tokens.iter();
        wanted.split(' ').all(|word| own.next().is_some_and(|token| is_word(&token.token, word)))
    };
    if (begins("create") || begins("alter table")) && excludes(tokens) {
        return Some((
            "EXCLUDE constraints are not supported".to_owned(),
            "Use a unique constraint, or lock the rows that a new one must not meet.",
        ));
    }
    let is_of_partition = |two: &[TokenWithSpan]| {
        ["attach", "detach"].iter().any(|word| is_word(&two[0].token, word)) && is_word(&two[1].token, "partition")
    };
    if begins("alter") && tokens.windows(2).any(is_of_partition) {
        let what = "inherited and partitioned tables are not supported";
        return Some((what.to_owned(), "Use one table: counts and ranges of a key stay fast, however large it is."));
    }
    let (what, hint) = NOT_THERE.iter().find(|(what, _)| begins(what))?;
    Some((format!("{} is not supported", what.to_uppercase()), hint))
}

/// Whether a definition of a table has an EXCLUDE constraint, with a name or without one.
fn excludes(tokens: &[TokenWithSpan]) -> bool {
    let begins_part = |at: usize| match tokens.get(at).map(|token| &token.token) {
        Some(Token::LParen | Token::Comma) => true,
        Some(token) => is_word(token, "add"),
        None => false,
    };
    let is_named = |at: usize| at >= 2 && is_word(&tokens[at - 2].token, "constraint");
    tokens.windows(2).enumerate().any(|(at, two)| {
        is_word(&two[0].token, "exclude")
            && (two[1].token == Token::LParen || is_word(&two[1].token, "using"))
            && at >= 1
            && (begins_part(at - 1) || is_named(at))
    })
}
