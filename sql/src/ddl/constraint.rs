//! PRIMARY KEY, UNIQUE, CHECK, FOREIGN KEY.

use quipu_rows::{Action, Check, Deferral, ForeignKey, IndexSchema, TableSchema};
use sqlparser::ast::{
    ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial, Expr, ForeignKeyConstraint, Ident,
    IndexColumn, NullsDistinctOption, ReferentialAction, TableConstraint, UniqueConstraint,
};

use crate::catalogue::column_type;
use crate::catalogue::computed::CHECK;
use crate::catalogue::names_in_rows::is_temporary;
use crate::ddl::expression::Known;
use crate::ddl::{Ddl, expression, names, no_column};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::locks::mode::LockMode;
use crate::types::BaseType;
use crate::types::cast::{CastContext, can_cast};

/// A constraint as a statement declares it.
#[expect(clippy::large_enum_variant, reason = "there are a few of them, while a statement runs")]
pub(super) enum Declared {
    PrimaryKey(Vec<String>, Deferral),
    Unique(Unique),
    /// With the column that it stands with.
    Check(Expr, Option<String>),
    ForeignKey(Vec<String>, Box<ForeignKeyConstraint>),
}

/// UNIQUE.
#[derive(Clone, Default)]
pub(super) struct Unique {
    pub(super) columns: Vec<String>,
    /// Whether one NULL is the same as another.
    pub(super) nulls_equal: bool,
    pub(super) deferral: Deferral,
}

impl Unique {
    pub(super) fn of(columns: Vec<String>, declared: &UniqueConstraint) -> Result<Unique> {
        let nulls_equal = declared.nulls_distinct == NullsDistinctOption::NotDistinct;
        Ok(Unique { columns, nulls_equal, deferral: deferral(declared.characteristics.as_ref())? })
    }
}

/// Constraints with the names that they were given.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) constraints: Vec<(Option<String>, Declared)>,
}

impl Parts {
    pub(super) fn add(&mut self, name: Option<String>, declared: Declared) -> Result<()> {
        self.constraints.push((name, declared));
        Ok(())
    }

    /// Adds a constraint of a table.
    pub(super) fn add_table(&mut self, constraint: &TableConstraint) -> Result<()> {
        let name = |name: &Option<Ident>| name.as_ref().map(folded);
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let deferral = deferral(key.characteristics.as_ref())?;
                self.add(name(&key.name), Declared::PrimaryKey(columns(&key.columns)?, deferral))
            }
            TableConstraint::Unique(unique) => {
                let declared = Unique::of(columns(&unique.columns)?, unique)?;
                self.add(name(&unique.name), Declared::Unique(declared))
            }
            TableConstraint::Check(check) => self.add(name(&check.name), Declared::Check((*check.expr).clone(), None)),
            TableConstraint::ForeignKey(key) => {
                let columns = key.columns.iter().map(folded).collect();
                self.add(name(&key.name), Declared::ForeignKey(columns, Box::new(key.clone())))
            }
            other => Err(SqlError::unsupported(format!("not supported: {other}"), "Create the index by itself.")),
        }
    }
}

fn columns(columns: &[IndexColumn]) -> Result<Vec<String>> {
    let name = |column: &IndexColumn| match &column.column.expr {
        Expr::Identifier(ident) => Ok(folded(ident)),
        other => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{other} is not a column"))),
    };
    columns.iter().map(name).collect()
}

fn refuse_unknown(ddl: &Ddl<'_>, schema: &TableSchema, table: &str, columns: &[String]) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    match columns.iter().find(|name| schema.place(name).is_none()) {
        Some(name) => {
            let what = format!("column \"{name}\" named in key does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what).in_table(table))
        }
        None => expression::refuse_unsorted(columns, &|name| {
            let column = &schema.columns[schema.place(name)?];
            Some(column_type::of_column(column, catalogue.user_types()).without_domain())
        }),
    }
}

/// Whether a table has something of this name.
fn is_taken(schema: &TableSchema, name: &str) -> bool {
    schema.indexes.iter().any(|index| index.name == name)
        || schema.checks.iter().any(|check| check.name == name)
        || schema.foreign_keys.iter().any(|key| key.name == name)
}

/// The name of a constraint: the given one, if it is free, or one that is made.
fn name_of(schema: &TableSchema, table: &str, given: &Option<String>, made: (&str, &str)) -> Result<String> {
    match given {
        Some(given) if is_taken(schema, given) => {
            let what = format!("constraint \"{given}\" for relation \"{table}\" already exists");
            Err(SqlError::new(SqlState::DUPLICATE_OBJECT, what).in_table(table))
        }
        Some(given) => Ok(given.clone()),
        None => Ok(names::choose(table, made.0, made.1, |name| is_taken(schema, name))),
    }
}

/// The unique index that a constraint is.
pub(super) fn unique(
    ddl: &Ddl<'_>,
    schema: &TableSchema,
    table: &str,
    name: &Option<String>,
    declared: &Unique,
) -> Result<IndexSchema> {
    let columns = &declared.columns;
    refuse_unknown(ddl, schema, table, columns)?;
    let name = name_of(schema, table, name, (&columns.join("_"), "key"))?;
    Ok(unique_index(name, declared))
}

/// An index by which no two rows have the same values, at once or later.
fn unique_index(name: String, declared: &Unique) -> IndexSchema {
    let index = IndexSchema::new(name, declared.columns.iter().map(|column| crate::dialect::quoted(column)));
    let index = match declared.deferral {
        Deferral::Never => index.unique(),
        later => index.unique_later(later),
    };
    IndexSchema { constraint: true, nulls_equal: declared.nulls_equal, ..index }
}

/// The index that a primary key is which can be deferred: that of the rows is a hidden one.
pub(super) fn deferred_primary_key(
    ddl: &Ddl<'_>,
    schema: &TableSchema,
    table: &str,
    name: &Option<String>,
    (columns, deferral): (&[String], Deferral),
) -> Result<IndexSchema> {
    refuse_unknown(ddl, schema, table, columns)?;
    let name = name_of(schema, table, name, ("", "pkey"))?;
    let declared = Unique { columns: columns.to_vec(), deferral, ..Unique::default() };
    Ok(IndexSchema { primary: true, ..unique_index(name, &declared) })
}

/// The primary key of a table, as its schema has it.
pub(super) fn primary_key(ddl: &Ddl<'_>, schema: &TableSchema, table: &str, columns: &[String]) -> Result<Vec<String>> {
    refuse_unknown(ddl, schema, table, columns)?;
    Ok(columns.to_vec())
}

/// The check that a constraint is.
pub(super) fn check(
    ddl: &Ddl<'_>,
    schema: &TableSchema,
    table: &str,
    name: &Option<String>,
    (condition, column): (&Expr, Option<&str>),
) -> Result<Check> {
    let catalogue = ddl.catalogue()?;
    let type_of = |name: &str| {
        let column = &schema.columns[schema.place(name)?];
        Some(column_type::of_column(column, catalogue.user_types()).without_domain())
    };
    let text = expression::text_or_words(condition, Known { columns: &type_of, types: ddl }, CHECK)?;
    let read = expression::columns_of(condition);
    let only = column.or(if let [only] = &read[..] { Some(only) } else { None }).unwrap_or_default();
    Ok(Check::new(name_of(schema, table, name, (only, "check"))?, text))
}

fn action(action: Option<ReferentialAction>) -> Result<Action> {
    match action {
        None | Some(ReferentialAction::NoAction) => Ok(Action::Restrict),
        Some(ReferentialAction::Restrict) => Ok(Action::RestrictAtOnce),
        Some(ReferentialAction::Cascade) => Ok(Action::Cascade),
        Some(ReferentialAction::SetNull) => Ok(Action::SetNull),
        Some(ReferentialAction::SetDefault) => {
            Err(SqlError::unsupported("SET DEFAULT is not supported", "Use SET NULL, CASCADE or RESTRICT."))
        }
    }
}

/// Whether a constraint may be looked at when its transaction ends.
pub(super) fn deferral(declared: Option<&ConstraintCharacteristics>) -> Result<Deferral> {
    let Some(ConstraintCharacteristics { deferrable, initially, .. }) = declared else { return Ok(Deferral::Never) };
    match (deferrable, initially) {
        (Some(false), Some(DeferrableInitial::Deferred)) => {
            let what = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, what))
        }
        (_, Some(DeferrableInitial::Deferred)) => Ok(Deferral::Deferred),
        (Some(true), _) => Ok(Deferral::OnDemand),
        _ => Ok(Deferral::Never),
    }
}

fn sorted(columns: &[String]) -> Vec<String> {
    let mut columns: Vec<String> = columns.iter().map(|name| name.trim_matches('"').to_owned()).collect();
    columns.sort();
    columns
}

/// Fails if two rows may have the same values of the key on the way: then other rows cannot refer to it.
fn refuse_deferrable(parent: &TableSchema, referred: &[String], shown: &str) -> Result<()> {
    let is_meant = |index: &&IndexSchema| match referred {
        [] => index.primary,
        referred => sorted(&index.columns) == sorted(referred),
    };
    let mut unique = parent.indexes.iter().filter(|index| index.unique || index.deferral != Deferral::Never);
    if sorted(&parent.key) == sorted(referred) || unique.clone().any(|index| index.unique && is_meant(&index)) {
        return Ok(());
    }
    match unique.find(is_meant) {
        None => Ok(()),
        Some(_) => {
            let kind = if referred.is_empty() { "primary key" } else { "unique constraint" };
            let what = format!("cannot use a deferrable {kind} for referenced table \"{shown}\"");
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what))
        }
    }
}

/// Refuses a foreign key that would look at rows some of whose columns are NULL: such rows refer to nothing here.
fn refuse_match(schema: &TableSchema, columns: &[String], kind: Option<ConstraintReferenceMatchKind>) -> Result<()> {
    let has_value = |name: &String| {
        let is_key = schema.key.iter().any(|key| key.trim_end_matches(" desc") == name);
        is_key || schema.place(name).is_some_and(|place| schema.columns[place].not_null)
    };
    match kind {
        Some(ConstraintReferenceMatchKind::Partial) => {
            Err(SqlError::unsupported("MATCH PARTIAL not yet implemented", "Use MATCH SIMPLE, which is the default."))
        }
        Some(ConstraintReferenceMatchKind::Full) if columns.len() > 1 && !columns.iter().all(has_value) => {
            let all: Vec<String> = columns.iter().map(|name| format!("{name} IS NULL")).collect();
            Err(SqlError::unsupported(
                "MATCH FULL of columns that may be NULL is not supported",
                format!("Declare the columns NOT NULL, or add CHECK (({})).", all.join(") = (")),
            ))
        }
        _ => Ok(()),
    }
}

/// Fails if columns of a foreign key cannot be compared with those that it refers to, by a key of theirs.
fn refuse_types(
    ddl: &Ddl<'_>,
    name: &str,
    (schema, columns): (&TableSchema, &[String]),
    (parent, referred): (&TableSchema, &[String]),
) -> Result<()> {
    use BaseType::{Date, Float4, Float8, Int2, Int4, Int8, Name, Text, Timestamp, TimestampTz, Varchar};
    let families: [&[BaseType]; 4] =
        [&[Int2, Int4, Int8], &[Float4, Float8], &[Date, Timestamp, TimestampTz], &[Text, Varchar, Name]];
    let catalogue = ddl.catalogue()?;
    let type_of = |schema: &TableSchema, column: &str| {
        let column = &schema.columns[schema.place(column)?];
        Some(column_type::of_column(column, catalogue.user_types()).without_domain().bare())
    };
    for (column, other) in columns.iter().zip(referred) {
        let (Some(own), Some(key)) = (type_of(schema, column), type_of(parent, other)) else { continue };
        let has_both = |family: &&[BaseType]| family.contains(&own.base) && family.contains(&key.base);
        let is_of_family = !own.is_array && !key.is_array && families.iter().any(has_both);
        if own != key && !is_of_family && !can_cast(own, key, CastContext::Implicit) {
            let what = format!("foreign key constraint \"{name}\" cannot be implemented");
            let detail =
                format!("Key columns \"{column}\" and \"{other}\" are of incompatible types: {own} and {key}.");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what).with_detail(detail));
        }
    }
    Ok(())
}

/// The foreign key that a constraint is, of a table of rows of this schema.
pub(super) fn foreign_key(
    ddl: &Ddl<'_>,
    schema: &TableSchema,
    table: &str,
    name: &Option<String>,
    (columns, declared): (&[String], &ForeignKeyConstraint),
) -> Result<ForeignKey> {
    for column in columns {
        if schema.place(column).is_none() {
            let what = format!("column \"{column}\" referenced in foreign key constraint does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what).in_table(table));
        }
    }
    refuse_match(schema, columns, declared.match_kind)?;
    let parent_name = names::qualified(&declared.foreign_table)?;
    let own;
    let (parent, shown) = match ddl.relation(&parent_name)? {
        None if parent_name.name == table => (schema, table.to_owned()),
        _ => {
            own = ddl.table(&parent_name)?;
            ddl.lock(&own, LockMode::ShareRowExclusive)?;
            (&own.declared, own.name.clone())
        }
    };
    if is_temporary(&parent.table) != is_temporary(&schema.table) {
        let kind = if is_temporary(&schema.table) { "temporary" } else { "permanent" };
        let what = format!("constraints on {kind} tables may reference only {kind} tables");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what));
    }
    let mut referred: Vec<String> = declared.referred_columns.iter().map(folded).collect();
    refuse_deferrable(parent, &referred, &shown)?;
    let key: Vec<String> = parent.key.iter().map(|key| key.trim_end_matches(" desc").to_owned()).collect();
    if referred.is_empty() {
        referred.clone_from(&key);
    }
    if let Some(missing) = referred.iter().find(|name| parent.place(name).is_none()) {
        return Err(no_column(missing, &shown));
    }
    let is_unique = sorted(&key) == sorted(&referred)
        || parent
            .indexes
            .iter()
            .any(|index| index.unique && index.predicate.is_none() && sorted(&index.columns) == sorted(&referred));
    if !is_unique || columns.len() != referred.len() {
        let what = format!("there is no unique constraint matching given keys for referenced table \"{shown}\"");
        return Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, what));
    }
    let name = name_of(schema, table, name, (&columns.join("_"), "fkey"))?;
    refuse_types(ddl, &name, (schema, columns), (parent, &referred))?;
    Ok(ForeignKey::new(name, columns.to_vec(), parent.table.clone())
        .references(referred)
        .on_delete(action(declared.on_delete)?)
        .on_update(action(declared.on_update)?)
        .deferral(deferral(declared.characteristics.as_ref())?))
}
