//! Errors of statements, as clients get them: PostgreSQL's five characters, a message, and a place in the text.

use std::fmt;

use quipu::ErrorKind;
use quipu_rows::{Constraint, Value, Violation};

/// The result of what may fail with a [`SqlError`].
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// The class of an error, as clients tell them apart: the SQLSTATE of the standard and of PostgreSQL's appendix A.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(&'static str);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState {
            $($(#[$doc])* pub const $name: SqlState = SqlState($code);)*
        }
    };
}

states! {
    /// Success.
    SUCCESSFUL = "00000";
    /// A warning.
    WARNING = "01000";
    /// What is not supported, with a hint of what to write instead.
    FEATURE_NOT_SUPPORTED = "0A000";
    /// A message that the protocol does not allow here.
    PROTOCOL_VIOLATION = "08P01";
    /// A connection that cannot be taken.
    CONNECTION_FAILURE = "08006";
    /// More than one row of a sub-select that is used as a value.
    CARDINALITY_VIOLATION = "21000";
    /// A value that cannot be, of no kind below.
    DATA_EXCEPTION = "22000";
    /// A string of bits of another length than its type or an operator needs.
    STRING_DATA_LENGTH_MISMATCH = "22026";
    /// Text that is longer than its type allows.
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    /// A number that its type cannot hold.
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    /// An argument of a substring that makes no sense.
    SUBSTRING_ERROR = "22011";
    /// A text that is no date or time.
    INVALID_DATETIME_FORMAT = "22007";
    /// A date or time that is out of range.
    DATETIME_FIELD_OVERFLOW = "22008";
    /// A division by zero.
    DIVISION_BY_ZERO = "22012";
    /// An argument of a logarithm that has none.
    INVALID_ARGUMENT_FOR_LOGARITHM = "2201E";
    /// Bounds between which no buckets lie.
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION = "2201G";
    /// An argument of a power or a root that has none.
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = "2201F";
    /// A LIMIT that is negative.
    INVALID_ROW_COUNT_IN_LIMIT = "2201W";
    /// An OFFSET that is negative.
    INVALID_ROW_COUNT_IN_OFFSET = "2201X";
    /// A parameter that makes no sense.
    INVALID_PARAMETER_VALUE = "22023";
    /// A pattern that ends with its escape character.
    INVALID_ESCAPE_SEQUENCE = "22025";
    /// Bytes that are no text in their encoding, or a zero in a text.
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    /// A letter that the encoding of the client lacks.
    UNTRANSLATABLE_CHARACTER = "22P05";
    /// A place in bytes that is not there.
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    /// A path of JSON that finds no member of a name.
    SQL_JSON_MEMBER_NOT_FOUND = "2203A";
    /// A path of JSON that finds no array.
    SQL_JSON_ARRAY_NOT_FOUND = "22039";
    /// A path of JSON that finds no object.
    SQL_JSON_OBJECT_NOT_FOUND = "2203C";
    /// A path of JSON that finds no number.
    SQL_JSON_NUMBER_NOT_FOUND = "2203B";
    /// A place in an array of JSON that is not there.
    INVALID_SQL_JSON_SUBSCRIPT = "22033";
    /// A path of JSON that finds none or several values where it must be one.
    SINGLETON_SQL_JSON_ITEM_REQUIRED = "22038";
    /// A method of numbers on something else.
    NON_NUMERIC_SQL_JSON_ITEM = "22036";
    /// A text that is no value of its type.
    INVALID_TEXT_REPRESENTATION = "22P02";
    /// Bytes that are no value of their type.
    INVALID_BINARY_REPRESENTATION = "22P03";
    /// A file of COPY that is malformed.
    BAD_COPY_FILE_FORMAT = "22P04";
    /// A sequence that has come to its end.
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
    /// A regular expression that is malformed.
    INVALID_REGULAR_EXPRESSION = "2201B";
    /// Parts of a pattern of SUBSTRING that are more than three.
    INVALID_USE_OF_ESCAPE_CHARACTER = "2200C";
    /// NULL where there must be a value.
    NULL_VALUE_NOT_ALLOWED = "22004";
    /// The number of parts of `ntile` is not positive.
    INVALID_ARGUMENT_FOR_NTILE_FUNCTION = "22014";
    /// The number of the row of `nth_value` is not positive.
    INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION = "22016";
    /// The distance of an end of a frame is negative.
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = "22013";
    /// A constraint that is broken, of no kind below.
    INTEGRITY_CONSTRAINT_VIOLATION = "23000";
    /// NULL in a column that is NOT NULL.
    NOT_NULL_VIOLATION = "23502";
    /// A foreign key without its row, or a row that others refer to.
    FOREIGN_KEY_VIOLATION = "23503";
    /// A key that another row has.
    UNIQUE_VIOLATION = "23505";
    /// A check that is false.
    CHECK_VIOLATION = "23514";
    /// A cursor that is not in the state that the statement needs.
    INVALID_CURSOR_STATE = "24000";
    /// BEGIN in a transaction, or what cannot run in one.
    ACTIVE_SQL_TRANSACTION = "25001";
    /// A write in a transaction that only reads.
    READ_ONLY_SQL_TRANSACTION = "25006";
    /// What needs a transaction, outside of one.
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    /// A statement in a transaction that has failed.
    IN_FAILED_SQL_TRANSACTION = "25P02";
    /// A transaction was open for too long between two statements.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    /// A prepared statement that is not there.
    INVALID_SQL_STATEMENT_NAME = "26000";
    /// A user that may not connect.
    INVALID_AUTHORIZATION = "28000";
    /// A wrong password.
    INVALID_PASSWORD = "28P01";
    /// Something that others depend on.
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    /// A cursor or a portal that is not there.
    INVALID_CURSOR_NAME = "34000";
    /// A savepoint that is not there.
    INVALID_SAVEPOINT = "3B001";
    /// A database that is not there.
    INVALID_CATALOG_NAME = "3D000";
    /// A schema that is not there.
    INVALID_SCHEMA_NAME = "3F000";
    /// A conflict with another transaction: run it again.
    SERIALIZATION_FAILURE = "40001";
    /// Transactions that wait for each other.
    DEADLOCK_DETECTED = "40P01";
    /// Text that is no statement.
    SYNTAX_ERROR = "42601";
    /// What the user may not do.
    INSUFFICIENT_PRIVILEGE = "42501";
    /// A type that cannot become another one.
    CANNOT_COERCE = "42846";
    /// Columns that must be grouped or aggregated.
    GROUPING_ERROR = "42803";
    /// A window function where there can be none.
    WINDOWING_ERROR = "42P20";
    /// A recursive query of a shape that cannot be run.
    INVALID_RECURSION = "42P19";
    /// A foreign key that refers to no unique key.
    INVALID_FOREIGN_KEY = "42830";
    /// A name that cannot be.
    INVALID_NAME = "42602";
    /// A name that is reserved.
    RESERVED_NAME = "42939";
    /// Types that do not go together.
    DATATYPE_MISMATCH = "42804";
    /// A parameter whose type cannot be told.
    INDETERMINATE_DATATYPE = "42P18";
    /// Something of another kind than the statement needs.
    WRONG_OBJECT_TYPE = "42809";
    /// A value of an identity column that always has its own.
    GENERATED_ALWAYS = "428C9";
    /// A column that is not there.
    UNDEFINED_COLUMN = "42703";
    /// A function or an operator that is not there.
    UNDEFINED_FUNCTION = "42883";
    /// A table that is not there.
    UNDEFINED_TABLE = "42P01";
    /// A parameter that is not there.
    UNDEFINED_PARAMETER = "42P02";
    /// An index, a constraint or a type that is not there.
    UNDEFINED_OBJECT = "42704";
    /// A column that is there already.
    DUPLICATE_COLUMN = "42701";
    /// A cursor that is there already.
    DUPLICATE_CURSOR = "42P03";
    /// A prepared statement that is there already.
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    /// A schema that is there already.
    DUPLICATE_SCHEMA = "42P06";
    /// A table that is there already.
    DUPLICATE_TABLE = "42P07";
    /// Two tables of one name in a FROM.
    DUPLICATE_ALIAS = "42712";
    /// An index or a constraint that is there already.
    DUPLICATE_OBJECT = "42710";
    /// A column name that two tables have.
    AMBIGUOUS_COLUMN = "42702";
    /// A call that two functions fit.
    AMBIGUOUS_FUNCTION = "42725";
    /// A column that cannot be referred to here.
    INVALID_COLUMN_REFERENCE = "42P10";
    /// A definition that cannot be.
    INVALID_OBJECT_DEFINITION = "42P17";
    /// A schema that cannot be as it is declared.
    INVALID_SCHEMA_DEFINITION = "42P15";
    /// A table that cannot be as it is declared.
    INVALID_TABLE_DEFINITION = "42P16";
    /// A column that cannot be as it is declared.
    INVALID_COLUMN_DEFINITION = "42611";
    /// A row that WITH CHECK OPTION of a view refuses.
    WITH_CHECK_OPTION_VIOLATION = "44000";
    /// ON CONFLICT that changes a row twice, and other things that are asked in the wrong state.
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    /// A lock that was not got in time.
    LOCK_NOT_AVAILABLE = "55P03";
    /// No room on the disk.
    DISK_FULL = "53100";
    /// No room in memory.
    OUT_OF_MEMORY = "53200";
    /// Too many connections.
    TOO_MANY_CONNECTIONS = "53300";
    /// A limit of the configuration.
    CONFIGURATION_LIMIT_EXCEEDED = "53400";
    /// A statement that is larger or deeper than can be run.
    PROGRAM_LIMIT_EXCEEDED = "54000";
    /// A statement that is nested deeper than can be run.
    STATEMENT_TOO_COMPLEX = "54001";
    /// More arguments than a function or an operator can have.
    TOO_MANY_ARGUMENTS = "54023";
    /// A statement that was cancelled, or ran out of time.
    QUERY_CANCELED = "57014";
    /// What RAISE says.
    RAISE_EXCEPTION = "P0001";
    /// The server is being stopped.
    ADMIN_SHUTDOWN = "57P01";
    /// The server does not take connections yet, or any more.
    CANNOT_CONNECT_NOW = "57P03";
    /// A session that did nothing for too long.
    IDLE_SESSION_TIMEOUT = "57P05";
    /// A file that cannot be read or written.
    IO_ERROR = "58030";
    /// The statement has waited for another transaction and must begin again; no client sees it.
    BEGIN_AGAIN = "QU001";
    /// A defect of the program.
    INTERNAL_ERROR = "XX000";
    /// Bytes on the disk that are not what was written.
    DATA_CORRUPTED = "XX001";
}

impl SqlState {
    /// Whether it is that of a warning, which is no failure.
    pub fn is_warning(self) -> bool {
        self.0.starts_with("01")
    }

    /// The five characters.
    pub fn code(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Why a statement failed.
#[derive(Clone, Debug)]
pub struct SqlError {
    parts: Box<Parts>,
}

/// What is known of a failure; all but the first two may be missing.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its class.
    pub state: SqlState,
    /// What is wrong, in one line.
    pub message: String,
    /// More of what is wrong.
    pub detail: Option<String>,
    /// What could be done.
    pub hint: Option<String>,
    /// The place in the statement's text: characters from 1 on.
    pub position: Option<usize>,
    /// The schema of the table that it is about.
    pub schema: Option<String>,
    /// The table that it is about.
    pub table: Option<String>,
    /// The column that it is about.
    pub column: Option<String>,
    /// The constraint that it is about.
    pub constraint: Option<String>,
    /// Where in the work of the statement it happened, such as the line of a COPY.
    pub context: Option<String>,
    /// The kind of the engine's error that it comes from, of which several may have one class.
    pub kind: Option<ErrorKind>,
}

impl SqlError {
    /// A failure of this class.
    #[cold]
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        let (detail, hint, position, schema, table, column, constraint, context) = Default::default();
        let (message, kind) = (message.into(), None);
        let parts = Parts { state, message, detail, hint, position, schema, table, column, constraint, context, kind };
        SqlError { parts: Box::new(parts) }
    }

    /// What is not supported; `hint` says what to write instead.
    #[cold]
    pub fn unsupported(what: impl Into<String>, hint: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(hint)
    }

    /// The same failure with more of what is wrong.
    pub fn with_detail(mut self, detail: impl Into<String>) -> SqlError {
        self.parts.detail = Some(detail.into());
        self
    }

    /// The same failure without more of what is wrong.
    pub fn without_detail(mut self) -> SqlError {
        self.parts.detail = None;
        self
    }

    /// The same failure with what could be done.
    pub fn with_hint(mut self, hint: impl Into<String>) -> SqlError {
        self.parts.hint = Some(hint.into());
        self
    }

    /// The same failure at a place of the statement, if none is known yet.
    pub fn at(mut self, position: Option<usize>) -> SqlError {
        self.parts.position = self.parts.position.or(position);
        self
    }

    /// The same failure, without a place: that of another text than the client's.
    pub(crate) fn without_position(mut self) -> SqlError {
        self.parts.position = None;
        self
    }

    /// The same failure, about this table: its name in rows.
    pub fn in_table(mut self, table: &str) -> SqlError {
        let (schema, table) = schema_and_name(table);
        self.parts.schema = Some(schema.to_owned());
        self.parts.table = Some(table.to_owned());
        self
    }

    /// The same failure, about this column.
    pub fn in_column(mut self, column: impl Into<String>) -> SqlError {
        self.parts.column = Some(column.into());
        self
    }

    /// The same failure, about this constraint.
    pub fn of_constraint(mut self, constraint: impl Into<String>) -> SqlError {
        self.parts.constraint = Some(constraint.into());
        self
    }

    /// The same failure, with where in the work it happened.
    pub fn in_context(mut self, context: impl Into<String>) -> SqlError {
        self.parts.context = Some(context.into());
        self
    }

    /// All that is known of it.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Its class.
    pub fn state(&self) -> SqlState {
        self.parts.state
    }

    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.parts.message
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.message)?;
        if let Some(detail) = &self.parts.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

/// An error of the rows or of the engine, as clients of PostgreSQL know it.
impl From<quipu::Error> for SqlError {
    #[cold]
    fn from(error: quipu::Error) -> SqlError {
        if let Some(violation) = Violation::of(&error) {
            return of_violation(violation);
        }
        // Of an expression that rows had computed.
        if let Some(own) = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<SqlError>()) {
            return own.clone();
        }
        let state = match error.kind() {
            ErrorKind::Conflict => {
                let what = "could not serialize access due to concurrent update";
                return SqlError::new(SqlState::SERIALIZATION_FAILURE, what).with_detail(error.to_string());
            }
            ErrorKind::Missing => SqlState::UNDEFINED_OBJECT,
            ErrorKind::Exists => SqlState::DUPLICATE_OBJECT,
            ErrorKind::Invalid => SqlState::INVALID_PARAMETER_VALUE,
            ErrorKind::ReadOnly => SqlState::READ_ONLY_SQL_TRANSACTION,
            ErrorKind::Corrupt | ErrorKind::Version => SqlState::DATA_CORRUPTED,
            ErrorKind::Full if error.is_full_disk() => SqlState::DISK_FULL,
            ErrorKind::Full => SqlState::OUT_OF_MEMORY,
            ErrorKind::Io | ErrorKind::Poisoned => SqlState::IO_ERROR,
            _ => SqlState::INTERNAL_ERROR,
        };
        let mut own = SqlError::new(state, error.to_string());
        own.parts.kind = Some(error.kind());
        own
    }
}

impl SqlError {
    /// The failure of building an index.
    #[cold]
    pub fn of_build(error: quipu::Error, index: &str) -> SqlError {
        let mut error = SqlError::from(error);
        if error.state() == SqlState::UNIQUE_VIOLATION {
            error.parts.constraint = Some(index.to_owned());
        }
        error.of_rows_there()
    }

    /// The failure of a definition whose constraint rows that are there break, as PostgreSQL tells it.
    #[cold]
    pub fn of_rows_there(mut self) -> SqlError {
        let parts = &mut *self.parts;
        // A domain is told as it is.
        let Some(table) = &parts.table else { return self };
        match (parts.state, &parts.constraint, &parts.column) {
            (SqlState::UNIQUE_VIOLATION, Some(index), _) => {
                parts.message = format!("could not create unique index \"{index}\"");
                if let Some(key) = parts.detail.as_deref().and_then(|detail| detail.strip_suffix("already exists.")) {
                    parts.detail = Some(format!("{key}is duplicated."));
                }
            }
            (SqlState::CHECK_VIOLATION, Some(name), _) => {
                parts.message = format!("check constraint \"{name}\" of relation \"{table}\" is violated by some row");
                parts.detail = None;
            }
            (SqlState::NOT_NULL_VIOLATION, _, Some(column)) => {
                parts.message = format!("column \"{column}\" of relation \"{table}\" contains null values");
                parts.detail = None;
            }
            _ => {}
        }
        self
    }
}

/// The schema and the name of a table of rows. A table of the schema `public` has its name alone; of one whose name has
/// a point, which messages alone are made of, the part before it is taken for a schema.
fn schema_and_name(table: &str) -> (&str, &str) {
    table.split_once('.').filter(|(schema, name)| !schema.is_empty() && !name.is_empty()).unwrap_or(("public", table))
}

impl SqlError {
    /// The error of a NULL in a column that is NOT NULL.
    pub fn null_in(table: &str, column: &str) -> SqlError {
        let what = format!("null value in column \"{column}\" of relation \"{table}\" violates not-null constraint");
        SqlError::new(SqlState::NOT_NULL_VIOLATION, what)
    }
}

/// The columns and values of a violation.
fn key_of(violation: &Violation) -> String {
    let shown = |value: &Value<'_>| match value {
        Value::Text(text) => text.to_string(),
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    };
    let (columns, values): (Vec<&str>, Vec<String>) =
        violation.key.iter().map(|(column, value)| (column.as_str(), shown(value))).unzip();
    format!("Key ({})=({})", columns.join(", "), values.join(", "))
}

/// A broken foreign key, with PostgreSQL's sentences. It is one of the table that refers.
fn of_foreign_key(violation: &Violation, other_table: &str) -> SqlError {
    let ((_, table), (_, other)) = (schema_and_name(&violation.table), schema_and_name(other_table));
    let name = violation.name.clone().unwrap_or_default();
    let key = key_of(violation);
    let (what, detail, own) = match violation.is_referred {
        true => (
            format!(
                "update or delete on table \"{table}\" violates foreign key constraint \"{name}\" on table \"{other}\""
            ),
            format!("{key} is still referenced from table \"{other}\"."),
            other_table,
        ),
        false => (
            format!("insert or update on table \"{table}\" violates foreign key constraint \"{name}\""),
            format!("{key} is not present in table \"{other}\"."),
            &*violation.table,
        ),
    };
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, what).with_detail(detail).in_table(own).of_constraint(name)
}

/// A broken constraint, with PostgreSQL's sentence and its class.
fn of_violation(violation: &Violation) -> SqlError {
    let (_, table) = schema_and_name(&violation.table);
    let name = violation.name.clone();
    let error = match violation.constraint {
        Constraint::NotNull => SqlError::null_in(table, violation.column.as_deref().unwrap_or_default()),
        Constraint::PrimaryKey | Constraint::Unique => {
            let name = name.clone().unwrap_or_else(|| format!("{table}_pkey"));
            let what = format!("duplicate key value violates unique constraint \"{name}\"");
            let error = SqlError::new(SqlState::UNIQUE_VIOLATION, what).of_constraint(name);
            match violation.key.is_empty() {
                true => error,
                false => error.with_detail(format!("{} already exists.", key_of(violation))),
            }
        }
        Constraint::Check => {
            let name = name.clone().unwrap_or_default();
            let what = format!("new row for relation \"{table}\" violates check constraint \"{name}\"");
            SqlError::new(SqlState::CHECK_VIOLATION, what)
        }
        Constraint::ForeignKey => {
            return match &violation.other {
                Some(other) => of_foreign_key(violation, other),
                None => SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, violation.message.clone()),
            };
        }
        Constraint::Generated => {
            let column = violation.column.clone().unwrap_or_default();
            let what = format!("cannot insert a non-DEFAULT value into column \"{column}\"");
            SqlError::new(SqlState::GENERATED_ALWAYS, what)
        }
        Constraint::NumbersUsedUp => {
            let column = violation.column.clone().unwrap_or_default();
            let what = format!("nextval: reached maximum value of sequence \"{table}_{column}_seq\"");
            SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, what).with_hint(format!(
                "Use ALTER TABLE ... ALTER COLUMN {column} RESTART WITH a number that is free, or a wider type."
            ))
        }
        Constraint::Identity => {
            let column = violation.column.clone().unwrap_or_default();
            let what = format!("cannot insert a non-DEFAULT value into column \"{column}\"");
            SqlError::new(SqlState::GENERATED_ALWAYS, what).with_hint("Use OVERRIDING SYSTEM VALUE to override.")
        }
        _ => SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, violation.message.clone()),
    };
    let error = match error.message() != violation.message && error.parts.detail.is_none() {
        true => error.with_detail(violation.message.clone()),
        false => error,
    };
    let error = error.in_table(&violation.table);
    let error = match &violation.column {
        Some(column) => error.in_column(column.clone()),
        None => error,
    };
    match name {
        Some(name) => error.of_constraint(name),
        None => error,
    }
}
