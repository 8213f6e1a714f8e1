//! Goal: a client that has its texts in another encoding than UTF-8 sends and is sent them in it, by every message that
//! has a text, and is told of letters that its encoding lacks. Method: bytes on a socket.

use std::net::TcpStream;

use super::client::{Client, Running, field, message, texts};

/// Values of the rows that a query in bytes gives, each as its bytes.
fn values(client: &mut Client<TcpStream>, query: &[u8]) -> Vec<Vec<u8>> {
    client.send(&message('Q', &[query, b"\0"].concat()));
    let told = client.until_ready();
    let rows = told.iter().filter(|(tag, _)| *tag == 'D');
    // One value each: after the number of values and its length.
    rows.map(|(_, row)| row[6..].to_vec()).collect()
}

#[test]
fn texts_are_in_the_encoding_of_the_client() {
    let running = Running::new(|_| {});
    let mut client = running.client();
    client.begin(0, &[("user", "default"), ("client_encoding", "'iso-8859-1'")]);
    let told = client.until_ready();
    assert!(told.contains(&('S', texts(&["client_encoding", "LATIN1"]))), "{told:?}");
    assert_eq!(values(&mut client, b"SELECT octet_length('caf\xe9')"), [b"5"]);
    assert_eq!(values(&mut client, b"SELECT 'caf\xe9' || chr(252)"), [b"caf\xe9\xfc"]);
    assert_eq!(values(&mut client, b"SHOW client_encoding"), [b"LATIN1"]);
    // Names of columns, tags of errors, and notices.
    client.send(&message('Q', b"SELECT 1 AS \"\xfcber\"\0"));
    let columns = client.expect('T');
    assert!(columns[2..].starts_with(b"\xfcber\0"), "{columns:?}");
    client.until_ready();
    client.send(&message('Q', b"SELECT \xe9t\xe9\0"));
    let error = client.expect('E');
    assert!(error.windows(6).any(|part| part == b"\"\xe9t\xe9\" "), "{error:?}");
    client.expect('Z');
    // A letter that the encoding lacks, in a row and in an error.
    client.send(&message('Q', b"SELECT chr(8364)\0"));
    client.expect('T');
    assert!(client.expect_error("22P05").contains("0xe2 0x82 0xac"));
    client.expect('Z');
    client.send(&message('Q', b"SELECT chr(8364)::int\0"));
    assert!(client.expect_error("22P02").ends_with("\"?\""));
    client.expect('Z');
    // Another one from the next statement on; what is rolled back is told, too.
    assert_eq!(client.run("BEGIN; SET client_encoding = 'WIN1252'"), "CSCZ");
    assert_eq!(values(&mut client, b"SELECT chr(8364)"), [b"\x80"]);
    assert_eq!(client.run("ROLLBACK"), "SCZ");
    assert_eq!(values(&mut client, b"SELECT 'caf\xe9'"), [b"caf\xe9"]);
    assert_eq!(client.run("SET NAMES 'utf8'"), "SCZ");
    assert_eq!(values(&mut client, "SELECT 'é€'".as_bytes()), ["é€".as_bytes()]);
    client.send(&message('Q', b"SELECT 'caf\xe9'\0"));
    assert!(client.expect_error("22021").ends_with("\"UTF8\": 0xe9 0x27"));
    client.expect('Z');
    client.send(&message('Q', b"SET client_encoding = 'JOHAB'\0"));
    let error = client.expect('E');
    assert_eq!(field(&error, 'C').as_deref(), Some("22023"));
    assert!(field(&error, 'H').is_some_and(|hint| hint.contains("LATIN1")), "{error:?}");
}

#[test]
fn parameters_are_in_the_encoding_of_the_client() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    client.run("SET client_encoding = 'SJIS'");
    // The second byte of this letter is a backslash, and the one of the next a pipe.
    let letters = b"\x95\x5c\x8a\x7c";
    let text_type = 25u32.to_be_bytes();
    let array_type = 1009u32.to_be_bytes();
    let sync = message('S', b"");
    let length = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    for format in [0u8, 1] {
        let parse = message('P', &[&[0][..], b"SELECT $1, '\x95\x5c'\0", &[0, 1], &text_type].concat());
        let formats = [0, 1, 0, format];
        let bind = [&texts(&["", ""])[..], &formats, &[0, 1], &length(letters), &formats].concat();
        client.send(&[parse, message('B', &bind), message('E', &[0; 5]), sync.clone()].concat());
        let told = client.until_ready();
        let row = told.iter().find(|(tag, _)| *tag == 'D').unwrap_or_else(|| panic!("{told:?}"));
        assert_eq!(row.1, [&[0, 2][..], &length(letters), &length(b"\x95\x5c")].concat(), "format {format}");
    }
    // Texts within arrays, in binary.
    let array = [&[0, 0, 0, 1, 0, 0, 0, 0][..], &text_type, &[0, 0, 0, 1, 0, 0, 0, 1], &length(letters)].concat();
    let parse = message('P', &[&[0][..], b"SELECT $1\0", &[0, 1], &array_type].concat());
    let bind = [&texts(&["", ""])[..], &[0, 1, 0, 1, 0, 1], &length(&array), &[0, 1, 0, 1]].concat();
    client.send(&[parse, message('B', &bind), message('E', &[0; 5]), sync.clone()].concat());
    let told = client.until_ready();
    let row = told.iter().find(|(tag, _)| *tag == 'D').unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(row.1, [&[0, 1][..], &length(&array)].concat());
    // Bytes that are no letter: the connection goes on.
    client.send(&[message('P', b"\0SELECT '\x85'\0\0\0"), sync.clone()].concat());
    client.expect_error("22021");
    client.expect('Z');
    let parse = message('P', b"\0SELECT $1::text\0\0\0");
    let bind = [&texts(&["", ""])[..], &[0, 0, 0, 1], &length(b"a\x85"), &[0, 0]].concat();
    client.send(&[parse, message('B', &bind), sync].concat());
    client.expect('1');
    client.expect_error("22021");
    client.expect('Z');
}

#[test]
fn copy_reads_and_writes_the_encoding_that_it_names() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    client.run("CREATE TABLE t (id int PRIMARY KEY, v text)");
    client.send(&message('Q', b"COPY t FROM STDIN (ENCODING 'SJIS', DELIMITER '|')\0"));
    client.expect('G');
    // Cut within letters whose second bytes are a backslash and the delimiter.
    client.send(&[message('d', b"1|\x95"), message('d', b"\x5c\x8a"), message('d', b"\x7c\n2|x\n")].concat());
    client.send(&message('c', b""));
    assert_eq!(client.kinds(), "CZ");
    assert_eq!(values(&mut client, b"SELECT v FROM t WHERE id = 1"), ["表掛".as_bytes()]);
    let out = |client: &mut Client<TcpStream>, copy: &[u8]| -> Vec<u8> {
        client.send(&message('Q', &[copy, b"\0"].concat()));
        client.until_ready().into_iter().filter(|(tag, _)| *tag == 'd').flat_map(|(_, data)| data).collect()
    };
    assert_eq!(out(&mut client, b"COPY t TO STDOUT (ENCODING 'EUC_JP', FORMAT csv)"), b"1,\xc9\xbd\xb3\xdd\n2,x\n");
    assert_eq!(out(&mut client, b"COPY t TO STDOUT"), "1\t表掛\n2\tx\n".as_bytes());
    client.run("SET client_encoding = 'SJIS'");
    let binary = out(&mut client, b"COPY t TO STDOUT (FORMAT binary)");
    assert!(binary.windows(4).any(|part| part == b"\x95\x5c\x8a\x7c"), "{binary:?}");
    client.run("TRUNCATE t");
    client.send(&message('Q', b"COPY t FROM STDIN (FORMAT binary)\0"));
    client.expect('G');
    client.send(&[message('d', &binary), message('c', b"")].concat());
    assert_eq!(client.kinds(), "CZ");
    assert_eq!(values(&mut client, b"SELECT v FROM t WHERE id = 1"), [b"\x95\x5c\x8a\x7c"]);
    // Bytes that are no letter are an error of their line, and nothing is taken.
    client.send(&message('Q', b"COPY t FROM STDIN\0"));
    client.expect('G');
    client.send(&[message('d', b"3\ta\n4\t\x85\x20\n"), message('c', b"")].concat());
    let error = client.expect('E');
    assert_eq!(field(&error, 'C').as_deref(), Some("22021"));
    assert_eq!(field(&error, 'W').as_deref(), Some("COPY t, line 2"));
    client.expect('Z');
    assert_eq!(values(&mut client, b"SELECT count(*) FROM t"), [b"2"]);
    client.send(&message('Q', b"COPY t TO STDOUT (ENCODING 'nonsense')\0"));
    client.expect_error("22023");
}
