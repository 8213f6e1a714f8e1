//! The text of a file without comments, strings and tests, and the paths that it names.

/// Whether a character may be part of a name.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The name at the beginning of a text.
pub(super) fn first_word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// Code without comments, without what stands in strings and characters, and without the module of tests at its end.
pub(super) fn code_of(text: &str) -> String {
    let text = text.split("\nmod tests {").next().unwrap_or_default();
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_in_word = code.ends_with(is_word);
        let (kept, len) = if rest.starts_with("//") {
            ("", rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (" ", comment_len(rest))
        } else if let Some(len) = (!is_in_word).then(|| raw_string_len(rest)).flatten() {
            ("\"\"", len)
        } else if c == '"' {
            ("\"\"", quoted_len(rest, '"'))
        } else if c == '\'' && is_character(rest) {
            ("' '", quoted_len(rest, '\''))
        } else {
            (&rest[..c.len_utf8()], c.len_utf8())
        };
        code.push_str(kept);
        rest = &rest[len..];
    }
    code
}

/// The length of a comment in `/* */`, which may have others inside.
fn comment_len(text: &str) -> usize {
    let (mut depth, mut place) = (0, 0);
    while place < text.len() {
        let rest = &text[place..];
        if rest.starts_with("/*") || rest.starts_with("*/") {
            if rest.starts_with("/*") {
                depth += 1
            } else {
                depth -= 1
            }
            place += 2;
            if depth == 0 {
                break;
            }
        } else {
            place += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    place
}

/// The length of `r"..."`, `r#"..."#` and so on.
fn raw_string_len(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inside = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(text.len() - inside.len() + inside.find(&end)? + end.len())
}

/// The length of what stands between two quotes, of which none with a backslash before it ends it.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return place + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

/// Whether a quote begins a character, and not a lifetime.
fn is_character(text: &str) -> bool {
    let mut letters = text.chars().skip(1);
    letters.next() == Some('\\') || letters.next() == Some('\'')
}

/// A `use` item.
#[derive(Debug, PartialEq)]
pub(super) struct Use {
    pub(super) is_passed_on: bool,
    /// The paths that its tree names.
    pub(super) paths: Vec<String>,
}

/// The `use` items of code, and what is left of the code without them and without the names of modules.
pub(super) fn uses(code: &str) -> (Vec<Use>, String) {
    let (mut found, mut left) = (Vec::new(), String::new());
    let mut rest = code;
    while let Some(place) = rest.find("use ") {
        let (before, item) = rest.split_at(place);
        let line = before.rsplit('\n').next().unwrap_or_default().trim();
        let is_visibility = line == "pub" || line.starts_with("pub(") && line.ends_with(')');
        left.push_str(before);
        if !line.is_empty() && !is_visibility {
            left.push_str("use ");
            rest = &item["use ".len()..];
            continue;
        }
        let end = item.find(';').unwrap_or(item.len());
        let mut paths = Vec::new();
        paths_of_tree("", &item["use ".len()..end].replace('\n', " "), &mut paths);
        found.push(Use { is_passed_on: is_visibility, paths });
        rest = &item[end..];
    }
    left.push_str(rest);
    let is_module = |line: &&str| line.trim_end().ends_with(';') && line.split("mod ").count() == 2;
    let left: Vec<&str> = left.lines().filter(|line| !is_module(line)).collect();
    (found, left.join("\n"))
}

/// The paths that a `use` of a tree names: `a::{b, c::{self, d}}` are `a::b`, `a::c` and `a::c::d`.
fn paths_of_tree(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        found.push(if name == "self" { prefix.trim_end_matches("::").to_owned() } else { format!("{prefix}{name}") });
        return;
    };
    let inside = inside.strip_suffix('}').unwrap_or_else(|| panic!("no whole tree of names: {tree}"));
    let (mut depth, mut start) = (0, 0);
    for (place, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inside[start..place].trim().is_empty() {
                    paths_of_tree(&format!("{prefix}{}", before.trim()), &inside[start..place], found);
                }
                start = place + 1;
            }
            _ => {}
        }
    }
}

/// Paths within code that begin at the root or above.
pub(super) fn paths_from_above(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (place, _) in code.match_indices(start) {
            // Not the end of another path, nor a `pub(in crate::...)`.
            let before = &code[..place];
            if before.ends_with(|c: char| is_word(c) || c == ':') || before.ends_with("pub(in ") {
                continue;
            }
            let path: String = code[place..].chars().take_while(|&c| is_word(c) || c == ':').collect();
            found.push(path.trim_end_matches(':').to_owned());
        }
    }
    found
}

/// Whether code has a word.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word)
        .any(|(place, _)| !code[..place].ends_with(is_word) && !code[place + word.len()..].starts_with(is_word))
}

/// Whether code names `name::` without anything before it.
pub(super) fn begins_path(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::"))
        .any(|(place, _)| !code[..place].ends_with(|c: char| is_word(c) || c == ':'))
}
