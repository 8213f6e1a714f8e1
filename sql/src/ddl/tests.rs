//! Goal: statements change what there is as PostgreSQL's would, with its names, tags and classes of errors. Method:
//! each text is parsed and run in a transaction, and the catalogue is looked at.

use quipu::{Db, Options};
use quipu_rows::{Database, RowTransaction, RowView, Value};
use sqlparser::ast::{Expr, Query};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::catalogue::{Catalogues, Relation, Table, View};
use crate::ddl::{Context, Evaluator, Tag, run};
use crate::error::{Result, SqlError};
use crate::execute::context::NoLocks;
use crate::types::SqlType;

struct Texts;

impl Evaluator for Texts {
    fn evaluate(&self, _: &Expr, _: SqlType, _: Option<(&Table, &RowView<'_>)>) -> Result<Value<'static>> {
        Ok(Value::Int(7))
    }

    fn bind_condition(&self, _: &Expr, _: SqlType) -> Result<()> {
        Ok(())
    }

    fn convert(&self, value: &Value<'_>, _: SqlType, to: SqlType) -> Result<Value<'static>> {
        let held = to.column_type().ok_or_else(|| SqlError::unsupported("no column", "none"))?;
        let text = quipu_rows::text_of(value).into_owned();
        held.parse_text(&text).map(Value::into_owned).map_err(|what| SqlError::unsupported(what, "none"))
    }

    fn columns(&self, _: &Query, _: &[String]) -> Result<Vec<(String, SqlType)>> {
        Ok(Vec::new())
    }

    fn plan(&self, query: &str, _: &[String]) -> Result<String> {
        Ok(query.to_owned())
    }

    fn without_stars(&self, query: &Query, _: &[String]) -> Result<String> {
        Ok(query.to_string())
    }

    fn reads(&self, query: &Query, _: &[String]) -> Result<Vec<(String, String)>> {
        let text = query.to_string();
        let names = text.split_whitespace().skip_while(|word| *word != "FROM").skip(1);
        Ok(names.map(|name| ("public".to_owned(), name.to_owned())).collect())
    }

    fn refuse_check(&self, _: &View) -> Result<()> {
        Ok(())
    }

    fn is_volatile(&self, expression: &Expr) -> bool {
        expression.to_string().starts_with("random")
    }
}

fn set_up() -> Catalogues {
    let database = Database::open(&Db::open("/ddl", Options::without_files()).unwrap()).unwrap();
    Catalogues::open(&database).unwrap()
}

fn run_in(catalogues: &Catalogues, transaction: &RowTransaction<'_>, text: &str) -> Result<Tag> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let search_path = ["public".to_owned()];
    let context = Context {
        catalogues,
        search_path: &search_path,
        temporary_schema: "pg_temp_0",
        evaluator: &Texts,
        locker: &NoLocks,
        notice: &|notice| drop(notice),
    };
    let mut tag = "";
    for statement in &statements {
        tag = run(statement, transaction, &context)?;
    }
    Ok(tag)
}

fn ok(catalogues: &Catalogues, text: &str) -> Tag {
    let transaction = catalogues.database().begin();
    let tag = run_in(catalogues, &transaction, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    transaction.commit().unwrap();
    tag
}

fn state(catalogues: &Catalogues, text: &str) -> &'static str {
    let transaction = catalogues.database().begin();
    run_in(catalogues, &transaction, text).expect_err(text).state().code()
}

fn names(catalogues: &Catalogues) -> Vec<String> {
    let now = catalogues.of_snapshot(&catalogues.database().snapshot()).unwrap();
    now.relations().keys().map(|(schema, name)| format!("{schema}.{name}")).collect()
}

#[test]
fn a_table_has_the_names_of_postgresql() {
    let catalogues = set_up();
    let text = "CREATE TABLE t (id serial PRIMARY KEY, a int UNIQUE, b varchar(20) NOT NULL DEFAULT 'x' CHECK (b <> ''), \
                at timestamptz DEFAULT now(), price numeric(8,2) DEFAULT 0.00, UNIQUE (a, b), CHECK (a > 0), \
                CHECK (b::text = ANY (ARRAY['x'::character varying, 'y'::character varying]::text[])))";
    assert_eq!(ok(&catalogues, text), "CREATE TABLE");
    let text = "CREATE TABLE u (id bigint GENERATED ALWAYS AS IDENTITY (START WITH 5) PRIMARY KEY, \
                t_id int REFERENCES t ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)";
    ok(&catalogues, text);
    ok(&catalogues, "CREATE INDEX ON t (lower(b) varchar_pattern_ops, a DESC) WHERE a > 5");
    let wanted = [
        "public.t",
        "public.t_a_b_key",
        "public.t_a_key",
        "public.t_id_seq",
        "public.t_lower_a_idx",
        "public.t_pkey",
        "public.u",
        "public.u_id_seq",
        "public.u_pkey",
        "public.u_t_id_fkey_index",
    ];
    let mut found = names(&catalogues);
    let mut wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    let schema = catalogues.database().table("t").unwrap().schema().unwrap();
    let checks: Vec<&str> = schema.checks.iter().map(|check| &*check.name).collect();
    assert_eq!(checks, ["t_b_check", "t_a_check", "t_b_check1"]);
    assert_eq!(schema.columns[2].sql_type.as_deref(), Some("character varying(20)"));
    assert_eq!(
        (schema.columns[2].default.as_deref(), schema.columns[3].sql_default.as_deref()),
        (Some("'x'"), Some("now()"))
    );
    let row = catalogues.database().table("u").unwrap().insert_columns(&["t_id"], (None::<i32>,)).unwrap();
    assert_eq!(row.get("id").unwrap(), Value::Int(5));
    let refused = [
        ("CREATE TABLE t (x int)", "42P07"),
        ("CREATE TABLE n (x int, x int)", "42701"),
        ("CREATE TABLE n (x nosuch)", "42704"),
        ("CREATE TABLE n (x int PRIMARY KEY, PRIMARY KEY (x))", "42P16"),
        ("CREATE TABLE n (x int REFERENCES nosuch)", "42P01"),
        ("CREATE TABLE n (x int REFERENCES t (price))", "42830"),
        ("CREATE TABLE n (x int CHECK (y > 1))", "42703"),
        ("CREATE TABLE n (x text CHECK (x IN (SELECT b FROM t)))", "0A000"),
        ("CREATE TABLE s.n (x int)", "3F000"),
        ("DROP TABLE t", "2BP01"),
        ("DROP TABLE nosuch", "42P01"),
        ("DROP INDEX t_a_key", "2BP01"),
        ("ALTER TABLE t DROP CONSTRAINT nosuch", "42704"),
        ("ALTER TABLE t ADD COLUMN a int", "42701"),
        ("ALTER TABLE t ALTER COLUMN nosuch SET NOT NULL", "42703"),
        ("TRUNCATE t", "0A000"),
        ("DROP SCHEMA s", "3F000"),
    ];
    for (text, wanted) in refused {
        assert_eq!(state(&catalogues, text), wanted, "{text}");
    }
    ok(&catalogues, "CREATE TABLE n (x text CHECK (x ~ 'a'))");
    ok(&catalogues, "CREATE TABLE IF NOT EXISTS t (x int); DROP TABLE IF EXISTS nosuch; TRUNCATE t CASCADE");
    assert_eq!(ok(&catalogues, "DROP TABLE t CASCADE"), "DROP TABLE");
    assert!(!names(&catalogues).contains(&"public.t_id_seq".to_owned()));
}

#[test]
fn tables_are_altered_within_a_transaction() {
    let catalogues = set_up();
    let database = catalogues.database();
    ok(&catalogues, "CREATE SCHEMA s; CREATE TABLE s.t (a smallint, b text)");
    database.table("s.t").unwrap().insert((1, "12")).unwrap();
    let transaction = database.begin();
    let alter =
        |text: &str| run_in(&catalogues, &transaction, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    alter("ALTER TABLE s.t ADD COLUMN c int DEFAULT length('x') NOT NULL, ALTER COLUMN a TYPE bigint");
    alter("ALTER TABLE s.t ALTER COLUMN b TYPE integer USING b::integer, ADD PRIMARY KEY (a)");
    alter("ALTER TABLE s.t ADD CONSTRAINT positive CHECK (b > 0), RENAME COLUMN b TO d");
    alter("ALTER TABLE s.t ADD COLUMN r int DEFAULT random(), ADD COLUMN n bigserial");
    alter("ALTER TABLE s.t RENAME CONSTRAINT positive TO plus; ALTER TABLE s.t DROP CONSTRAINT plus");
    alter("CREATE UNIQUE INDEX one ON s.t (d) INCLUDE (c); ALTER INDEX s.one RENAME TO two");
    alter("COMMENT ON COLUMN s.t.d IS 'what'; COMMENT ON TABLE s.t IS 'rows'; CREATE VIEW v AS SELECT 1 AS x");
    let row = transaction.table("s.t").unwrap().get(1).unwrap().unwrap();
    assert_eq!(row.values().unwrap(), [Value::Int(1), Value::Int(7), Value::Int(7), Value::Int(7), Value::Int(1)]);
    assert_eq!(database.table("s.t").unwrap().schema().unwrap().columns.len(), 3, "a, b and the hidden key");
    transaction.commit().unwrap();
    let now = catalogues.of_snapshot(&database.snapshot()).unwrap();
    let found = now.relation(Some("s"), "t", &[]);
    assert!(matches!(found, Some(Relation::Table(table)) if table.declared.comment == "rows"));
    assert_eq!(ok(&catalogues, "DROP SCHEMA s CASCADE"), "DROP SCHEMA");
    assert_eq!(names(&catalogues), ["public.v"]);
}

#[test]
fn sequences_give_each_number_once() {
    let catalogues = set_up();
    ok(&catalogues, "CREATE SEQUENCE s INCREMENT BY 2 MINVALUE 1 MAXVALUE 7 START WITH 3");
    let database = catalogues.database();
    let next = |transaction: &RowTransaction<'_>| {
        let catalogue = catalogues.of_transaction(transaction).unwrap();
        let (&number, sequence) = catalogue.sequences().first_key_value().unwrap();
        catalogues.sequences().next(transaction, &catalogue, number, sequence)
    };
    let transaction = database.begin();
    assert_eq!(next(&transaction).unwrap(), 3);
    transaction.rollback();
    assert_eq!(next(&database.begin()).unwrap(), 5);
    assert_eq!(database.write(|transaction| Ok(next(transaction).unwrap())).unwrap(), 7);
    assert_eq!(next(&database.begin()).unwrap_err().state().code(), "2200H");
    assert_eq!(catalogues.database().snapshot().tables().unwrap().len(), 0);
}
