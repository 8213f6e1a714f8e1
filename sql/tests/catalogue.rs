//! Goal: tables of the catalogue answer what clients ask of them. Method: the questions of psql and of drivers.

use crate::sessions::{Client, database, lines};

fn towns_and_streets() -> Client {
    let client = Client::new(&database(), "quipu");
    for statement in [
        "create table towns (id integer primary key, name varchar(20) not null default '?', unique (name))",
        "create table streets (id serial primary key, town integer references towns (id) on delete cascade)",
        "insert into towns values (1, 'Cusco'), (2, 'Puno')",
    ] {
        lines(&client, statement);
    }
    client
}

#[test]
fn psql_finds_the_indexes_of_a_table() {
    let client = towns_and_streets();
    let found = lines(
        &client,
        "SELECT c2.relname, i.indisprimary, pg_catalog.pg_get_indexdef(i.indexrelid, 0, true), contype
         FROM pg_catalog.pg_class c, pg_catalog.pg_class c2, pg_catalog.pg_index i
         LEFT JOIN pg_catalog.pg_constraint con
         ON (conrelid = i.indrelid AND conindid = i.indexrelid AND contype IN ('p', 'u', 'x'))
         WHERE c.oid = 'towns'::regclass AND c.oid = i.indrelid AND i.indexrelid = c2.oid
         ORDER BY i.indisprimary DESC, c2.relname",
    );
    assert_eq!(
        found,
        [
            "towns_pkey|t|CREATE UNIQUE INDEX towns_pkey ON public.towns USING btree (id)|p",
            "towns_name_key|f|CREATE UNIQUE INDEX towns_name_key ON public.towns USING btree (name)|u",
        ]
    );
}

#[test]
fn columns_constraints_and_counts_are_told() {
    let client = towns_and_streets();
    let asked = |statement: &str| lines(&client, statement);
    assert_eq!(
        asked(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)
             FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
             WHERE attrelid = 'towns'::regclass AND attnum > 0 ORDER BY attnum"
        ),
        ["id|integer|t|NULL", "name|character varying(20)|t|'?'::character varying"]
    );
    assert_eq!(
        asked("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f'"),
        ["FOREIGN KEY (town) REFERENCES towns(id) ON DELETE CASCADE"]
    );
    assert_eq!(asked("SELECT reltuples FROM pg_class WHERE relname = 'towns'"), ["2"]);
    assert_eq!(asked("SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'towns'"), ["2"]);
    assert_eq!(asked("SELECT pg_get_serial_sequence('streets', 'id')"), ["public.streets_id_seq"]);
    assert_eq!(
        asked(
            "SELECT column_name, data_type, character_maximum_length FROM information_schema.columns
             WHERE table_schema = 'public' AND table_name = 'towns' ORDER BY ordinal_position"
        ),
        ["id|integer|NULL", "name|character varying|20"]
    );
}

#[test]
fn a_left_join_after_a_comma_keeps_what_where_says_of_both() {
    let client = towns_and_streets();
    let found = lines(
        &client,
        "SELECT a.id, s.id FROM towns a, towns b LEFT JOIN streets s ON s.town = b.id WHERE a.id = b.id ORDER BY 1",
    );
    assert_eq!(found, ["1|NULL", "2|NULL"]);
}
