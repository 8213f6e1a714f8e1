//! The parser's dialect: PostgreSQL's, as the parser knows it, with one mend of an operator's reach.

use std::any::TypeId;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect as ParserDialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

/// PostgreSQL's dialect.
#[derive(Debug)]
pub(crate) struct Dialect;

/// What PostgreSQL's own dialect answers.
macro_rules! as_postgresql {
    ($($name:ident,)*) => {
        $(fn $name(&self) -> bool {
            PostgreSqlDialect {}.$name()
        })*
    };
}

impl ParserDialect for Dialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    /// The parser reads an expression of any precedence after `IS DISTINCT FROM`, and so takes AND and OR for a part of
    /// its right side.
    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        let is_distinct = parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]);
        let is_same =
            !is_distinct && parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]);
        if !is_distinct && !is_same {
            return None;
        }
        let left = Box::new(expr.clone());
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is)).map(Box::new);
        Some(right.map(|right| match is_distinct {
            true => Expr::IsDistinctFrom(left, right),
            false => Expr::IsNotDistinctFrom(left, right),
        }))
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PostgreSqlDialect {}.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_delimited_identifier_start(character)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_identifier_part(character)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        PostgreSqlDialect {}.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_custom_operator_part(character)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        PostgreSqlDialect {}.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(precedence)
    }

    as_postgresql! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_named_fn_args_with_expr_name,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}
