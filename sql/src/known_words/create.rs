//! CREATE and DROP in words that the parser knows.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::alteration;
use crate::dialect::folded_word;
use crate::dialect::{Dialect, closing, keyword};

/// The name of the column in whose place the columns of another table stand: its type is the name of that, with what
/// INCLUDING and EXCLUDING say.
pub(crate) const LIKE: &str = "?like";

/// The option of a materialized view that is created without rows.
pub(crate) const NO_DATA: &str = "?no data";

/// The places of the tokens that stand in no parentheses.
pub(super) fn outside(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let mut depth = 0_i64;
    let mut places = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth == 0 => places.push(at),
            _ => {}
        }
    }
    places
}

/// CREATE TABLE and SELECT INTO, and others of what is created and dropped, in words that the parser knows.
pub(super) fn create_as_known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |token: Option<&TokenWithSpan>, wanted: &str| {
        token.is_some_and(|token| match &token.token {
            Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
            _ => false,
        })
    };
    let as_is = |text: &str, like: &TokenWithSpan| -> Vec<TokenWithSpan> {
        let read = Tokenizer::new(&Dialect, text).tokenize().unwrap_or_default().into_iter();
        let read = read.filter(|token| !matches!(token, Token::Whitespace(_)));
        read.map(|token| TokenWithSpan { token, ..like.clone() }).collect()
    };
    if is(tokens.first(), "SELECT")
        && let Some(into) = outside(&tokens).into_iter().find(|&at| is(tokens.get(at), "INTO"))
    {
        let mut at = into + 1;
        let is_temporary = is(tokens.get(at), "TEMP") || is(tokens.get(at), "TEMPORARY");
        at += usize::from(is_temporary || is(tokens.get(at), "UNLOGGED"));
        at += usize::from(is(tokens.get(at), "TABLE"));
        let end = end_of_name(&tokens, at);
        if end <= tokens.len() {
            let create = if is_temporary { "CREATE TEMPORARY TABLE" } else { "CREATE TABLE" };
            let mut whole = as_is(create, &tokens[0]);
            whole.extend(tokens[at..end].iter().cloned());
            whole.extend(as_is("AS", &tokens[0]));
            tokens.drain(into..end);
            whole.extend(tokens);
            return whole;
        }
    }
    if is(tokens.first(), "DROP") && is(tokens.get(1), "INDEX") && is(tokens.get(2), "CONCURRENTLY") {
        tokens.remove(2);
    }
    if ["CREATE", "ALTER"].iter().any(|word| is(tokens.first(), word)) {
        tokens = identities_as_known(tokens, &as_is);
    }
    if !is(tokens.first(), "CREATE") {
        return tokens;
    }
    // CREATE RECURSIVE VIEW v (a) AS q: the view of WITH RECURSIVE v (a) AS (q) SELECT a FROM v.
    if let Some(at) = tokens.iter().take(5).position(|token| is(Some(token), "RECURSIVE"))
        && is(tokens.get(at + 1), "VIEW")
        && let end = end_of_name(&tokens, at + 2)
        && tokens.get(end).is_some_and(|token| token.token == Token::LParen)
        && let Some(close) = closing(&tokens[end..]).map(|after| end + after)
        && is(tokens.get(close + 1), "AS")
    {
        let (name, columns) = (tokens[end - 1].clone(), tokens[end..=close].to_vec());
        let query = tokens.split_off(close + 2);
        tokens.remove(at);
        tokens.extend(as_is("WITH RECURSIVE", &name));
        tokens.push(name.clone());
        tokens.extend(columns.iter().cloned());
        tokens.extend(as_is("AS (", &name));
        tokens.extend(query);
        tokens.extend(as_is(") SELECT", &name));
        tokens.extend(columns[1..columns.len() - 1].iter().cloned());
        tokens.extend(as_is("FROM", &name));
        tokens.push(name);
        return tokens;
    }
    if is(tokens.get(1), "UNLOGGED") {
        tokens.remove(1);
    }
    if is(tokens.get(1), "INDEX") || is(tokens.get(1), "UNIQUE") {
        // The one that there is.
        let outside = outside(&tokens);
        let default =
            outside.iter().find(|&&at| is(tokens.get(at), "TABLESPACE") && is(tokens.get(at + 1), "PG_DEFAULT"));
        if let Some(&at) = default {
            tokens.drain(at..at + 2);
        }
        return tokens;
    }
    if let Some(view) = (1..5).find(|&at| is(tokens.get(at), "VIEW"))
        && !is(tokens.get(1), "MATERIALIZED")
    {
        return create_view(tokens, view, &is, &as_is);
    }
    if is(tokens.get(1), "MATERIALIZED") {
        return create_materialized(tokens, &is, &as_is);
    }
    if let Some(name) = (1..3).find(|&at| is(tokens.get(at), "SEQUENCE")).map(|at| at + 1) {
        let name = if is(tokens.get(name), "IF") { name + 3 } else { name };
        let end = end_of_name(&tokens, name);
        // The parser takes options in one order alone.
        if let Some(rest) = tokens.get(end..)
            && let Ok(Some(options)) = alteration::sequence_options(rest)
        {
            let options = as_is(&alteration::in_order(&options), &tokens[0]);
            tokens.truncate(end);
            tokens.extend(options);
        }
        return tokens;
    }
    let Some(table) = (1..4).find(|&at| is(tokens.get(at), "TABLE")) else { return tokens };
    if let Some(query) = outside(&tokens).into_iter().find(|&at| at > table && is(tokens.get(at), "AS")) {
        return create_as(tokens, query, &is, &as_is);
    }
    // LIKE other INCLUDING this becomes a column, whose type is the other one with options.
    let begins = |before: &TokenWithSpan| matches!(before.token, Token::LParen | Token::Comma);
    while let Some(at) = (1..tokens.len()).find(|&at| is(tokens.get(at), "LIKE") && begins(&tokens[at - 1])) {
        let name_end = end_of_name(&tokens, at + 1);
        let mut end = name_end;
        let mut options = Vec::new();
        while is(tokens.get(end), "INCLUDING") || is(tokens.get(end), "EXCLUDING") {
            let Some(option) = tokens.get(end + 1) else { break };
            options.push(format!("'{} {}'", tokens[end].token, option.token).to_lowercase());
            end += 2;
        }
        if end > tokens.len() {
            break;
        }
        let mut column = as_is(&format!("\"{LIKE}\""), &tokens[at]);
        for token in &tokens[at + 1..name_end] {
            column.push(match &token.token {
                Token::Word(word) if word.quote_style.is_none() => {
                    let token_of = Token::make_word(&folded_word(word), Some('"'));
                    TokenWithSpan { token: token_of, ..token.clone() }
                }
                _ => token.clone(),
            });
        }
        options.push("'excluding nothing'".to_owned());
        column.extend(as_is(&format!("({})", options.join(", ")), &tokens[at]));
        tokens.splice(at..end, column);
    }
    tokens
}

/// The same tokens with the options of each identity column in the one order that the parser takes, and without the
/// name of its sequence.
fn identities_as_known(
    tokens: Vec<TokenWithSpan>,
    as_is: &dyn Fn(&str, &TokenWithSpan) -> Vec<TokenWithSpan>,
) -> Vec<TokenWithSpan> {
    let (mut known, mut kept, mut at) = (Vec::new(), 0, 1);
    while at < tokens.len() {
        let open = at;
        at += 1;
        if keyword(&tokens[open - 1]) != Keyword::IDENTITY || tokens[open].token != Token::LParen {
            continue;
        }
        let Some(end) = closing(&tokens[open..]).map(|length| open + length) else { break };
        at = end;
        if let Ok((_, options)) = alteration::identity_options(&tokens[open + 1..end]) {
            let options: Vec<_> = options.into_iter().map(alteration::SequenceOption::Known).collect();
            known.extend_from_slice(&tokens[kept..=open]);
            known.extend(as_is(&alteration::in_order(&options), &tokens[open]));
            kept = end;
        }
    }
    if kept == 0 {
        return tokens;
    }
    known.extend_from_slice(&tokens[kept..]);
    known
}

/// The end of a name that begins at a place: its parts are separated by points.
fn end_of_name(tokens: &[TokenWithSpan], begin: usize) -> usize {
    let mut end = begin + 1;
    while matches!(tokens.get(end).map(|token| &token.token), Some(Token::Period)) {
        end += 2;
    }
    end
}

/// CREATE MATERIALIZED VIEW without what has no meaning here, how its rows lie on the disk, and with WITH NO DATA as an
/// option before its query.
fn create_materialized(
    mut tokens: Vec<TokenWithSpan>,
    is: &dyn Fn(Option<&TokenWithSpan>, &str) -> bool,
    as_is: &dyn Fn(&str, &TokenWithSpan) -> Vec<TokenWithSpan>,
) -> Vec<TokenWithSpan> {
    let length = tokens.len();
    let ends_with = |words: &[&str]| {
        length > words.len() && words.iter().rev().zip(tokens.iter().rev()).all(|(word, token)| is(Some(token), word))
    };
    let has_no_data = ends_with(&["WITH", "NO", "DATA"]);
    if has_no_data || ends_with(&["WITH", "DATA"]) {
        tokens.truncate(length - if has_no_data { 3 } else { 2 });
    }
    let name = if is(tokens.get(3), "IF") { 6 } else { 3 };
    let mut end = end_of_name(&tokens, name);
    if matches!(tokens.get(end).map(|token| &token.token), Some(Token::LParen)) {
        let close = tokens[end..].iter().position(|token| token.token == Token::RParen);
        end = close.map_or(end, |close| end + close + 1);
    }
    let query = outside(&tokens).into_iter().find(|&at| at >= end && is(tokens.get(at), "AS"));
    if let Some(query) = query {
        let options = if has_no_data { as_is(&format!("WITH (\"{NO_DATA}\" = TRUE)"), &tokens[0]) } else { Vec::new() };
        tokens.splice(end..query, options);
    }
    tokens
}

/// CREATE VIEW with its CHECK OPTION as one of the options before its query.
fn create_view(
    mut tokens: Vec<TokenWithSpan>,
    view: usize,
    is: &dyn Fn(Option<&TokenWithSpan>, &str) -> bool,
    as_is: &dyn Fn(&str, &TokenWithSpan) -> Vec<TokenWithSpan>,
) -> Vec<TokenWithSpan> {
    let forms: [(&[&str], &str); 3] = [
        (&["WITH", "CHECK", "OPTION"], "cascaded"),
        (&["WITH", "CASCADED", "CHECK", "OPTION"], "cascaded"),
        (&["WITH", "LOCAL", "CHECK", "OPTION"], "local"),
    ];
    let length = tokens.len();
    let ends_with = |words: &[&str]| {
        length > words.len() && words.iter().rev().zip(tokens.iter().rev()).all(|(word, token)| is(Some(token), word))
    };
    let Some((words, option)) = forms.into_iter().find(|(words, _)| ends_with(words)) else { return tokens };
    let outside = outside(&tokens);
    let Some(&query) = outside.iter().find(|&&at| at > view && is(tokens.get(at), "AS")) else { return tokens };
    tokens.truncate(length - words.len());
    let has_options = outside.iter().any(|&at| at > view && at < query && is(tokens.get(at), "WITH"));
    if has_options {
        // Before the parenthesis that ends them.
        tokens.splice(query - 1..query - 1, as_is(&format!(", check_option = {option}"), &tokens[0].clone()));
    } else {
        tokens.splice(query..query, as_is(&format!("WITH (check_option = {option})"), &tokens[0].clone()));
    }
    tokens
}

/// CREATE TABLE name (names) AS query WITH NO DATA, as one whose query says so.
fn create_as(
    mut tokens: Vec<TokenWithSpan>,
    query: usize,
    is: &dyn Fn(Option<&TokenWithSpan>, &str) -> bool,
    as_is: &dyn Fn(&str, &TokenWithSpan) -> Vec<TokenWithSpan>,
) -> Vec<TokenWithSpan> {
    let last = tokens.len() - 1;
    let has_no_data = is(tokens.get(last), "DATA") && is(tokens.get(last.saturating_sub(1)), "NO");
    let end = last.saturating_sub(1 + usize::from(has_no_data));
    if end <= query {
        // There is no query.
        return tokens;
    }
    if is(tokens.get(last), "DATA") && (has_no_data || is(tokens.get(last - 1), "WITH")) {
        tokens.truncate(end);
    }
    // Names of columns: words between commas, in parentheses after the name of the table.
    let open = tokens[..query].iter().position(|token| token.token == Token::LParen);
    let names = open.and_then(|open| {
        let close = tokens[open..query].iter().position(|token| token.token == Token::RParen)? + open;
        let is_list = tokens[open + 1..close].iter().enumerate().all(|(at, token)| match token.token {
            Token::Word(_) => at % 2 == 0,
            Token::Comma => at % 2 == 1,
            _ => false,
        });
        is_list.then_some((open, close))
    });
    if names.is_none() && !has_no_data {
        return tokens;
    }
    let like = tokens[query].clone();
    let list = names.map(|(open, close)| tokens[open..=close].to_vec()).unwrap_or_default();
    let mut whole = tokens[..query].to_vec();
    if let Some((open, close)) = names {
        whole.drain(open..=close);
    }
    whole.extend(as_is("AS SELECT * FROM (", &like));
    whole.extend(tokens[query + 1..].iter().cloned());
    whole.extend(as_is(") AS \"?\"", &like));
    whole.extend(list);
    if has_no_data {
        whole.extend(as_is("LIMIT 0", &like));
    }
    whole
}
