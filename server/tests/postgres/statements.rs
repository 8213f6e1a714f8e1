//! Goal: what sessions answer comes over a socket as it is, by each way to ask. Method: the statements of
//! `sql/tests/logic`, with PostgreSQL's answers, are sent as simple queries, as prepared ones, and as prepared ones
//! whose values come as bytes; what is told of their columns must be the same each time.

use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use quipu::{Db, Options};
use quipu_sql::functions::Environment;
use quipu_sql::types::text_encoding::TextEncoding;
use quipu_sql::types::{binary, text};
use quipu_sql::{BaseType, SqlDatabase, SqlType};
use quipu_testing::statements::{Answer, Client as Asked, Refusal, differences, files};

use super::client::{Client, Message, Running, field, message, texts};

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Simple,
    Prepared,
    /// Values come as bytes, if their texts do not depend on the session.
    Binary,
}

/// A column, as a RowDescription tells it: without the format.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    table: u32,
    number: i16,
    oid: u32,
    size: i16,
    modifier: i32,
}

/// What was told of the columns of all queries, with their texts.
type Described = Vec<(String, Vec<Column>)>;

/// A client over a socket.
struct OverSocket {
    client: Client<TcpStream>,
    way: Way,
    /// Whose sessions write values that came as bytes.
    database: SqlDatabase,
    described: Arc<Mutex<Described>>,
}

/// Reads what messages are made of.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn number2(&mut self) -> i16 {
        i16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn number4(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).expect("the end of a text");
        String::from_utf8(self.take(end + 1)[..end].to_vec()).expect("text")
    }
}

/// The columns of a RowDescription, and whether their values come as bytes.
fn columns_of(body: &[u8]) -> Vec<(Column, bool)> {
    let mut reader = Reader(body);
    let count = reader.number2();
    let column = |_| {
        let (name, table, number) = (reader.text(), reader.number4().cast_unsigned(), reader.number2());
        let (oid, size, modifier) = (reader.number4().cast_unsigned(), reader.number2(), reader.number4());
        (Column { name, table, number, oid, size, modifier }, reader.number2() == 1)
    };
    (0..count).map(column).collect()
}

/// The type of a column whose values can be told from bytes without knowing how a session writes them.
fn type_without_settings(column: &Column) -> Option<SqlType> {
    let known = SqlType::of_oid(column.oid)?;
    use BaseType::{Bool, Float4, Float8, Int2, Int4, Int8, Json, Jsonb, Numeric, Oid, Text, Time, Uuid, Varchar};
    let is_known = matches!(
        known.base,
        Bool | Float4 | Float8 | Int2 | Int4 | Int8 | Json | Jsonb | Numeric | Oid | Text | Time | Uuid | Varchar
    );
    is_known.then_some(SqlType { modifier: column.modifier, ..known })
}

impl OverSocket {
    fn refusal(body: &[u8]) -> Refusal {
        let part = |letter| field(body, letter).expect("a field of an error");
        Refusal { code: part('C'), text: part('M') }
    }

    /// Prepares a statement, and says how its values are to come: a format for each column.
    fn prepare(&mut self, text: &str) -> Result<Option<Vec<Column>>, Refusal> {
        let parse = message('P', &[&texts(&["", text])[..], &[0, 0]].concat());
        self.client.send(&[parse, message('D', b"S\0"), message('H', b"")].concat());
        let mut columns = None;
        loop {
            let (tag, body) = self.client.next().expect("a message");
            match tag {
                'E' => {
                    self.client.send(&message('S', b""));
                    self.client.until_ready();
                    return Err(OverSocket::refusal(&body));
                }
                'T' => columns = Some(columns_of(&body).into_iter().map(|(column, _)| column).collect()),
                '1' | 't' | 'N' | 'S' | 'A' => continue,
                'n' => {}
                other => panic!("{text}: a message {other:?} after Parse"),
            }
            return Ok(columns);
        }
    }

    fn send_prepared(&mut self, text: &str) -> Result<(), Refusal> {
        let columns = self.prepare(text)?.unwrap_or_default();
        let as_bytes = |column: &Column| self.way == Way::Binary && type_without_settings(column).is_some();
        let formats: Vec<u8> = columns.iter().flat_map(|column| [0, u8::from(as_bytes(column))]).collect();
        let count = (columns.len() as u16).to_be_bytes();
        let bind = message('B', &[&texts(&["", ""])[..], &[0; 4], &count, &formats].concat());
        let execute = message('E', &[&texts(&[""])[..], &[0; 4]].concat());
        self.client.send(&[bind, message('D', b"P\0"), execute, message('S', b"")].concat());
        Ok(())
    }

    /// The values of a row as texts.
    fn row(body: &[u8], columns: &[(Column, bool)], environment: &dyn Environment) -> Vec<Option<String>> {
        let mut reader = Reader(body);
        assert_eq!(reader.number2() as usize, columns.len());
        let value = |(column, is_binary): &(Column, bool)| {
            let length = usize::try_from(reader.number4()).ok()?;
            let bytes = reader.take(length);
            if !is_binary {
                return Some(String::from_utf8(bytes.to_vec()).expect("text"));
            }
            let sql_type = type_without_settings(column).expect("bytes were asked for");
            let value = binary::read(bytes, sql_type, TextEncoding::UTF8).expect("a value");
            Some(text::to_string(&value, sql_type, environment).expect("a text"))
        };
        columns.iter().map(value).collect()
    }

    /// Takes what a statement is answered, until the server is ready.
    fn answers(&mut self, text: &str) -> Result<Answer, Refusal> {
        let (mut answer, mut columns, mut refusal) = (Answer::default(), None, None);
        let environment = self.database.session("anna", "quipu").environment();
        loop {
            let (tag, body): Message = self.client.next().expect("a message");
            match tag {
                'Z' => break,
                'E' => refusal = Some(OverSocket::refusal(&body)),
                'T' => {
                    columns = Some(columns_of(&body));
                    answer.rows.clear();
                }
                'D' => {
                    let columns: &Vec<_> = columns.as_ref().expect("columns come before rows");
                    answer.rows.push(OverSocket::row(&body, columns, &*environment));
                }
                'd' => answer.rows.push(vec![Some(String::from_utf8(body).expect("text"))]),
                'G' => self.client.send(&message('f', b"the test has no data\0")),
                'C' => answer.tag = Reader(&body).text(),
                'I' | 'N' | 'S' | 'A' | 'n' | '1' | '2' | 'H' | 'c' => {}
                other => panic!("{text}: a message {other:?}"),
            }
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        answer.columns = columns.as_ref().map(Vec::len);
        if let Some(columns) = columns {
            let columns = columns.into_iter().map(|(column, _)| column).collect();
            self.described.lock().expect("no panic").push((text.to_owned(), columns));
        }
        Ok(answer)
    }
}

impl Asked for OverSocket {
    fn ask(&mut self, text: &str) -> Result<Answer, Refusal> {
        // Several statements in a text cannot be prepared.
        if self.way == Way::Simple || text.trim_end_matches([';', ' ', '\n']).contains(';') {
            self.client.send(&message('Q', &texts(&[text])));
        } else {
            self.send_prepared(text)?;
        }
        self.answers(text)
    }
}

/// Asks the statements of a file by one way, of a server of their own. Returns what was told of columns.
fn ask_all(path: &Path, way: Way, database: &SqlDatabase) -> Described {
    let running = Running::new(|_| {});
    let described = Arc::new(Mutex::new(Vec::new()));
    let connect = || {
        let (database, described) = (database.clone(), described.clone());
        OverSocket { client: running.session(), way, database, described }
    };
    let failed = differences(path, connect);
    assert!(failed.is_empty(), "{} ({way:?}): {}", path.display(), failed.join("\n"));
    let described = described.lock().expect("no panic");
    described.clone()
}

#[test]
fn statements_answer_over_a_socket_as_those_of_postgresql() {
    let db = Db::open("/sql", Options::without_files()).expect("a database without files");
    let database = SqlDatabase::open(&db).expect("SQL over it");
    for path in files() {
        let ask = |way| (way, ask_all(&path, way, &database));
        let [(_, simple), others @ ..] = std::thread::scope(|scope| {
            [Way::Simple, Way::Prepared, Way::Binary]
                .map(|way| scope.spawn(move || ask(way)))
                .map(|asked| asked.join().expect("no panic"))
        });
        for (way, described) in others {
            assert_eq!(described.len(), simple.len(), "{} ({way:?})", path.display());
            for (one, other) in simple.iter().zip(&described) {
                assert_eq!(one, other, "{} ({way:?})", path.display());
            }
        }
    }
}
