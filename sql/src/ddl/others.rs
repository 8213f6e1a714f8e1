//! CREATE VIEW; CREATE SCHEMA, also with what is made in it; COMMENT ON.

use sqlparser::ast::{
    CommentObject, CreateTableOptions, CreateView, Ident, ObjectName, ObjectNamePart, SchemaName, SqlOption, Statement,
};

use crate::alteration::NewSchema;
use crate::bind::names::CheckOption;
use crate::catalogue::names_in_rows::EXTENSIONS;
use crate::catalogue::names_in_rows::{PUBLIC, is_temporary};
use crate::catalogue::{Commented, Relation, Schema, View};
use crate::ddl::{Context, Ddl, Tag, dispatch, names, no_column, no_relation, no_schema, relation_exists, types};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::locks::mode::LockMode;
use crate::types::SqlType;

pub(super) fn create_view(ddl: &Ddl<'_>, create: &CreateView) -> Result<Tag> {
    let own_path = ddl.context.search_path;
    let reads = ddl.context.evaluator.reads(&create.query, own_path)?;
    let named = create.columns.len();
    if named > 0 && named > ddl.context.evaluator.columns(&create.query, own_path)?.len() {
        let what = "CREATE VIEW specifies more column names than columns";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
    }
    let reads_temporary = reads.iter().any(|(schema, _)| is_temporary(schema));
    let written = names::qualified(&create.name)?;
    if reads_temporary && !create.temporary && written.schema.is_none() {
        ddl.notice(format!("view \"{written}\" will be a temporary view"));
    }
    let (schema, name) = ddl.new_name(&written, create.temporary || reads_temporary)?;
    types::refuse_type(ddl, &schema, &name)?;
    for (schema, name) in &reads {
        if let Some(Relation::Table(table)) = ddl.catalogue()?.relation(Some(schema), name, &[]) {
            ddl.lock(table, LockMode::AccessShare)?;
        }
    }
    let is_permanent = !is_temporary(&schema);
    let search_path = own_path.iter().filter(|name| !(is_permanent && is_temporary(name))).cloned().collect();
    let number = match ddl.catalogue()?.relation(Some(&schema), &name, &[]) {
        None => None,
        Some(Relation::View(number, old)) if create.or_replace => {
            refuse_other_columns(ddl, old, create)?;
            Some(*number)
        }
        Some(_) if create.or_replace => {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a view")));
        }
        Some(_) => return Err(relation_exists(&name)),
    };
    let view = View {
        schema,
        name,
        columns: create.columns.iter().map(|column| folded(&column.name)).collect(),
        query: ddl.context.evaluator.without_stars(&create.query, own_path)?,
        search_path,
        reads,
        check: check_option(create)?,
    };
    if view.check.is_some() {
        ddl.context.evaluator.refuse_check(&view)?;
    }
    ddl.store().put_view(ddl.transaction, number, &view)?;
    Ok("CREATE VIEW")
}

/// What the options of a view say of rows that are written through it.
fn check_option(create: &CreateView) -> Result<Option<CheckOption>> {
    let CreateTableOptions::With(options) = &create.options else { return Ok(None) };
    let mut check = None;
    for option in options {
        let (name, value) = match option {
            SqlOption::KeyValue { key, value } => (folded(key), value.to_string()),
            SqlOption::Ident(name) => (folded(name), "true".to_owned()),
            other => (other.to_string(), String::new()),
        };
        if name == "check_option" && check.is_some() {
            let what = format!("parameter \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
        if let Some(option) = view_option(&name, value.trim_matches('\''))? {
            check = Some(option);
        }
    }
    Ok(check)
}

/// An option of a view, if it is that of rows that are written through it.
pub(super) fn view_option(name: &str, value: &str) -> Result<Option<CheckOption>> {
    match name {
        "check_option" => CheckOption::of(value).map(Some).ok_or_else(|| {
            let what = format!("invalid value for enum option \"check_option\": {value}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
                .with_detail("Valid values are \"local\" and \"cascaded\".")
        }),
        // There are no functions of users, to which conditions could show a row that the view hides.
        "security_barrier" => Ok(None),
        "security_invoker" if ["false", "off", "no", "0"].contains(&&*value.to_ascii_lowercase()) => Ok(None),
        "security_invoker" => {
            let what = "security_invoker is not supported: what a view reads is read with the rights of all";
            Err(SqlError::unsupported(what, "Have the rules of the users name the tables, and let them read these."))
        }
        _ => {
            let what = format!("unrecognized parameter \"{name}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what))
        }
    }
}

/// A view that takes the place of another one has the columns of that, and maybe more after them.
fn refuse_other_columns(ddl: &Ddl<'_>, old: &View, create: &CreateView) -> Result<()> {
    let evaluator = ddl.context.evaluator;
    let named = |columns: Vec<(String, SqlType)>, names: Vec<String>| {
        let mut names = names.into_iter();
        columns.into_iter().map(move |(name, sql_type)| (names.next().unwrap_or(name), sql_type))
    };
    let given = create.columns.iter().map(|column| folded(&column.name)).collect();
    let mut new = named(evaluator.columns(&create.query, ddl.context.search_path)?, given);
    let Ok(before) = evaluator.columns(&crate::statement::parse_query(&old.query)?, &old.search_path) else {
        return Ok(());
    };
    let wrong = |what: String| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what));
    for (before, sql_type) in named(before, old.columns.clone()) {
        match new.next() {
            None => return wrong("cannot drop columns from view".to_owned()),
            Some((name, _)) if name != before => {
                return wrong(format!("cannot change name of view column \"{before}\" to \"{name}\"")).map_err(
                    |error| {
                        error.with_hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.")
                    },
                );
            }
            Some((_, other)) if other != sql_type => {
                let what = format!("cannot change data type of view column \"{before}\" from {sql_type} to {other}");
                return wrong(what);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn schema_name(name: &SchemaName) -> Result<String> {
    Ok(match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => names::qualified(name)?.name,
        SchemaName::UnnamedAuthorization(ident) => folded(ident),
    })
}

pub(super) fn create_schema(ddl: &Ddl<'_>, name: &SchemaName, if_not_exists: bool) -> Result<Tag> {
    let name = schema_name(name)?;
    if name.starts_with("pg_") {
        let what = format!("unacceptable schema name \"{name}\"");
        return Err(SqlError::new(SqlState::RESERVED_NAME, what)
            .with_detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    if name.contains('.') {
        return Err(SqlError::unsupported("a schema whose name has a point is not supported", "Leave it out."));
    }
    if name == PUBLIC && !if_not_exists {
        // Scripts that begin anew drop it and make it again.
        ddl.notice(format!("schema \"{name}\" is always there"));
        return Ok("CREATE SCHEMA");
    }
    ddl.take_schema(&name, false)?;
    if ddl.catalogue()?.has_schema(&name) || name == "information_schema" {
        if if_not_exists {
            ddl.notice(format!("schema \"{name}\" already exists, skipping"));
            return Ok("CREATE SCHEMA");
        }
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")));
    }
    ddl.store().add_schema(ddl.transaction, &Schema { name })?;
    Ok("CREATE SCHEMA")
}

/// CREATE SCHEMA with what is made in it, in the order in which one may read another: sequences, tables, views,
/// indexes.
pub(super) fn create_with_elements(ddl: &Ddl<'_>, new: &NewSchema) -> Result<Tag> {
    if new.if_not_exists {
        let what = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
    }
    let mut elements = Vec::new();
    for text in &new.elements {
        let statements = crate::statement::parse(text)?;
        elements.extend(statements.into_iter().map(|statement| statement.tree));
    }
    let name = schema_name(&new.name)?;
    let mut placed = Vec::new();
    for mut element in elements {
        let (place, named) = match &mut element {
            Statement::CreateSequence { name, .. } => (0, name),
            Statement::CreateTable(create) if create.query.is_none() => (1, &mut create.name),
            Statement::CreateView(create) if !create.materialized => (2, &mut create.name),
            Statement::CreateIndex(create) => (3, &mut create.table_name),
            other => {
                let what = format!("{other} in CREATE SCHEMA is not supported");
                return Err(SqlError::unsupported(what, "Write it as a statement of its own."));
            }
        };
        in_schema(named, &name)?;
        placed.push((place, element));
    }
    placed.sort_by_key(|(place, _)| *place);
    let tag = create_schema(ddl, &new.name, false)?;
    let mut search_path = vec![name];
    search_path.extend_from_slice(ddl.context.search_path);
    let context = Context { search_path: &search_path, ..*ddl.context };
    let within = Ddl { transaction: ddl.transaction, context: &context };
    for (_, element) in &placed {
        dispatch(&within, element)?;
    }
    Ok(tag)
}

/// Has a name be one in the schema that is made.
fn in_schema(name: &mut ObjectName, schema: &str) -> Result<()> {
    let named = names::qualified(name)?;
    match named.schema {
        Some(other) if other != schema => {
            let what = format!("CREATE specifies a schema ({other}) different from the one being created ({schema})");
            Err(SqlError::new(SqlState::INVALID_SCHEMA_DEFINITION, what))
        }
        Some(_) => Ok(()),
        None => {
            let schema = Ident::with_quote('"', schema);
            name.0.insert(0, ObjectNamePart::Identifier(schema));
            Ok(())
        }
    }
}

pub(super) fn comment(ddl: &Ddl<'_>, object: &CommentObject, name: &ObjectName, comment: Option<&str>) -> Result<Tag> {
    let on = match object {
        CommentObject::Schema => {
            let (name, catalogue) = (names::qualified(name)?.name, ddl.catalogue()?);
            match catalogue.schema_number(&name) {
                Some(number) => Commented::Object(number),
                None if catalogue.has_schema(&name) => Commented::Public,
                None => return Err(no_schema(&name)),
            }
        }
        CommentObject::Column => {
            let mut parts = names::parts(name)?;
            let column = parts.pop().unwrap_or_default();
            let table = parts.pop().unwrap_or_default();
            let table = names::Name { schema: parts.pop(), name: table };
            if let Some(Relation::View(number, _)) = ddl.relation(&table)? {
                Commented::ViewColumn(number, column)
            } else {
                let table = ddl.table_or_materialized(&table)?;
                let place = table.place(&column).ok_or_else(|| no_column(&column, &table.name))?;
                Commented::Column(table.number, table.columns[place].number)
            }
        }
        CommentObject::Database | CommentObject::Extension => {
            let own = names::qualified(name)?.name;
            let is_extension = *object == CommentObject::Extension;
            if is_extension && !EXTENSIONS.iter().any(|(known, _)| *known == own) {
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("extension \"{own}\" does not exist")));
            }
            ddl.notice(format!("a comment on {object} is not kept").to_lowercase());
            return Ok("COMMENT");
        }
        CommentObject::Table
        | CommentObject::View
        | CommentObject::MaterializedView
        | CommentObject::Index
        | CommentObject::Sequence => {
            let name = names::qualified(name)?;
            match ddl.relation(&name)? {
                Some(Relation::Table(table)) => {
                    let is_of_materialized = *object == CommentObject::MaterializedView;
                    if table.materialized.is_some() != is_of_materialized {
                        let kind = if is_of_materialized { "a materialized view" } else { "a table" };
                        let what = format!("\"{}\" is not {kind}", table.name);
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
                    }
                    ddl.lock(&table, LockMode::AccessExclusive)?;
                    ddl.definitions().set_comment(&table.rows_name, comment.unwrap_or_default())?;
                    return Ok("COMMENT");
                }
                Some(Relation::Index(table, place)) => Commented::Index(table.indexes[place].0),
                Some(Relation::View(number, _) | Relation::Sequence(number, _)) => Commented::Object(number),
                Some(Relation::PrimaryKey(table)) => Commented::Constraint(table.number, name.name),
                None => return Err(no_relation(&name)),
            }
        }
        CommentObject::Collation
        | CommentObject::Domain
        | CommentObject::Function
        | CommentObject::Procedure
        | CommentObject::Role
        | CommentObject::Type
        | CommentObject::User => {
            let what = format!("COMMENT ON {object} is not supported");
            return Err(SqlError::unsupported(
                what,
                "Tables, columns, indexes, views, sequences and schemas have comments.",
            ));
        }
    };
    ddl.store().set_comment(ddl.transaction, &on, comment)?;
    Ok("COMMENT")
}
