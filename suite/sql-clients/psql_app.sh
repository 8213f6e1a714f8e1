#!/usr/bin/env bash
# psql: its commands that describe, \copy, scripts with variables, what the Tab key completes; a dump and what it
# restores. It connects where PGHOST and its like say. What is expected is what it prints against PostgreSQL 15.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
passed=0 failed=0

say() { psql -X -v ON_ERROR_STOP=1 "$@" 2>&1; }
check() { # NAME GOT WANTED
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "psql: $1 FAILED: got (<) and wanted (>):"
        diff <(echo "$2") <(echo "$3") | head -n 20 || true
    fi
}
holds() { # NAME COMMAND...
    if "${@:2}" >"$folder/said" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "psql: $1 FAILED: ${*:2}"
        head -n 5 "$folder/said"
    fi
}
has() { grep -qE "$1" <<<"$2" || { echo "no $1 in:"; echo "$2"; return 1; }; } # PATTERN TEXT

say -q <<'SQL'
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS garage CASCADE;
CREATE TABLE makers (id serial PRIMARY KEY, name varchar(40) NOT NULL UNIQUE);
COMMENT ON TABLE makers IS 'who makes cars';
CREATE TABLE cars (
    maker int NOT NULL REFERENCES makers ON DELETE CASCADE,
    place int DEFAULT 1 CHECK (place > 0),
    price numeric(8,2),
    made timestamptz DEFAULT now(),
    tags text[],
    PRIMARY KEY (maker, place)
);
CREATE INDEX cars_price ON cars (price DESC) WHERE price > 10.5;
CREATE VIEW dear AS SELECT maker, price FROM cars WHERE price > 1000;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE SCHEMA garage;
CREATE TABLE garage.tools (id uuid PRIMARY KEY, mood mood DEFAULT 'ok' CHECK (mood > 'sad'));
INSERT INTO makers (name) VALUES ('a'), ('b,"c"'), (E'tab\there');
INSERT INTO cars SELECT 1, n, n * 7.5, '2024-01-01 00:00Z', ARRAY['x', NULL, n::text] FROM generate_series(1, 500) n;
SQL

check '\d' "$(say -At -c '\d')" "public|cars|table|$PGUSER
public|dear|view|$PGUSER
public|makers|table|$PGUSER
public|makers_id_seq|sequence|$PGUSER"
check '\dt *.tools' "$(say -At -c '\dt *.tools')" "garage|tools|table|$PGUSER"
check '\di' "$(say -At -c '\di')" "public|cars_pkey|index|$PGUSER|cars
public|cars_price|index|$PGUSER|cars
public|makers_name_key|index|$PGUSER|makers
public|makers_pkey|index|$PGUSER|makers"
check '\d cars' "$(say -c '\d cars')" '                        Table "public.cars"
 Column |           Type           | Collation | Nullable | Default 
--------+--------------------------+-----------+----------+---------
 maker  | integer                  |           | not null | 
 place  | integer                  |           | not null | 1
 price  | numeric(8,2)             |           |          | 
 made   | timestamp with time zone |           |          | now()
 tags   | text[]                   |           |          | 
Indexes:
    "cars_pkey" PRIMARY KEY, btree (maker, place)
    "cars_price" btree (price DESC) WHERE price > 10.5
Check constraints:
    "cars_place_check" CHECK (place > 0)
Foreign-key constraints:
    "cars_maker_fkey" FOREIGN KEY (maker) REFERENCES makers(id) ON DELETE CASCADE'
check '\d makers' "$(say -c '\d makers')" '                                   Table "public.makers"
 Column |         Type          | Collation | Nullable |              Default               
--------+-----------------------+-----------+----------+------------------------------------
 id     | integer               |           | not null | nextval('"'makers_id_seq'"'::regclass)
 name   | character varying(40) |           | not null | 
Indexes:
    "makers_pkey" PRIMARY KEY, btree (id)
    "makers_name_key" UNIQUE CONSTRAINT, btree (name)
Referenced by:
    TABLE "cars" CONSTRAINT "cars_maker_fkey" FOREIGN KEY (maker) REFERENCES makers(id) ON DELETE CASCADE'
check '\dt+' "$(say -At -c '\dt+ makers' | cut -d '|' -f 2,3,5,8)" 'makers|table|permanent|who makes cars'
check '\dv' "$(say -At -c '\dv')" "public|dear|view|$PGUSER"
check '\ds' "$(say -At -c '\ds')" "public|makers_id_seq|sequence|$PGUSER"
check '\dn' "$(say -At -c '\dn garage')" "garage|$PGUSER"
check '\dT+' "$(say -At -c '\dT+ mood' | grep -v '^public')" "ok|$PGUSER||"
check '\dD' "$(say -At -c '\dD')" 'public|percent|integer||||CHECK (VALUE >= 0 AND VALUE <= 100)'
holds '\l' has "^$PGDATABASE\|[^|]*\|UTF8\|" "$(say -At -c '\l')"
holds '\du' has "^$PGUSER\|" "$(say -At -c '\du')"
holds '\sv' has 'SELECT .*maker' "$(say -c '\sv dear')"
holds '\conninfo' has "connected to database \"$PGDATABASE\" as user \"$PGUSER\"" "$(say -c '\conninfo')"
holds '\df' has 'lower\|text\|text' "$(say -At -c '\df lower')"
holds '\timing' has '^Time: [0-9.]+ ms' "$(say -c '\timing on' -c 'SELECT 1')"
for command in '\d+ cars' '\d+' '\di+' '\dm' '\dp' '\dx' '\dE' '\dC' '\do' '\da' '\dg' '\drds' '\db' '\dL' \
    '\dO' '\ddp' '\dd' '\dF' '\des' '\dy' '\dAc' '\dAf' '\dAo' '\dAp' '\dP' '\dRp' '\dRs' '\dX' '\dl' '\l+' \
    '\dS' '\dT' '\dn+' '\z cars' '\dconfig work_mem'; do
    holds "$command" say -c "$command"
done

check 'rows' "$(
    say -q -c '\pset null (none)' -c "SELECT 1 AS a, 'ä€' AS b, NULL::int AS c, true AS d")" ' a | b  |   c    | d 
---+----+--------+---
 1 | ä€ | (none) | t
(1 row)'
check 'variables' "$(say -At -v who="O'Neil" <<'SQL'
SELECT 2 * 21 AS answer, 'x' AS letter \gset my_
SELECT :my_answer, :'my_letter', :'who', :"my_letter" FROM (SELECT 5 AS x) s;
\if :{?my_answer}
\echo :my_answer :ROW_COUNT
\endif
SELECT format('SELECT %s', n) FROM generate_series(1, 2) n \gexec
SELECT 1 AS a, 2 AS b \gdesc
\set ON_ERROR_STOP off
SELECT 1 / 0;
\echo :ERROR :SQLSTATE :LAST_ERROR_SQLSTATE
SQL
)" "42|x|O'Neil|5
42 1
1
2
a|integer
b|integer
ERROR:  division by zero
true 22012 22012"

check '\crosstabview' "$(
    say -At <<<"SELECT * FROM (VALUES (1, 'a', 5), (2, 'b', 6)) AS v(x, y, z) \crosstabview")" '1|5|
2||6'
check '\copy out' "$(
    say -c "\copy (SELECT maker, place, price, tags FROM cars ORDER BY place LIMIT 2) TO 'two.csv' CSV HEADER" &&
    cat two.csv)" 'COPY 2
maker,place,price,tags
1,1,7.50,"{x,NULL,1}"
1,2,15.00,"{x,NULL,2}"'
check '\copy in' "$(say -q -c 'CREATE TABLE copied (LIKE cars)' &&
    say -c "\copy cars TO 'all'" -c "\copy copied FROM 'all'" -c "\copy makers TO STDOUT" \
    -c "\copy copied (maker, place) FROM PROGRAM 'seq -f \"%g,1\" 1001 1010' WITH (FORMAT csv)" \
    -Atc 'SELECT count(*), sum(price), max(maker) FROM copied')" 'COPY 500
COPY 500
1	a
2	b,"c"
3	tab\there
COPY 10
510|939375.00|1010'
check 'errors' "$(psql -X -v VERBOSITY=verbose -c "INSERT INTO makers VALUES (1, 'x')" 2>&1 | grep -v LOCATION)" \
    'ERROR:  23505: duplicate key value violates unique constraint "makers_pkey"
DETAIL:  Key (id)=(1) already exists.
SCHEMA NAME:  public
TABLE NAME:  makers
CONSTRAINT NAME:  makers_pkey'
check 'the place of an error' "$(psql -X -c 'SELECT id, nothing FROM makers' 2>&1)" \
    'ERROR:  column "nothing" does not exist
LINE 1: SELECT id, nothing FROM makers
                   ^'
check 'rollback of a script' "$(
    psql -X -1 -v ON_ERROR_STOP=1 -c "INSERT INTO makers (name) VALUES ('lost')" -c 'SELECT 1/0' 2>&1)" \
    'INSERT 0 1
ERROR:  division by zero'
check 'ON_ERROR_ROLLBACK' "$(psql -XAt -v ON_ERROR_ROLLBACK=on 2>&1 <<'SQL'
BEGIN;
SELECT 1/0;
SELECT count(*) FROM makers WHERE name = 'lost';
COMMIT;
SQL
)" 'BEGIN
ERROR:  division by zero
0
COMMIT'
check 'FETCH_COUNT' "$(
    say -At -v FETCH_COUNT=100 -c 'SELECT n FROM generate_series(1, 1000) n' | awk '{ sum += $1 } END { print NR, sum }'
)" '1000 500500'

if command -v python3 >/dev/null; then
    holds 'the Tab key' python3 "$here/psql_tab.py"
else
    echo 'psql: the Tab key left out: python3 is not here'
fi

if command -v pg_dump >/dev/null; then
    dump() { pg_dump --no-owner --schema=public --schema=garage | grep -v '^\\restrict\|^\\unrestrict\|^--'; }
    holds 'pg_dump -Fc' bash -c 'pg_dump -Fc --schema=public >archive &&
        pg_restore -l archive | grep -q "TABLE DATA public cars"'
    holds 'pg_dump -C' bash -c 'pg_dump -C --schema=public | grep -q "^CREATE DATABASE"'
    holds 'pg_dump -t' bash -c 'pg_dump -t makers | grep -q "^CREATE TABLE public.makers"'
    dump >before
    say -q -c 'SET client_min_messages = warning' -c 'DROP SCHEMA public CASCADE' -c 'DROP SCHEMA garage CASCADE'
    check 'the dump is restored' "$(psql -qX -f before 2>&1 | grep ERROR)" ''
    dump >after
    check 'the dump of what was restored' "$(cat after)" "$(cat before)"
else
    echo 'psql: dumps left out: pg_dump is not here'
fi
if command -v vacuumdb >/dev/null; then
    holds 'vacuumdb' vacuumdb --analyze
fi
say -q -c 'SET client_min_messages = warning' -c 'DROP SCHEMA IF EXISTS garage CASCADE'
echo "psql: $passed passed, $failed failed"
[ "$failed" = 0 ]
