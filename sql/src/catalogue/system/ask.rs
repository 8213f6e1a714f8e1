//! Functions that read the catalogue: `pg_get_indexdef`, `obj_description`, `pg_table_size` and their like.

use std::sync::Arc;
use std::time::Duration;

use quipu_rows::Ordered;

use crate::catalogue::names_in_rows::is_temporary;
use crate::catalogue::system::source::{Index, Source, indexes_of};
use crate::catalogue::system::{
    constraints, definition, expressions, operators, positions, relations, rights, routines, texts,
};
use crate::catalogue::{Commented, oids, row_types};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::in_table;
use crate::functions::postgres::known;
use crate::functions::strings::quote_identifier;
use crate::limits::Limits;
use crate::types::BaseType;
use crate::types::datum::{Array, Datum};

pub(super) fn number(arguments: &[Datum], at: usize) -> u32 {
    arguments.get(at).and_then(Datum::as_int).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

fn word(arguments: &[Datum], at: usize) -> &str {
    arguments.get(at).and_then(Datum::as_text).unwrap_or_default()
}

fn or_null(text: Option<String>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

/// The answer of a function.
///
/// # Errors
/// Those of reading; 42883 if there is no such function.
pub(crate) fn ask(source: &Source<'_>, function: &str, arguments: &[Datum]) -> Result<Datum> {
    let first = number(arguments, 0);
    Ok(match function {
        "pg_get_indexdef" => or_null(index_definition(source, first, arguments)),
        "pg_get_constraintdef" => {
            let is_pretty = arguments.get(1).is_some_and(Datum::is_true);
            or_null(constraint_definition(source, first, is_pretty))
        }
        // A condition is written in parentheses, a default is not.
        "pg_get_expr" => Datum::text(match word(arguments, 0) {
            text if text.starts_with('(') && arguments.get(2).is_some_and(Datum::is_true) => {
                expressions::written(source, text, true)
            }
            text => text.to_owned(),
        }),
        "pg_get_viewdef" => view_definition(source, arguments)?,
        "pg_get_userbyid" => {
            let unknown = || format!("unknown (OID={first})");
            Datum::text(relations::role_name(source, first).unwrap_or_else(unknown))
        }
        "pg_get_serial_sequence" => serial_sequence(source, word(arguments, 0), word(arguments, 1))?,
        "pg_get_function_arguments" | "pg_get_function_identity_arguments" => {
            let is_identity = function == "pg_get_function_identity_arguments";
            or_null(routines::numbered(first).map(|routine| routine.arguments_text(is_identity)))
        }
        "pg_get_function_result" => or_null(routines::numbered(first).map(|routine| routine.result_text())),
        "obj_description" | "col_description" | "shobj_description" => description(source, function, arguments)?,
        "pg_table_is_visible" => is_table_visible(source, first),
        "pg_type_is_visible" => match source.catalogue.type_of_oid(first).map(|known| known.base.user_type()) {
            Some(user) => Datum::Bool(user.is_none_or(|user| source.is_type_found(&user))),
            None => is_row_of_view_visible(source, first),
        },
        _ if function.ends_with("_is_visible") => Datum::Bool(true),
        "pg_relation_is_publishable" => Datum::Bool(false),
        "pg_relation_is_updatable" => Datum::Int(written_by(source, first)),
        "pg_column_is_updatable" => Datum::Bool(is_column_written(source, first, number(arguments, 1))),
        "pg_is_other_temp_schema" => {
            let mut others = source.catalogue.schemas().into_iter().filter(|schema| is_temporary(schema));
            let own = &*source.identity.temporary_schema;
            Datum::Bool(others.any(|schema| schema != own && source.schema(schema) == first))
        }
        "pg_my_temp_schema" => {
            let own = source.catalogue.schema_oid(&source.identity.temporary_schema);
            Datum::Int(own.unwrap_or(0).into())
        }
        "current_schema" => or_null(schemas_of_path(source).into_iter().find(|schema| !is_temporary(schema))),
        "current_schemas" => {
            let mut schemas = schemas_of_path(source);
            if arguments.first().is_some_and(Datum::is_true) {
                let after_temporary = schemas.iter().position(|schema| !is_temporary(schema)).unwrap_or(schemas.len());
                if !schemas.iter().any(|schema| schema == "pg_catalog") {
                    schemas.insert(after_temporary, "pg_catalog".to_owned());
                }
            } else {
                schemas.retain(|schema| !is_temporary(schema));
            }
            Datum::Array(Arc::new(Array::new(BaseType::Name, schemas.iter().map(Datum::text).collect())))
        }
        "pg_relation_size" | "pg_table_size" | "pg_indexes_size" | "pg_total_relation_size" => {
            Datum::Int(size(source, function, first)?)
        }
        "pg_database_size" => {
            let sizes = source.tables().map(|table| size(source, "pg_total_relation_size", table.oid()));
            Datum::Int(sizes.sum::<Result<i64>>()?)
        }
        "pg_relation_filenode" => Datum::Int(first.into()),
        "pg_tablespace_location" => Datum::text(""),
        "pg_index_column_has_property" | "pg_index_has_property" | "pg_indexam_has_property" => {
            let property = arguments.last().and_then(Datum::as_text).unwrap_or_default();
            Datum::Bool(matches!(
                property,
                "orderable"
                    | "returnable"
                    | "search_nulls"
                    | "index_scan"
                    | "backward_scan"
                    | "can_order"
                    | "can_unique"
                    | "can_multi_col"
                    | "can_include"
            ))
        }
        "pg_stat_get_live_tuples" => match source.table(first) {
            Some(table) => definition::int(source.count(table, None)?),
            None => Datum::Int(0),
        },
        "pg_stat_get_numscans" | "pg_stat_get_dead_tuples" | "pg_stat_get_tuples_inserted" => Datum::Int(0),
        "pg_postmaster_start_time" => Datum::Timestamp(started()),
        "pg_blocking_pids" => blocking_processes(source, arguments),
        "current_query" => {
            let sessions = source.shared.sessions.all();
            let own = sessions.iter().find(|(process, _)| *process == source.identity.process);
            own.map_or(Datum::Null, |(_, session)| Datum::text(&*session.activity.lock().query))
        }
        "pg_sleep" => sleep(arguments, &source.identity.limits())?,
        "pg_cancel_backend" => {
            let process = arguments.first().and_then(Datum::as_int).and_then(|number| i32::try_from(number).ok());
            require_own(source, process, "cancel query")?;
            Datum::Bool(process.is_some_and(|process| source.shared.sessions.cancel(process)))
        }
        "pg_terminate_backend" => {
            let process = arguments.first().and_then(Datum::as_int).and_then(|number| i32::try_from(number).ok());
            require_own(source, process, "terminate process")?;
            let is_there = process.is_some_and(|process| source.shared.sessions.end(process).is_some());
            // It may be its own.
            source.identity.limits().check()?;
            Datum::Bool(is_there)
        }
        "txid_current" | "pg_current_xact_id" | "set_config" | "pg_export_snapshot" | "pg_notify"
        | "quipu_snapshot" | "quipu_release" => return Err(outside(function)),
        _ if function.starts_with("pg_try_advisory") || function.starts_with("pg_advisory") => {
            return Err(outside(function));
        }
        "quipu_rank" | "quipu_nth" => positions::ask(source, function, arguments)?,
        "has_relation_privilege" => Datum::Bool(rights::has_one(source, arguments)?),
        "has_all_privileges" => Datum::Bool(rights::has_all(source, arguments)?),
        "pg_notification_queue_usage" => Datum::Float(source.shared.notifications.usage()),
        _ if function.starts_with("pg_get_") || function.starts_with("inet_") => Datum::Null,
        _ => {
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {function} does not exist")));
        }
    })
}

/// Refuses to end what a session of another user does, unless the user may do everything.
fn require_own(source: &Source<'_>, process: Option<i32>, verb: &str) -> Result<()> {
    let own = source.identity;
    if own.rights.has_all() {
        return Ok(());
    }
    let sessions = source.shared.sessions.all();
    if !sessions.iter().any(|(number, session)| Some(*number) == process && session.user != own.user) {
        return Ok(());
    }
    let what = format!("permission denied to {verb}");
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, what))
}

/// A function that changes the session was called where there is none: in a definition.
fn outside(function: &str) -> SqlError {
    let what = format!("{function} cannot be called here");
    SqlError::unsupported(what, "Call it in a statement of its own.")
}

/// When the program was first asked for it.
fn started() -> quipu_rows::Timestamp {
    static STARTED: std::sync::OnceLock<quipu_rows::Timestamp> = std::sync::OnceLock::new();
    *STARTED.get_or_init(crate::clock::now)
}

/// Waits for some seconds, until the statement is stopped.
fn sleep(arguments: &[Datum], limits: &Limits) -> Result<Datum> {
    /// How often it looks whether it is stopped.
    const LOOK: Duration = Duration::from_millis(20);
    /// The longest wait in seconds: ten years.
    const SECONDS_MAX: f64 = 3.2e8;
    let Some(Datum::Float(seconds)) = arguments.first() else { return Ok(Datum::Null) };
    let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, SECONDS_MAX) };
    let (began, wait) = (crate::clock::moment(), Duration::from_secs_f64(seconds));
    while let Some(rest) = wait.checked_sub(began.elapsed()).filter(|rest| !rest.is_zero()) {
        limits.check()?;
        std::thread::park_timeout(rest.min(LOOK));
    }
    Ok(Datum::text(""))
}

/// The processes that have the lock for which one waits.
fn blocking_processes(source: &Source<'_>, arguments: &[Datum]) -> Datum {
    let (sessions, locks) = (source.shared.sessions.all(), source.shared.locks.all());
    let wanted = arguments.first().and_then(Datum::as_int);
    let waiting = sessions.iter().find(|(process, _)| Some(i64::from(*process)) == wanted);
    let waits_for =
        waiting.and_then(|(_, session)| locks.iter().find(|lock| lock.owner == session.owner && !lock.is_granted));
    let owners = waits_for.into_iter().flat_map(|wait| {
        locks.iter().filter(|lock| lock.is_granted && lock.name == wait.name && lock.owner != wait.owner)
    });
    let process_of = |owner| sessions.iter().find(|(_, session)| session.owner == owner).map(|(process, _)| *process);
    let processes = owners.filter_map(|lock| process_of(lock.owner)).map(|process| Datum::Int(process.into()));
    Datum::Array(Arc::new(Array::new(BaseType::Int4, processes.collect())))
}

fn index_of<'s>(source: &'s Source<'_>, oid: u32) -> Option<Index<'s>> {
    let (kind, number) = oids::read(oid)?;
    let table = match kind {
        oids::Kind::PrimaryKey => source.catalogue.tables().get(&number)?,
        oids::Kind::Index => source.tables().find(|table| table.indexes.iter().any(|(known, _)| *known == number))?,
        oids::Kind::Table | oids::Kind::Object => return None,
    };
    indexes_of(table).into_iter().find(|index| index.oid == oid)
}

fn index_definition(source: &Source<'_>, oid: u32, arguments: &[Datum]) -> Option<String> {
    let index = index_of(source, oid)?;
    match usize::try_from(arguments.get(1).and_then(Datum::as_int).unwrap_or(0)).unwrap_or(0) {
        0 => Some(texts::index_definition(source, &index, arguments.get(2).is_some_and(Datum::is_true))),
        at => texts::element_text(source, &index, at - 1).or_else(|| Some(String::new())),
    }
}

fn constraint_definition(source: &Source<'_>, oid: u32, is_pretty: bool) -> Option<String> {
    if let Some((_, _, _, text)) = constraints::of_domains(source).find(|(number, ..)| *number == oid) {
        return Some(format!("CHECK ({})", expressions::written(source, text, is_pretty)));
    }
    let numbers = || {
        let of_table = |table| constraints::of_table(source, table).into_iter().map(|constraint| constraint.oid);
        source.tables().flat_map(|table| of_table(table).map(|oid| (oid, table.number))).collect()
    };
    let table = source.catalogue.table_of_constraint(oid, numbers)?;
    let constraints = constraints::of_table(source, table);
    let found = constraints.iter().find(|constraint| constraint.oid == oid)?;
    Some(constraints::definition(source, table, found, is_pretty))
}

fn view_definition(source: &Source<'_>, arguments: &[Datum]) -> Result<Datum> {
    let oid = match arguments.first() {
        Some(Datum::Text(name)) => super::names::class_number(source, name)?,
        _ => number(arguments, 0),
    };
    let of_table = source.table(oid).and_then(|table| table.materialized.as_ref());
    let of_table = of_table.map(|known| (&known.query, &known.search_path));
    let view = || source.views().find(|(number, _)| oids::object(*number) == oid);
    let of_view = || view().map(|(_, view)| (&view.query, &view.search_path));
    Ok(or_null(of_table.or_else(of_view).map(|(query, path)| source.text_of_view(query, path))))
}

/// Which columns of a table or a view can be written; none of another object, and of a view whose rows are not those of
/// one table.
fn written_columns(source: &Source<'_>, oid: u32) -> Option<Vec<bool>> {
    let view = || source.views().find(|(number, _)| oids::object(*number) == oid).map(|(_, view)| view);
    match source.table(oid) {
        Some(table) if table.materialized.is_some() => None,
        Some(table) => Some(vec![true; table.columns.len()]),
        None => source.updatable_columns(view()?),
    }
}

/// What statements do with the rows of a relation: PostgreSQL's bits of UPDATE, INSERT and DELETE.
fn written_by(source: &Source<'_>, oid: u32) -> i64 {
    match written_columns(source, oid) {
        None => 0,
        Some(columns) if columns.contains(&true) => 4 | 8 | 16,
        Some(_) => 16,
    }
}

fn is_column_written(source: &Source<'_>, oid: u32, number: u32) -> bool {
    let place = (number as usize).checked_sub(1);
    written_columns(source, oid).is_some_and(|columns| place.and_then(|place| columns.get(place)) == Some(&true))
}

fn serial_sequence(source: &Source<'_>, table: &str, column: &str) -> Result<Datum> {
    let oid = super::names::class_number(source, table)?;
    let Some(table) = source.table(oid) else { return Ok(Datum::Null) };
    let Some(place) = table.place(column) else {
        let what = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what));
    };
    let found = source.catalogue.sequence_of(table.number, table.columns[place].number);
    let name = |schema: &str, name: &str| format!("{}.{}", quote_identifier(schema), quote_identifier(name));
    Ok(or_null(found.map(|(_, sequence)| name(&sequence.schema, &sequence.name))))
}

/// The description of a relation, or that it has none; `None` if the object may be something else.
fn own_description<'s>(
    source: &'s Source<'_>,
    (object, column): (i64, i64),
    arguments: &[Datum],
) -> Option<Option<&'s str>> {
    let is_relation = arguments.get(1).is_some_and(|class| class.as_text().is_none_or(|class| class == "pg_class"));
    if !is_relation {
        return None;
    }
    let comment = |on: Commented| source.catalogue.comment(&on);
    let Some((kind, number)) = u32::try_from(object).ok().and_then(oids::read) else { return Some(None) };
    Some(match kind {
        oids::Kind::Table => {
            let table = source.table(object as u32)?;
            match u32::try_from(column).unwrap_or(0) {
                0 => Some(&*table.declared.comment).filter(|text| !text.is_empty()),
                column => comment(Commented::Column(number, column)),
            }
        }
        oids::Kind::Index => comment(Commented::Index(number)),
        oids::Kind::PrimaryKey => None,
        oids::Kind::Object => {
            let is_relation = source.catalogue.sequences().contains_key(&number);
            match (source.catalogue.views().get(&number), usize::try_from(column).unwrap_or(0)) {
                (Some(_), 0) => comment(Commented::Object(number)),
                (Some(view), column) => {
                    let (name, _) = source.columns_of_view(view).into_iter().nth(column - 1)?;
                    comment(Commented::ViewColumn(number, name))
                }
                (None, _) if is_relation => comment(Commented::Object(number)),
                (None, _) => None,
            }
        }
    })
}

fn description(source: &Source<'_>, function: &str, arguments: &[Datum]) -> Result<Datum> {
    let Some(table) = source.system.named("pg_description").filter(|_| function != "shobj_description") else {
        return Ok(Datum::Null);
    };
    let described = match arguments.get(1).and_then(Datum::as_text) {
        Some("pg_proc") => Some(routines::numbered(number(arguments, 0)).and_then(|routine| routine.description())),
        Some("pg_type") => {
            let known = known().types.get(&number(arguments, 0)).map(|known| known.description);
            known.map(|text| Some(text).filter(|text| !text.is_empty()))
        }
        Some("pg_operator") => {
            Some(operators::numbered(number(arguments, 0)).and_then(|operator| operator.description()))
        }
        _ => None,
    };
    if let Some(text) = described {
        return Ok(text.map_or(Datum::Null, Datum::text));
    }
    let object = i64::from(number(arguments, 0));
    let column = if function == "col_description" { i64::from(number(arguments, 1)) } else { 0 };
    if let Some(answer) = own_description(source, (object, column), arguments) {
        return Ok(answer.map_or(Datum::Null, Datum::text));
    }
    // Of several kinds of objects with one number, the one of the catalogue's table that is named.
    let class =
        arguments.get(1).and_then(Datum::as_text).and_then(|name| source.system.named(name)).map(|class| class.number);
    let rows = definition::rows_of(table, source)?;
    let found = rows.into_iter().find(|row| {
        row[0].as_int() == Some(object)
            && row[2].as_int() == Some(column)
            && class.is_none_or(|class| row[1].as_int() == Some(class.into()))
    });
    Ok(found.and_then(|mut row| row.pop()).unwrap_or(Datum::Null))
}

/// The schemas of the search path that there are.
fn schemas_of_path(source: &Source<'_>) -> Vec<String> {
    source.search_path().into_iter().filter(|schema| source.catalogue.schema_oid(schema).is_some()).collect()
}

fn is_table_visible(source: &Source<'_>, oid: u32) -> Datum {
    if let Some(definition) = source.system.all().iter().find(|definition| definition.number == oid) {
        return Datum::Bool(definition.schema() == "pg_catalog");
    }
    let found = source.catalogue.relations().iter().find(|(_, relation)| relation.oid() == oid);
    found.map_or(Datum::Null, |((schema, name), _)| Datum::Bool(source.is_found_bare(schema, name)))
}

/// Whether a type is found without its schema, if it is that of the rows of a view.
fn is_row_of_view_visible(source: &Source<'_>, oid: u32) -> Datum {
    let is_of = |number: u32| {
        let (row, array) = row_types::numbers_of_view(number);
        [row, array].contains(&oid)
    };
    let found = source.views().find(|(number, _)| is_of(*number));
    found.map_or(Datum::Null, |(_, view)| Datum::Bool(source.is_found_bare(&view.schema, &view.name)))
}

/// The bytes that a table or an index takes in the files.
fn size(source: &Source<'_>, function: &str, oid: u32) -> Result<i64> {
    let footprint = |table: &crate::catalogue::Table, index: Option<&str>| -> Result<i64> {
        let read = source.view.table(&table.rows_name)?;
        let footprint = in_table!(read, read => match index {
            None => read.footprint(..)?,
            Some(index) => read.entries(index)?.footprint(..)?,
        });
        Ok(i64::try_from(footprint.page_bytes.saturating_add(footprint.value_bytes)).unwrap_or(i64::MAX))
    };
    let Some(table) = source.table(oid) else {
        return match index_of(source, oid).filter(|index| index.is_ready) {
            // The rows are the index of the primary key, so it takes nothing of its own.
            Some(index) => index.rows_name.map_or(Ok(0), |name| footprint(index.table, Some(name))),
            None => Ok(0),
        };
    };
    let of_indexes = || -> Result<i64> {
        let ready = table.declared.indexes.iter().zip(&table.indexes).filter(|(_, (_, is_ready))| *is_ready);
        ready.map(|(index, _)| footprint(table, Some(&index.name))).sum()
    };
    Ok(match function {
        "pg_indexes_size" => of_indexes()?,
        "pg_total_relation_size" => footprint(table, None)? + of_indexes()?,
        _ => footprint(table, None)?,
    })
}
