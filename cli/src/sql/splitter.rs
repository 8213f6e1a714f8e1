//! Text, line by line, as statements and commands of the shell.
//!
//! A statement ends at a semicolon that stands in no quotes, no comment and no parentheses. A command of the shell
//! begins with a backslash there, and ends with its line.

/// What the text has next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A statement without its semicolon, and the number of the line on which it begins.
    Statement(String, u64),
    /// A command of the shell with its backslash.
    Command(String),
}

/// What the end of the text read so far stands in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    Quote {
        escapes: bool,
    },
    Name,
    Dollar(String),
    Comment(usize),
}

/// Cuts text into pieces.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    text: String,
    /// Where the statement under way begins.
    start: usize,
    /// How far it is read.
    read: usize,
    inside: Inside,
    parentheses: usize,
    /// The number of the line at `start`.
    line: u64,
}

impl Splitter {
    /// Adds the line of this number, without its end.
    pub(super) fn push(&mut self, line: &str, number: u64) {
        if self.pending().is_empty() {
            self.text.clear();
            (self.start, self.read, self.line) = (0, 0, number);
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The statement under way.
    pub(super) fn pending(&self) -> &str {
        self.text[self.start..].trim()
    }

    /// Takes the statement under way, as if it ended here, and the number of its line.
    pub(super) fn take(&mut self) -> (String, u64) {
        self.take_to(self.text.len(), 0)
    }

    /// Puts another text in the place of the statement under way.
    pub(super) fn replace(&mut self, text: &str) {
        self.take();
        self.push(text, 1);
    }

    /// The character that a prompt shows: what the end of the text stands in.
    pub(super) fn mark(&self) -> char {
        match self.inside {
            Inside::Quote { .. } => '\'',
            Inside::Name => '"',
            Inside::Dollar(_) => '$',
            Inside::Comment(_) => '*',
            Inside::Nothing if self.parentheses > 0 => '(',
            Inside::Nothing if self.pending().is_empty() => '=',
            Inside::Nothing => '-',
        }
    }

    /// The next piece that is complete.
    pub(super) fn next(&mut self) -> Option<Piece> {
        while let Some(&byte) = self.text.as_bytes().get(self.read) {
            let rest = &self.text[self.read..];
            let mut width = 1;
            match &mut self.inside {
                Inside::Nothing => match byte {
                    b';' if self.parentheses == 0 => {
                        let (text, line) = self.take_to(self.read, 1);
                        if !text.is_empty() {
                            return Some(Piece::Statement(text, line));
                        }
                        continue;
                    }
                    b'\\' => return Some(self.command()),
                    b'(' => self.parentheses += 1,
                    b')' => self.parentheses = self.parentheses.saturating_sub(1),
                    b'\'' => self.inside = Inside::Quote { escapes: self.is_after_e() },
                    b'"' => self.inside = Inside::Name,
                    b'-' if rest.starts_with("--") => width = rest.find('\n').unwrap_or(rest.len()),
                    b'/' if rest.starts_with("/*") => (self.inside, width) = (Inside::Comment(1), 2),
                    b'$' if !self.is_after_name() => {
                        if let Some(tag) = dollar_tag(rest) {
                            width = tag.len();
                            self.inside = Inside::Dollar(tag.to_owned());
                        }
                    }
                    _ => {}
                },
                Inside::Quote { escapes } => match byte {
                    b'\\' if *escapes => width = 2,
                    b'\'' => self.inside = Inside::Nothing,
                    _ => {}
                },
                Inside::Name => {
                    if byte == b'"' {
                        self.inside = Inside::Nothing;
                    }
                }
                Inside::Dollar(tag) => {
                    if rest.starts_with(tag.as_str()) {
                        width = tag.len();
                        self.inside = Inside::Nothing;
                    }
                }
                Inside::Comment(depth) => {
                    if rest.starts_with("/*") {
                        (*depth, width) = (*depth + 1, 2);
                    } else if rest.starts_with("*/") {
                        (*depth, width) = (*depth - 1, 2);
                        if *depth == 0 {
                            self.inside = Inside::Nothing;
                        }
                    }
                }
            }
            // The next character, not the next byte.
            self.read = (self.read + width).min(self.text.len());
            while !self.text.is_char_boundary(self.read) {
                self.read += 1;
            }
        }
        None
    }

    /// Takes the command of the shell that begins here out of the text.
    fn command(&mut self) -> Piece {
        let end = self.text[self.read..].find('\n').map_or(self.text.len(), |at| self.read + at);
        let command = self.text[self.read..end].trim().to_owned();
        self.text.replace_range(self.read..end, "");
        if self.pending().is_empty() {
            self.take();
        }
        Piece::Command(command)
    }

    fn take_to(&mut self, end: usize, after: usize) -> (String, u64) {
        let whole = &self.text[self.start..end];
        let text = whole.trim_start();
        let blank = &whole[..whole.len() - text.len()];
        let line = self.line + count_lines(blank);
        self.line += count_lines(whole);
        let text = text.trim_end().to_owned();
        self.start = end + after;
        self.read = self.start;
        self.inside = Inside::Nothing;
        self.parentheses = 0;
        (text, line)
    }

    fn before(&self) -> &str {
        &self.text[self.start..self.read]
    }

    /// Whether a name or a number ends here, of which a dollar sign would be a part.
    fn is_after_name(&self) -> bool {
        self.before().chars().next_back().is_some_and(is_of_name)
    }

    /// Whether an E stands here on its own: the quotes after it have escapes.
    fn is_after_e(&self) -> bool {
        let mut before = self.before().chars().rev();
        matches!(before.next(), Some('e' | 'E')) && !before.next().is_some_and(is_of_name)
    }
}

fn count_lines(text: &str) -> u64 {
    text.bytes().filter(|&byte| byte == b'\n').count() as u64
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// The mark, such as `$$` or `$body$`, with which a text in dollar quotes begins.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 2;
    let name = &text[1..end - 1];
    let is_name = name.chars().all(is_of_name) && !name.starts_with(|first: char| first.is_ascii_digit());
    is_name.then(|| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> (Vec<String>, char) {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            splitter.push(line, number);
            while let Some(piece) = splitter.next() {
                found.push(match piece {
                    Piece::Statement(text, line) => format!("{line}:{text}"),
                    Piece::Command(text) => text,
                });
            }
        }
        (found, splitter.mark())
    }

    fn whole(text: &str) -> Vec<String> {
        let (found, mark) = pieces(text);
        assert_eq!(mark, '=', "{text}");
        found
    }

    #[test]
    fn statements_end_at_semicolons() {
        assert_eq!(whole("SELECT 1; SELECT\n2;\n\n;;SELECT 3;"), ["1:SELECT 1", "1:SELECT\n2", "4:SELECT 3"]);
        assert_eq!(whole("SELECT ';', E'\\';', \"a;b\", 'it''s;';"), ["1:SELECT ';', E'\\';', \"a;b\", 'it''s;'"]);
        assert_eq!(whole("SELECT '\\'; SELECT é;"), ["1:SELECT '\\'", "1:SELECT é"]);
        assert_eq!(whole("SELECT $$;'$$, $a$ ; $$ $a$;"), ["1:SELECT $$;'$$, $a$ ; $$ $a$"]);
        assert_eq!(whole("SELECT $1, a$b$; SELECT 2;"), ["1:SELECT $1, a$b$", "1:SELECT 2"]);
        assert_eq!(whole("SELECT 1 -- no; 'quote\n;"), ["1:SELECT 1 -- no; 'quote"]);
        assert_eq!(whole("SELECT /* ; /* ' */ ; */ 1;"), ["1:SELECT /* ; /* ' */ ; */ 1"]);
        assert_eq!(whole("CREATE RULE r AS (a; b);"), ["1:CREATE RULE r AS (a; b)"]);
    }

    #[test]
    fn commands_begin_with_a_backslash() {
        assert_eq!(whole("\\d t; x\nSELECT 1;"), ["\\d t; x", "2:SELECT 1"]);
        assert_eq!(whole("SELECT '\\d';"), ["1:SELECT '\\d'"]);
        let mut splitter = Splitter::default();
        splitter.push("SELECT 1 \\gx", 1);
        assert_eq!(splitter.next(), Some(Piece::Command("\\gx".to_owned())));
        assert_eq!(splitter.pending(), "SELECT 1");
        assert_eq!(splitter.take(), ("SELECT 1".to_owned(), 1));
        assert_eq!(splitter.next(), None);
    }

    #[test]
    fn the_mark_says_what_is_open() {
        for (text, mark) in [
            ("SELECT", '-'),
            ("SELECT 'a", '\''),
            ("SELECT \"a", '"'),
            ("SELECT $x$ $$", '$'),
            ("SELECT (1;", '('),
            ("/* a", '*'),
            ("", '='),
        ] {
            assert_eq!(pieces(text), (Vec::new(), mark), "{text}");
        }
    }
}
