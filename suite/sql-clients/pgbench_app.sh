#!/usr/bin/env bash
# pgbench: its tables and its own script, in the three ways to send statements; afterwards all sums agree.
# It connects where PGHOST and its like say.
set -euo pipefail

fail() { echo "pgbench: FAILED: $*"; exit 1; }
ask() { psql -XAtq -v ON_ERROR_STOP=1 -c "$1"; }
expect() { # WANTED WHAT GOT
    [ "$3" = "$1" ] || fail "$2: got $3, wanted $1"
}

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
run() { # WORDS...: pgbench, of which no transaction fails
    pgbench "$@" >"$folder/said" 2>&1 || { cat "$folder/said"; fail "pgbench $*"; }
    grep -q '^number of failed transactions: 0 ' "$folder/said" || { cat "$folder/said"; fail "pgbench $*"; }
}

pgbench -i -s 1 --quiet >"$folder/said" 2>&1 || { cat "$folder/said"; fail "pgbench -i"; }
expect "1 10 100000 0" "rows of pgbench -i" "$(ask "SELECT (SELECT count(*) FROM pgbench_branches) || ' ' ||
    (SELECT count(*) FROM pgbench_tellers) || ' ' || count(*) || ' ' || sum(abalance) FROM pgbench_accounts")"
expect "pgbench_accounts_pkey pgbench_branches_pkey pgbench_tellers_pkey" "indexes" "$(ask "SELECT
    string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE tablename LIKE 'pgbench%'")"

run -n -c 4 -j 2 -t 50
run -n -c 4 -t 50 -M extended
run -n -c 4 -t 50 -M prepared
run -n -c 4 -t 50 -M prepared -b simple-update
run -n -c 4 -t 50 -M prepared -b select-only
expect "800 t t t t" "the history, and the sums of all tables" "$(ask "SELECT count(*) || ' ' ||
    (sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts))::text::char || ' ' ||
    ((SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches))::text::char || ' ' ||
    bool_and(mtime > now() - interval '1 hour')::text::char || ' ' || (min(aid) >= 1)::text::char
    FROM pgbench_history")"

# A pipeline, variables from rows, and serializable transactions that are tried again.
cat >"$folder/pipeline" <<'SQL'
\set id random(1, 100000)
\startpipeline
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :id;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :id, 1, now());
END;
\endpipeline
SQL
cat >"$folder/again" <<'SQL'
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT bbalance AS before FROM pgbench_branches WHERE bid = 1 \gset
UPDATE pgbench_branches SET bbalance = :before + 1 WHERE bid = 1;
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1;
END;
SQL
run -n -c 4 -t 50 -M extended -f "$folder/pipeline"
run -n -c 4 -t 25 --max-tries 1000 -f "$folder/again"
expect "1000 t t" "the sums after pipelines and repeated transactions" "$(ask "SELECT count(*) || ' ' ||
    (sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts))::text::char || ' ' ||
    ((SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches))::text::char
    FROM pgbench_history")"

pgbench -i -I dtGvpf -s 1 --quiet >"$folder/said" 2>&1 || { cat "$folder/said"; fail "pgbench -i -I dtGvpf"; }
expect "3" "foreign keys and rows that the server made" "$(ask "SELECT count(*) FROM pg_constraint WHERE contype = 'f'
    AND conrelid = 'pgbench_history'::regclass")"
run -n -c 2 -t 20
echo "pgbench: as expected"
