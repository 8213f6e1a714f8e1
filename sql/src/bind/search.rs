//! SEARCH and CYCLE of WITH RECURSIVE: rewrites both parts of the query so that they carry a column for the order, or
//! for the path to a row and whether it has returned.

use sqlparser::ast::{self, SetExpr, TableFactor};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::alteration::words;
use crate::dialect::{folded, quoted};
use crate::error::{Result, SqlError, SqlState};
use crate::foreign::SEARCH;
use crate::functions::subscripts::FIRST_FIELD;
use crate::statement::{parse_expression, parse_query, parser_of_text};

/// The names of both parts.
const FIRST: &str = "\"?first\"";
const AGAIN: &str = "\"?again\"";

/// SEARCH.
struct Search {
    is_depth_first: bool,
    by: Vec<String>,
    set: String,
}

/// CYCLE.
struct Cycle {
    by: Vec<String>,
    set: String,
    /// The values of the column of a row that has come back, and of others.
    values: [String; 2],
    using: String,
}

/// What is said after a query of WITH.
pub(super) struct Clauses {
    search: Option<Search>,
    cycle: Option<Cycle>,
}

fn refused(state: SqlState, what: String) -> SqlError {
    SqlError::new(state, what)
}

impl Clauses {
    /// Those of a query of WITH, if it has some.
    ///
    /// # Errors
    /// 42601 of clauses that are malformed.
    pub(super) fn of(table: &ast::Cte) -> Result<Option<Clauses>> {
        let Some(text) = table.from.as_ref().and_then(|from| from.value.strip_prefix(SEARCH)) else { return Ok(None) };
        let mut parser = parser_of_text(text)?;
        read(&mut parser).map(Some).map_err(|error| match error {
            ParserError::ParserError(what) | ParserError::TokenizerError(what) => {
                refused(SqlState::SYNTAX_ERROR, format!("syntax error: {what}"))
            }
            ParserError::RecursionLimitExceeded => refused(SqlState::STATEMENT_TOO_COMPLEX, "too deep".to_owned()),
        })
    }

    /// The names of the columns that are added.
    fn added(&self) -> Vec<&str> {
        let search = self.search.iter().map(|search| &*search.set);
        let cycle = self.cycle.iter().flat_map(|cycle| [&*cycle.set, &*cycle.using]);
        search.chain(cycle).collect()
    }

    fn refuse_wrong(&self, name: &str, columns: &[String]) -> Result<()> {
        let search = self.search.iter().map(|search| ("search", &search.by));
        for (what, by) in search.chain(self.cycle.iter().map(|cycle| ("cycle", &cycle.by))) {
            for (at, column) in by.iter().enumerate() {
                if !columns.contains(column) {
                    let what = format!("{what} column \"{column}\" not in WITH query column list");
                    return Err(refused(SqlState::SYNTAX_ERROR, what));
                }
                if by[..at].contains(column) {
                    let what = format!("{what} column \"{column}\" specified more than once");
                    return Err(refused(SqlState::DUPLICATE_COLUMN, what));
                }
            }
        }
        let added = self.added();
        for (at, column) in added.iter().enumerate() {
            if added[..at].contains(column) {
                let what = format!("column name \"{column}\" is used more than once by the clauses of \"{name}\"");
                return Err(refused(SqlState::SYNTAX_ERROR, what));
            }
            if columns.iter().any(|known| known == column) {
                let what = format!("column name \"{column}\" already used in WITH query column list");
                return Err(refused(SqlState::AMBIGUOUS_COLUMN, what));
            }
        }
        Ok(())
    }

    /// Both parts of a query, whose columns have these names, with what the clauses add; and the names of its columns.
    ///
    /// # Errors
    /// Those of the names, and 0A000 if the second part does not read the query in its FROM.
    pub(super) fn within(
        &self,
        name: &str,
        mut columns: Vec<String>,
        (first, again): (&ast::Query, &ast::Query),
    ) -> Result<(ast::Query, ast::Query, Vec<String>)> {
        self.refuse_wrong(name, &columns)?;
        let mut again = again.clone();
        let condition = self.cycle.as_ref().map(|cycle| (&*cycle.set, &*cycle.values[0]));
        add_to(&mut again, name, &self.added(), condition)?;
        let row = |of: &str, before: &str, by: &[String]| {
            let by: Vec<String> = by.iter().map(|column| format!("{of}.{}", quoted(column))).collect();
            format!("ROW({before}{})", by.join(", "))
        };
        let (mut of_first, mut of_again) = (Vec::new(), Vec::new());
        if let Some(Search { is_depth_first, by, set }) = &self.search {
            let set = quoted(set);
            if *is_depth_first {
                of_first.push(format!("ARRAY[{}]", row(FIRST, "", by)));
                of_again.push(format!("{AGAIN}.{set} || {}", row(AGAIN, "", by)));
            } else {
                of_first.push(row(FIRST, "0::int8, ", by));
                let depth = format!("\"{FIRST_FIELD}\"({AGAIN}.{set}) + 1, ");
                of_again.push(row(AGAIN, &depth, by));
            }
        }
        if let Some(Cycle { by, values: [mark, default], using, .. }) = &self.cycle {
            let using = quoted(using);
            // The values have one type.
            of_first.push(format!("CASE WHEN FALSE THEN {mark} ELSE {default} END"));
            of_first.push(format!("ARRAY[{}]", row(FIRST, "", by)));
            let again = row(AGAIN, "", by);
            of_again.push(format!("CASE WHEN {again} = ANY({AGAIN}.{using}) THEN {mark} ELSE {default} END"));
            of_again.push(format!("{AGAIN}.{using} || {again}"));
        }
        let list = |columns: &[String], of: &str| {
            let columns: Vec<String> = columns.iter().map(|column| format!("{of}{}", quoted(column))).collect();
            columns.join(", ")
        };
        let query = |part: &ast::Query, of: &str, names: &[String], more: &[String]| {
            let (own, more) = (list(&columns, &format!("{of}.")), more.join(", "));
            parse_query(&format!("SELECT {own}, {more} FROM ({part}) AS {of}({})", list(names, "")))
        };
        let first = query(first, FIRST, &columns, &of_first)?;
        let mut names = columns.clone();
        names.extend(self.added().into_iter().map(str::to_owned));
        let again = query(&again, AGAIN, &names, &of_again)?;
        columns.clone_from(&names);
        Ok((first, again, columns))
    }
}

fn read(parser: &mut Parser<'_>) -> std::result::Result<Clauses, ParserError> {
    let mut clauses = Clauses { search: None, cycle: None };
    let names = |parser: &mut Parser<'_>| -> std::result::Result<Vec<String>, ParserError> {
        let names = parser.parse_comma_separated(Parser::parse_identifier)?;
        Ok(names.iter().map(folded).collect())
    };
    let name = |parser: &mut Parser<'_>, word: Keyword| {
        parser.expect_keyword(word)?;
        parser.parse_identifier().map(|name| folded(&name))
    };
    if words(parser, "search") {
        let is_depth_first = words(parser, "depth");
        if !(is_depth_first || words(parser, "breadth")) || !words(parser, "first by") {
            return parser.expected("FIRST BY", parser.peek_token());
        }
        let by = names(parser)?;
        clauses.search = Some(Search { is_depth_first, by, set: name(parser, Keyword::SET)? });
    }
    if words(parser, "cycle") {
        let by = names(parser)?;
        let set = name(parser, Keyword::SET)?;
        let mut values = ["TRUE".to_owned(), "FALSE".to_owned()];
        if words(parser, "to") {
            values[0] = parser.parse_value()?.to_string();
            parser.expect_keyword(Keyword::DEFAULT)?;
            values[1] = parser.parse_value()?.to_string();
        }
        clauses.cycle = Some(Cycle { by, set, values, using: name(parser, Keyword::USING)? });
    }
    match parser.peek_token().token {
        Token::EOF => Ok(clauses),
        _ => parser.expected("the end of the clauses", parser.peek_token()),
    }
}

/// Adds columns of the query, which it reads, to a part of it, and a condition: that a column is not this value.
fn add_to(again: &mut ast::Query, name: &str, added: &[&str], condition: Option<(&str, &str)>) -> Result<()> {
    let SetExpr::Select(select) = &mut *again.body else {
        let what = "with a SEARCH or CYCLE clause, the right side of the UNION must be a SELECT";
        return Err(refused(SqlState::SYNTAX_ERROR, what.to_owned()));
    };
    let is_read = |factor: &TableFactor| match factor {
        TableFactor::Table { name: table, alias, args: None, .. } => {
            let [table] = &table.0[..] else { return None };
            let table = folded(table.as_ident()?);
            (table == name).then(|| alias.as_ref().map_or(table, |alias| folded(&alias.name)))
        }
        _ => None,
    };
    let factors = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let Some(alias) = factors.into_iter().find_map(is_read) else {
        let what = format!(
            "with a SEARCH or CYCLE clause, the recursive reference to WITH query \"{name}\" must be at the top level \
             of its right-hand SELECT"
        );
        return Err(refused(SqlState::FEATURE_NOT_SUPPORTED, what));
    };
    let column = |column: &str| format!("{}.{}", quoted(&alias), quoted(column));
    for name in added {
        select.projection.push(ast::SelectItem::UnnamedExpr(parse_expression(&column(name))?));
    }
    if let Some((name, value)) = condition {
        let condition = parse_expression(&format!("{} <> {value}", column(name)))?;
        let nested = |expr| Box::new(ast::Expr::Nested(Box::new(expr)));
        select.selection = Some(match select.selection.take() {
            None => condition,
            Some(own) => {
                ast::Expr::BinaryOp { left: nested(own), op: ast::BinaryOperator::And, right: nested(condition) }
            }
        });
    }
    Ok(())
}
