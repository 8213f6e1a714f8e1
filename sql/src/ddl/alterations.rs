//! ALTER of sequences, views, indexes and schemas, and the parts of ALTER TABLE that the parser does not know.

use std::sync::Arc;

use quipu_rows::Identity;
use sqlparser::ast::{ConstraintCharacteristics, Expr, Ident, ObjectName, SequenceOptions};

use crate::alteration::{Alteration, Change, Kind, NewIdentity, SequenceOption};
use crate::catalogue::sequences::Position;
use crate::catalogue::{Commented, ObjectNumber, Relation, Sequence, Table, View};
use crate::ddl::alter_table::{check_readers, no_constraint, one, place};
use crate::ddl::create_table::own_sequence;
use crate::ddl::others::{create_with_elements, view_option};
use crate::ddl::{
    Ddl, Tag, column, column_types, constraint, generated, materialized, names, no_column, no_relation, no_schema,
    relation_exists, sequence, types,
};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::locks::mode::LockMode;

pub(super) fn run(ddl: &Ddl<'_>, alteration: &Alteration) -> Result<Tag> {
    if let Some(change) = types::change_of(alteration) {
        return types::run(ddl, alteration, change);
    }
    if let [Change::CreateSchema(new)] = &alteration.changes[..] {
        return create_with_elements(ddl, new);
    }
    let tag = alteration.upkeep.map_or_else(|| tag_of(alteration), |upkeep| upkeep.tag);
    let name = names::qualified(&alteration.name)?;
    if alteration.kind == Kind::Schema {
        alteration.changes.iter().try_for_each(|change| alter_schema(ddl, &name.name, change))?;
        return Ok(tag);
    }
    let Some(relation) = ddl.relation(&name)? else {
        if alteration.if_exists {
            ddl.notice(format!("relation \"{name}\" does not exist, skipping"));
            return Ok(tag);
        }
        return Err(no_relation(&name));
    };
    if alteration.upkeep.is_some() && alteration.kind == Kind::Table && !matches!(relation, Relation::Table(_)) {
        let what = format!("\"{}\" is not a table or materialized view", name.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
    }
    match (alteration.kind, relation) {
        (Kind::Table | Kind::Materialized, Relation::Table(table)) if table.materialized.is_some() => {
            ddl.lock(&table, LockMode::AccessExclusive)?;
            for change in &alteration.changes {
                materialized::alter(ddl, &ddl.table_of(table.number)?, change)?;
            }
        }
        (Kind::Table, Relation::Table(table)) => {
            ddl.lock(&table, LockMode::AccessExclusive)?;
            for change in &alteration.changes {
                alter_table(ddl, &ddl.table_of(table.number)?, change)?;
            }
        }
        (Kind::Table | Kind::View, Relation::View(number, view)) => {
            let mut view = (*view).clone();
            for change in &alteration.changes {
                alter_view(ddl, number, &mut view, change)?;
            }
        }
        (Kind::Table | Kind::Sequence, Relation::Sequence(number, sequence)) => {
            let mut sequence = (*sequence).clone();
            for change in &alteration.changes {
                alter_sequence(ddl, number, &mut sequence, change)?;
            }
        }
        (Kind::Table | Kind::Index, Relation::Index(table, place)) => {
            let old = table.declared.indexes[place].name.clone();
            alteration.changes.iter().try_for_each(|change| alter_index(ddl, &table, &old, change))?;
        }
        (Kind::Table | Kind::Index, Relation::PrimaryKey(table)) => {
            alteration.changes.iter().try_for_each(|change| alter_index(ddl, &table, &name.name, change))?;
        }
        (kind, _) => {
            let kind = match kind {
                Kind::View => "a view",
                Kind::Materialized => "a materialized view",
                Kind::Index => "an index",
                Kind::Sequence => "a sequence",
                Kind::Table | Kind::Schema | Kind::Type | Kind::Domain => "a table",
            };
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {kind}")));
        }
    }
    Ok(tag)
}

fn tag_of(alteration: &Alteration) -> Tag {
    match alteration.kind {
        Kind::Table if matches!(alteration.changes[..], [Change::CommentOnConstraint(..)]) => "COMMENT",
        Kind::Table => "ALTER TABLE",
        Kind::View => "ALTER VIEW",
        Kind::Materialized => "ALTER MATERIALIZED VIEW",
        Kind::Index => "ALTER INDEX",
        Kind::Sequence => "ALTER SEQUENCE",
        Kind::Schema => "ALTER SCHEMA",
        Kind::Type => "ALTER TYPE",
        Kind::Domain => "ALTER DOMAIN",
    }
}

#[cold]
fn not_there(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} is not supported"), "docs/sql.md has the statements that are.")
}

/// The new name of a relation, if none is called so in its schema.
pub(super) fn free_name(ddl: &Ddl<'_>, schema: &str, name: &str) -> Result<()> {
    ddl.take_name(schema, name)?;
    match ddl.catalogue()?.relation(Some(schema), name, &[]) {
        Some(_) => Err(relation_exists(name)),
        None => Ok(()),
    }
}

/// The name of a schema that something goes into.
pub(super) fn new_schema(ddl: &Ddl<'_>, ident: &Ident) -> Result<String> {
    let schema = folded(ident);
    match ddl.catalogue()?.has_schema(&schema) {
        true => Ok(schema),
        false => Err(no_schema(&schema)),
    }
}

fn alter_table(ddl: &Ddl<'_>, table: &Arc<Table>, change: &Change) -> Result<()> {
    let (definitions, rows_name) = (ddl.definitions(), &*table.rows_name);
    match change {
        Change::Known(operation) => {
            one(ddl, table, operation)?;
            check_readers(ddl, table, operation)
        }
        Change::SetSchema(schema) => move_table(ddl, table, &new_schema(ddl, schema)?),
        Change::Rename(name) => {
            let name = folded(name);
            refuse_read(ddl, table.kind(), (&table.schema, &table.name))?;
            free_name(ddl, &table.schema, &name)?;
            let rows = ddl.catalogue()?.rows_name(&table.schema, &name);
            Ok(definitions.rename_table(rows_name, &rows)?)
        }
        Change::AddIdentity(column, new) => add_identity(ddl, table, column, new),
        Change::SetGenerated(column, is_always) => {
            let (name, at) = place(table, column)?;
            identity_of(table, at, &name)?;
            if let Some((number, sequence)) = own_numbers(ddl, table, at)? {
                let sequence = Sequence { generates: Some(*is_always), ..sequence };
                ddl.store().put_sequence(ddl.transaction, Some(number), &sequence)?;
                // So that the table is looked at again.
                return Ok(definitions.set_sql_default(rows_name, &name, Some(&sequence.default_text()))?);
            }
            let identity = if *is_always { Identity::Always } else { Identity::ByDefault };
            Ok(definitions.set_identity(rows_name, &name, Some(identity))?)
        }
        Change::Restart(column, number) => {
            let (name, at) = place(table, column)?;
            identity_of(table, at, &name)?;
            if let Some((own, mut sequence)) = own_numbers(ddl, table, at)? {
                let restart = SequenceOption::Restart(number.as_deref().cloned());
                return set_options(ddl, own, &mut sequence, &[restart]);
            }
            let catalogue = ddl.catalogue()?;
            let start = catalogue.sequence_of(table.number, table.columns[at].number).map_or(1, |found| found.1.start);
            let number = number.as_deref().map_or(Ok(start), sequence::number)?;
            Ok(definitions.set_next_number(rows_name, &name, number.into())?)
        }
        Change::Identity(column, generated, options) => {
            let (name, at) = place(table, column)?;
            identity_of(table, at, &name)?;
            if let Some(is_always) = generated {
                alter_table(ddl, table, &Change::SetGenerated(column.clone(), *is_always))?;
            }
            let catalogue = ddl.catalogue()?;
            match catalogue.sequence_of(table.number, table.columns[at].number) {
                Some((_, sequence)) if sequence.is_serial => Err(no_identity(table, &name)),
                Some((number, sequence)) => set_options(ddl, number, &mut (**sequence).clone(), options),
                None => Ok(()),
            }
        }
        Change::DropIdentity(column, if_exists) => {
            let (name, at) = place(table, column)?;
            if table.identity_of(at).is_none() && *if_exists {
                ddl.notice(format!(
                    "column \"{name}\" of relation \"{}\" is not an identity column, skipping",
                    table.name
                ));
                return Ok(());
            }
            identity_of(table, at, &name)?;
            if let Some((number, _)) = ddl.catalogue()?.sequence_of(table.number, table.columns[at].number) {
                ddl.store().remove_sequence(ddl.transaction, number)?;
            }
            if table.columns[at].generates.is_some() {
                return Ok(definitions.set_sql_default(rows_name, &name, None)?);
            }
            Ok(definitions.set_identity(rows_name, &name, None)?)
        }
        Change::DropExpression(column, if_exists) => {
            let (name, at) = place(table, column)?;
            if generated::is_generated(table, at) {
                return Ok(definitions.set_generated(rows_name, &name, None)?);
            }
            let what = format!("column \"{name}\" of relation \"{}\" is not a stored generated column", table.name);
            if *if_exists {
                ddl.notice(format!("{what}, skipping"));
                return Ok(());
            }
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what))
        }
        Change::Constraint(name, when) => alter_constraint(ddl, table, name, when),
        Change::CommentOnConstraint(name, text) => {
            let name = folded(name);
            if !table.has_constraint(&name) {
                let what = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
            }
            ddl.store().set_comment(ddl.transaction, &Commented::Constraint(table.number, name), text.as_deref())
        }
        Change::Nothing => Ok(()),
        Change::RenameColumn(..)
        | Change::Sequence(_)
        | Change::Type(_)
        | Change::Refresh(_)
        | Change::Checkpoint
        | Change::Do(_)
        | Change::CreateSchema(_)
        | Change::ViewOptions(_) => Err(not_there("this ALTER TABLE")),
    }
}

fn add_identity(ddl: &Ddl<'_>, table: &Table, column: &Ident, new: &NewIdentity) -> Result<()> {
    let (name, at) = place(table, column)?;
    let (sql_type, declared) = (table.columns[at].sql_type, &table.declared.columns[at]);
    let is_identity = table.identity_of(at).is_some();
    let refused = |what: &str| {
        let what = format!("column \"{name}\" of relation \"{}\" {what}", table.name);
        Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what))
    };
    if is_identity {
        return refused("is already an identity column");
    }
    if !declared.not_null {
        return refused("must be declared NOT NULL before identity can be added");
    }
    if declared.default.is_some() || declared.sql_default.is_some() {
        return refused("already has a default value");
    }
    let (start, own) = column::numbers_of(&new.options, sql_type)?;
    let sequence = new.name.as_ref().map(names::qualified).transpose()?;
    if let Some(sequence) = &sequence {
        if sequence.schema.as_ref().is_some_and(|schema| *schema != table.schema) {
            let what = "a sequence must be in the same schema as the table that it belongs to";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
        }
        free_name(ddl, &table.schema, &sequence.name)?;
    }
    let sequence = sequence.map(|sequence| sequence.name);
    if let Some(own) = own {
        let own = Sequence { name: sequence.unwrap_or_default(), ..own };
        let position = Position { last: own.start, is_called: false };
        let table = (&*table.schema, &*table.name, &*table.rows_name);
        return sequence::give_numbers(ddl, table, (&name, new.is_always), own, position);
    }
    let identity = if new.is_always { Identity::Always } else { Identity::ByDefault };
    ddl.definitions().set_identity(&table.rows_name, &name, Some(identity))?;
    let owner = (&*table.schema, &*table.name);
    own_sequence(ddl, owner, &table.rows_name, sequence, (&name, sql_type, start, false))
}

fn identity_of(table: &Table, at: usize, name: &str) -> Result<Identity> {
    table.identity_of(at).ok_or_else(|| no_identity(table, name))
}

/// The sequence of an identity column whose numbers are not those of the table.
fn own_numbers(ddl: &Ddl<'_>, table: &Table, at: usize) -> Result<Option<(ObjectNumber, Sequence)>> {
    let column = table.columns[at];
    let catalogue = ddl.catalogue()?;
    let found = column.generates.and_then(|_| catalogue.sequence_of(table.number, column.number));
    Ok(found.map(|(number, sequence)| (number, (**sequence).clone())))
}

fn no_identity(table: &Table, name: &str) -> SqlError {
    let what = format!("column \"{name}\" of relation \"{}\" is not an identity column", table.name);
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
}

/// Changes when a foreign key is checked: with each statement, or at the commit.
fn alter_constraint(ddl: &Ddl<'_>, table: &Table, name: &Ident, when: &ConstraintCharacteristics) -> Result<()> {
    let name = folded(name);
    let Some(key) = table.declared.foreign_keys.iter().find(|key| key.name == name) else {
        if table.has_constraint(&name) {
            let what = format!("constraint \"{name}\" of relation \"{}\" is not a foreign key constraint", table.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
        return Err(no_constraint(&name, &table.name));
    };
    let changed = key.clone().deferral(constraint::deferral(Some(when))?);
    ddl.definitions().drop_constraint(&table.rows_name, &name)?;
    Ok(ddl.definitions().add_foreign_key(&table.rows_name, changed)?)
}

/// Moves a table into another schema, with the sequences of its columns.
pub(super) fn move_table(ddl: &Ddl<'_>, table: &Table, schema: &str) -> Result<()> {
    if *schema == *table.schema {
        return Ok(());
    }
    refuse_read(ddl, table.kind(), (&table.schema, &table.name))?;
    free_name(ddl, schema, &table.name)?;
    let catalogue = ddl.catalogue()?;
    ddl.definitions().rename_table(&table.rows_name, &catalogue.rows_name(schema, &table.name))?;
    let owned = catalogue.sequences().iter();
    for (&number, sequence) in owned.filter(|(_, found)| found.owner.is_some_and(|owner| owner.table == table.number)) {
        let moved = Sequence { schema: schema.to_owned(), ..(**sequence).clone() };
        sequence::renamed(ddl, number, sequence, &moved)?;
    }
    Ok(())
}

/// Views are kept as texts: what they read keeps its name.
pub(super) fn refuse_read(ddl: &Ddl<'_>, kind: &str, (schema, name): (&str, &str)) -> Result<()> {
    match ddl.catalogue()?.readers(schema, name).first() {
        None => Ok(()),
        Some(reader) => {
            let what = format!("cannot rename or move {kind} {name} because other objects depend on it");
            Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                .with_detail(format!("{} {} depends on {kind} {name}", reader.kind(), reader.name()))
                .with_hint("Drop the view, and create it again afterwards."))
        }
    }
}

fn alter_view(ddl: &Ddl<'_>, number: ObjectNumber, view: &mut View, change: &Change) -> Result<()> {
    match change {
        Change::Rename(name) => {
            let name = folded(name);
            free_name(ddl, &view.schema, &name)?;
            refuse_read(ddl, "view", (&view.schema, &view.name))?;
            view.name = name;
        }
        Change::SetSchema(schema) => {
            let schema = new_schema(ddl, schema)?;
            if schema != view.schema {
                free_name(ddl, &schema, &view.name)?;
                refuse_read(ddl, "view", (&view.schema, &view.name))?;
                view.schema = schema;
            }
        }
        Change::RenameColumn(from, to) => {
            let (from, to) = (folded(from), folded(to));
            refuse_read(ddl, "view", (&view.schema, &view.name))?;
            let query = crate::statement::parse_query(&view.query)?;
            let columns = ddl.context.evaluator.columns(&query, &view.search_path)?;
            let named = columns.into_iter().enumerate();
            let mut names: Vec<String> =
                named.map(|(at, (name, _))| view.columns.get(at).cloned().unwrap_or(name)).collect();
            if names.contains(&to) {
                let what = format!("column \"{to}\" of relation \"{}\" already exists", view.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what));
            }
            let at = names.iter().position(|name| *name == from).ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{from}\" does not exist"))
            })?;
            names[at] = to;
            view.columns = names;
        }
        Change::ViewOptions(options) => {
            for (name, value) in options {
                match value {
                    Some(value) => view.check = view_option(name, value)?.or(view.check),
                    None if name == "check_option" => view.check = None,
                    None => {}
                }
            }
            if view.check.is_some() {
                ddl.context.evaluator.refuse_check(view)?;
            }
        }
        Change::Nothing => return Ok(()),
        _ => return Err(not_there("this ALTER VIEW")),
    }
    ddl.store().put_view(ddl.transaction, Some(number), view).map(drop)
}

fn alter_index(ddl: &Ddl<'_>, table: &Table, old: &str, change: &Change) -> Result<()> {
    match change {
        Change::Rename(name) => {
            let name = folded(name);
            free_name(ddl, &table.schema, &name)?;
            ddl.lock(table, LockMode::AccessExclusive)?;
            ddl.definitions().rename_constraint(&table.rows_name, old, &name).map_err(SqlError::from)
        }
        Change::Nothing => Ok(()),
        _ => Err(not_there("this ALTER INDEX")),
    }
}

fn alter_schema(ddl: &Ddl<'_>, name: &str, change: &Change) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    if !catalogue.has_schema(name) {
        return Err(no_schema(name));
    }
    let new = match change {
        Change::Nothing => return Ok(()),
        Change::Rename(new) => folded(new),
        _ => return Err(not_there("this ALTER SCHEMA")),
    };
    let Some(number) = catalogue.schema_number(name) else {
        return Err(SqlError::unsupported("the schema public keeps its name", "Create another schema."));
    };
    if new.starts_with("pg_") || new.contains('.') {
        return Err(SqlError::new(SqlState::RESERVED_NAME, format!("unacceptable schema name \"{new}\"")));
    }
    ddl.take_schema(name, false)?;
    ddl.take_schema(&new, false)?;
    if catalogue.has_schema(&new) || new == "information_schema" {
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{new}\" already exists")));
    }
    ddl.store().rename_schema(ddl.transaction, number, &new)?;
    for ((schema, _), relation) in catalogue.relations() {
        if schema != name {
            continue;
        }
        match relation {
            Relation::Table(table) => {
                refuse_read(ddl, table.kind(), (&table.schema, &table.name))?;
                ddl.lock(table, LockMode::AccessExclusive)?;
                ddl.definitions().rename_table(&table.rows_name, &format!("{new}.{}", table.name))?;
            }
            Relation::View(number, view) => {
                refuse_read(ddl, "view", (&view.schema, &view.name))?;
                let moved = View { schema: new.clone(), ..(**view).clone() };
                ddl.store().put_view(ddl.transaction, Some(*number), &moved)?;
            }
            Relation::Sequence(number, sequence) => {
                let moved = Sequence { schema: new.clone(), ..(**sequence).clone() };
                sequence::renamed(ddl, *number, sequence, &moved)?;
            }
            Relation::Index(..) | Relation::PrimaryKey(_) => {}
        }
    }
    Ok(())
}

fn alter_sequence(ddl: &Ddl<'_>, number: ObjectNumber, sequence: &mut Sequence, change: &Change) -> Result<()> {
    let old = sequence.clone();
    match change {
        Change::Rename(name) => {
            let name = folded(name);
            free_name(ddl, &sequence.schema, &name)?;
            sequence.name = name;
        }
        Change::SetSchema(schema) => {
            if sequence.owner.is_some() {
                let what = "cannot move an owned sequence into another schema";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
            }
            let schema = new_schema(ddl, schema)?;
            if schema != sequence.schema {
                free_name(ddl, &schema, &sequence.name)?;
                sequence.schema = schema;
            }
        }
        Change::Sequence(options) => return set_options(ddl, number, sequence, options),
        Change::Nothing => return Ok(()),
        _ => return Err(not_there("this ALTER SEQUENCE")),
    }
    sequence::renamed(ddl, number, &old, sequence)
}

fn set_options(ddl: &Ddl<'_>, number: ObjectNumber, sequence: &mut Sequence, options: &[SequenceOption]) -> Result<()> {
    let sequences = ddl.context.catalogues.sequences();
    let catalogue = ddl.catalogue()?;
    let mut position = sequences.position_within(ddl.transaction, &catalogue, (number, sequence))?;
    let (before, mut restarts) = (sequence.clone(), None::<Option<&Expr>>);
    let (mut min, mut max) = (None, None);
    for option in options {
        match option {
            SequenceOption::Known(SequenceOptions::IncrementBy(by, _)) => sequence.increment = sequence::number(by)?,
            SequenceOption::Known(SequenceOptions::MinValue(value)) => min = Some(value.as_ref()),
            SequenceOption::Known(SequenceOptions::MaxValue(value)) => max = Some(value.as_ref()),
            SequenceOption::Known(SequenceOptions::StartWith(value, _)) => sequence.start = sequence::number(value)?,
            SequenceOption::Known(SequenceOptions::Cycle(is_not)) => sequence.cycles = !is_not,
            SequenceOption::Known(SequenceOptions::Cache(size)) => sequence.cache = sequence::cache_size(size)?,
            SequenceOption::As(data_type) => {
                let sql_type = column_types::of(data_type, ddl)?;
                let (old, new) = (Sequence::new("", "", sequence.sql_type()), Sequence::new("", "", sql_type));
                if sequence.max == old.max {
                    sequence.max = new.max;
                }
                if sequence.min == -old.max - 1 {
                    sequence.min = -new.max - 1;
                }
                sequence.data_type = new.data_type;
            }
            SequenceOption::OwnedBy(owner) => set_owner(ddl, sequence, owner.as_ref())?,
            SequenceOption::Restart(value) => restarts = Some(value.as_ref()),
        }
    }
    if sequence.increment == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "INCREMENT must not be zero"));
    }
    let bounds = Sequence::new("", "", sequence.sql_type());
    let is_rising = sequence.increment > 0;
    if let Some(value) = min {
        let least = if is_rising { 1 } else { -bounds.max - 1 };
        sequence.min = value.map_or(Ok(least), sequence::number)?;
    }
    if let Some(value) = max {
        let greatest = if is_rising { bounds.max } else { -1 };
        sequence.max = value.map_or(Ok(greatest), sequence::number)?;
    }
    if let Some(value) = restarts {
        let last = value.map_or(Ok(sequence.start), sequence::number)?;
        position = Position { last, is_called: false };
    }
    sequence::refuse_wrong(sequence)?;
    let last = position.last;
    if !(sequence.min..=sequence.max).contains(&last) {
        let (bound, than) = if last < sequence.min {
            (format!("MINVALUE ({})", sequence.min), "less")
        } else {
            (format!("MAXVALUE ({})", sequence.max), "greater")
        };
        let what = format!("RESTART value ({last}) cannot be {than} than {bound}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
    }
    if sequence.is_identity {
        let owner = before.owner.and_then(|owner| Some((catalogue.tables().get(&owner.table)?, owner.column)));
        let owner = owner
            .and_then(|(table, column)| Some((table, table.columns.iter().position(|known| known.number == column)?)));
        if let (Some((table, at)), true) = (owner, !sequence.counts_up()) {
            ddl.lock(table, LockMode::AccessExclusive)?;
            if !sequence.is_serial {
                sequence.generates = table.identity_of(at).map(|identity| identity == Identity::Always);
            }
            let restarted = restarts.is_some().then_some(position);
            return sequence::part(ddl, (table, at), (number, sequence), restarted);
        }
        if let (Some((table, at)), true) = (owner, restarts.is_some()) {
            let column = &table.declared.columns[at].name;
            ddl.definitions().set_next_number(&table.rows_name, column, position.last.into())?;
        }
        return ddl.store().put_sequence(ddl.transaction, Some(number), sequence).map(drop);
    }
    sequences.begin_at(ddl.transaction, (number, sequence), position)
}

fn set_owner(ddl: &Ddl<'_>, sequence: &mut Sequence, owner: Option<&ObjectName>) -> Result<()> {
    if sequence.is_identity || sequence.generates.is_some() {
        let what = "cannot change ownership of identity sequence";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
            .with_detail(format!("Sequence \"{}\" is linked to a table.", sequence.name)));
    }
    sequence.owner = match owner {
        None => None,
        Some(name) => {
            let mut parts = names::parts(name)?;
            let column = parts.pop().unwrap_or_default();
            let table = parts.pop().unwrap_or_default();
            let table = ddl.table(&names::Name { schema: parts.pop(), name: table })?;
            if table.schema != sequence.schema {
                let what = "sequence must be in same schema as table it is linked to";
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
            }
            let at = table.place(&column).ok_or_else(|| no_column(&column, &table.name))?;
            Some(crate::catalogue::Owner { table: table.number, column: table.columns[at].number })
        }
    };
    Ok(())
}
