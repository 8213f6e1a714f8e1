//! Rewrites clauses that the parser lacks into ones that it knows.
//!
//! Each step looks at a token a fixed number of times, since a statement may have millions.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::folded_word;
use crate::dialect::{closing, keyword};
use crate::known_words::create::{create_as_known, outside};

mod conflicts;
mod copy;
mod create;
mod elements;
mod fetch;
mod frames;
mod functions;
mod locks;
mod merge;
mod names;
mod operators;
mod search;
mod variadic;

pub(crate) use conflicts::{CONFLICT_EXPRESSION, CONFLICT_WHERE};
pub(crate) use copy::{CopyClauses, without_copy_clauses};
pub(crate) use create::{LIKE, NO_DATA};
pub(crate) use elements::ELEMENT;
pub(crate) use frames::EXCLUDE;
pub(crate) use functions::{DEFINED, ROW, ROWS_FROM};
pub(crate) use merge::OVERRIDING;
pub(crate) use variadic::VARIADIC;

/// What the name of a column begins with that stands for the condition CURRENT OF a cursor.
pub(crate) const CURRENT_OF: &str = "?current of ";
/// The name of the first element of a GROUP BY whose sets are different.
pub(crate) const DISTINCT: &str = "?distinct";

/// The tokens of a statement without AS OF SNAPSHOT, which may end it or follow the tables of a FROM, and the name in
/// that clause.
pub(crate) fn without_snapshot(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Option<String>) {
    let is_word = |token: &TokenWithSpan, wanted: &str| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    let is_clause = |part: &[TokenWithSpan]| {
        is_word(&part[0], "AS")
            && is_word(&part[1], "OF")
            && is_word(&part[2], "SNAPSHOT")
            && matches!(part[3].token, Token::SingleQuotedString(_))
    };
    let Some(at) = tokens.windows(4).position(is_clause) else { return (tokens, None) };
    let name = match tokens.drain(at..at + 4).next_back().map(|token| token.token) {
        Some(Token::SingleQuotedString(name)) => Some(name),
        _ => None,
    };
    (tokens, name)
}

/// The tokens of a statement that begins a transaction, or says how one is, without DEFERRABLE or NOT DEFERRABLE, and
/// which of both it was.
pub(crate) fn without_deferrable(tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Option<bool>) {
    let is_word = |token: Option<&TokenWithSpan>, wanted: &str| match token.map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    let is_of_transactions = ["BEGIN", "START"].iter().any(|first| is_word(tokens.first(), first))
        || is_word(tokens.first(), "SET")
            && (is_word(tokens.get(1), "TRANSACTION")
                || is_word(tokens.get(1), "SESSION")
                || is_word(tokens.get(1), "LOCAL") && is_word(tokens.get(2), "TRANSACTION"));
    if !is_of_transactions {
        return (tokens, None);
    }
    let is_comma = |token: Option<&TokenWithSpan>| token.is_some_and(|token| token.token == Token::Comma);
    let (mut known, mut is_deferrable) = (Vec::with_capacity(tokens.len()), None);
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        if !is_word(Some(&token), "DEFERRABLE") {
            known.push(token);
            continue;
        }
        is_deferrable = Some(known.pop_if(|before| is_word(Some(before), "NOT")).is_none());
        // Modes may stand between commas.
        if rest.next_if(|next| is_comma(Some(next))).is_none() {
            known.pop_if(|before| is_comma(Some(before)));
        }
    }
    (known, is_deferrable)
}

/// Where the statement begins that EXPLAIN explains, or PREPARE prepares; 0 of other statements.
fn begin_of_inner(tokens: &[TokenWithSpan]) -> usize {
    let keyword = |at: usize| tokens.get(at).map_or(Keyword::NoKeyword, keyword);
    let is_query = |keyword: Keyword| matches!(keyword, Keyword::SELECT | Keyword::VALUES | Keyword::WITH);
    match keyword(0) {
        Keyword::EXPLAIN if tokens.get(1).is_some_and(|token| token.token == Token::LParen) => {
            let is_options = !is_query(keyword(2)) && tokens.get(2).is_some_and(|token| token.token != Token::LParen);
            let options = closing(&tokens[1..]).filter(|_| is_options);
            options.map_or(1, |length| length + 2)
        }
        Keyword::EXPLAIN => {
            let is_option = |at: &usize| matches!(keyword(*at), Keyword::ANALYZE | Keyword::VERBOSE);
            1 + (1..).take_while(is_option).count()
        }
        Keyword::PREPARE => {
            outside(tokens).into_iter().find(|&at| keyword(at) == Keyword::AS).map_or(0, |place| place + 1)
        }
        _ => 0,
    }
}

/// The tokens of a statement without what the parser does not know.
pub(crate) fn as_known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begin = begin_of_inner(&tokens);
    if begin > 0 && begin < tokens.len() {
        let inner = as_known(tokens.split_off(begin));
        tokens.extend(inner);
        return tokens;
    }
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    plain_texts(&mut tokens);
    tokens = fetch::fetch_as_known(tokens);
    let mut words: Vec<String> = tokens.iter().map(word).collect();
    // A MOVE is a FETCH whose rows go nowhere.
    let is_move = words.first().is_some_and(|word| word == "MOVE");
    if is_move {
        tokens[0].token = Token::make_keyword("FETCH");
        words[0] = "FETCH".to_owned();
    }
    // What roles are made with is not looked at: see `catalogue::roles`.
    let is_of_role = words.get(1).is_some_and(|word| ["ROLE", "USER", "GROUP"].contains(&&**word)) && words.len() > 2;
    if is_of_role && ["CREATE", "ALTER"].contains(&&*words[0]) {
        tokens.truncate(3);
        tokens[1].token = Token::make_keyword("ROLE");
        if words[0] == "ALTER" {
            let (at, name) = (tokens[1].clone(), tokens[2].clone());
            let rename = ["RENAME", "TO"].map(|word| TokenWithSpan { token: Token::make_keyword(word), ..at.clone() });
            tokens.extend(rename.into_iter().chain([name]));
        }
        return tokens;
    }
    if ["GRANT", "REVOKE"].contains(&&*words[0]) && !words.iter().any(|word| word == "ON") {
        // Of roles: the parser wants to be told so.
        let end = words.iter().position(|word| word == "TO" || word == "FROM").unwrap_or(words.len());
        let mut known = Vec::with_capacity(tokens.len());
        for (at, token) in tokens.into_iter().enumerate() {
            let is_before_role = at < end && (at == 0 || token.token == Token::Comma);
            let role = TokenWithSpan { token: Token::make_keyword("ROLE"), ..token.clone() };
            known.extend([token].into_iter().chain(is_before_role.then_some(role)));
        }
        return known;
    }
    if words[0] == "ABORT" {
        tokens[0].token = Token::make_keyword("ROLLBACK");
    }
    if words[0] == "RESET" && words.get(1).is_some_and(|word| word == "SESSION") && tokens.len() == 3 {
        tokens.truncate(2);
        tokens[1].token = Token::make_word("session_authorization", None);
    }
    let words = words;
    let is_merge = |at: &usize| words[*at] == "MERGE" && words.get(at + 1).is_some_and(|next| next == "INTO");
    let merge = match words.first().map(String::as_str) {
        Some("MERGE") => Some(0),
        Some("WITH") => outside(&tokens).into_iter().find(is_merge),
        _ => None,
    };
    if let Some(begin) = merge {
        tokens = merge::merge_as_known(tokens, begin);
    } else if words.first().is_some_and(|word| word == "FETCH") {
        // The parser takes no number with a sign.
        if let Some(at) = tokens.iter().position(|token| token.token == Token::Minus)
            && let Some(Token::Number(digits, is_long)) = tokens.get(at + 1).map(|token| token.token.clone())
        {
            tokens[at].token = Token::Number(format!("-{digits}"), is_long);
            tokens.remove(at + 1);
        }
        let last = tokens.len() - 1;
        let keyword = |word: &str| TokenWithSpan { token: Token::make_keyword(word), ..tokens[last].clone() };
        let (from, next) = (keyword("FROM"), keyword("NEXT"));
        if !["FROM", "IN"].contains(&words.get(words.len().saturating_sub(2)).map_or("", String::as_str)) {
            tokens.insert(last, from);
        }
        if tokens.len() == 3 {
            tokens.insert(1, next);
        }
        if tokens.len() == 4 && ["FORWARD", "BACKWARD"].contains(&words[1].as_str()) {
            let one = Token::Number("1".to_owned(), false);
            tokens.insert(2, TokenWithSpan { token: one, ..tokens[1].clone() });
        }
        if is_move {
            let last = tokens[tokens.len() - 1].clone();
            let into = [Token::make_keyword("INTO"), Token::make_word("?", Some('"'))];
            tokens.extend(into.into_iter().map(|token| TokenWithSpan { token, ..last.clone() }));
        }
    } else if words.len() > 3 && words[0] == "SET" && words[1] == "CONSTRAINTS" {
        // As a parameter: SET CONSTRAINTS = names, when.
        let (equal, comma) = (Token::Eq, Token::Comma);
        let at = |token: Token| TokenWithSpan { token, ..tokens[1].clone() };
        let (equal, comma) = (at(equal), at(comma));
        tokens.insert(tokens.len() - 1, comma);
        tokens.insert(2, equal);
    } else if words.first().is_some_and(|word| word == "INSERT" || word == "WITH") {
        tokens = merge::overriding_as_known(tokens);
    } else if words.first().is_some_and(|word| word == "VACUUM") {
        // There is nothing to do, whatever is named.
        tokens.truncate(1);
    } else if words.first().is_some_and(|word| word == "COPY") && words.iter().any(|word| word == "STDIN") {
        // The parser expects data in the text, after a semicolon.
        let end = TokenWithSpan { token: Token::SemiColon, ..tokens[tokens.len() - 1].clone() };
        tokens.push(end);
    }
    let tokens = frames::frames_as_known(variadic::variadic_as_known(operators::operators_as_known(tokens)));
    let tokens = locks::locks_as_known(groups_as_known(conflicts::conflicts_as_known(names::names_as_known(tokens))));
    let tokens = functions::functions_as_known(with_bare_rows(order_as_known(tokens)));
    let tokens = search::search_as_known(current_as_known(elements::elements_as_known(tokens)));
    with_whole_queries(without_inheritance(create_as_known(array_types_as_known(tokens))))
}

/// Makes `'text'` of texts between dollars, and of those with escapes, which are read by now: the parser does not know
/// them everywhere.
fn plain_texts(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        match &mut token.token {
            Token::DollarQuotedString(text) => {
                token.token = Token::SingleQuotedString(std::mem::take(&mut text.value));
            }
            Token::EscapedStringLiteral(text) => token.token = Token::SingleQuotedString(std::mem::take(text)),
            _ => {}
        }
    }
}

/// The tokens without those at places that are needless.
fn without(
    mut tokens: Vec<TokenWithSpan>,
    is_needless: impl Fn(usize, &[TokenWithSpan]) -> bool,
) -> Vec<TokenWithSpan> {
    let needless: Vec<usize> = (0..tokens.len()).filter(|&at| is_needless(at, &tokens)).collect();
    let (mut needless, mut at) = (needless.into_iter().peekable(), 0);
    tokens.retain(|_| {
        at += 1;
        needless.next_if_eq(&(at - 1)).is_none()
    });
    tokens
}

/// Whether a part that is so long begins so far before a place, and fits.
fn is_in_part(
    tokens: &[TokenWithSpan],
    at: usize,
    (before, length): (usize, usize),
    fits: impl Fn(&[TokenWithSpan]) -> bool,
) -> bool {
    at.checked_sub(before).and_then(|begin| tokens.get(begin..begin + length)).is_some_and(fits)
}

/// The same tokens with `t.*` for `(t).*`, and `t.c.*` for `(t.c).*`, which mean the same here.
fn with_bare_rows(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |token: &TokenWithSpan| {
        matches!(token.token, Token::Comma | Token::LParen)
            || matches!(keyword(token), Keyword::SELECT | Keyword::RETURNING)
    };
    let is_row = |part: &[TokenWithSpan]| {
        begins(&part[0])
            && part[1].token == Token::LParen
            && matches!(part[2].token, Token::Word(_))
            && part[3].token == Token::RParen
            && part[4].token == Token::Period
            && part[5].token == Token::Mul
    };
    let is_column = |part: &[TokenWithSpan]| {
        begins(&part[0])
            && part[1].token == Token::LParen
            && matches!(part[2].token, Token::Word(_))
            && part[3].token == Token::Period
            && matches!(part[4].token, Token::Word(_))
            && part[5].token == Token::RParen
            && part[6].token == Token::Period
            && part[7].token == Token::Mul
    };
    without(tokens, |at, tokens| match tokens[at].token {
        Token::LParen => is_in_part(tokens, at, (1, 6), is_row) || is_in_part(tokens, at, (1, 8), is_column),
        Token::RParen => is_in_part(tokens, at, (3, 6), is_row) || is_in_part(tokens, at, (5, 8), is_column),
        _ => false,
    })
}

/// The same tokens with the name of a column for WHERE CURRENT OF a cursor.
fn current_as_known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let changes = tokens.iter().any(|token| matches!(keyword(token), Keyword::UPDATE | Keyword::DELETE));
    let is_current = |part: &[TokenWithSpan]| {
        let is_current = matches!(&part[1].token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("current"));
        keyword(&part[0]) == Keyword::WHERE && is_current && keyword(&part[2]) == Keyword::OF
    };
    let Some(at) = tokens.windows(4).position(|part| changes && is_current(part)) else { return tokens };
    let is_end = |token: &TokenWithSpan| token.token == Token::RParen || keyword(token) == Keyword::RETURNING;
    if let Token::Word(cursor) = &tokens[at + 3].token
        && tokens.get(at + 4).is_none_or(is_end)
    {
        let name = folded_word(cursor);
        tokens[at + 1].token = Token::make_word(&format!("{CURRENT_OF}{name}"), Some('"'));
        tokens.drain(at + 2..at + 4);
    }
    tokens
}

/// The same tokens with an element for the DISTINCT of GROUP BY DISTINCT, and without the ALL of GROUP BY ALL a, b.
fn groups_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let says = |at: usize| {
        let is = |back: usize, wanted: Keyword| at.checked_sub(back).is_some_and(|at| keyword(&tokens[at]) == wanted);
        is(1, Keyword::BY) && is(2, Keyword::GROUP)
    };
    let begins = |token: Option<&TokenWithSpan>| {
        token.is_some_and(|token| match &token.token {
            Token::Word(word) => word.quote_style.is_some() || !lacks_columns(Some(&token.token)),
            token => !matches!(token, Token::RParen | Token::Comma),
        })
    };
    let is_all = |at: usize| keyword(&tokens[at]) == Keyword::ALL && says(at) && begins(tokens.get(at + 1));
    let is_distinct = |at: usize| keyword(&tokens[at]) == Keyword::DISTINCT && says(at);
    if !(0..tokens.len()).any(|at| is_all(at) || is_distinct(at)) {
        return tokens;
    }
    let mut known = Vec::with_capacity(tokens.len() + 1);
    for (at, token) in tokens.iter().enumerate() {
        if is_distinct(at) {
            let mark = [Token::make_word(DISTINCT, Some('"')), Token::Comma];
            known.extend(mark.map(|mark| TokenWithSpan { token: mark, ..token.clone() }));
        } else if !is_all(at) {
            known.push(token.clone());
        }
    }
    known
}

/// The same tokens with ASC and DESC for the operators of ORDER BY ... USING.
fn order_as_known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut operators = Vec::new();
    for at in 1..tokens.len() {
        let word = match tokens[at].token {
            Token::Lt => "ASC",
            Token::Gt => "DESC",
            _ => continue,
        };
        if keyword(&tokens[at - 1]) == Keyword::USING {
            tokens[at - 1].token = Token::make_keyword(word);
            operators.push(at);
        }
    }
    without(tokens, |at, _| operators.binary_search(&at).is_ok())
}

/// The same tokens with `[]` for the ARRAY after the type of a column: `tags text ARRAY`.
fn array_types_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !matches!(tokens.first().map(keyword), Some(Keyword::CREATE | Keyword::ALTER)) {
        return tokens;
    }
    let mut known = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let is_after_type = at > 0 && matches!(tokens[at - 1].token, Token::Word(_) | Token::RParen);
        // Values follow the other ones.
        let begins_value = tokens.get(at + 1).is_some_and(|next| matches!(next.token, Token::LBracket | Token::LParen));
        if keyword(token) == Keyword::ARRAY && is_after_type && !begins_value {
            let bracket = |bracket: Token| TokenWithSpan { token: bracket, ..token.clone() };
            known.extend([bracket(Token::LBracket), bracket(Token::RBracket)]);
        } else {
            known.push(token.clone());
        }
    }
    known
}

/// The same tokens without the ONLY before names of tables, and without NO INHERIT: no table has others that inherit
/// from it.
fn without_inheritance(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_only = |part: &[TokenWithSpan]| {
        matches!(keyword(&part[0]), Keyword::FROM | Keyword::JOIN | Keyword::TABLE | Keyword::UPDATE)
            && matches!(part[2].token, Token::Word(_))
    };
    // After the CHECK of a table that is made or changed.
    let has_checks = matches!(tokens.first().map(keyword), Some(Keyword::CREATE | Keyword::ALTER));
    let is_no_inherit = |part: &[TokenWithSpan]| {
        part[0].token == Token::RParen && keyword(&part[1]) == Keyword::NO && keyword(&part[2]) == Keyword::INHERIT
    };
    without(tokens, |at, tokens| match keyword(&tokens[at]) {
        Keyword::ONLY => is_in_part(tokens, at, (1, 3), is_only),
        Keyword::NO => has_checks && is_in_part(tokens, at, (1, 3), is_no_inherit),
        Keyword::INHERIT => has_checks && is_in_part(tokens, at, (2, 3), is_no_inherit),
        _ => false,
    })
}

/// Whether the parser takes VALUES in parentheses after this word.
fn takes_values(before: Keyword) -> bool {
    matches!(
        before,
        Keyword::FROM
            | Keyword::JOIN
            | Keyword::LATERAL
            | Keyword::USING
            | Keyword::IN
            | Keyword::EXISTS
            | Keyword::ARRAY
            | Keyword::AS
    )
}

/// Where the lists of VALUES end that stands at a place: at the last parenthesis.
fn end_of_values(tokens: &[TokenWithSpan], values: usize) -> usize {
    let (mut depth, mut end) = (0_i64, values);
    for (at, token) in tokens.iter().enumerate().skip(values + 1) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => break,
            Token::RParen => {
                depth -= 1;
                if depth == 0 {
                    end = at;
                }
            }
            Token::Comma => {}
            _ if depth == 0 => break,
            _ => {}
        }
    }
    end
}

/// The same tokens with what the parser wants of every query: TABLE t becomes SELECT * FROM t, a SELECT without columns
/// and without FROM reads one row, and VALUES of a sub-select stand in a FROM.
fn with_whole_queries(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let keyword = |at: Option<usize>| match at.and_then(|at| tokens.get(at)).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let is_wanted = |at: usize| match keyword(Some(at)) {
        Keyword::TABLE | Keyword::SELECT => true,
        Keyword::VALUES => at > 0 && tokens[at - 1].token == Token::LParen,
        _ => false,
    };
    if !(0..tokens.len()).any(is_wanted) {
        return tokens;
    }
    let statement =
        tokens.iter().position(|token| token.token != Token::LParen).and_then(|at| match keyword(Some(at)) {
            Keyword::NoKeyword => None,
            keyword => Some(keyword),
        });
    let mut whole = Vec::with_capacity(tokens.len());
    let (mut depth, mut has_query) = (0_i64, false);
    // Where lists of VALUES end that have been put into a FROM.
    let mut ends = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1);
        let before_token = before.map(|before| &tokens[before].token);
        let added = |added: &[Token]| {
            let spanned = |word: &Token| TokenWithSpan { token: word.clone(), ..token.clone() };
            added.iter().map(spanned).collect::<Vec<_>>()
        };
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let begins_query = match (before_token, keyword(before)) {
            (None | Some(Token::LParen), _) => true,
            (_, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT) => true,
            (_, Keyword::ALL | Keyword::DISTINCT) => {
                let set = keyword(before.and_then(|before| before.checked_sub(1)));
                matches!(set, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT)
            }
            (_, Keyword::AS) => matches!(statement, Some(Keyword::CREATE | Keyword::PREPARE)),
            (_, Keyword::FOR) => statement == Some(Keyword::DECLARE),
            (_, Keyword::EXPLAIN | Keyword::ANALYZE | Keyword::VERBOSE) => statement == Some(Keyword::EXPLAIN),
            (Some(Token::RParen), _) => {
                depth == 0 && matches!(statement, Some(Keyword::WITH | Keyword::EXPLAIN | Keyword::INSERT))
            }
            // The name of the table of an INSERT, or VALUE of what it overrides.
            (Some(Token::Word(_)), _) => statement == Some(Keyword::INSERT) && depth == 0 && !has_query,
            _ => false,
        };
        has_query |= depth == 0 && matches!(keyword(Some(at)), Keyword::SELECT | Keyword::VALUES);
        match keyword(Some(at)) {
            Keyword::TABLE if begins_query => {
                whole.extend(added(&[Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")]))
            }
            Keyword::SELECT if begins_query && lacks_columns(tokens.get(at + 1).map(|next| &next.token)) => {
                let number = Token::Number("0".to_owned(), false);
                let rows = [Token::make_keyword("VALUES"), Token::LParen, number, Token::RParen];
                whole.push(token.clone());
                whole.extend(added(&[Token::make_keyword("FROM"), Token::LParen]));
                whole.extend(added(&rows));
                whole.extend(added(&[Token::RParen, Token::make_keyword("AS"), Token::make_word("?", Some('"'))]));
            }
            Keyword::VALUES if before_token == Some(&Token::LParen) && !takes_values(keyword(at.checked_sub(2))) => {
                whole.extend(added(&[Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")]));
                whole.extend(added(&[Token::LParen, token.token.clone()]));
                ends.push(end_of_values(&tokens, at));
            }
            _ => whole.push(token.clone()),
        }
        if ends.last() == Some(&at) {
            ends.pop();
            whole.extend(added(&[Token::RParen, Token::make_keyword("AS"), Token::make_word("?", Some('"'))]));
        }
    }
    whole
}

/// Whether what follows a SELECT says that it has no columns and reads no table.
fn lacks_columns(next: Option<&Token>) -> bool {
    match next {
        None | Some(Token::RParen) => true,
        Some(Token::Word(word)) if word.quote_style.is_none() => matches!(
            word.keyword,
            Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::WINDOW
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::ORDER
                | Keyword::LIMIT
                | Keyword::OFFSET
                | Keyword::FETCH
        ),
        _ => false,
    }
}
