//! Functions that ask the session and the catalogue.
//!
//! What the catalogue knows is asked by the name of the function ([`Environment::ask_catalogue`]), and so are sequences
//! ([`Environment::sequence`]).

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Body, Definitions, array, bool, int, number, text, typed};
use crate::functions::{Environment, strings};
use crate::numeric::{Numeric, product, round};
use crate::types::datum::Datum;
use crate::types::text_encoding::TextEncoding;
use crate::types::{BaseType, SqlType, binary, text as value_text};

pub(crate) fn define(definitions: &mut Definitions) {
    session(definitions);
    types(definitions);
    catalogue(definitions);
    privileges(definitions);
    sequences(definitions);
    volatile(definitions);
}

fn session(definitions: &mut Definitions) {
    definitions.add("version() text", |_, _| {
        Ok(Datum::text(concat!("PostgreSQL 15.0 (Quipu ", env!("CARGO_PKG_VERSION"), ")")))
    });
    let database: Body = |environment, _| Ok(Datum::text(environment.database()));
    for name in ["current_database", "current_catalog"] {
        definitions.add(format!("{name}() name").leak(), database).stable();
    }
    let schema: Body = |environment, v| environment.ask_catalogue("current_schema", v);
    definitions.add("current_schema() name", schema).stable();
    let user: Body = |environment, _| Ok(Datum::text(environment.user()));
    for name in ["current_user", "session_user", "user", "current_role", "getpgusername"] {
        definitions.add(format!("{name}() name").leak(), user).stable();
    }
    let schemas: Body = |environment, v| environment.ask_catalogue("current_schemas", v);
    definitions.add("current_schemas(bool) name[]", schemas).stable();
    for (name, counts_nulls) in [("num_nulls", true), ("num_nonnulls", false)] {
        let count: Body = match counts_nulls {
            true => |_, v| Ok(Datum::Int(v.iter().filter(|value| value.is_null()).count() as i64)),
            false => |_, v| Ok(Datum::Int(v.iter().filter(|value| !value.is_null()).count() as i64)),
        };
        definitions.add(format!("{name}(any...) int4").leak(), count).lenient();
    }
    let process: Body = |environment, _| Ok(Datum::Int(environment.process().into()));
    definitions.add("pg_backend_pid() int4", process).stable();
    for signature in ["current_setting(text) text", "current_setting(text,bool) text"] {
        let setting: Body = |environment, v| {
            let name = text(v, 0)?;
            match environment.setting(name) {
                Some(value) => Ok(Datum::text(value)),
                None if v.len() > 1 && bool(v, 1)? => Ok(Datum::Null),
                None => {
                    let message = format!("unrecognized configuration parameter \"{name}\"");
                    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
                }
            }
        };
        definitions.add(signature, setting).stable();
    }
    let encoding: Body = |environment, _| {
        let name = environment.setting("client_encoding");
        Ok(Datum::text(name.unwrap_or_else(|| TextEncoding::UTF8.name().to_owned())))
    };
    definitions.add("pg_client_encoding() name", encoding).stable();
    definitions.add("getdatabaseencoding() name", |_, _| Ok(Datum::text("UTF8"))).stable();
    // No user is refused what a privilege would allow, so none is listed.
    definitions.add("acldefault(char,oid) text[]", |_, _| Ok(Datum::Null));
    definitions.add("pg_is_in_recovery() bool", |_, _| Ok(Datum::Bool(false))).stable();
    definitions.add("pg_is_wal_replay_paused() bool", |_, _| {
        let hint = "Recovery control functions can only be executed during recovery.";
        let what = "recovery is not in progress";
        Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what).with_hint(hint))
    });
    let started: Body = |environment, v| environment.ask_catalogue("pg_postmaster_start_time", v);
    for name in ["pg_postmaster_start_time", "pg_conf_load_time"] {
        definitions.add(format!("{name}() timestamptz").leak(), started).stable();
    }
}

/// A digest of values as clients get them: FNV-1a over their bytes. It is greater than the numbers that PostgreSQL
/// keeps for itself.
fn digest(values: &[(SqlType, Datum)]) -> Result<u32> {
    let (mut digest, mut bytes) = (0xcbf2_9ce4_8422_2325_u64, Vec::new());
    for (sql_type, value) in values {
        bytes.clear();
        binary::write(value, *sql_type, TextEncoding::UTF8, &mut bytes)?;
        let length = if value.is_null() { u64::MAX } else { bytes.len() as u64 };
        for byte in length.to_le_bytes().iter().chain(&bytes) {
            digest = (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    Ok(((digest ^ digest >> 32) as u32).max(3))
}

/// The name of a type by its number and what is declared in parentheses.
fn format_type(environment: &dyn Environment, values: &[Datum]) -> Result<Datum> {
    let [number, modifier] = values else { return Ok(Datum::Null) };
    let Some(number) = number.as_int() else { return Ok(Datum::Null) };
    let number = u32::try_from(number).unwrap_or(0);
    let sql_type = SqlType::of_oid(number);
    let modifier = modifier.as_int().and_then(|modifier| i32::try_from(modifier).ok()).unwrap_or(-1);
    Ok(Datum::text(match sql_type {
        Some(sql_type) => SqlType { modifier, ..sql_type }.to_string(),
        None if number == 0 => "-".to_owned(),
        None => environment.object_name(BaseType::RegType, number).unwrap_or_else(|| "???".to_owned()),
    }))
}

fn types(definitions: &mut Definitions) {
    let type_of = definitions.add("pg_typeof(any) regtype", |_, v| match typed(v)? {
        [(sql_type, _)] => Ok(Datum::Int(sql_type.oid().into())),
        _ => Ok(Datum::Null),
    });
    type_of.typed().lenient().stable();
    definitions.add("format_type(oid,int4) text", format_type).lenient().stable();
    // What a row says with `xmin`: another number after a change. The first argument is never NULL in a row.
    let digest = definitions.add("quipu_digest(any...) xid", |_, v| match typed(v)? {
        [(_, Datum::Null), ..] | [] => Ok(Datum::Null),
        values => digest(values).map(|digest| Datum::Int(digest.into())),
    });
    digest.typed().lenient();
    let size = definitions.add("pg_column_size(any) int4", |environment, v| match typed(v)? {
        [(_, Datum::Null)] => Ok(Datum::Null),
        [(sql_type, value)] => match sql_type.size() {
            size @ 1.. => Ok(Datum::Int(size.into())),
            _ => Ok(Datum::Int(value_text::to_string(value, *sql_type, environment)?.len() as i64 + 1)),
        },
        _ => Ok(Datum::Null),
    });
    size.typed().lenient().stable();
    definitions.add("pg_encoding_to_char(int4) name", |_, v| {
        Ok(Datum::text(TextEncoding::of_number(int(v, 0)?).map_or("", TextEncoding::name)))
    });
    definitions.add("pg_char_to_encoding(name) int4", |_, v| {
        Ok(Datum::Int(TextEncoding::of_name(text(v, 0)?).map_or(-1, |encoding| encoding.number().into())))
    });
    for (name, base) in [
        ("to_regclass", BaseType::RegClass),
        ("to_regtype", BaseType::RegType),
        ("to_regproc", BaseType::RegProc),
        ("to_regprocedure", BaseType::RegProcedure),
        ("to_regoper", BaseType::RegOper),
        ("to_regoperator", BaseType::RegOperator),
        ("to_regnamespace", BaseType::RegNamespace),
        ("to_regrole", BaseType::RegRole),
    ] {
        let body: Body = match base {
            BaseType::RegClass => |environment, v| number_of(environment, BaseType::RegClass, v),
            BaseType::RegType => |environment, v| number_of(environment, BaseType::RegType, v),
            BaseType::RegProc => |environment, v| number_of(environment, BaseType::RegProc, v),
            BaseType::RegProcedure => |environment, v| number_of(environment, BaseType::RegProcedure, v),
            BaseType::RegOper => |environment, v| number_of(environment, BaseType::RegOper, v),
            BaseType::RegOperator => |environment, v| number_of(environment, BaseType::RegOperator, v),
            BaseType::RegNamespace => |environment, v| number_of(environment, BaseType::RegNamespace, v),
            _ => |environment, v| number_of(environment, BaseType::RegRole, v),
        };
        definitions.add(format!("{name}(text) {}", base.catalogue_name()).leak(), body).stable();
    }
}

/// The number of an object; NULL if there is none of that name.
fn number_of(environment: &dyn Environment, base: BaseType, values: &[Datum]) -> Result<Datum> {
    let found = environment.object_number(base, text(values, 0)?);
    Ok(found.map_or(Datum::Null, |number| Datum::Int(number.into())))
}

/// Functions that the catalogue answers. Each has its own body, which names it.
macro_rules! asked {
    ($definitions:expr, $($signature:literal),* $(,)?) => {
        $({
            let body: Body = |environment, values| {
                environment.ask_catalogue($signature.split('(').next().unwrap_or_default(), values)
            };
            $definitions.add($signature, body).stable();
        })*
    };
}

fn catalogue(definitions: &mut Definitions) {
    asked!(
        definitions,
        "pg_get_indexdef(oid) text",
        "pg_get_indexdef(oid,int4,bool) text",
        "pg_get_constraintdef(oid) text",
        "pg_get_constraintdef(oid,bool) text",
        "pg_get_expr(text,oid) text",
        "pg_get_expr(text,oid,bool) text",
        "pg_get_viewdef(oid) text",
        "pg_get_viewdef(oid,bool) text",
        "pg_get_viewdef(text) text",
        "pg_get_viewdef(text,bool) text",
        "pg_get_ruledef(oid) text",
        "pg_get_ruledef(oid,bool) text",
        "pg_get_triggerdef(oid) text",
        "pg_get_triggerdef(oid,bool) text",
        "pg_get_functiondef(oid) text",
        "pg_get_function_arguments(oid) text",
        "pg_get_function_identity_arguments(oid) text",
        "pg_get_function_result(oid) text",
        "pg_get_function_sqlbody(oid) text",
        "pg_get_userbyid(oid) name",
        "pg_get_serial_sequence(text,text) text",
        "pg_get_partkeydef(oid) text",
        "pg_get_partition_constraintdef(oid) text",
        "pg_get_statisticsobjdef(oid) text",
        "pg_get_statisticsobjdef_columns(oid) text",
        "obj_description(oid) text",
        "obj_description(oid,name) text",
        "col_description(oid,int4) text",
        "shobj_description(oid,name) text",
        "pg_relation_is_publishable(regclass) bool",
        "pg_relation_is_updatable(regclass,bool) int4",
        "pg_column_is_updatable(regclass,int2,bool) bool",
        "pg_relation_size(regclass) int8",
        "pg_relation_size(regclass,text) int8",
        "pg_table_size(regclass) int8",
        "pg_indexes_size(regclass) int8",
        "pg_total_relation_size(regclass) int8",
        "pg_database_size(name) int8",
        "pg_database_size(oid) int8",
        "pg_tablespace_location(oid) text",
        "pg_relation_filenode(regclass) oid",
        "pg_index_column_has_property(regclass,int4,text) bool",
        "pg_index_has_property(regclass,text) bool",
        "pg_indexam_has_property(oid,text) bool",
        "pg_stat_get_numscans(oid) int8",
        "pg_stat_get_live_tuples(oid) int8",
        "pg_stat_get_dead_tuples(oid) int8",
        "pg_stat_get_tuples_inserted(oid) int8",
        "pg_my_temp_schema() oid",
        "pg_blocking_pids(int4) int4[]",
        "current_query() text",
        "inet_server_port() int4",
        "inet_server_addr() text",
        "inet_client_addr() text",
        "inet_client_port() int4",
        "quipu_rank(regclass,any...) int8",
        "quipu_nth(regclass,int8) jsonb",
        "txid_current() int8",
        "pg_current_xact_id() int8",
        "pg_table_is_visible(oid) bool",
        "pg_type_is_visible(oid) bool",
        "pg_function_is_visible(oid) bool",
        "pg_operator_is_visible(oid) bool",
        "pg_opclass_is_visible(oid) bool",
        "pg_collation_is_visible(oid) bool",
        "pg_conversion_is_visible(oid) bool",
        "pg_opfamily_is_visible(oid) bool",
        "pg_statistics_obj_is_visible(oid) bool",
        "pg_ts_config_is_visible(oid) bool",
        "pg_ts_dict_is_visible(oid) bool",
        "pg_is_other_temp_schema(oid) bool",
    );
    // The columns of `information_schema._pg_expandarray`.
    definitions.add(".x(record) int4", |_, v| Ok(field(v, 0)));
    definitions.add(".n(record) int4", |_, v| Ok(field(v, 1)));
    definitions.add("pg_size_pretty(int8) text", |_, v| Ok(Datum::text(pretty_size(int(v, 0)?.into()))));
    definitions.add("pg_size_pretty(numeric) text", |_, v| {
        let size = round(&number(v, 0)?, 0)?.to_string();
        // More than so many petabytes are shown as they are.
        Ok(Datum::text(size.parse::<i128>().map_or_else(|_| format!("{size} bytes"), pretty_size)))
    });
    definitions.add("pg_size_bytes(text) int8", |_, v| bytes_of_size(text(v, 0)?).map(Datum::Int));
    definitions.add("oidvectortypes(oid[]) text", |environment, v| {
        let numbers = array(v, 0)?.map_or(&[][..], |array| &array.elements);
        let names = numbers.iter().map(|number| {
            let name = format_type(environment, &[number.clone(), Datum::Null])?;
            Ok(name.as_text().unwrap_or_default().to_owned())
        });
        Ok(Datum::text(names.collect::<Result<Vec<_>>>()?.join(", ")))
    });
}

/// A column of a row.
fn field(values: &[Datum], place: usize) -> Datum {
    match values.first() {
        Some(Datum::Record(fields)) => fields.get(place).map_or(Datum::Null, |(_, value)| value.clone()),
        _ => Datum::Null,
    }
}

/// The bytes of a size with a unit: `1.5 GB`.
fn bytes_of_size(written: &str) -> Result<i64> {
    let refused = |detail: Option<String>| {
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid size: \"{written}\""));
        Err(detail.into_iter().fold(error, |error, detail| {
            let hint = "Valid units are \"bytes\", \"B\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".";
            error.with_detail(detail).with_hint(hint)
        }))
    };
    let trimmed = written.trim();
    let is_digit = |character: char| character.is_ascii_digit() || matches!(character, '.' | '+' | '-' | 'e' | 'E');
    let (number, unit) = trimmed.split_at(trimmed.find(|character| !is_digit(character)).unwrap_or(trimmed.len()));
    let Ok(number) = Numeric::parse(number) else { return refused(None) };
    let power = match &*unit.trim().to_ascii_lowercase() {
        "" | "b" | "bytes" => 0,
        "kb" => 1,
        "mb" => 2,
        "gb" => 3,
        "tb" => 4,
        "pb" => 5,
        _ => return refused(Some(format!("Invalid size unit: \"{}\".", unit.trim()))),
    };
    let bytes = round(&product(&number, &Numeric::from(1_i64 << (10 * power)))?, 0)?;
    bytes.as_i64().ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))
}

/// A number of bytes in the unit in which it has at most five digits: a unit is left at 10 of the next one.
fn pretty_size(bytes: i128) -> String {
    if bytes.unsigned_abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    let units = ["kB", "MB", "GB", "TB", "PB"];
    // In half units, so that the last step rounds.
    let mut halves = bytes / 512;
    for (index, unit) in units.iter().enumerate() {
        if halves.unsigned_abs() < 20 * 1024 - 1 || index + 1 == units.len() {
            return format!("{} {unit}", (halves + halves.signum()) / 2);
        }
        halves /= 1024;
    }
    format!("{bytes} bytes")
}

/// Rights: to relations and their columns, as the user's rules say; to other things, which all users may use and those
/// that may do everything may change.
fn privileges(definitions: &mut Definitions) {
    let yes: Body = |_, v| check_words(v).map(|()| Datum::Bool(true));
    let of_user: Body = |environment, v| {
        if let Some(Datum::Text(user)) = v.first() {
            environment.object_number(BaseType::RegRole, &strings::quote_identifier(user))?;
        }
        check_words(v).map(|()| Datum::Bool(true))
    };
    let of_own_relation: Body = |environment, v| ask_right(environment, &Datum::Null, v);
    let of_relation: Body = |environment, v| ask_right(environment, &v[0], &v[1..]);
    let to_own: Body = |environment, v| ask_use(environment, &Datum::Null, v);
    let to_use: Body = |environment, v| ask_use(environment, &v[0], v);
    for name in ["schema", "database", "function", "tablespace", "language", "type", "server"] {
        for object in ["text", "oid"] {
            definitions.add(format!("has_{name}_privilege({object},text) bool").leak(), to_own).stable();
            for user in ["name", "oid"] {
                definitions.add(format!("has_{name}_privilege({user},{object},text) bool").leak(), to_use).stable();
            }
        }
    }
    for object in ["text", "oid"] {
        for name in ["table", "sequence", "any_column"] {
            definitions.add(format!("has_{name}_privilege({object},text) bool").leak(), of_own_relation).stable();
            for user in ["name", "oid"] {
                let signature = format!("has_{name}_privilege({user},{object},text) bool").leak();
                definitions.add(signature, of_relation).stable();
            }
        }
        for column in ["text", "int2"] {
            let signature = format!("has_column_privilege({object},{column},text) bool").leak();
            definitions.add(signature, of_own_relation).stable();
            let signature = format!("has_column_privilege(name,{object},{column},text) bool").leak();
            definitions.add(signature, of_relation).stable();
        }
    }
    for role in ["name", "oid"] {
        definitions.add(format!("pg_has_role({role},text) bool").leak(), yes).stable();
        for user in ["name", "oid"] {
            definitions.add(format!("pg_has_role({user},{role},text) bool").leak(), of_user).stable();
        }
    }
    definitions.add("row_security_active(oid) bool", |_, _| Ok(Datum::Bool(false))).stable();
}

/// Words for rights, of objects of all kinds.
const RIGHTS: [&str; 17] = [
    "select",
    "insert",
    "update",
    "delete",
    "truncate",
    "references",
    "trigger",
    "usage",
    "create",
    "connect",
    "temporary",
    "temp",
    "execute",
    "set",
    "alter system",
    "member",
    "rule",
];

/// Refuses words, in the last argument, that are no rights.
fn check_words(values: &[Datum]) -> Result<()> {
    for written in words(values).split(',') {
        let right = bare(written);
        if !RIGHTS.contains(&&*right) {
            let what = format!("unrecognized privilege type: \"{}\"", written.trim());
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
    }
    Ok(())
}

fn words(values: &[Datum]) -> &str {
    values.last().and_then(Datum::as_text).unwrap_or_default()
}

/// A right without what says that others may be given it.
fn bare(written: &str) -> String {
    let mut right = written.trim().to_lowercase();
    for option in [" with grant option", " with admin option"] {
        right.truncate(right.strip_suffix(option).map_or(right.len(), str::len));
    }
    right
}

/// Whether a user, the session's own if NULL, has one of the rights that the last value names to the relation that is
/// the first one.
fn ask_right(environment: &dyn Environment, user: &Datum, values: &[Datum]) -> Result<Datum> {
    check_words(values)?;
    let rights: Vec<String> = words(values).split(',').map(bare).collect();
    environment
        .ask_catalogue("has_relation_privilege", &[user.clone(), values[0].clone(), Datum::text(rights.join(","))])
}

/// Whether a user, the session's own if NULL, may use what is not a relation, or change it if that is asked.
fn ask_use(environment: &dyn Environment, user: &Datum, values: &[Datum]) -> Result<Datum> {
    check_words(values)?;
    let changes = |right: String| ["create", "set", "alter system"].contains(&&*right);
    let answer = environment.ask_catalogue("has_all_privileges", std::slice::from_ref(user))?;
    // The first was asked to know whether there is such a user.
    if words(values).split(',').map(bare).any(changes) { Ok(answer) } else { Ok(Datum::Bool(true)) }
}

fn sequences(definitions: &mut Definitions) {
    let next: Body = |environment, v| environment.sequence("nextval", v);
    definitions.add("nextval(regclass) int8", next).volatile();
    let current: Body = |environment, v| environment.sequence("currval", v);
    definitions.add("currval(regclass) int8", current).volatile();
    let last: Body = |environment, v| environment.sequence("lastval", v);
    definitions.add("lastval() int8", last).volatile();
    let set: Body = |environment, v| environment.sequence("setval", v);
    definitions.add("setval(regclass,int8) int8", set).volatile();
    definitions.add("setval(regclass,int8,bool) int8", set).volatile();
}

/// Functions that the session answers, each time anew. Each has its own body, which names it.
macro_rules! done {
    ($definitions:expr, $($signature:literal),* $(,)?) => {
        $({
            let body: Body = |environment, values| {
                environment.ask_catalogue($signature.split('(').next().unwrap_or_default(), values)
            };
            $definitions.add($signature, body).volatile();
        })*
    };
}

fn volatile(definitions: &mut Definitions) {
    done!(
        definitions,
        "set_config(text,text,bool) text",
        "pg_sleep(float8) void",
        "pg_advisory_lock(int8) void",
        "pg_advisory_lock(int4,int4) void",
        "pg_advisory_lock_shared(int8) void",
        "pg_advisory_lock_shared(int4,int4) void",
        "pg_advisory_xact_lock(int8) void",
        "pg_advisory_xact_lock(int4,int4) void",
        "pg_advisory_xact_lock_shared(int8) void",
        "pg_advisory_xact_lock_shared(int4,int4) void",
        "pg_try_advisory_lock(int8) bool",
        "pg_try_advisory_lock(int4,int4) bool",
        "pg_try_advisory_lock_shared(int8) bool",
        "pg_try_advisory_xact_lock(int8) bool",
        "pg_try_advisory_xact_lock(int4,int4) bool",
        "pg_try_advisory_xact_lock_shared(int8) bool",
        "pg_advisory_unlock(int8) bool",
        "pg_advisory_unlock(int4,int4) bool",
        "pg_advisory_unlock_shared(int8) bool",
        "pg_advisory_unlock_all() void",
        "pg_cancel_backend(int4) bool",
        "pg_terminate_backend(int4) bool",
        "pg_terminate_backend(int4,int8) bool",
        "pg_export_snapshot() text",
        "quipu_snapshot() text",
        "quipu_snapshot(float8) text",
        "quipu_release(text) bool",
    );
    let notify: Body = |environment, v| environment.ask_catalogue("pg_notify", v);
    definitions.add("pg_notify(text,text) void", notify).lenient().volatile();
    let usage: Body = |environment, v| environment.ask_catalogue("pg_notification_queue_usage", v);
    definitions.add("pg_notification_queue_usage() float8", usage).volatile();
    definitions
        .add("gen_random_uuid() uuid", |_, _| {
            let mut bytes: [u8; 16] = rand::random();
            // Version 4 of RFC 9562, whose other bits are random.
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            Ok(Datum::Uuid(quipu_rows::Uuid::from_bytes(bytes)))
        })
        .volatile();
}
