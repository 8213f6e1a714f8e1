//! Goal: a user with some rights does with tables what these allow, by whatever statement, and nothing else. Method: a
//! session whose rights are a list that changes under it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use quipu_sql::identity::rights::{Right, Rights};

use crate::sessions::{Client, code, database, lines, run};

/// Rights by `SELECT public.t` and the like.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    held: Mutex<(HashSet<String>, u64)>,
}

impl Listed {
    pub(crate) fn set(&self, held: &[&str]) {
        let mut now = self.held.lock().expect("not poisoned");
        *now = (held.iter().map(|&right| right.to_owned()).collect(), now.1 + 1);
    }
}

impl Rights for Listed {
    fn has_all(&self) -> bool {
        false
    }

    fn has(&self, right: Right, schema: &str, name: &str) -> bool {
        self.held.lock().expect("not poisoned").0.contains(&format!("{} {schema}.{name}", right.name()))
    }

    fn version(&self) -> u64 {
        self.held.lock().expect("not poisoned").1
    }
}

struct Place {
    owner: Client,
    user: Client,
    rights: Arc<Listed>,
}

fn place() -> Place {
    let database = database();
    let owner = Client::new(&database, "anna");
    for statement in [
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "CREATE TABLE u (id int PRIMARY KEY REFERENCES t ON DELETE CASCADE, n serial)",
        "CREATE VIEW shown AS SELECT id FROM t WHERE v > 10",
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int)",
        "CREATE SEQUENCE numbers",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
    ] {
        lines(&owner, statement);
    }
    let rights = Arc::<Listed>::default();
    let user = Client::with_rights(&database, "ben", Arc::clone(&rights) as Arc<dyn Rights>);
    Place { owner, user, rights }
}

/// Each statement needs these rights, and is refused while one of them is missing.
#[test]
fn statements_are_refused_while_a_right_is_missing_and_done_with_all() {
    let (select, insert, update, delete) = ("SELECT public.t", "INSERT public.t", "UPDATE public.t", "DELETE public.t");
    let cases: &[(&str, &[&str])] = &[
        ("SELECT * FROM t", &[select]),
        ("TABLE t", &[select]),
        ("SELECT (SELECT count(*) FROM t)", &[select]),
        ("SELECT 1 WHERE EXISTS (SELECT FROM t)", &[select]),
        ("WITH a AS (SELECT * FROM t) SELECT 1 FROM a", &[select]),
        ("SELECT id FROM s.t UNION SELECT id FROM t", &[select, "SELECT s.t"]),
        ("SELECT * FROM generate_series(1, 2) g, LATERAL (SELECT * FROM t WHERE id = g) x", &[select]),
        ("EXPLAIN SELECT * FROM t", &[select]),
        ("EXPLAIN ANALYZE SELECT * FROM t", &[select]),
        ("COPY t TO STDOUT", &[select]),
        ("COPY (SELECT id FROM t) TO STDOUT", &[select]),
        ("DO 'BEGIN PERFORM * FROM t; END'", &[select]),
        ("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH ALL FROM c; COMMIT", &[select]),
        ("PREPARE p AS SELECT * FROM t; DEALLOCATE p", &[select]),
        ("CREATE TEMP TABLE copied AS SELECT * FROM t; DROP TABLE copied", &[select]),
        ("SELECT quipu_nth('t', 0)", &[select]),
        ("SELECT quipu_nth('t_pkey', 0)", &[select]),
        ("SELECT * FROM t FOR UPDATE", &[select, update]),
        ("INSERT INTO t VALUES (9, 9)", &[insert]),
        ("INSERT INTO t VALUES (10, 9) RETURNING v", &[insert, select]),
        ("INSERT INTO t VALUES (1, 9) ON CONFLICT DO NOTHING", &[insert, select]),
        ("INSERT INTO t VALUES (1, 10) ON CONFLICT (id) DO UPDATE SET v = 10", &[insert, select, update]),
        ("INSERT INTO t SELECT id + 100 FROM s.t", &[insert, "SELECT s.t"]),
        ("COPY t FROM STDIN\n\n11\t1\n", &[insert]),
        ("UPDATE t SET v = v WHERE id = 1", &[update, select]),
        ("UPDATE t SET v = (SELECT max(id) FROM s.t) WHERE id = 9", &[update, select, "SELECT s.t"]),
        ("DELETE FROM t WHERE id = 9", &[delete, select]),
        ("DELETE FROM t USING s.t o WHERE o.id = t.id", &[delete, select, "SELECT s.t"]),
        ("WITH gone AS (DELETE FROM t WHERE id = 10 RETURNING id) SELECT * FROM gone", &[delete, select]),
        (
            "MERGE INTO t USING s.t o ON o.id = t.id WHEN MATCHED THEN UPDATE SET v = 1",
            &[insert, update, delete, select, "SELECT s.t"],
        ),
        ("BEGIN; LOCK TABLE t; COMMIT", &[update]),
        ("TRUNCATE s.t", &["TRUNCATE s.t"]),
        ("SELECT * FROM shown", &["SELECT public.shown"]),
        ("UPDATE shown SET id = id WHERE id = 2", &["UPDATE public.shown", "SELECT public.shown"]),
        ("SELECT last_value FROM numbers", &["SELECT public.numbers"]),
        ("SELECT nextval('numbers')", &["UPDATE public.numbers"]),
        ("SELECT setval('numbers', 7)", &["UPDATE public.numbers"]),
        // The number of a SERIAL column comes with the row.
        ("INSERT INTO u VALUES (1)", &["INSERT public.u"]),
    ];
    let Place { user, rights, .. } = place();
    for (statement, needed) in cases {
        for missing in *needed {
            let rest: Vec<&str> = needed.iter().copied().filter(|right| right != missing).collect();
            rights.set(&rest);
            assert_eq!(code(&user, statement), "42501", "{statement} without {missing}");
            let _ = code(&user, "ROLLBACK");
        }
        rights.set(needed);
        assert_eq!(code(&user, statement), "00000", "{statement}");
    }
}

/// A row that goes with another one needs no right of its own: what a foreign key says was said by who made it.
#[test]
fn what_a_constraint_does_needs_no_right() {
    let Place { owner, user, rights } = place();
    lines(&owner, "INSERT INTO u VALUES (1), (2)");
    rights.set(&["DELETE public.t", "SELECT public.t"]);
    lines(&user, "DELETE FROM t WHERE id = 1");
    assert_eq!(lines(&owner, "SELECT id FROM u"), ["2"]);
}

#[test]
fn definitions_and_what_is_of_others_are_for_users_that_may_do_everything() {
    let Place { owner, user, rights } = place();
    rights.set(&["SELECT public.t", "INSERT public.t", "UPDATE public.t", "DELETE public.t", "TRUNCATE public.t"]);
    for statement in [
        "CREATE TABLE x (id int)",
        "CREATE TABLE x AS SELECT * FROM t",
        "SELECT * INTO x FROM t",
        "CREATE VIEW x AS SELECT * FROM t",
        "CREATE TEMP VIEW x AS SELECT * FROM t",
        "CREATE MATERIALIZED VIEW x AS SELECT * FROM t",
        "CREATE INDEX ON t (v)",
        "CREATE SEQUENCE x",
        "CREATE SCHEMA x",
        "CREATE TYPE x AS ENUM ('a')",
        "CREATE DOMAIN x AS int",
        "CREATE EXTENSION pgcrypto",
        "ALTER TABLE t ADD COLUMN w int",
        "ALTER TABLE t RENAME TO x",
        "ALTER TABLE t OWNER TO ben",
        "ALTER SEQUENCE numbers RESTART",
        "COMMENT ON TABLE t IS 'x'",
        "DROP TABLE t",
        "DROP VIEW shown",
        "DROP SCHEMA s CASCADE",
        "GRANT SELECT ON t TO ben",
        "CHECKPOINT",
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'anna'",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'anna'",
    ] {
        assert_eq!(code(&user, statement), "42501", "{statement}");
    }
    for statement in [
        "CREATE TEMP TABLE own (id int PRIMARY KEY); INSERT INTO own VALUES (1); UPDATE own SET id = 2; TRUNCATE own",
        "SELECT * FROM own; DELETE FROM own; DROP TABLE own",
        "SET search_path = s, public; SHOW search_path; RESET search_path",
        "BEGIN; SAVEPOINT a; ROLLBACK TO a; RELEASE a; COMMIT",
        "NOTIFY a",
        "SELECT count(*) FROM pg_class; SELECT count(*) FROM information_schema.tables",
        "SELECT pg_cancel_backend(0)",
    ] {
        let done = run(&user, statement);
        assert!(done.is_ok(), "{statement}: {done:?}");
    }
    let seen = "SELECT DISTINCT query FROM pg_stat_activity WHERE usename = 'anna'";
    lines(&owner, "SELECT 1");
    assert_eq!(lines(&user, seen), ["<insufficient privilege>"]);
    assert_ne!(lines(&owner, seen), ["<insufficient privilege>"]);
}

#[test]
fn a_statement_that_was_prepared_is_refused_once_the_right_is_gone() {
    let Place { user, rights, .. } = place();
    rights.set(&["SELECT public.t"]);
    lines(&user, "PREPARE p AS SELECT count(*) FROM t");
    let prepared = |text: &str| user.send(text, true).recv().expect("an answer").map(|answer| answer.rows.len());
    assert_eq!(lines(&user, "EXECUTE p"), ["2"]);
    assert_eq!(prepared("SELECT * FROM t").expect("allowed"), 2);
    rights.set(&[]);
    assert_eq!(code(&user, "EXECUTE p"), "42501");
    assert_eq!(prepared("SELECT * FROM t").expect_err("refused").state().code(), "42501");
    rights.set(&["SELECT public.t"]);
    assert_eq!(lines(&user, "EXECUTE p"), ["2"]);
    assert_eq!(prepared("SELECT * FROM t").expect("allowed"), 2);
}

#[test]
fn the_catalogue_tells_what_a_user_may_do() {
    let Place { owner, user, rights } = place();
    rights.set(&["SELECT public.t", "INSERT public.t", "SELECT public.shown", "UPDATE public.numbers"]);
    for (question, answer) in [
        ("has_table_privilege('t', 'SELECT')", "t"),
        ("has_table_privilege('t', 'UPDATE')", "f"),
        ("has_table_privilege('t', 'UPDATE, INSERT WITH GRANT OPTION')", "t"),
        ("has_table_privilege('ben', 't', 'DELETE')", "f"),
        ("has_table_privilege('t'::regclass, 'TRIGGER')", "f"),
        ("has_table_privilege('shown', 'SELECT')", "t"),
        ("has_table_privilege('s.t', 'SELECT')", "f"),
        ("has_table_privilege('pg_class', 'SELECT')", "t"),
        ("has_table_privilege('pg_class', 'DELETE')", "f"),
        ("has_column_privilege('t', 'v', 'SELECT')", "t"),
        ("has_any_column_privilege('t', 'UPDATE')", "f"),
        ("has_sequence_privilege('numbers', 'USAGE')", "t"),
        ("has_schema_privilege('public', 'USAGE')", "t"),
        ("has_schema_privilege('public', 'CREATE')", "f"),
        ("(SELECT rolsuper FROM pg_roles WHERE rolname = current_user)", "f"),
    ] {
        assert_eq!(lines(&user, &format!("SELECT {question}")), [answer], "{question}");
    }
    let granted = "SELECT table_name || ' ' || privilege_type FROM information_schema.table_privileges ORDER BY 1";
    assert_eq!(lines(&user, granted), ["shown SELECT", "t INSERT", "t SELECT"]);
    for question in ["has_table_privilege('t', 'TRIGGER')", "has_schema_privilege('public', 'CREATE')"] {
        assert_eq!(lines(&owner, &format!("SELECT {question}")), ["t"], "{question}");
    }
    let refused = run(&user, "DELETE FROM t").expect_err("refused");
    assert_eq!(refused.message(), "permission denied for table t");
}
