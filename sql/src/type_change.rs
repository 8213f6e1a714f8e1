//! Statements that make, change and drop types: CREATE, ALTER and DROP TYPE and DOMAIN, and comments on them.

use sqlparser::ast::{DataType, Expr, Ident, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::alteration::{Alteration, Change, Kind, at_end, is_word, rest_of, words};
use crate::dialect::parser_of;

/// What becomes of a type.
#[derive(Clone, Debug)]
pub enum TypeChange {
    /// A new enum, of these labels.
    CreateEnum(Vec<String>),
    /// A new composite type, of these attributes.
    CreateComposite(Vec<(Ident, DataType)>),
    /// Changes of the attributes of a composite type, one after the other.
    Attributes(Vec<AttributeChange>),
    /// Another label.
    AddValue {
        /// The label.
        label: String,
        /// Whether it may be there.
        if_not_exists: bool,
        /// The label that it comes before, if the flag is set, or after; it comes last if none is said.
        beside: Option<(bool, String)>,
    },
    /// Another text of a label.
    RenameValue(String, String),
    /// A new domain.
    CreateDomain {
        /// What its values are besides.
        base: DataType,
        /// Its default.
        default: Option<Expr>,
        /// Its constraints.
        constraints: Vec<DomainConstraint>,
    },
    /// Another default of a domain.
    SetDefault(Option<Expr>),
    /// Whether NULL is no value of a domain.
    SetNotNull(bool),
    /// Another constraint of a domain; whether the rows that there are need not keep it.
    AddConstraint(DomainConstraint, bool),
    /// A constraint less, which may be missing if the flag is set.
    DropConstraint(Ident, bool),
    /// Another name of a constraint.
    RenameConstraint(Ident, Ident),
    /// A constraint that the rows that there are shall keep too.
    ValidateConstraint(Ident),
    /// Another name.
    Rename(Ident),
    /// Another schema.
    SetSchema(Ident),
    /// Types that are dropped, with what depends on them if the flag is set.
    Drop(Vec<ObjectName>, bool),
    /// A comment.
    Comment(Option<String>),
    /// Something that has no meaning here: who owns it.
    Nothing,
}

/// A change of an attribute of a composite type.
#[derive(Clone, Debug)]
pub enum AttributeChange {
    /// Another attribute.
    Add(Ident, DataType),
    /// An attribute less, which may be missing if the flag is set.
    Drop(Ident, bool),
    /// Another type of an attribute.
    Retype(Ident, DataType),
    /// Another name of an attribute.
    Rename(Ident, Ident),
}

/// A constraint of a domain.
#[derive(Clone, Debug)]
pub enum DomainConstraint {
    /// NOT NULL.
    NotNull,
    /// NULL.
    Null,
    /// CHECK, with its name.
    Check(Option<Ident>, Box<Expr>),
}

type Parsed<T> = Result<T, ParserError>;

/// Reads a statement. Returns none if it is about something else.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Parsed<Option<Alteration>> {
    let is_of_type = |token: &TokenWithSpan| is_word(&token.token, "type") || is_word(&token.token, "domain");
    if !tokens.iter().skip(1).take(2).any(is_of_type) {
        return Ok(None);
    }
    let mut parser = parser_of(tokens);
    let verb = ["create", "alter", "drop", "comment on"].into_iter().find(|verb| words(&mut parser, verb));
    let kind = [("type", Kind::Type), ("domain", Kind::Domain)].into_iter().find(|(word, _)| words(&mut parser, word));
    let (Some(verb), Some((_, kind))) = (verb, kind) else { return Ok(None) };
    let if_exists = matches!(verb, "drop" | "alter") && words(&mut parser, "if exists");
    let name = parser.parse_object_name(false)?;
    let change = match (verb, kind) {
        ("create", Kind::Type) if words(&mut parser, "as enum") => create_enum(&mut parser)?,
        ("create", Kind::Type) if words(&mut parser, "as") && parser.consume_token(&Token::LParen) => {
            TypeChange::CreateComposite(attributes(&mut parser)?)
        }
        ("create", Kind::Domain) => create_domain(&mut parser)?,
        ("alter", Kind::Type) => match alter_enum(&mut parser)? {
            Some(change) => change,
            None => match attribute_changes(&mut parser)? {
                Some(change) => change,
                None => alter(&mut parser)?,
            },
        },
        ("alter", _) => match alter_domain(&mut parser)? {
            Some(change) => change,
            None => alter(&mut parser)?,
        },
        ("drop", _) => drop(&mut parser, &name)?,
        ("comment on", _) => {
            parser.expect_keyword(Keyword::IS)?;
            TypeChange::Comment(if words(&mut parser, "null") { None } else { Some(parser.parse_literal_string()?) })
        }
        _ => return Ok(None),
    };
    at_end(
        &mut parser,
        Some(Alteration { kind, name, if_exists, changes: vec![Change::Type(Box::new(change))], upkeep: None }),
    )
}

fn create_enum(parser: &mut Parser<'_>) -> Parsed<TypeChange> {
    parser.expect_token(&Token::LParen)?;
    let labels = match parser.peek_token().token {
        Token::RParen => Vec::new(),
        _ => parser.parse_comma_separated(Parser::parse_literal_string)?,
    };
    parser.expect_token(&Token::RParen)?;
    Ok(TypeChange::CreateEnum(labels))
}

/// The attributes of a new composite type, after their parenthesis.
fn attributes(parser: &mut Parser<'_>) -> Parsed<Vec<(Ident, DataType)>> {
    let attributes = match parser.peek_token().token {
        Token::RParen => Vec::new(),
        _ => parser.parse_comma_separated(attribute)?,
    };
    parser.expect_token(&Token::RParen)?;
    Ok(attributes)
}

fn attribute(parser: &mut Parser<'_>) -> Parsed<(Ident, DataType)> {
    let (name, data_type) = (parser.parse_identifier()?, parser.parse_data_type()?);
    if words(parser, "collate") {
        parser.parse_object_name(false)?;
    }
    Ok((name, data_type))
}

fn attribute_changes(parser: &mut Parser<'_>) -> Parsed<Option<TypeChange>> {
    let is_next = |parser: &Parser<'_>| is_word(&parser.peek_nth_token(1).token, "attribute");
    if !is_next(parser) {
        return Ok(None);
    }
    let mut changes = Vec::new();
    loop {
        changes.push(attribute_change(parser)?);
        // All depends on the type is changed with it, or there is nothing that does.
        let _ = words(parser, "cascade") || words(parser, "restrict");
        if !parser.consume_token(&Token::Comma) {
            return Ok(Some(TypeChange::Attributes(changes)));
        }
    }
}

fn attribute_change(parser: &mut Parser<'_>) -> Parsed<AttributeChange> {
    if words(parser, "add attribute") {
        let (name, data_type) = attribute(parser)?;
        return Ok(AttributeChange::Add(name, data_type));
    }
    if words(parser, "drop attribute") {
        let if_exists = words(parser, "if exists");
        return Ok(AttributeChange::Drop(parser.parse_identifier()?, if_exists));
    }
    if words(parser, "rename attribute") {
        let from = parser.parse_identifier()?;
        parser.expect_keyword(Keyword::TO)?;
        return Ok(AttributeChange::Rename(from, parser.parse_identifier()?));
    }
    if !words(parser, "alter attribute") {
        return parser.expected("ADD, DROP, ALTER or RENAME ATTRIBUTE", parser.peek_token());
    }
    let name = parser.parse_identifier()?;
    let _ = words(parser, "set data");
    parser.expect_keyword(Keyword::TYPE)?;
    Ok(AttributeChange::Retype(name, parser.parse_data_type()?))
}

fn alter_enum(parser: &mut Parser<'_>) -> Parsed<Option<TypeChange>> {
    if words(parser, "rename value") {
        let from = parser.parse_literal_string()?;
        parser.expect_keyword(Keyword::TO)?;
        return Ok(Some(TypeChange::RenameValue(from, parser.parse_literal_string()?)));
    }
    if !words(parser, "add value") {
        return Ok(None);
    }
    let if_not_exists = words(parser, "if not exists");
    let label = parser.parse_literal_string()?;
    let is_before = words(parser, "before");
    let beside = match is_before || words(parser, "after") {
        true => Some((is_before, parser.parse_literal_string()?)),
        false => None,
    };
    Ok(Some(TypeChange::AddValue { label, if_not_exists, beside }))
}

/// What both kinds have.
fn alter(parser: &mut Parser<'_>) -> Parsed<TypeChange> {
    if words(parser, "rename to") {
        return parser.parse_identifier().map(TypeChange::Rename);
    }
    if words(parser, "set schema") {
        return parser.parse_identifier().map(TypeChange::SetSchema);
    }
    if words(parser, "owner to") {
        parser.advance_token();
        return Ok(TypeChange::Nothing);
    }
    parser.expected("ADD VALUE, RENAME, SET SCHEMA or OWNER TO", parser.peek_token())
}

fn drop(parser: &mut Parser<'_>, first: &ObjectName) -> Parsed<TypeChange> {
    let mut names = vec![first.clone()];
    while parser.consume_token(&Token::Comma) {
        names.push(parser.parse_object_name(false)?);
    }
    let is_cascade = words(parser, "cascade");
    let _ = !is_cascade && words(parser, "restrict");
    Ok(TypeChange::Drop(names, is_cascade))
}

/// An expression up to a word that cannot go on with it: NOT NULL after a default is a constraint.
fn default(parser: &mut Parser<'_>) -> Parsed<Expr> {
    let mut own = Vec::new();
    let mut depth = 0_i64;
    loop {
        let token = parser.peek_token();
        let ends = ["not", "null", "check", "constraint", "collate"].iter().any(|word| is_word(&token.token, word));
        if token.token == Token::EOF || depth == 0 && ends && !own.is_empty() {
            break;
        }
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        own.push(token);
        parser.advance_token();
    }
    let mut own = parser_of(own);
    let read = own.parse_expr()?;
    at_end(&mut own, read)
}

fn create_domain(parser: &mut Parser<'_>) -> Parsed<TypeChange> {
    let _ = words(parser, "as");
    let base = parser.parse_data_type()?;
    let (mut written, mut constraints) = (None, Vec::new());
    while parser.peek_token().token != Token::EOF {
        if words(parser, "default") {
            written = Some(default(parser)?);
        } else if words(parser, "collate") {
            parser.parse_object_name(false)?;
        } else {
            constraints.push(constraint(parser)?);
        }
    }
    Ok(TypeChange::CreateDomain { base, default: written, constraints })
}

fn constraint(parser: &mut Parser<'_>) -> Parsed<DomainConstraint> {
    let name = if words(parser, "constraint") { Some(parser.parse_identifier()?) } else { None };
    if words(parser, "not null") {
        return Ok(DomainConstraint::NotNull);
    }
    if words(parser, "null") {
        return Ok(DomainConstraint::Null);
    }
    parser.expect_keyword(Keyword::CHECK)?;
    parser.expect_token(&Token::LParen)?;
    let condition = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(DomainConstraint::Check(name, Box::new(condition)))
}

fn alter_domain(parser: &mut Parser<'_>) -> Parsed<Option<TypeChange>> {
    Ok(Some(if words(parser, "set default") {
        let mut rest = parser_of(rest_of(parser));
        let written = rest.parse_expr()?;
        TypeChange::SetDefault(Some(at_end(&mut rest, written)?))
    } else if words(parser, "drop default") {
        TypeChange::SetDefault(None)
    } else if words(parser, "set not null") {
        TypeChange::SetNotNull(true)
    } else if words(parser, "drop not null") {
        TypeChange::SetNotNull(false)
    } else if words(parser, "add") {
        let added = constraint(parser)?;
        TypeChange::AddConstraint(added, words(parser, "not valid"))
    } else if words(parser, "drop constraint") {
        let if_exists = words(parser, "if exists");
        let name = parser.parse_identifier()?;
        let _ = words(parser, "cascade") || words(parser, "restrict");
        TypeChange::DropConstraint(name, if_exists)
    } else if words(parser, "rename constraint") {
        let from = parser.parse_identifier()?;
        parser.expect_keyword(Keyword::TO)?;
        TypeChange::RenameConstraint(from, parser.parse_identifier()?)
    } else if words(parser, "validate constraint") {
        TypeChange::ValidateConstraint(parser.parse_identifier()?)
    } else {
        return Ok(None);
    }))
}
