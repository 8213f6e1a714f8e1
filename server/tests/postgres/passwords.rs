//! Goal: who is let in is who may come in, and who is not learns nothing of users. Method: as in `mod.rs`.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::{Client, Running, field, message, packet};
use quipu_server::users::rules;

fn set(running: &Running, name: &str, words: &str) {
    running.server.users.set(name, &rules::words(words)).expect("set");
}

#[test]
fn users_prove_their_passwords() {
    let running = Running::new(|config| config.set("requirepass", "first").expect("set"));
    set(&running, "ann", "on >one >two ~* +@all");
    set(&running, "bob", "on >three ~* +@read");
    set(&running, "off", "off >four ~* +@all");
    let digest = rules::hex(&rules::digest(b"five"));
    set(&running, "hashed", &format!("on #{digest} ~* +@all"));
    set(&running, "open", "on nopass ~* +@all");
    let log_in = |user: &str, password: &str| {
        let mut client = running.client();
        client.begin(0, &[("user", user)]);
        match client.scram(password) {
            ('R', _) => match client.next() {
                Some(('S', _)) => Ok(()),
                other => Err(other),
            },
            (tag, body) => Err(Some((tag, body))),
        }
    };
    for (user, password) in [("default", "first"), ("ann", "one"), ("ann", "two")] {
        assert_eq!(log_in(user, password), Ok(()), "{user}");
    }
    for (user, password) in
        [("default", "second"), ("ann", "three"), ("nobody", "x"), ("off", "four"), ("hashed", "five"), ("ann", "")]
    {
        let Err(Some((tag, body))) = log_in(user, password) else { panic!("{user} came in") };
        let expected = format!("password authentication failed for user \"{user}\"");
        assert_eq!((tag, field(&body, 'M'), field(&body, 'C')), ('E', Some(expected), Some("28P01".to_owned())));
    }
    let entries = running.server.users.refusals.last(10);
    assert!(entries.iter().any(|entry| entry.user == "nobody"), "ACL LOG tells of it");
    let mut client = running.client();
    client.begin(0, &[("user", "open")]);
    client.until_ready();
}

/// Each use of a table needs the right to a command with the name of the table as its key, as the rules are at the
/// moment; what is refused is in `ACL LOG`.
#[test]
fn a_user_of_few_rights_does_with_tables_what_its_rules_allow() {
    let running = Running::new(|_| {});
    let mut owner = running.session();
    assert_eq!(owner.code("CREATE TABLE t (id int); CREATE SCHEMA sales; CREATE TABLE sales.t (id int)"), None);
    set(&running, "bob", "on nopass ~public.* %R~sales.* +@read +set");
    let mut bob = running.client();
    bob.begin(0, &[("user", "bob")]);
    bob.until_ready();
    let mut checked = |statement: &str, wanted: Option<&str>| {
        assert_eq!(bob.code(statement).as_deref(), wanted, "{statement}");
    };
    checked("SELECT * FROM t", None);
    checked("SELECT * FROM sales.t", None);
    checked("INSERT INTO t VALUES (1)", None);
    checked("INSERT INTO sales.t VALUES (1)", Some("42501"));
    checked("DELETE FROM t", Some("42501"));
    checked("TRUNCATE t", Some("42501"));
    checked("CREATE TABLE x (id int)", Some("42501"));
    set(&running, "bob", "+del");
    checked("DELETE FROM t", None);
    set(&running, "bob", "(%RW~sales.* +get +set)");
    checked("INSERT INTO sales.t VALUES (1)", None);
    // Rights end with the rules.
    set(&running, "bob", "clearselectors -@all");
    checked("SELECT * FROM t", Some("42501"));
    checked("SELECT 1", None);
    set(&running, "bob", "~* +@all");
    checked("CREATE TABLE x (id int)", None);
    let entries = running.server.users.refusals.last(10);
    assert!(entries.iter().any(|it| it.user == "bob" && it.object == b"permission denied for table t"), "{entries:?}");
}

#[test]
fn a_name_that_no_user_has_is_the_default_user_while_that_one_may_do_everything() {
    let running = Running::new(|_| {});
    let mut client = running.client();
    client.begin(0, &[("user", "postgres")]);
    let told = client.until_ready();
    assert!(told.contains(&('S', b"session_authorization\0default\0".to_vec())));
    set(&running, "default", "-flushall");
    let mut client = running.client();
    client.begin(0, &[("user", "postgres")]);
    assert_eq!(client.expect('R')[..4], 10u32.to_be_bytes());
    let mut client = running.client();
    client.begin(0, &[("user", "default")]);
    client.until_ready();
    let mut client = running.client();
    client.begin(0, &[("database", "x")]);
    client.expect_end("28000");
    let mut client = running.client();
    client.begin(0, &[("user", "default"), ("replication", "true")]);
    client.expect_end("0A000");
}

#[test]
fn what_is_no_proof_is_refused() {
    let running = Running::new(|config| config.set("requirepass", "first").expect("set"));
    let begin = || {
        let mut client = running.client();
        client.begin(0, &[("user", "default")]);
        client.expect('R');
        client
    };
    for sent in [
        message('p', b""),
        message('p', b"MD5\0\0\0\0\0"),
        message('p', b"SCRAM-SHA-256\0\0\0\0\x08n,,n=,r="),
        message('p', b"SCRAM-SHA-256-PLUS\0\0\0\0\x09n,,n=,r=a"),
        message('p', b"SCRAM-SHA-256\0\xff\xff\xff\xff"),
        message('Q', b"SELECT 1\0"),
        message('p', &[0; 70_000]),
    ] {
        let mut client = begin();
        client.send(&sent);
        let (tag, body) = client.next().expect("an error");
        let code = field(&body, 'C').expect("a code");
        assert!(tag == 'E' && ["08P01", "54000"].contains(&&*code), "{code}");
        assert_eq!(client.next(), None);
    }
}

struct Files {
    _directory: tempfile::TempDir,
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
}

#[expect(clippy::disallowed_methods, reason = "files of a test")]
fn files() -> Files {
    let directory = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (certificate, key) = (path("c.pem"), path("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    Files { _directory: directory, certificate, key, der: made.cert.der().clone() }
}

#[test]
fn tls_is_spoken_where_there_is_a_certificate() {
    let files = files();
    let running = Running::new(|config| {
        config.set("tls-cert-file", &files.certificate).expect("set");
        config.set("tls-key-file", &files.key).expect("set");
        config.set("pg-require-tls", "yes").expect("set");
        config.set("requirepass", "first").expect("set");
    });
    let digest = rules::hex(&rules::digest(b"five"));
    set(&running, "hashed", &format!("on #{digest} ~* +@all"));
    let client = || {
        let mut roots = RootCertStore::empty();
        roots.add(files.der.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut plain = running.client();
        plain.send(&packet(80_877_103, b""));
        let mut answer = [0];
        std::io::Read::read_exact(&mut plain.stream, &mut answer).expect("an answer");
        assert_eq!(&answer, b"S");
        Client { stream: StreamOwned::new(connection, plain.stream) }
    };
    let mut sealed = client();
    sealed.begin(0, &[("user", "default")]);
    assert_eq!(sealed.scram("first").0, 'R');
    sealed.until_ready();
    let close = message('C', b"Sa\0");
    sealed.send(&[close.repeat(20_000), message('S', b"")].concat());
    assert_eq!(sealed.kinds(), format!("{}Z", "3".repeat(20_000)));
    // A password that is known by its digest alone is sent as it is.
    for (password, code) in [("five\0", None), ("six\0", Some("28P01")), ("five", Some("08P01"))] {
        let mut sealed = client();
        sealed.begin(0, &[("user", "hashed")]);
        assert_eq!(sealed.expect('R'), 3u32.to_be_bytes());
        sealed.send(&message('p', password.as_bytes()));
        match code {
            None => drop(sealed.until_ready()),
            Some(code) => drop(sealed.expect_error(code)),
        }
    }
    let mut plain = running.client();
    plain.begin(0, &[("user", "default")]);
    plain.expect_end("28000");
    // What comes with the request for TLS, and not encrypted, could be from any machine on the way.
    let mut plain = running.client();
    plain.send(&[packet(80_877_103, b""), packet(3 << 16, b"user\0default\0\0")].concat());
    plain.expect_end("08P01");
}

#[test]
fn only_databases_that_are_named_are_there() {
    let running = Running::new(|config| config.set("pg-databases", "shop, archive").expect("set"));
    for name in ["shop", "archive"] {
        let mut client = running.client();
        client.begin(0, &[("user", "default"), ("database", name)]);
        client.until_ready();
    }
    for name in ["shop_test", "default", "Shop"] {
        let mut client = running.client();
        client.begin(0, &[("user", "default"), ("database", name)]);
        assert_eq!(client.expect_error("3D000"), format!("database \"{name}\" does not exist"));
    }
}
