//! A command: its words, as a client sends them and as a report shows them.

use std::fmt;

/// Words longer than this are shortened where they are shown.
const SHOWN_BYTES: usize = 200;

/// A command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name and the arguments.
    pub words: Vec<Vec<u8>>,
}

impl Command {
    /// A command; words that are apart by a space in `name` are words of their own.
    pub fn new(name: &str) -> Command {
        Command { words: name.split(' ').map(|word| word.as_bytes().to_vec()).collect() }
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, word: impl Into<Vec<u8>>) -> Command {
        self.words.push(word.into());
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn args<W: Into<Vec<u8>>>(mut self, words: impl IntoIterator<Item = W>) -> Command {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// With one more argument, a number.
    #[must_use]
    pub fn number(self, number: impl fmt::Display) -> Command {
        self.arg(number.to_string())
    }

    /// With one more argument, if `condition` holds.
    #[must_use]
    pub fn when(self, condition: bool, word: &str) -> Command {
        if condition { self.arg(word) } else { self }
    }

    /// The name in upper case, for looking it up.
    pub fn name(&self) -> String {
        self.upper(0)
    }

    /// Argument `index` in upper case; 0 is the name, and what is not there is empty.
    pub fn upper(&self, index: usize) -> String {
        self.words.get(index).map(|word| String::from_utf8_lossy(word).to_uppercase()).unwrap_or_default()
    }

    /// Its frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(self.words.iter().map(|word| word.len() + 16).sum());
        self.encode_to(&mut frame);
        frame
    }

    /// Appends its frame.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("*{}\r\n", self.words.len()).as_bytes());
        for word in &self.words {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The frames of some commands.
pub fn encode_all(commands: &[Command]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        command.encode_to(&mut bytes);
    }
    bytes
}

/// As typed into `redis-cli`: words in quotes where they need them.
impl fmt::Display for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.words.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            let plain = !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte));
            if plain && word.len() <= SHOWN_BYTES {
                write!(formatter, "{space}{}", String::from_utf8_lossy(word))?;
            } else {
                write!(formatter, "{space}{}", quoted(word))?;
            }
        }
        Ok(())
    }
}

/// Bytes in quotes, escaped; the middle of long ones left out.
pub fn quoted(bytes: &[u8]) -> String {
    if bytes.len() <= SHOWN_BYTES {
        return format!("\"{}\"", bytes.escape_ascii());
    }
    let half = SHOWN_BYTES / 2;
    let left_out = bytes.len() - 2 * half;
    let (start, end) = (&bytes[..half], &bytes[bytes.len() - half..]);
    format!("\"{}\"...{left_out} bytes...\"{}\"", start.escape_ascii(), end.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_framed_and_shown() {
        let command = Command::new("client setname").arg(b"a b\r\n".to_vec()).number(-3).when(false, "NX");
        assert_eq!(command.encode(), b"*4\r\n$6\r\nclient\r\n$7\r\nsetname\r\n$5\r\na b\r\n\r\n$2\r\n-3\r\n");
        assert_eq!(command.to_string(), "client setname \"a b\\r\\n\" -3");
        assert_eq!(
            (command.name(), command.upper(1), command.upper(9)),
            ("CLIENT".into(), "SETNAME".into(), "".into())
        );
    }

    #[test]
    fn a_long_word_is_shortened() {
        let shown = Command::new("SET k").arg(vec![b'x'; 1 << 20]).to_string();
        assert!(shown.contains("...1048376 bytes...") && shown.len() < 300, "{shown}");
    }
}
