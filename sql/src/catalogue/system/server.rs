//! Databases, roles, settings, sessions and locks: `pg_database`, `pg_roles`, `pg_settings`, `pg_stat_activity`,
//! `pg_locks`; and the readable ones: `pg_tables`, `pg_views`, `pg_indexes`, `pg_sequences`.

use std::sync::Arc;

use crate::catalogue::names_in_rows::EXTENSIONS;
use crate::catalogue::roles as roles_of;
use crate::catalogue::system::definition::{Rows, Written, int, oid, text_or_null};
use crate::catalogue::system::source::{OWNER, Source};
use crate::catalogue::system::texts;
use crate::error::Result;
use crate::identity::rights::Rights;
use crate::locks::table::{LockEntry, LockName};
use crate::locks::{ADVISORY, NAMES};
use crate::types::BaseType;
use crate::types::datum::{Array, Datum, Interval};

/// The number of the first extension; PostgreSQL's own objects have none so high.
const FIRST_EXTENSION: u32 = 15_900;
/// The number of the one database.
pub(super) const DATABASE: u32 = 5;

pub(super) const TABLES: &[Written] = &[
    Written {
        name: "pg_database",
        number: 1262,
        columns: "oid oid, datname name, datdba oid=10, encoding int4=6, datlocprovider char=c, \
                  datistemplate bool=false, datallowconn bool=true, datconnlimit int4=-1, datfrozenxid xid=0, \
                  datminmxid xid=0, dattablespace oid=1663, datcollate text=C, datctype text=C.UTF-8, \
                  daticulocale text, datcollversion text, datacl text[]",
        rows: |source, rows| {
            rows.add(&[("oid", oid(DATABASE)), ("datname", Datum::text(&source.identity.database))]);
            Ok(())
        },
    },
    Written {
        name: "pg_roles",
        number: 12_001,
        columns: "oid oid, rolname name, rolsuper bool=true, rolinherit bool=true, rolcreaterole bool=true, \
                  rolcreatedb bool=true, rolcanlogin bool=true, rolreplication bool=false, rolconnlimit int4=-1, \
                  rolpassword text=********, rolvaliduntil timestamptz, rolbypassrls bool=true, rolconfig text[]",
        rows: roles,
    },
    Written {
        name: "pg_authid",
        number: 1260,
        columns: "oid oid, rolname name, rolsuper bool=true, rolinherit bool=true, rolcreaterole bool=true, \
                  rolcreatedb bool=true, rolcanlogin bool=true, rolreplication bool=false, rolbypassrls bool=true, \
                  rolconnlimit int4=-1, rolpassword text, rolvaliduntil timestamptz",
        rows: roles,
    },
    Written {
        name: "pg_user",
        number: 12_002,
        columns: "usename name, usesysid oid, usecreatedb bool=true, usesuper bool=true, userepl bool=false, \
                  usebypassrls bool=true, passwd text=********, valuntil timestamptz, useconfig text[]",
        rows: named_users,
    },
    Written {
        name: "pg_extension",
        number: 3079,
        columns: "oid oid, extname name, extowner oid=10, extnamespace oid=2200, extrelocatable bool=true, \
                  extversion text, extconfig oid[], extcondition text[]",
        rows: |_, rows| {
            for (number, (name, version)) in (FIRST_EXTENSION..).zip(EXTENSIONS) {
                rows.add(&[("oid", oid(number)), ("extname", Datum::text(name)), ("extversion", Datum::text(version))]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_available_extensions",
        number: 12_102,
        columns: "name name, default_version text, installed_version text, comment text",
        rows: |_, rows| {
            for (name, version) in EXTENSIONS {
                let (name, version) = (Datum::text(name), Datum::text(version));
                rows.add(&[("name", name), ("default_version", version.clone()), ("installed_version", version)]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_tablespace",
        number: 1213,
        columns: "oid oid, spcname name, spcowner oid=10, spcacl text[], spcoptions text[]",
        rows: |_, rows| {
            rows.add(&[("oid", oid(1663)), ("spcname", Datum::text("pg_default"))]);
            Ok(())
        },
    },
    Written {
        name: "pg_settings",
        number: 12_003,
        columns: "name text, setting text, unit text, category text=Quipu, short_desc text=, extra_desc text, \
                  context text=user, vartype text=string, source text=default, min_val text, max_val text, \
                  enumvals text[], boot_val text, reset_val text, sourcefile text, sourceline int4, \
                  pending_restart bool=false",
        rows: |source, rows| {
            for (name, value) in source.identity.settings.all() {
                rows.add(&[
                    ("name", Datum::text(name)),
                    ("setting", Datum::text(value)),
                    ("reset_val", Datum::text(value)),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_tables",
        number: 12_004,
        columns: "schemaname name, tablename name, tableowner name, tablespace name, hasindexes bool=true, \
                  hasrules bool=false, hastriggers bool=false, rowsecurity bool=false",
        rows: tables,
    },
    Written {
        name: "pg_views",
        number: 12_005,
        columns: "schemaname name, viewname name, viewowner name, definition text",
        rows: |source, rows| {
            for (_, view) in source.views() {
                rows.add(&[
                    ("schemaname", Datum::text(&view.schema)),
                    ("viewname", Datum::text(&view.name)),
                    ("viewowner", Datum::text(&source.identity.user)),
                    ("definition", Datum::text(source.text_of_view(&view.query, &view.search_path))),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_matviews",
        number: 12_104,
        columns: "schemaname name, matviewname name, matviewowner name, tablespace name, \
                  hasindexes bool, ispopulated bool, definition text",
        rows: |source, rows| {
            for table in source.tables() {
                let Some(known) = &table.materialized else { continue };
                rows.add(&[
                    ("schemaname", Datum::text(&table.schema)),
                    ("matviewname", Datum::text(&table.name)),
                    ("matviewowner", Datum::text(&source.identity.user)),
                    ("hasindexes", Datum::Bool(!table.indexes.is_empty())),
                    ("ispopulated", Datum::Bool(known.is_populated)),
                    ("definition", Datum::text(source.text_of_view(&known.query, &known.search_path))),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_indexes",
        number: 12_006,
        columns: "schemaname name, tablename name, indexname name, tablespace name, indexdef text",
        rows: |source, rows| {
            for index in source.indexes() {
                rows.add(&[
                    ("schemaname", Datum::text(&index.table.schema)),
                    ("tablename", Datum::text(&index.table.name)),
                    ("indexname", Datum::text(&index.name)),
                    ("indexdef", Datum::text(texts::index_definition(source, &index, false))),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_sequences",
        number: 12_007,
        columns: "schemaname name, sequencename name, sequenceowner name, data_type regtype, start_value int8, \
                  min_value int8, max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8",
        rows: sequences,
    },
    Written {
        name: "pg_shadow",
        number: 12_176,
        columns: "usename name, usesysid oid, usecreatedb bool=true, usesuper bool=true, userepl bool=false, \
                  usebypassrls bool=true, passwd text, valuntil timestamptz, useconfig text[]",
        rows: named_users,
    },
    Written {
        name: "pg_timezone_names",
        number: 12_111,
        columns: "name text, abbrev text, utc_offset interval, is_dst bool",
        rows: time_zones,
    },
    Written {
        name: "pg_stat_activity",
        number: 12_010,
        columns: "datid oid=5, datname name, pid int4, leader_pid int4, usesysid oid=10, usename name, \
                  application_name text, client_addr text, client_hostname text, client_port int4, \
                  backend_start timestamptz, xact_start timestamptz, query_start timestamptz, \
                  state_change timestamptz, wait_event_type text, wait_event text, state text, \
                  backend_xid xid, backend_xmin xid, query_id int8, query text=, backend_type text=client backend",
        rows: activity,
    },
    Written {
        name: "pg_prepared_statements",
        number: 12_106,
        columns: "name text, statement text, prepare_time timestamptz, parameter_types regtype[], from_sql bool, \
                  generic_plans int8=0, custom_plans int8=0",
        rows: |source, rows| {
            for (name, statement) in &source.identity.kept.lists().statements {
                let types = statement.parameters.iter().map(|parameter| Datum::Int(parameter.oid().into()));
                rows.add(&[
                    ("name", Datum::text(name)),
                    ("statement", Datum::text(&*statement.text)),
                    ("prepare_time", Datum::Timestamp(statement.prepared)),
                    ("parameter_types", Datum::Array(Arc::new(Array::new(BaseType::RegType, types.collect())))),
                    ("from_sql", Datum::Bool(statement.is_from_sql)),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_cursors",
        number: 12_101,
        columns: "name text, statement text, is_holdable bool, is_binary bool=false, is_scrollable bool=false, \
                  creation_time timestamptz",
        rows: |source, rows| {
            for (name, cursor) in &source.identity.kept.lists().cursors {
                rows.add(&[
                    ("name", Datum::text(name)),
                    ("statement", Datum::text(&*cursor.text)),
                    ("is_holdable", Datum::Bool(cursor.is_held)),
                    ("creation_time", Datum::Timestamp(cursor.declared)),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "pg_locks",
        number: 12_103,
        columns: "locktype text, database oid=5, relation oid, page int4, tuple int2, virtualxid text, \
                  transactionid xid, classid oid, objid oid, objsubid int2, virtualtransaction text=, pid int4, \
                  mode text, granted bool, fastpath bool=false, waitstart timestamptz",
        rows: locks,
    },
];

fn roles(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (name, number, has_all) in users(source) {
        let may = Datum::Bool(has_all);
        let mut row = vec![("oid", number), ("rolname", Datum::text(name))];
        row.extend(["rolsuper", "rolcreaterole", "rolcreatedb", "rolbypassrls"].map(|column| (column, may.clone())));
        rows.add(&row);
    }
    Ok(())
}

/// The users that may use SQL, with their numbers, and whether each may do everything.
fn named_users(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (name, number, has_all) in users(source) {
        let may = Datum::Bool(has_all);
        let mut row = vec![("usename", Datum::text(name)), ("usesysid", number)];
        row.extend(["usesuper", "usecreatedb", "usebypassrls"].map(|column| (column, may.clone())));
        rows.add(&row);
    }
    Ok(())
}

fn users(source: &Source<'_>) -> impl Iterator<Item = (String, Datum, bool)> {
    let own = &source.identity.user;
    let numbered = |(name, rights): (String, Arc<dyn Rights>)| {
        let number = if *name == **own { OWNER } else { roles_of::number(&name) };
        (name, oid(number), rights.has_all())
    };
    source.shared.users(source.identity).known.into_iter().map(numbered)
}

/// The time zones of the system, as they are now.
fn time_zones(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let now = source.identity.statement_time;
    for name in jiff::tz::db().available() {
        let Ok(zone) = jiff::tz::db().get(name.as_str()) else { continue };
        let Ok(moment) = jiff::Timestamp::from_microsecond(now.microseconds()) else { continue };
        let info = zone.to_offset_info(moment);
        let offset = Interval::new(0, 0, i64::from(info.offset().seconds()) * 1_000_000);
        rows.add(&[
            ("name", Datum::text(name.as_str())),
            ("abbrev", Datum::text(info.abbreviation())),
            ("utc_offset", Datum::Interval(offset)),
            ("is_dst", Datum::Bool(info.dst().is_dst())),
        ]);
    }
    Ok(())
}

fn activity(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let locks = source.shared.locks.all();
    let moment = |moment: Option<_>| moment.map_or(Datum::Null, Datum::Timestamp);
    for (process, session) in source.shared.sessions.all() {
        let activity = session.activity.lock().clone();
        let is_shown = session.user == source.identity.user || source.identity.rights.has_all();
        let waits_for = locks.iter().find(|lock| lock.owner == session.owner && !lock.is_granted);
        let wait = waits_for.map(|lock| kind_of(&lock.name));
        // A session that runs nothing waits for its client.
        let (kind, event) = match wait {
            Some(event) => (Some("Lock"), Some(event)),
            None if activity.state == "active" => (None, None),
            None => (Some("Client"), Some("ClientRead")),
        };
        rows.add(&[
            ("datname", Datum::text(&session.database)),
            ("pid", int(process)),
            ("usename", Datum::text(&session.user)),
            ("backend_start", Datum::Timestamp(session.began)),
            ("application_name", Datum::text(activity.settings.get("application_name").unwrap_or_default())),
            ("xact_start", moment(activity.transaction_began)),
            ("query_start", moment(activity.query_began)),
            ("state_change", moment(activity.changed)),
            ("state", Datum::text(activity.state)),
            ("query", if is_shown { Datum::text(&*activity.query) } else { Datum::text("<insufficient privilege>") }),
            ("wait_event_type", text_or_null(kind)),
            ("wait_event", text_or_null(event)),
        ]);
    }
    Ok(())
}

/// What a lock is of.
fn kind_of(name: &LockName) -> &'static str {
    match name {
        name if &*name.table == ADVISORY => "advisory",
        name if &*name.table == NAMES => "object",
        name if name.is_table() => "relation",
        _ => "tuple",
    }
}

/// Locks of tables; of rows, which have no number of their own; and advisory locks, whose number stands in two columns.
fn locks(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let sessions = source.shared.sessions.all();
    for LockEntry { name, owner, mode, is_granted } in source.shared.locks.all() {
        let process = sessions.iter().find(|(_, session)| session.owner == owner).map(|(process, _)| *process);
        let mut row = vec![
            ("pid", process.map_or(Datum::Null, int)),
            ("locktype", Datum::text(kind_of(&name))),
            ("mode", Datum::text(mode.name())),
            ("granted", Datum::Bool(is_granted)),
        ];
        if &*name.table == ADVISORY {
            let key: Vec<i64> = name.key.iter().filter_map(Datum::as_int).collect();
            let (class, object, kind) = match key[..] {
                [key] => (key >> 32, key, 1),
                [class, object, ..] => (class, object, 2),
                [] => (0, 0, 0),
            };
            row.push(("classid", Datum::Int(class & 0xffff_ffff)));
            row.push(("objid", Datum::Int(object & 0xffff_ffff)));
            row.push(("objsubid", Datum::Int(kind)));
        } else {
            let table = source.tables().find(|table| *table.rows_name == *name.table);
            row.push(("relation", table.map_or(Datum::Null, |table| oid(table.oid()))));
        }
        rows.add(&row);
    }
    Ok(())
}

fn tables(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let owner = Datum::text(&source.identity.user);
    for table in source.base_tables() {
        rows.add(&[
            ("schemaname", Datum::text(&table.schema)),
            ("tablename", Datum::text(&table.name)),
            ("tableowner", owner.clone()),
            ("hasindexes", Datum::Bool(table.has_primary_key() || !table.indexes.is_empty())),
            ("hastriggers", Datum::Bool(!table.refers_to.is_empty() || !table.referred_by.is_empty())),
        ]);
    }
    for definition in source.system.all().iter().filter(|definition| definition.schema() == "pg_catalog") {
        rows.add(&[
            ("schemaname", Datum::text(definition.schema())),
            ("tablename", Datum::text(definition.bare_name())),
            ("tableowner", owner.clone()),
            ("hasindexes", Datum::Bool(false)),
        ]);
    }
    Ok(())
}

fn sequences(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (&number, sequence) in source.catalogue.sequences() {
        let sequences = source.shared.catalogues.sequences();
        let position = sequences.position_in_view(source.view, &source.catalogue, (number, sequence))?;
        rows.add(&[
            ("schemaname", Datum::text(&sequence.schema)),
            ("sequencename", Datum::text(&sequence.name)),
            ("sequenceowner", Datum::text(&source.identity.user)),
            ("data_type", oid(sequence.sql_type().oid())),
            ("start_value", Datum::Int(sequence.start)),
            ("min_value", Datum::Int(sequence.min)),
            ("max_value", Datum::Int(sequence.max)),
            ("increment_by", Datum::Int(sequence.increment)),
            ("cycle", Datum::Bool(sequence.cycles)),
            ("cache_size", Datum::Int(sequence.cache)),
            ("last_value", if position.is_called { Datum::Int(position.last) } else { Datum::Null }),
        ]);
    }
    Ok(())
}
