// Command pgx_app is what an application does with pgx: connections, types, batches, COPY and pools.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

// A failure ends its check, and no other.
type failure string

func fail(format string, values ...any) {
	var where []string
	for depth := 1; depth < 8; depth++ {
		if _, file, line, ok := runtime.Caller(depth); ok && filepath.Base(file) == "main.go" {
			where = append(where, fmt.Sprintf("main.go:%d", line))
		}
	}
	panic(failure(fmt.Sprintf("(%s): ", strings.Join(where, " < ")) + fmt.Sprintf(format, values...)))
}

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func expect(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		fail("got %#v, wanted %#v", got, wanted)
	}
}

func expectState(err error, state string) *pgconn.PgError {
	var told *pgconn.PgError
	if !errors.As(err, &told) {
		fail("got %v, wanted %s", err, state)
	}
	if told.Code != state {
		fail("got %s (%s), wanted %s", told.Code, told.Message, state)
	}
	return told
}

func connect() *pgx.Conn {
	connection, err := pgx.Connect(ctx, "")
	must(err)
	return connection
}

func run(connection *pgx.Conn, sql string, values ...any) pgconn.CommandTag {
	tag, err := connection.Exec(ctx, sql, values...)
	must(err)
	return tag
}

func one[T any](connection *pgx.Conn, sql string, values ...any) T {
	rows, err := connection.Query(ctx, sql, values...)
	must(err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	must(err)
	return value
}

func login(connection *pgx.Conn) {
	expect(one[string](connection, "SELECT current_user"), os.Getenv("PGUSER"))
	expect(connection.PgConn().ParameterStatus("server_encoding"), "UTF8")
	config, err := pgx.ParseConfig("")
	must(err)
	config.Password = "not it"
	_, err = pgx.ConnectConfig(ctx, config)
	expectState(err, "28P01")
	config, err = pgx.ParseConfig("application_name=till")
	must(err)
	config.RuntimeParams["search_path"] = "pg_catalog"
	other, err := pgx.ConnectConfig(ctx, config)
	must(err)
	defer other.Close(ctx)
	expect(one[string](other, "SELECT current_schema() || current_setting('application_name')"), "pg_catalogtill")
	must(other.Ping(ctx))
}

func roundTrip[T any](connection *pgx.Conn, kind string, values ...T) {
	table := pgx.Identifier{"kept " + kind}.Sanitize()
	run(connection, "CREATE TABLE "+table+" (id int PRIMARY KEY, v "+kind+")")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol} {
		for id, value := range values {
			run(connection, "DELETE FROM "+table)
			run(connection, "INSERT INTO "+table+" VALUES ($1, $2)", mode, id, value)
			got := one[T](connection, "SELECT v FROM "+table+" WHERE id = $1", mode, id)
			if moment, ok := any(got).(time.Time); ok {
				got = any(moment.UTC()).(T)
			}
			if !reflect.DeepEqual(got, value) {
				fail("%s in mode %s: got %#v, wanted %#v", kind, mode, got, value)
			}
		}
		run(connection, "INSERT INTO "+table+" VALUES (-1, $1)", mode, nil)
		expect(one[*T](connection, "SELECT v FROM "+table+" WHERE id = -1", mode), (*T)(nil))
	}
}

func types(connection *pgx.Conn) {
	roundTrip[int16](connection, "int2", math.MinInt16, math.MaxInt16)
	roundTrip[int32](connection, "int4", math.MinInt32, math.MaxInt32)
	roundTrip[int64](connection, "int8", math.MinInt64, math.MaxInt64)
	roundTrip[float32](connection, "float4", 0.5, -65536.25)
	roundTrip[float64](connection, "float8", 0.1, -1e300, 5e-324, math.Inf(1))
	roundTrip(connection, "numeric", pgtype.Numeric{Int: big.NewInt(-1234567), Exp: -3, Valid: true})
	roundTrip(connection, "text", "", "ä'\"\\\n€𝄞", strings.Repeat("x", 100_000))
	roundTrip(connection, "varchar(4)", "abcd")
	roundTrip(connection, "bool", true, false)
	roundTrip(connection, "bytea", []byte{}, []byte{0, 255, 39, 92})
	roundTrip(connection, "date", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 0, 0, 0, 0,
		time.UTC))
	roundTrip(connection, "timestamp", time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC))
	roundTrip(connection, "timestamptz", time.Date(2038, 1, 19, 3, 14, 8, 5000, time.UTC))
	roundTrip(connection, "time", pgtype.Time{Microseconds: 86_399_999_999, Valid: true})
	roundTrip(connection, "interval", pgtype.Interval{Months: 14, Days: -3, Microseconds: 5, Valid: true})
	roundTrip(connection, "uuid", pgtype.UUID{Bytes: [16]byte{0x12, 0x34, 15: 0xf0}, Valid: true})
	roundTrip(connection, "inet", netip.MustParsePrefix("10.1.2.3/32"), netip.MustParsePrefix("fe80::1/64"))
	roundTrip(connection, "jsonb", `{"a": [1, null, "ä"]}`)
	roundTrip(connection, "int4[]", []int32{}, []int32{1, -2, 3})
	expect(one[[][]int32](connection, "SELECT $1::int4[]", [][]int32{{1, 2}, {3, 4}}), [][]int32{{1, 2}, {3, 4}})
	json := map[string]any{"a": []any{1.0, nil, "ä"}, "b": map[string]any{"c": true}}
	expect(one[map[string]any](connection, "SELECT $1::jsonb", json), json)
	roundTrip(connection, "text[]", []string{"a,b", "\"", "", "NULL", "\\"})
	roundTrip(connection, "int4range", pgtype.Range[pgtype.Int4]{
		Lower: pgtype.Int4{Int32: 1, Valid: true}, Upper: pgtype.Int4{Int32: 5, Valid: true},
		LowerType: pgtype.Inclusive, UpperType: pgtype.Exclusive, Valid: true})
}

type place struct {
	City string
	X    *int32
}

func typesOfOnesOwn(connection *pgx.Conn) {
	run(connection, "CREATE TYPE colour AS ENUM ('red', 'green'); CREATE TYPE place AS (city text, x int4)")
	run(connection, "CREATE TABLE drawings (id int PRIMARY KEY, colour colour, places place[], main place)")
	kinds, err := connection.LoadTypes(ctx, []string{"colour", "_colour", "place", "_place"})
	must(err)
	connection.TypeMap().RegisterTypes(kinds)
	x := int32(7)
	run(connection, "INSERT INTO drawings VALUES (1, $1, $2, $3)", "green", []place{{"Ulm, \"x\"", &x}, {"", nil}},
		place{"a", nil})
	var colours []string
	var places []place
	var main place
	must(connection.QueryRow(ctx, "SELECT ARRAY[colour, 'red'], places, main FROM drawings").Scan(&colours, &places,
		&main))
	expect(colours, []string{"green", "red"})
	expect(places, []place{{"Ulm, \"x\"", &x}, {"", nil}})
	expect(main, place{"a", nil})
}

func statements(connection *pgx.Conn) {
	run(connection, "CREATE TABLE people (id serial PRIMARY KEY, name text NOT NULL, born date)")
	expect(run(connection, "INSERT INTO people (name) VALUES ($1), ($2)", "Ann", "Bob").String(), "INSERT 0 2")
	expect(run(connection, "UPDATE people SET born = $1", time.Now()).RowsAffected(), int64(2))
	type person struct {
		ID   int32
		Name string
		Age  *int32
	}
	rows, err := connection.Query(ctx,
		"SELECT id, name, NULL::int AS age FROM people WHERE name = ANY($1) ORDER BY id", []string{"Ann", "Bob", "no"})
	must(err)
	people, err := pgx.CollectRows(rows, pgx.RowToStructByName[person])
	must(err)
	expect(people, []person{{1, "Ann", nil}, {2, "Bob", nil}})
	described, err := connection.Prepare(ctx, "by name", "SELECT id, born FROM people WHERE name = $1")
	must(err)
	expect(described.ParamOIDs, []uint32{pgtype.TextOID})
	expect(described.Fields[1].DataTypeOID, uint32(pgtype.DateOID))
	expect(one[string](connection, "SELECT name FROM people WHERE name = @name", pgx.NamedArgs{"name": "Ann"}), "Ann")
	for round := range 3 {
		if round == 1 {
			run(connection, "ALTER TABLE people ADD extra int DEFAULT 5")
		}
		rows, err := connection.Query(ctx, "SELECT * FROM people WHERE id = $1", 1)
		must(err)
		_, err = pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
		if err != nil && !(round == 1 && strings.Contains(err.Error(), "cached plan must not change result type")) {
			fail("%v", err)
		}
	}
}

func batches(connection *pgx.Conn) {
	run(connection, "CREATE TABLE batched (id int PRIMARY KEY, v text)")
	batch := &pgx.Batch{}
	sum := int32(0)
	for n := range int32(200) {
		batch.Queue("INSERT INTO batched VALUES ($1, $2) RETURNING id", n, fmt.Sprint("v",
			n)).QueryRow(func(row pgx.Row) error {
			var id int32
			err := row.Scan(&id)
			sum += id
			return err
		})
	}
	must(connection.SendBatch(ctx, batch).Close())
	expect(sum, int32(19900))
	bad := &pgx.Batch{}
	bad.Queue("INSERT INTO batched VALUES (1000, 'undone')")
	bad.Queue("INSERT INTO batched VALUES (1, 'there')")
	bad.Queue("INSERT INTO batched VALUES (1001, 'not reached')")
	expectState(connection.SendBatch(ctx, bad).Close(), "23505")
	expect(one[int64](connection, "SELECT count(*) FROM batched"), int64(200))

	pipeline := connection.PgConn().StartPipeline(ctx)
	pipeline.SendQueryParams("SELECT $1::int4", [][]byte{[]byte("1")}, nil, nil, nil)
	must(pipeline.Sync())
	pipeline.SendQueryParams("SELECT 1 / 0", nil, nil, nil, nil)
	pipeline.SendQueryParams("SELECT 2", nil, nil, nil, nil)
	must(pipeline.Sync())
	pipeline.SendQueryParams("SELECT 3", nil, nil, nil, nil)
	must(pipeline.Sync())
	var seen []string
	for {
		result, err := pipeline.GetResults()
		if err == nil && result == nil {
			break
		}
		switch result := result.(type) {
		case *pgconn.ResultReader:
			read := result.Read()
			if read.Err != nil {
				seen = append(seen, expectState(read.Err, "22012").Code)
			} else {
				seen = append(seen, string(read.Rows[0][0]))
			}
		case *pgconn.PipelineSync:
			seen = append(seen, "sync")
		default:
			seen = append(seen, expectState(err, "22012").Code)
		}
	}
	must(pipeline.Close())
	expect(seen, []string{"1", "sync", "22012", "sync", "3", "sync"})
}

func transactions(connection *pgx.Conn) {
	run(connection,
		"CREATE TABLE counters (id int PRIMARY KEY, n int CHECK (n < 100)); INSERT INTO counters VALUES (1, 0), (2, 0)")
	run(connection, "CREATE TABLE uses (counter int REFERENCES counters)")
	other := connect()
	defer other.Close(ctx)
	serializable := pgx.TxOptions{IsoLevel: pgx.Serializable}
	mine, err := connection.BeginTx(ctx, serializable)
	must(err)
	theirs, err := other.BeginTx(ctx, serializable)
	must(err)
	for at, tx := range []pgx.Tx{mine, theirs} {
		expect(one[int64](tx.Conn(), "SELECT sum(n) FROM counters"), int64(0))
		_, err = tx.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE id = $1", at+1)
		must(err)
	}
	must(mine.Commit(ctx))
	expectState(theirs.Commit(ctx), "40001")
	err = pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE counters SET n = 50 WHERE id = 1")
		must(err)
		inner, err := tx.Begin(ctx)
		must(err)
		_, err = inner.Exec(ctx, "UPDATE counters SET n = 100 WHERE id = 1")
		expect(expectState(err, "23514").ConstraintName, "counters_n_check")
		_, err = inner.Exec(ctx, "SELECT 1")
		expectState(err, "25P02")
		must(inner.Rollback(ctx))
		return nil
	})
	must(err)
	expect(one[int32](connection, "SELECT n FROM counters WHERE id = 1"), int32(50))
	_, err = connection.Exec(ctx, "INSERT INTO counters VALUES ($1, 0)", 1)
	expect(expectState(err, "23505").Detail, "Key (id)=(1) already exists.")
	_, err = connection.Exec(ctx, "INSERT INTO uses VALUES (9)")
	expect(expectState(err, "23503").ConstraintName, "uses_counter_fkey")
	_, err = connection.Exec(ctx, "SELECT * FROM nothing WHERE id = $1", 1)
	expect(expectState(err, "42P01").Position, int32(15))
	tx, err := connection.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable,
		IsoLevel: pgx.RepeatableRead})
	must(err)
	_, err = tx.Exec(ctx, "DELETE FROM counters")
	expectState(err, "25006")
	must(tx.Rollback(ctx))
}

func copies(connection *pgx.Conn) {
	run(connection, "CREATE TABLE copied (id int PRIMARY KEY, name text, price numeric, tags text[], at timestamptz)")
	moment := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	source := pgx.CopyFromSlice(3000, func(n int) ([]any, error) {
		return []any{n, fmt.Sprint("name", n), pgtype.Numeric{Int: big.NewInt(int64(n)), Exp: -2, Valid: true},
			[]string{"a", fmt.Sprint(n)}, moment}, nil
	})
	count, err := connection.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"id", "name", "price", "tags", "at"},
		source)
	must(err)
	expect(count, int64(3000))
	expect(one[string](connection, "SELECT sum(price) || max(tags[2]) || min(at AT TIME ZONE 'UTC') FROM copied"),
		"44985.009992024-01-01 00:00:00")
	var text strings.Builder
	_, err = connection.PgConn().CopyTo(ctx, &text,
		"COPY (SELECT id, name FROM copied WHERE id < 2 ORDER BY id) TO STDOUT")
	must(err)
	expect(text.String(), "0\tname0\n1\tname1\n")
	_, err = connection.PgConn().CopyFrom(ctx, strings.NewReader("5000\tgood\n1\ttwice\n"),
		"COPY copied (id, name) FROM STDIN")
	expectState(err, "23505")
	expect(one[int64](connection, "SELECT count(*) FROM copied"), int64(3000))
}

func cursors(connection *pgx.Conn) {
	tx, err := connection.Begin(ctx)
	must(err)
	_, err = tx.Exec(ctx, "DECLARE walker CURSOR FOR SELECT generate_series(1, 1000)")
	must(err)
	sum := 0
	for {
		rows, err := tx.Query(ctx, "FETCH 300 FROM walker")
		must(err)
		some, err := pgx.CollectRows(rows, pgx.RowTo[int])
		must(err)
		if len(some) == 0 {
			break
		}
		for _, n := range some {
			sum += n
		}
	}
	expect(sum, 500500)
	must(tx.Commit(ctx))
	result := connection.PgConn().ExecParams(ctx, "SELECT generate_series(1, 100000)", nil, nil, nil, nil)
	expect(result.NextRow(), true)
	_, err = result.Close()
	must(err)
}

func cancels(connection *pgx.Conn) {
	_, err := connection.Exec(ctx, "SET statement_timeout = 100")
	must(err)
	_, err = connection.Exec(ctx, "SELECT pg_sleep(20)")
	expectState(err, "57014")
	run(connection, "SET statement_timeout = 0")
	go func() {
		time.Sleep(200 * time.Millisecond)
		_ = connection.PgConn().CancelRequest(ctx)
	}()
	_, err = connection.Exec(ctx, "SELECT count(*) FROM generate_series(1, 10000000000)")
	expectState(err, "57014")
	expect(one[int32](connection, "SELECT 1::int4"), int32(1))
}

func notifications(connection *pgx.Conn) {
	run(connection, "LISTEN news")
	speaker := connect()
	defer speaker.Close(ctx)
	run(speaker, "SELECT pg_notify('news', $1)", "told")
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	told, err := connection.WaitForNotification(short)
	must(err)
	expect(*told, pgconn.Notification{PID: speaker.PgConn().PID(), Channel: "news", Payload: "told"})
}

func pools(connection *pgx.Conn) {
	run(connection, "CREATE TABLE tally (id int PRIMARY KEY, n int); INSERT INTO tally VALUES (1, 0)")
	pool, err := pgxpool.New(ctx, "pool_max_conns=5")
	must(err)
	defer pool.Close()
	var group sync.WaitGroup
	failures := make(chan error, 1000)
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 25 {
				failures <- pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					var n int
					if err := tx.QueryRow(ctx, "SELECT n FROM tally WHERE id = 1 FOR UPDATE").Scan(&n); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE tally SET n = $1 WHERE id = 1", n+1)
					return err
				})
			}
		}()
	}
	group.Wait()
	close(failures)
	for err := range failures {
		must(err)
	}
	expect(one[int32](connection, "SELECT n FROM tally"), int32(200))
}

func main() {
	checks := []struct {
		name string
		run  func(*pgx.Conn)
	}{
		{"login", login}, {"types", types}, {"types of one's own", typesOfOnesOwn}, {"statements", statements},
		{"batches", batches},
		{"transactions", transactions}, {"copies", copies}, {"cursors", cursors}, {"cancels", cancels},
		{"notifications", notifications}, {"pools", pools},
	}
	failed := 0
	for _, check := range checks {
		func() {
			defer func() {
				if told := recover(); told != nil {
					failed++
					fmt.Printf("pgx: %s FAILED %v\n", check.name, told)
				}
			}()
			connection := connect()
			defer connection.Close(ctx)
			check.run(connection)
		}()
	}
	fmt.Printf("pgx: %d passed, %d failed\n", len(checks)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
