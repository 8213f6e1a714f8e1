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
            "towns_pkey|t|CREATE UNIQUE INDEX towns_pkey ON towns USING btree (id)|p",
            "towns_name_key|f|CREATE UNIQUE INDEX towns_name_key ON towns USING btree (name)|u",
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

#[test]
fn serial_columns_have_nextval_as_their_default_and_are_no_identity() {
    let client = towns_and_streets();
    let asked = |statement: &str| lines(&client, statement);
    assert_eq!(
        asked(
            "SELECT a.attidentity, pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a
             JOIN pg_attrdef d ON (a.attrelid, a.attnum) = (d.adrelid, d.adnum)
             WHERE a.attrelid = 'streets'::regclass AND a.attname = 'id'"
        ),
        ["|nextval('streets_id_seq'::regclass)"]
    );
    assert_eq!(
        asked(
            "SELECT column_default, is_identity FROM information_schema.columns
             WHERE column_name = 'id' AND table_name = 'streets'"
        ),
        ["nextval('streets_id_seq'::regclass)|NO"]
    );
    assert_eq!(asked("SELECT deptype FROM pg_depend WHERE objid = 'streets_id_seq'::regclass"), ["a"]);
}

#[test]
fn vectors_are_written_with_blanks_and_counted_from_0() {
    let client = towns_and_streets();
    lines(&client, "CREATE INDEX streets_both ON streets (town, id)");
    let asked = |statement: &str| lines(&client, statement);
    let of_index = "FROM pg_index WHERE indexrelid = 'streets_both'::regclass";
    assert_eq!(
        asked(&format!("SELECT indkey, indkey[0], indkey[1], indkey[2], indoption {of_index}")),
        ["2 1|2|1|NULL|0 0"]
    );
    assert_eq!(
        asked(&format!("SELECT indkey::int2[], 1 = ANY (indkey), pg_typeof(indkey) {of_index}")),
        ["{2,1}|t|int2vector"]
    );
    assert_eq!(asked(&format!("SELECT unnest(indkey) {of_index}")), ["2", "1"]);
    assert_eq!(asked("SELECT '1 2'::int2vector, '3 4'::oidvector"), ["1 2|3 4"]);
}

#[test]
fn tables_tell_their_numbers() {
    let client = towns_and_streets();
    assert_eq!(lines(&client, "SELECT DISTINCT tableoid::regclass FROM towns"), ["towns"]);
    assert_eq!(lines(&client, "SELECT c.tableoid = 1259 FROM pg_class c WHERE relname = 'towns'"), ["t"]);
    assert_eq!(lines(&client, "SELECT * FROM towns WHERE id = 1"), ["1|Cusco"]);
}

#[test]
fn names_compare_with_patterns_that_have_an_escape() {
    let client = towns_and_streets();
    let like = "SELECT relname FROM pg_class WHERE relname LIKE 't!_wns' ESCAPE '!' OR relname LIKE 'tow_s' ESCAPE '!'";
    assert_eq!(lines(&client, like), ["towns"]);
}

#[test]
fn the_name_of_an_encoding_may_stand_in_quotes() {
    let mut session = database().session("quipu", "quipu");
    session.set_at_start("client_encoding", "'utf-8'").expect("asyncpg sends it so");
}

#[test]
fn functions_of_rows_in_a_select_list_give_their_rows_beside_each_other() {
    let client = towns_and_streets();
    let asked = |statement: &str| lines(&client, statement);
    assert_eq!(asked("SELECT unnest(ARRAY[1, 2, 3]), unnest(ARRAY['a', 'b'])"), ["1|a", "2|b", "3|NULL"]);
    assert_eq!(asked("SELECT id, generate_series(1, id), 7 FROM towns ORDER BY 1, 2"), ["1|1|7", "2|1|7", "2|2|7"]);
    assert_eq!(asked("SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a']) AS both(x, y)"), ["1|a", "2|NULL"]);
    let numbered = "SELECT * FROM unnest(ARRAY[1], ARRAY['a', 'b']) WITH ORDINALITY AS t(x, y, n)";
    assert_eq!(asked(numbered), ["1|a|1", "NULL|b|2"]);
    // As SQLAlchemy asks for the columns of an index: vectors are counted from 0.
    lines(&client, "CREATE INDEX streets_both ON streets (town, id)");
    let columns = "SELECT i.attnum, i.ord, pg_get_indexdef(i.indexrelid, i.ord + 1, true) FROM
        (SELECT indexrelid, unnest(indkey) AS attnum, generate_subscripts(indkey, 1) AS ord FROM pg_index
         WHERE indexrelid = 'streets_both'::regclass) i ORDER BY i.ord";
    assert_eq!(asked(columns), ["2|0|town", "1|1|id"]);
}

#[test]
fn django_finds_the_columns_of_foreign_keys() {
    let client = towns_and_streets();
    let found = lines(
        &client,
        "SELECT a1.attname, c2.relname, a2.attname FROM pg_constraint con
         LEFT JOIN pg_class c1 ON con.conrelid = c1.oid LEFT JOIN pg_class c2 ON con.confrelid = c2.oid
         LEFT JOIN pg_attribute a1 ON c1.oid = a1.attrelid AND a1.attnum = con.conkey[1]
         LEFT JOIN pg_attribute a2 ON c2.oid = a2.attrelid AND a2.attnum = con.confkey[1]
         WHERE c1.relname = 'streets' AND con.contype = 'f' AND pg_catalog.pg_table_is_visible(c1.oid)",
    );
    assert_eq!(found, ["town|towns|id"]);
}

#[test]
fn pgjdbc_finds_the_primary_key() {
    let client = towns_and_streets();
    let found = lines(
        &client,
        "SELECT result.column_name, result.key_seq FROM (SELECT a.attname AS column_name,
         (information_schema._pg_expandarray(i.indkey)).n AS key_seq,
         information_schema._pg_expandarray(i.indkey) AS keys, a.attnum AS a_attnum
         FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON ct.oid = a.attrelid
         JOIN pg_catalog.pg_index i ON a.attrelid = i.indrelid
         WHERE ct.relname = 'towns' AND i.indisprimary) result WHERE result.a_attnum = (result.keys).x",
    );
    assert_eq!(found, ["id|1"]);
    let arrays = "SELECT typname FROM pg_type WHERE typinput = 'array_in'::regproc AND oid = 1007";
    assert_eq!(lines(&client, arrays), ["_int4"]);
}

#[test]
fn psql_asks_for_the_ancestors_of_a_partition() {
    let client = towns_and_streets();
    assert!(lines(&client, "SELECT pg_catalog.pg_partition_ancestors('16384')").is_empty());
}

#[test]
fn functions_operators_and_casts_have_the_numbers_of_postgresql() {
    let client = towns_and_streets();
    let asked = |statement: &str| lines(&client, statement);
    let function = "SELECT oid, pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc WHERE proname";
    assert_eq!(asked(&format!("{function} = 'initcap'")), ["872|text|text"]);
    assert_eq!(
        asked(&format!("{function} = 'json_each'")),
        ["3958|from_json json, OUT key text, OUT value json|SETOF record"]
    );
    assert_eq!(asked(&format!("{function} = 'concat'")), ["3058|VARIADIC \"any\"|text"]);
    assert_eq!(
        asked(
            "SELECT oid, oprcode, oprcom, oprnegate FROM pg_operator
             WHERE oprname = '<' AND oprleft = 'int4'::regtype AND oprright = 'int4'::regtype"
        ),
        ["97|int4lt|521|525"]
    );
    assert_eq!(
        asked(
            "SELECT c.castsource::regtype, p.proname, c.castcontext FROM pg_cast c JOIN pg_proc p ON p.oid = c.castfunc
             WHERE c.castsource = 'int4'::regtype AND c.casttarget = 'int8'::regtype"
        ),
        ["integer|int8|i"]
    );
    assert_eq!(
        asked(
            "SELECT p.proname, a.aggkind, a.aggtransfn FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid
             WHERE p.proname = 'bool_or'"
        ),
        ["bool_or|n|boolor_statefunc"]
    );
    assert_eq!(
        asked(
            "SELECT c.opcname, f.opfname, o.amopopr FROM pg_index i JOIN pg_opclass c ON c.oid = i.indclass[0]
             JOIN pg_opfamily f ON f.oid = c.opcfamily JOIN pg_amop o ON o.amopfamily = f.oid
             WHERE i.indexrelid = 'towns_pkey'::regclass AND o.amopstrategy = 3
             AND o.amoplefttype = c.opcintype AND o.amoprighttype = c.opcintype"
        ),
        ["int4_ops|integer_ops|96"]
    );
    assert_eq!(asked("SELECT typinput, typinput::oid FROM pg_type WHERE typname = 'int4'"), ["int4in|42"]);
    assert_eq!(
        asked("SELECT obj_description(96, 'pg_operator'), obj_description(872, 'pg_proc')"),
        ["equal|capitalize each word"]
    );
}

#[test]
fn no_two_objects_of_a_table_of_the_catalogue_have_one_number() {
    let client = towns_and_streets();
    for table in [
        "pg_proc",
        "pg_operator",
        "pg_cast",
        "pg_opclass",
        "pg_opfamily",
        "pg_amop",
        "pg_amproc",
        "pg_type",
        "pg_class",
    ] {
        let twice = format!("SELECT oid FROM {table} GROUP BY oid HAVING count(*) > 1 OR oid = 0");
        assert!(lines(&client, &twice).is_empty(), "{table}");
    }
    // What rows refer to is there.
    let missing = "SELECT oprname FROM pg_operator WHERE oprcom <> 0 AND oprcom NOT IN (SELECT oid FROM pg_operator)";
    assert!(lines(&client, missing).is_empty());
    let missing = "SELECT aggfnoid FROM pg_aggregate WHERE aggfnoid::oid NOT IN (SELECT oid FROM pg_proc)";
    assert!(lines(&client, missing).is_empty());
}

#[test]
fn operators_can_be_called_by_the_names_of_their_functions() {
    let client = towns_and_streets();
    assert_eq!(lines(&client, "SELECT int4pl(1, 2), textcat('a', 'b'), int4lt(1, 2)"), ["3|ab|t"]);
}

/// What a dump is written of: in which order objects must come, and names that are found with no search path.
#[test]
fn pg_dump_learns_what_depends_on_what() {
    let client = towns_and_streets();
    for statement in [
        "create view names as select name from towns",
        "create materialized view longer as select * from names where length(name) > 4",
        "create sequence numbers",
        "create table numbered (n bigint default nextval('numbers'), price numeric)",
        "create index on numbered (abs(price), (n::text || 'x'))",
        "set search_path = ''",
    ] {
        lines(&client, statement);
    }
    let asked = |statement: &str| lines(&client, statement);
    assert_eq!(
        asked(
            "SELECT r.rulename, v.relname, t.relname, d.deptype FROM pg_depend d
             JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
             JOIN pg_class v ON v.oid = r.ev_class
             JOIN pg_class t ON d.refclassid = 'pg_class'::regclass AND t.oid = d.refobjid
             ORDER BY 2, 4, 3"
        ),
        [
            "_RETURN|longer|longer|i",
            "_RETURN|longer|names|n",
            "_RETURN|longer|towns|n",
            "_RETURN|names|names|i",
            "_RETURN|names|towns|n",
        ]
    );
    assert_eq!(
        asked(
            "SELECT c.relname, s.relname FROM pg_depend d JOIN pg_attrdef a ON a.oid = d.objid
             JOIN pg_class c ON c.oid = a.adrelid JOIN pg_class s ON s.oid = d.refobjid
             WHERE d.classid = 'pg_attrdef'::regclass AND s.relkind = 'S' ORDER BY 1"
        ),
        ["numbered|numbers", "streets|streets_id_seq"]
    );
    assert_eq!(
        asked("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f'"),
        ["FOREIGN KEY (town) REFERENCES public.towns(id) ON DELETE CASCADE"]
    );
    assert_eq!(
        asked("SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'public.streets'::regclass"),
        ["nextval('public.streets_id_seq'::regclass)"]
    );
    assert_eq!(
        asked("SELECT pg_get_indexdef('public.numbered_abs_expr_idx'::regclass)"),
        ["CREATE INDEX numbered_abs_expr_idx ON public.numbered USING btree (abs(price), ((n)::text || 'x'))"]
    );
    assert_eq!(
        asked(
            "SELECT attname, attstorage = typstorage FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
             WHERE attrelid = 'public.numbered'::regclass AND attnum > 0 ORDER BY 1"
        ),
        ["n|t", "price|t"]
    );
    assert_eq!(
        asked("SELECT typname[0], typname[1], acldefault('T', typowner) IS NULL FROM pg_type WHERE typname = '_int4'"),
        ["_|i|t"]
    );
    assert_eq!(asked("SELECT * FROM pg_options_to_table('{a=1,b}')"), ["a|1", "b|NULL"]);
    assert_eq!(asked("SELECT obj_description('public'::regnamespace, 'pg_namespace')"), ["standard public schema"]);
    for table in ["pg_init_privs", "pg_ts_parser", "pg_ts_template", "pg_transform", "pg_largeobject_metadata"] {
        assert_eq!(asked(&format!("SELECT count(*) FROM pg_catalog.{table}")), ["0"], "{table}");
    }
}

#[test]
fn tools_find_the_statistics_that_they_ask_for() {
    let client = towns_and_streets();
    // Sequelize joins the comments of columns to it.
    let found = lines(
        &client,
        "SELECT st.schemaname, st.relname FROM information_schema.columns c
         LEFT JOIN pg_catalog.pg_statio_all_tables st ON (c.table_schema = st.schemaname AND c.table_name = st.relname)
         LEFT JOIN pg_catalog.pg_description d ON (d.objoid = st.relid AND d.objsubid = c.ordinal_position)
         WHERE c.table_name = 'towns' AND c.column_name = 'id'",
    );
    assert_eq!(found, ["public|towns"]);
    // pgAdmin, when it connects.
    let found = lines(
        &client,
        "SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid()",
    );
    assert!(found.is_empty() || found == ["f|f"], "{found:?}");
    let found = lines(&client, "SELECT indexrelname FROM pg_stat_user_indexes WHERE relname = 'towns' ORDER BY 1");
    assert_eq!(found, ["towns_name_key", "towns_pkey"]);
    let found = lines(&client, "SELECT utc_offset, is_dst FROM pg_timezone_names WHERE name IN ('UTC', 'Etc/UTC')");
    assert!(found.contains(&"00:00:00|f".to_owned()), "{found:?}");
    let found = lines(
        &client,
        "SELECT privilege_type FROM information_schema.table_privileges
         WHERE table_name = 'towns' AND grantee = current_user AND privilege_type IN ('SELECT', 'INSERT') ORDER BY 1",
    );
    assert_eq!(found, ["INSERT", "SELECT"]);
    assert_eq!(lines(&client, "SELECT count(*) FROM pg_stat_ssl"), ["0"]);
}

/// `pg_dump` empties the search path: a dump was restored nowhere whose views and defaults named no schemas.
#[test]
fn definitions_name_schemas_where_the_search_path_does_not_find_what_they_mean() {
    let client = Client::new(&database(), "quipu");
    for statement in [
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN pct AS int CHECK (VALUE < 100)",
        "CREATE TABLE t (id int PRIMARY KEY, m mood DEFAULT 'ok' CHECK (m > 'sad'), e int DEFAULT (7::pct))",
        "CREATE INDEX t_m ON t (m) WHERE m = 'ok'::mood",
        "CREATE VIEW v AS SELECT id, m::text FROM t",
        "CREATE SCHEMA s",
        "CREATE TABLE s.u (id int)",
        "CREATE VIEW w AS WITH t AS (SELECT id FROM t) SELECT t.id, 'ok'::mood AS m, '{sad}'::mood[] AS n, \
         (SELECT count(*) FROM s.u) FROM t JOIN v USING (id)",
        "CREATE MATERIALIZED VIEW x AS SELECT id FROM w WHERE m = 'ok'",
    ] {
        lines(&client, statement);
    }
    let definitions =
        "SELECT pg_get_viewdef('public.v'::regclass) UNION ALL SELECT pg_get_viewdef('public.w'::regclass)
         UNION ALL SELECT pg_get_viewdef('public.x'::regclass) UNION ALL SELECT pg_get_indexdef('public.t_m'::regclass)
         UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'public.t'::regclass
         UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 't_m_check'";
    let plain = [
        " SELECT id, m::TEXT FROM t;",
        " WITH t AS (SELECT id FROM t) SELECT t.id, 'ok'::mood AS m, '{sad}'::mood[] AS n, (SELECT count(*) FROM s.u) \
         FROM t JOIN v USING(id);",
        " SELECT id FROM w WHERE m = 'ok';",
        "CREATE INDEX t_m ON public.t USING btree (m) WHERE (m = 'ok'::mood)",
        "'ok'::mood",
        "7::pct",
        "CHECK ((m > 'sad'::mood))",
    ];
    assert_eq!(lines(&client, definitions), plain);
    lines(&client, "SET search_path = ''");
    let (mood, named) = ("public.mood", "public.pct");
    let qualified = [
        " SELECT id, m::TEXT FROM public.t;".to_owned(),
        format!(
            " WITH t AS (SELECT id FROM public.t) SELECT t.id, 'ok'::{mood} AS m, '{{sad}}'::{mood}[] AS n, \
             (SELECT count(*) FROM s.u) FROM t JOIN public.v USING(id);"
        ),
        " SELECT id FROM public.w WHERE m = 'ok';".to_owned(),
        format!("CREATE INDEX t_m ON public.t USING btree (m) WHERE (m = 'ok'::{mood})"),
        format!("'ok'::{mood}"),
        format!("7::{named}"),
        format!("CHECK ((m > 'sad'::{mood}))"),
    ];
    assert_eq!(lines(&client, definitions), qualified);
    assert_eq!(lines(&client, "SELECT definition FROM pg_views WHERE viewname = 'v'"), [&qualified[0][..]]);
}
