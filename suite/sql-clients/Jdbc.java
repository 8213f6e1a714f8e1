import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;

/** pgjdbc: what an application does with it. Each check has a connection of its own, and runs though another failed. */
public class Jdbc {
    interface Check { void run(Connection connection) throws Exception; }

    static int passed, failed;

    static Connection connect(String... options) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        for (int at = 0; at < options.length; at += 2) properties.setProperty(options[at], options[at + 1]);
        return DriverManager.getConnection("jdbc:postgresql://"
            + System.getenv("PGHOST") + ":" + System.getenv("PGPORT")
            + "/" + System.getenv("PGDATABASE"), properties);
    }

    static void check(String name, Check check, String... options) {
        try (Connection connection = connect(options)) {
            check.run(connection);
            passed++;
        } catch (Throwable error) {
            failed++;
            int line = 0;
            for (StackTraceElement element : error.getStackTrace()) {
                boolean isHere = element.getClassName().equals("Jdbc") && !element.getMethodName().startsWith("expect");
                if (isHere && line == 0) line = element.getLineNumber();
            }
            System.out.println("jdbc: " + name + " FAILED (Jdbc.java:" + line + "): " + error);
        }
    }

    static void expect(Object got, Object wanted) {
        if (!Objects.deepEquals(got,
            wanted)) throw new AssertionError("got " + shown(got) + ", wanted " + shown(wanted));
    }

    static String shown(Object value) {
        return value instanceof Object[] many ? Arrays.deepToString(many) : String.valueOf(value);
    }

    static void expectState(String state, Callable<?> call) throws Exception {
        try {
            call.call();
        } catch (SQLException error) {
            for (SQLException next = error; next != null; next = next.getNextException()) {
                if (state.equals(next.getSQLState())) return;
            }
            throw new AssertionError("wanted " + state + ", got " + error.getSQLState() + ": " + error.getMessage());
        }
        throw new AssertionError("no error, wanted " + state);
    }

    static void run(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    /** All rows, with the values of each joined by commas. */
    static List<String> rows(ResultSet rows) throws SQLException {
        List<String> all = new ArrayList<>();
        while (rows.next()) {
            StringJoiner row = new StringJoiner(",");
            for (int at = 1; at <= rows.getMetaData().getColumnCount(); at++) row.add(rows.getString(at));
            all.add(row.toString());
        }
        return all;
    }

    static List<String> rows(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int at = 0; at < values.length; at++) statement.setObject(at + 1, values[at]);
            return rows(statement.executeQuery());
        }
    }

    /** Some columns of what a call for metadata answers. */
    static List<String> columns(ResultSet found, String... names) throws SQLException {
        List<String> all = new ArrayList<>();
        while (found.next()) {
            StringJoiner row = new StringJoiner(",");
            for (String name : names) row.add(found.getString(name));
            all.add(row.toString());
        }
        return all;
    }

    static void login(Connection connection) throws Exception {
        expect(connection.getMetaData().getDatabaseMajorVersion(), 15);
        expect(rows(connection, "SELECT current_user, current_setting('application_name')"),
            List.of(System.getenv("PGUSER") + ",till"));
        expectState("28P01", () -> connect("password", "not it"));
        expect(connection.isValid(5), true);
        connection.setSchema("pg_catalog");
        expect(connection.getSchema(), "pg_catalog");
        connection.setNetworkTimeout(Runnable::run, 5000);
        expect(rows(connection, "SELECT 1"), List.of("1"));
    }

    /** Often enough for statements of the server and values as bytes (after five times). */
    static void types(Connection connection) throws Exception {
        Object[][] kinds = {
            {"int2", (short) -32768, 0}, {"int4", Integer.MIN_VALUE, 0}, {"int8", Long.MAX_VALUE, 0}, {"float4", 0.5f,
                0},
            {"float8", 0.1, 0}, {"float8", Double.NEGATIVE_INFINITY, 0}, {"numeric",
                new BigDecimal("-1234567890.12300"), 0},
            {"numeric(10,3)", new BigDecimal("0.125"), 0}, {"text", "ä'\\\n\u20ac", 0}, {"varchar(3)", "abc", 0},
                {"bool", true, 0},
            {"date", LocalDate.of(1, 1, 1), 0}, {"date", LocalDate.of(2024, 2, 29), 0}, {"time", LocalTime.of(23, 59,
                59, 999_999_000), 0},
            {"timestamp", LocalDateTime.of(1999, 12, 31, 23, 59, 59, 1000), 0},
            {"timestamptz", OffsetDateTime.of(2038, 1, 19, 3, 14, 8, 5000, ZoneOffset.UTC), 0},
            {"timetz", OffsetTime.of(1, 2, 3, 4000, ZoneOffset.ofHours(-3)), 0},
            {"uuid", UUID.fromString("12345678-9abc-def0-1234-56789abcdef0"), 0}, {"bytea", new byte[] {0, -1, 39,
                92}, 0},
            {"interval", new PGInterval(1, 2, -3, 4, 5, 6.789), 0},
        };
        for (Object[] kind : kinds) {
            String name = (String) kind[0];
            Object value = kind[1];
            run(connection, "DROP TABLE IF EXISTS one; CREATE TABLE one (id int PRIMARY KEY, v " + name + ")");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO one VALUES (?, ?)");
                 PreparedStatement select = connection.prepareStatement(
                     "SELECT v FROM one WHERE id = ? AND v IS NOT DISTINCT FROM ?")) {
                for (int round = 0; round < 8; round++) {
                    Object given = round == 7 ? null : value;
                    for (PreparedStatement statement : new PreparedStatement[] {insert, select}) {
                        statement.setInt(1, round);
                        if (given == null) statement.setNull(2, Types.NULL); else statement.setObject(2, given);
                    }
                    insert.executeUpdate();
                    ResultSet got = select.executeQuery();
                    expect(name + " " + got.next(), name + " true");
                    Object back = value instanceof byte[] ? got.getBytes(1) : got.getObject(1, value.getClass());
                    if (given == null) back = got.getObject(1);
                    expect(back, given);
                    expect(got.wasNull(), given == null);
                }
            }
        }
        try (PreparedStatement statement = connection.prepareStatement(
                 "SELECT ?::int[], ?::text[], ?::jsonb, ?::numeric[]")) {
            PGobject json = new PGobject();
            json.setType("jsonb");
            json.setValue("{\"a\": [1, null]}");
            for (int round = 0; round < 7; round++) {
                statement.setArray(1, connection.createArrayOf("int4", new Integer[][] {{1, null}, {3, 4}}));
                statement.setArray(2, connection.createArrayOf("text", new String[] {"a,b", null, "\"", ""}));
                statement.setObject(3, json);
                statement.setArray(4, connection.createArrayOf("numeric", new BigDecimal[] {new BigDecimal("1.50")}));
                ResultSet got = statement.executeQuery();
                got.next();
                expect(got.getArray(1).getArray(), new Integer[][] {{1, null}, {3, 4}});
                expect(got.getArray(2).getArray(), new String[] {"a,b", null, "\"", ""});
                expect(((PGobject) got.getObject(3)).getValue(), "{\"a\": [1, null]}");
                expect(got.getArray(4).getArray(), new BigDecimal[] {new BigDecimal("1.50")});
            }
        }
    }

    static void statements(Connection connection) throws Exception {
        run(connection, "CREATE TABLE people (id serial PRIMARY KEY, name text NOT NULL UNIQUE, born date)");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO people (name) VALUES (?)",
            Statement.RETURN_GENERATED_KEYS)) {
            for (int n = 1; n <= 3; n++) {
                insert.setString(1, "p" + n);
                insert.addBatch();
            }
            expect(insert.executeBatch(), new int[] {1, 1, 1});
            expect(columns(insert.getGeneratedKeys(), "id"), List.of("1", "2", "3"));
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO people (name) VALUES (?)",
            new String[] {"id", "name"})) {
            insert.setString(1, "p4");
            expect(insert.executeUpdate(), 1);
            expect(columns(insert.getGeneratedKeys(), "id", "name"), List.of("4,p4"));
        }
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("UPDATE people SET born = '2000-01-01' WHERE id > 2");
            statement.addBatch("DELETE FROM people WHERE id = 99");
            expect(statement.executeBatch(), new int[] {2, 0});
            expect(statement.execute("SELECT 1; SELECT 2 AS two; DELETE FROM people WHERE id = 4"), true);
            expect(statement.getMoreResults(), true);
            expect(statement.getResultSet().getMetaData().getColumnName(1), "two");
            expect(statement.getMoreResults(), false);
            expect(statement.getUpdateCount(), 1);
        }
        try (PreparedStatement statement = connection.prepareStatement(
                 "SELECT id, name, born, 1.5 AS n FROM people WHERE name LIKE ? ORDER BY id")) {
            ResultSetMetaData columns = statement.getMetaData();
            expect(List.of(columns.getColumnTypeName(1), columns.getColumnTypeName(2), columns.getColumnTypeName(3),
                columns.getColumnType(4)),
                List.of("serial", "text", "date", Types.NUMERIC));
            expect(List.of(columns.getTableName(2), columns.isNullable(2), columns.isNullable(3)), List.of("people",
                0, 1));
            expect(statement.getParameterMetaData().getParameterTypeName(1), "text");
            statement.setString(1, "p%");
            expect(rows(statement.executeQuery()), List.of("1,p1,null,1.5", "2,p2,null,1.5", "3,p3,2000-01-01,1.5"));
        }
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE,
            ResultSet.CONCUR_UPDATABLE)) {
            ResultSet rows = statement.executeQuery("SELECT id, name FROM people ORDER BY id");
            rows.last();
            expect(rows.getRow(), 3);
            rows.updateString("name", "changed");
            rows.updateRow();
            rows.moveToInsertRow();
            rows.updateInt("id", 50);
            rows.updateString("name", "inserted");
            rows.insertRow();
            rows.first();
            rows.deleteRow();
        }
        expect(rows(connection, "SELECT id, name FROM people ORDER BY id"), List.of("2,p2", "3,changed",
            "50,inserted"));
        expect(rows(connection, "SELECT {fn abs(-3)}, {d '2024-01-02'}"), List.of("3,2024-01-02"));
    }

    static void calls(Connection connection) throws Exception {
        try (CallableStatement call = connection.prepareCall("{? = call lower(?)}")) {
            call.registerOutParameter(1, Types.VARCHAR);
            call.setString(2, "LOUD");
            call.execute();
            expect(call.getString(1), "loud");
        }
    }

    static void cursors(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("SELECT n FROM generate_series(1, ?) n")) {
            statement.setFetchSize(300);
            for (int round = 0; round < 7; round++) {
                statement.setInt(1, 5000);
                ResultSet rows = statement.executeQuery();
                long sum = 0;
                while (rows.next()) sum += rows.getInt(1);
                expect(sum, 12502500L);
            }
            statement.setMaxRows(7);
            expect(rows(statement.executeQuery()).size(), 7);
        }
        run(connection, "DECLARE walker SCROLL CURSOR FOR SELECT generate_series(1, 100)");
        expect(rows(connection, "FETCH ABSOLUTE 50 FROM walker"), List.of("50"));
        expect(rows(connection, "FETCH BACKWARD 2 FROM walker"), List.of("49", "48"));
        connection.commit();
    }

    static void transactions(Connection connection) throws Exception {
        run(connection, "CREATE TABLE accounts (id int PRIMARY KEY, balance int CHECK (balance >= 0))");
        run(connection, "CREATE TABLE cards (id int PRIMARY KEY, account int REFERENCES accounts)");
        run(connection, "INSERT INTO accounts VALUES (1, 10), (2, 20)");
        try (Connection other = connect()) {
            connection.setAutoCommit(false);
            connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            other.setAutoCommit(false);
            other.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            for (Connection one : new Connection[] {connection, other}) {
                expect(rows(one, "SELECT sum(balance) FROM accounts"), List.of("30"));
                run(one, "UPDATE accounts SET balance = balance + 1 WHERE id = " + (one == connection ? 1 : 2));
            }
            connection.commit();
            expectState("40001", () -> { other.commit(); return 0; });
        }
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        Savepoint savepoint = connection.setSavepoint("here");
        expectState("23505", () -> { run(connection, "INSERT INTO accounts VALUES (1, 0)"); return 0; });
        expectState("25P02", () -> rows(connection, "SELECT 1"));
        connection.rollback(savepoint);
        run(connection, "INSERT INTO accounts VALUES (3, 0)");
        connection.releaseSavepoint(savepoint);
        connection.commit();
        connection.setAutoCommit(true);
        expectState("23503", () -> { run(connection, "INSERT INTO cards VALUES (1, 9)"); return 0; });
        expectState("23514", () -> { run(connection, "UPDATE accounts SET balance = -1"); return 0; });
        expectState("42P01", () -> rows(connection, "SELECT * FROM nothing WHERE id = ?", 1));
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO accounts VALUES (?, 0)")) {
            for (int id : new int[] {10, 11, 1, 12}) {
                insert.setInt(1, id);
                insert.addBatch();
            }
            insert.executeBatch();
            throw new AssertionError("a batch with a row that is there does not fail");
        } catch (BatchUpdateException error) {
            expect(error.getSQLState(), "23505");
            expect(((PSQLException) error.getCause() == null ? null : ((PSQLException) error.getNextException())
                .getServerErrorMessage().getConstraint()), "accounts_pkey");
        }
        expect(rows(connection, "SELECT id FROM accounts WHERE id > 9"), List.of());
        connection.setReadOnly(true);
        connection.setAutoCommit(false);
        expectState("25006", () -> { run(connection, "DELETE FROM cards"); return 0; });
        connection.rollback();
    }

    static void metadata(Connection connection) throws Exception {
        run(connection, "CREATE TABLE makers (id int PRIMARY KEY, name varchar(40) NOT NULL DEFAULT 'x')");
        run(connection, "CREATE TABLE cars (maker int, place int, price numeric(8,2), PRIMARY KEY (maker, place), "
            + "CONSTRAINT made FOREIGN KEY (maker) REFERENCES makers ON DELETE CASCADE)");
        run(connection,
            "CREATE INDEX cars_price ON cars (price DESC, place); COMMENT ON COLUMN cars.price IS 'in euros'");
        run(connection, "CREATE VIEW dear AS SELECT * FROM cars WHERE price > 1000");
        DatabaseMetaData meta = connection.getMetaData();
        expect(columns(meta.getTables(null, "public", "%ar%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME",
            "TABLE_TYPE"),
            List.of("cards,TABLE", "cars,TABLE", "dear,VIEW"));
        expect(columns(meta.getColumns(null, "public", "makers", null), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE",
            "IS_NULLABLE", "COLUMN_DEF"),
            List.of("id,int4,10,NO,null", "name,varchar,40,NO,'x'::character varying"));
        expect(columns(meta.getColumns(null, "public", "cars", "price"), "DATA_TYPE", "DECIMAL_DIGITS", "REMARKS"),
            List.of("2,2,in euros"));
        expect(columns(meta.getPrimaryKeys(null, "public", "cars"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
            List.of("maker,1,cars_pkey", "place,2,cars_pkey"));
        expect(columns(meta.getImportedKeys(null, "public", "cars"), "PKTABLE_NAME", "FKCOLUMN_NAME", "FK_NAME",
            "DELETE_RULE"), List.of("makers,maker,made,0"));
        expect(columns(meta.getExportedKeys(null, "public", "makers"), "FKTABLE_NAME"), List.of("cars"));
        expect(columns(meta.getIndexInfo(null, "public", "cars", false, true), "INDEX_NAME", "NON_UNIQUE",
            "COLUMN_NAME", "ASC_OR_DESC"),
            List.of("cars_pkey,f,maker,A", "cars_pkey,f,place,A", "cars_price,t,price,D", "cars_price,t,place,A"));
        expect(columns(meta.getSchemas(), "TABLE_SCHEM").contains("public"), true);
        expect(columns(meta.getCatalogs(), "TABLE_CAT").contains(System.getenv("PGDATABASE")), true);
        expect(columns(meta.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int4", "text", "jsonb", "uuid")), true);
        expect(columns(meta.getBestRowIdentifier(null, "public", "makers", DatabaseMetaData.bestRowSession, false),
            "COLUMN_NAME"), List.of("id"));
        expect(columns(meta.getFunctions(null, "pg_catalog", "lower"), "FUNCTION_NAME").contains("lower"), true);
        columns(meta.getTablePrivileges(null, "public", "cars"), "PRIVILEGE");
        columns(meta.getColumnPrivileges(null, "public", "cars", "price"), "PRIVILEGE");
    }

    static void copy(Connection connection) throws Exception {
        run(connection, "CREATE TABLE copied (id int PRIMARY KEY, v text)");
        var copy = connection.unwrap(PGConnection.class).getCopyAPI();
        expect(copy.copyIn("COPY copied FROM STDIN (FORMAT csv)", new StringReader("1,\"a,b\"\n2,\n3,ä\n")), 3L);
        StringWriter out = new StringWriter();
        expect(copy.copyOut("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT", out), 3L);
        expect(out.toString(), "1\ta,b\n2\t\\N\n3\tä\n");
        var rows = copy.copyIn("COPY copied FROM STDIN");
        byte[] row = "9\tlost\n".getBytes(StandardCharsets.UTF_8);
        rows.writeToCopy(row, 0, row.length);
        rows.cancelCopy();
        expectState("23505", () -> copy.copyIn("COPY copied FROM STDIN (FORMAT csv)", new StringReader("7,a\n1,b\n")));
        expect(rows(connection, "SELECT count(*) FROM copied"), List.of("3"));
    }

    static void cancels(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            Thread other = new Thread(() -> {
                try {
                    Thread.sleep(300);
                    statement.cancel();
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            });
            other.start();
            expectState("57014", () -> statement.executeQuery("SELECT pg_sleep(20)"));
            other.join();
            statement.setQueryTimeout(1);
            expectState("57014", () -> statement.executeQuery("SELECT count(*) FROM generate_series(1, 10000000000)"));
        }
        expect(rows(connection, "SELECT 1"), List.of("1"));
    }

    static void notifications(Connection connection) throws Exception {
        run(connection, "LISTEN news");
        try (Connection other = connect()) {
            rows(other, "SELECT pg_notify('news', ?)", "told");
            PGNotification[] told = connection.unwrap(PGConnection.class).getNotifications(5000);
            expect(told.length, 1);
            expect(List.of(told[0].getName(), told[0].getParameter(), told[0].getPID()),
                List.of("news", "told", other.unwrap(PGConnection.class).getBackendPID()));
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS not_there");
            expect(statement.getWarnings().getMessage(), "table \"not_there\" does not exist, skipping");
        }
    }

    /** A table that changes under statements that are prepared. */
    static void definitions(Connection connection) throws Exception {
        run(connection, "CREATE TABLE grows (id int PRIMARY KEY)");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO grows (id) VALUES (?)");
             PreparedStatement select = connection.prepareStatement("SELECT * FROM grows WHERE id = ?")) {
            for (int n = 0; n < 12; n++) {
                if (n == 8) run(connection, "ALTER TABLE grows ADD v text DEFAULT 'd'");
                insert.setInt(1, n);
                insert.executeUpdate();
                select.setInt(1, n);
                expect(rows(select.executeQuery()), List.of(n < 8 ? "" + n : n + ",d"));
            }
        }
    }

    static void threads(Connection connection) throws Exception {
        run(connection, "CREATE TABLE tally (id int PRIMARY KEY, n int); INSERT INTO tally VALUES (1, 0)");
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<?>> all = new ArrayList<>();
        for (int worker = 0; worker < 6; worker++) {
            all.add(pool.submit(() -> {
                try (Connection own = connect()) {
                    own.setAutoCommit(false);
                    for (int n = 0; n < 20; n++) {
                        rows(own, "SELECT n FROM tally WHERE id = ? FOR UPDATE", 1);
                        run(own, "UPDATE tally SET n = n + 1");
                        own.commit();
                    }
                }
                return null;
            }));
        }
        for (Future<?> one : all) one.get();
        pool.shutdown();
        expect(rows(connection, "SELECT n FROM tally"), List.of("120"));
    }

    public static void main(String[] arguments) {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        check("login", Jdbc::login, "ApplicationName", "till");
        check("types", Jdbc::types);
        check("types as texts", connection -> { run(connection, "DROP TABLE one"); types(connection); },
            "binaryTransfer", "false");
        check("types by simple queries", connection -> { run(connection, "DROP TABLE one"); types(connection); },
            "preferQueryMode", "simple");
        check("statements", Jdbc::statements);
        check("calls", Jdbc::calls);
        check("cursors", Jdbc::cursors);
        check("transactions", Jdbc::transactions);
        check("metadata", Jdbc::metadata);
        check("copy", Jdbc::copy);
        check("cancels", Jdbc::cancels);
        check("notifications", Jdbc::notifications);
        check("definitions", Jdbc::definitions);
        check("threads", Jdbc::threads);
        System.out.println("jdbc: " + passed + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
