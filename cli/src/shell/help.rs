//! The help of the shell: a page that teaches, and a line or two for every command.

/// A command's usage, what it does, and an example.
struct Topic {
    usage: &'static str,
    about: &'static str,
    example: &'static str,
}

const fn topic(usage: &'static str, about: &'static str, example: &'static str) -> Topic {
    Topic { usage, about, example }
}

const TOPICS: [Topic; 38] = [
    topic("use TABLE", "Makes it the table of the commands that follow.", "use flights.airport"),
    topic("tables", "Lists the tables with their rows and keys, and the indexes.", "tables"),
    topic("schema", "Shows the columns, indexes and constraints of the table in use.", "schema"),
    topic(
        "create TABLE [key COL:TYPE,... [value COL:TYPE,...]] [index NAME:COL,...]... [sum COL]",
        "Creates a table. Types: i64, f64, decimal(10,2), text, date ... Without columns, strings.",
        "create towns key city:text value people:i64 index size:people sum people",
    ),
    topic(
        "index NAME:COL,... [unique]",
        "Creates an index of the table in use, by columns or expressions of one.",
        "index by_name:lower(city) unique",
    ),
    topic(
        "number COLUMN [NEXT]",
        "Shows the next number of an identity column of the table in use, or sets it to NEXT.",
        "number id 1000",
    ),
    topic(
        "drop TABLE[.INDEX]",
        "Drops a table with its indexes, or an index, at once and for good.",
        "drop towns.size",
    ),
    topic(
        "rebuild TABLE.INDEX",
        "Builds an index again from the rows, where `quipu check` finds it wrong.",
        "rebuild towns.size",
    ),
    topic("stats", "Shows what the database holds and does.", "stats"),
    topic("get KEY", "Shows one row.", "get JFK,7"),
    topic(
        "put KEY VALUE",
        "Adds a row, or replaces the one of that key. Where rows are numbered, `put null` adds one.",
        "put Cusco people=428450",
    ),
    topic(
        "insert KEY VALUE",
        "Adds a row; an error if there is one of that key. For numbered rows, null is a new key.",
        "insert Cusco 428450",
    ),
    topic("update KEY VALUE", "Changes columns of a row.", "update Cusco people=428450"),
    topic("remove KEY", "Removes a row.", "remove Cusco"),
    topic(
        "scan [RANGE] [limit N|all] [reverse]",
        "Shows rows in order, 20 unless told otherwise, and says how many there are.",
        "scan JFK,7 .. JFK,9 limit 5 reverse",
    ),
    topic("count [RANGE]", "How many rows. Without NULLs, if the range is open at one end.", "count JFK,7"),
    topic("len", "How many rows the table has.", "len"),
    topic("rank KEY", "How many rows sort before a key, which need not be there; NULL sorts first.", "rank M"),
    topic("nth OFFSET [RANGE]", "The row at an offset, the first being 0, and the last -1.", "nth 199,999"),
    topic("page OFFSET LIMIT [RANGE]", "The rows from an offset on, and of how many.", "page 14130 3 LAX"),
    topic(
        "quantile Q [RANGE]",
        "The row at a fraction of the range: 0.5 is the median. NULLs do not count.",
        "quantile 0.5 B6",
    ),
    topic("sample ROWS [RANGE]", "Rows by chance, all equally likely.", "sample 5 JFK"),
    topic("split PARTS [RANGE]", "The keys that cut a range into parts of equal count.", "split 4"),
    topic(
        "groups COLUMNS [RANGE]",
        "How many rows have each value of the first columns of the key: their names, or how many.",
        "groups year,month",
    ),
    topic("tally [RANGE]", "Rows and their sum; of strings also bytes and hash. As far as it is kept.", "tally 2013,7"),
    topic("first [RANGE]", "The first row.", "first JFK"),
    topic("last [RANGE]", "The last row.", "last JFK"),
    topic(
        "explain QUESTION",
        "Answers a question, `get` to `last`, and says by which order, and how many pages it took.",
        "explain count JFK,7",
    ),
    topic("begin", "Begins a transaction: others see what follows only after `commit`.", "begin"),
    topic("commit", "Commits; an error if what the transaction read has changed meanwhile.", "commit"),
    topic("rollback [to SAVEPOINT]", "Undoes the transaction, or what it did since a savepoint.", "rollback to here"),
    topic("savepoint NAME", "Marks this place of the transaction.", "savepoint here"),
    topic("release NAME", "Forgets a savepoint, and those after it, and keeps what was done.", "release here"),
    topic("checkpoint", "Writes an image of all tables, so that the next start reads less log.", "checkpoint"),
    topic("json on|off", "Answers as JSON, one object a command.", "json on"),
    topic("timing on|off", "Shows how long each answer took.", "timing off"),
    topic("help [COMMAND]", "This text, or that of one command.", "help scan"),
    topic("quit", "Ends the shell; an open transaction is rolled back.", "quit"),
];

const LESSON: &str = "\
Every command is about the table that `use` chose. `help COMMAND` shows an example.

Keys     the values of the key's columns between commas:   JFK,7,2013
         quotes hold blanks and commas: \"New York\",7       a missing value is null
         quotes hold stars and = too, two of them are one: \"the \"\"Big\"\" Apple\"
         in a table without columns, a string: abc, \"a b\", \\x00\\xff
Ranges   nothing               all rows
         JFK                   all keys that begin with JFK
         JF*                   all text that begins with JF
         JFK,7 .. JFK,9        from JFK,7 to before JFK,9
         JFK,7 ..= JFK,9       to the last of JFK,9
         JFK ..     .. JFK     open at one end: no NULLs, which sort first
         null .. JFK           and with the NULLs
         ..1900  1900..2000    blanks may be left out at numbers and days, and where one end is open
Values   all columns between commas, or some by name:      people=428450
Lines    from a pipe are a script: it ends at the first error. # begins a comment.
Ctrl-C   stops the command that runs; `checkpoint`, `commit` and `drop` come to their end first.
";

/// The usage of a command; empty if there is none of that name.
pub(super) fn usage(name: &str) -> &'static str {
    let named = |topic: &&Topic| topic.usage.split(' ').next() == Some(name);
    TOPICS.iter().find(named).map_or("", |topic| topic.usage)
}

/// An example of a command; empty for other names.
#[cfg(test)]
pub(super) fn example(name: &str) -> &'static str {
    let named = |topic: &&Topic| topic.usage.split(' ').next() == Some(name);
    TOPICS.iter().find(named).map_or("", |topic| topic.example)
}

/// The help of one command, or all of it; none if there is no such command.
pub(super) fn text(name: Option<&str>) -> Option<String> {
    let Some(name) = name else {
        let width = 28;
        let mut text = String::new();
        for topic in &TOPICS {
            let usage = topic.usage;
            // What is too long for its column has the text on the next line.
            let gap = if usage.len() > width { format!("\n{:width$}", "") } else { " ".repeat(width - usage.len()) };
            text.push_str(&format!("{usage}{gap}  {}\n", topic.about));
        }
        return Some(format!("{text}\n{LESSON}"));
    };
    let usage = usage(name);
    let topic = TOPICS.iter().find(|topic| topic.usage == usage)?;
    Some(format!("{}\n  {}\n  Example: {}\n", topic.usage, topic.about, topic.example))
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::*;

    #[test]
    fn every_example_is_a_command() {
        for topic in &TOPICS {
            assert!(command::parse(topic.example).unwrap().is_some(), "{}", topic.example);
        }
    }

    #[test]
    fn lines_fit_a_terminal() {
        for line in text(None).unwrap().lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
    }
}
