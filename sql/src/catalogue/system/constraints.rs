//! Constraints: `pg_constraint`, and what they were declared as.

use std::sync::Arc;

use quipu_rows::{Action, Deferral};

use crate::catalogue::labels::with_labels;
use crate::catalogue::system::definition::{Rows, Written, numbers, oid, text_or_null};
use crate::catalogue::system::expressions;
use crate::catalogue::system::quotes::join_quoted;
use crate::catalogue::system::source::{Source, indexes_of, number_of};
use crate::catalogue::{Table, oids};
use crate::error::Result;
use crate::functions::strings::quote_identifier;
use crate::types::BaseType;
use crate::types::datum::Datum;
use crate::types::user::UserType;

pub(super) const TABLES: &[Written] = &[Written {
    name: "pg_constraint",
    number: super::relations::PG_CONSTRAINT,
    columns: "oid oid, conname name, connamespace oid, contype char, condeferrable bool, \
              condeferred bool, convalidated bool, conrelid oid, contypid oid=0, conindid oid=0, \
              conparentid oid=0, confrelid oid=0, confupdtype char= , confdeltype char= , confmatchtype char= , \
              conislocal bool=true, coninhcount int4=0, connoinherit bool=true, conkey int2[], confkey int2[], \
              conpfeqop oid[], conppeqop oid[], conffeqop oid[], confdelsetcols int2[], conexclop oid[], conbin text",
    rows: constraints,
}];

/// A constraint of a table.
pub(super) struct Constraint {
    /// The number in the catalogue.
    pub oid: u32,
    /// The name.
    pub name: String,
    /// `p`, `u`, `f` or `c`.
    pub kind: &'static str,
    /// The places of its columns; of a check, those that its condition names.
    pub places: Vec<usize>,
    /// The index that keeps it; of a foreign key, the one that it refers to.
    pub index: u32,
    /// The table that it refers to.
    pub refers_to: Option<Arc<Table>>,
    /// The places of the columns there.
    pub references: Vec<usize>,
    /// What happens when a row that is referred to goes, and when it changes.
    pub actions: (Action, Action),
    /// Whether it may be looked at when the transaction ends.
    pub deferral: Deferral,
    /// Whether one NULL is the same as another.
    pub nulls_equal: bool,
    /// The condition.
    pub condition: Option<String>,
    /// Whether rows of before it may break it.
    pub is_not_valid: bool,
}

fn places(table: &Table, names: &[String]) -> Vec<usize> {
    names.iter().filter_map(|name| table.declared.columns.iter().position(|column| column.name == *name)).collect()
}

/// The places of the columns that an expression names.
pub(super) fn places_in(table: &Table, expression: &str) -> Vec<usize> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words: Vec<&str> = expression.split(|letter| !is_part(letter)).collect();
    let columns = table.declared.columns.iter().enumerate();
    columns.filter(|(_, column)| words.iter().any(|word| *word == column.name)).map(|(place, _)| place).collect()
}

/// All constraints of a table, but NOT NULL.
pub(super) fn of_table(source: &Source<'_>, table: &Arc<Table>) -> Vec<Constraint> {
    let mut constraints = Vec::new();
    let plain = |name: &str, kind: &'static str| Constraint {
        oid: oids::named(table.number, "constraint", name),
        name: name.to_owned(),
        kind,
        places: Vec::new(),
        index: 0,
        refers_to: None,
        references: Vec::new(),
        actions: (Action::Restrict, Action::Restrict),
        deferral: Deferral::Never,
        nulls_equal: false,
        condition: None,
        is_not_valid: false,
    };
    for index in indexes_of(table).into_iter().filter(|index| index.is_constraint) {
        let kind = if index.is_primary { "p" } else { "u" };
        let places = index.elements.iter().filter_map(|element| element.place).collect();
        let (deferral, nulls_equal) = (index.deferral, index.nulls_equal);
        constraints.push(Constraint { places, index: index.oid, deferral, nulls_equal, ..plain(&index.name, kind) });
    }
    for check in &table.declared.checks {
        let condition = Some(with_labels(&check.condition, table));
        constraints.push(Constraint {
            places: places_in(table, &check.condition),
            condition,
            is_not_valid: check.not_valid,
            ..plain(&check.name, "c")
        });
    }
    for (foreign_key, number) in table.declared.foreign_keys.iter().zip(&table.refers_to) {
        let Some(other) = source.catalogue.tables().get(number) else { continue };
        let indexes = indexes_of(other);
        let mut references = places(other, &foreign_key.references);
        let of_index = |elements: &[super::source::Element]| -> Vec<usize> {
            elements.iter().filter_map(|element| element.place).collect()
        };
        if references.is_empty() {
            let primary = indexes.iter().find(|index| index.is_primary);
            references = primary.map_or_else(Vec::new, |index| of_index(&index.elements));
        }
        let is_same = |index: &&super::source::Index<'_>| {
            let own = of_index(&index.elements);
            index.is_unique && own.len() == references.len() && own.iter().all(|place| references.contains(place))
        };
        constraints.push(Constraint {
            places: places(table, &foreign_key.columns),
            index: indexes.iter().find(is_same).map_or(0, |index| index.oid),
            refers_to: Some(Arc::clone(other)),
            references,
            actions: (foreign_key.on_delete, foreign_key.on_update),
            deferral: foreign_key.deferral,
            is_not_valid: foreign_key.not_valid,
            ..plain(&foreign_key.name, "f")
        });
    }
    constraints
}

/// An action as `pg_constraint` has it.
fn letter(action: Action) -> &'static str {
    match action {
        Action::Restrict => "a",
        Action::RestrictAtOnce => "r",
        Action::Cascade => "c",
        Action::SetNull => "n",
    }
}

/// An action as `information_schema` has it.
pub(super) fn words(action: Action) -> &'static str {
    match action {
        Action::Restrict => "NO ACTION",
        Action::RestrictAtOnce => "RESTRICT",
        Action::Cascade => "CASCADE",
        Action::SetNull => "SET NULL",
    }
}

/// The conditions of all domains: each with its number, the domain, its name and its text.
pub(super) fn of_domains<'s>(
    source: &'s Source<'_>,
) -> impl Iterator<Item = (u32, UserType, &'static str, &'static str)> + 's {
    source.catalogue.user_types().values().filter_map(|base| base.user_type()).flat_map(|user| {
        let checks = user.domain().map_or(&[][..], |domain| &domain.checks);
        checks
            .iter()
            .map(move |(name, text)| (oids::named(user.number, "domain", name), user, name.as_str(), text.as_str()))
    })
}

fn constraints(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (number, user, name, text) in of_domains(source) {
        rows.add(&[
            ("oid", oid(number)),
            ("conname", Datum::text(name)),
            ("connamespace", oid(source.schema(&user.schema))),
            ("contype", Datum::text("c")),
            ("contypid", oid(user.number)),
            ("convalidated", Datum::Bool(true)),
            ("conbin", Datum::text(expressions::written(source, text, false))),
        ]);
    }
    for table in source.tables() {
        let columns = |table: &Table, places: &[usize]| {
            numbers(places.iter().map(|&place| number_of(table, place)).collect::<Vec<_>>(), BaseType::Int2)
        };
        for constraint in of_table(source, table) {
            let condition =
                constraint.condition.as_deref().map(|condition| expressions::written(source, condition, false));
            let mut row = vec![
                ("oid", oid(constraint.oid)),
                ("conname", Datum::text(&constraint.name)),
                ("connamespace", oid(source.schema(&table.schema))),
                ("contype", Datum::text(constraint.kind)),
                ("condeferrable", Datum::Bool(constraint.deferral != Deferral::Never)),
                ("condeferred", Datum::Bool(constraint.deferral == Deferral::Deferred)),
                ("convalidated", Datum::Bool(!constraint.is_not_valid)),
                ("conrelid", oid(table.oid())),
                ("conindid", oid(constraint.index)),
                ("conkey", columns(table, &constraint.places)),
                ("conbin", text_or_null(condition.as_deref())),
            ];
            if let Some(other) = &constraint.refers_to {
                row.push(("confrelid", oid(other.oid())));
                row.push(("confkey", columns(other, &constraint.references)));
                row.push(("confdeltype", Datum::text(letter(constraint.actions.0))));
                row.push(("confupdtype", Datum::text(letter(constraint.actions.1))));
                row.push(("confmatchtype", Datum::text("s")));
            }
            rows.add(&row);
        }
    }
    Ok(())
}

/// The names of columns, as they are written in a list.
pub(super) fn column_list(table: &Table, places: &[usize]) -> String {
    join_quoted(places.iter().filter_map(|&place| table.declared.columns.get(place)).map(|column| &*column.name))
}

fn deferral_text(deferral: Deferral) -> &'static str {
    match deferral {
        Deferral::Never => "",
        Deferral::OnDemand => " DEFERRABLE",
        Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    }
}

/// A constraint as it is declared: `pg_get_constraintdef`.
///
/// A table that it refers to is named with its schema unless the session finds it without.
pub(super) fn definition(source: &Source<'_>, table: &Table, constraint: &Constraint, is_pretty: bool) -> String {
    let columns = column_list(table, &constraint.places);
    let not_valid = if constraint.is_not_valid { " NOT VALID" } else { "" };
    match (constraint.kind, &constraint.refers_to, &constraint.condition) {
        ("p", ..) => format!("PRIMARY KEY ({columns}){}", deferral_text(constraint.deferral)),
        ("u", ..) => {
            let nulls = if constraint.nulls_equal { " NULLS NOT DISTINCT" } else { "" };
            format!("UNIQUE{nulls} ({columns}){}", deferral_text(constraint.deferral))
        }
        (_, Some(other), _) => {
            let mut text = format!("FOREIGN KEY ({columns}) REFERENCES ");
            if !source.is_found_bare(&other.schema, &other.name) {
                text.push_str(&quote_identifier(&other.schema));
                text.push('.');
            }
            text.push_str(&format!(
                "{}({})",
                quote_identifier(&other.name),
                column_list(other, &constraint.references)
            ));
            let (on_delete, on_update) = constraint.actions;
            if on_update != Action::Restrict {
                text.push_str(&format!(" ON UPDATE {}", words(on_update)));
            }
            if on_delete != Action::Restrict {
                text.push_str(&format!(" ON DELETE {}", words(on_delete)));
            }
            text.push_str(deferral_text(constraint.deferral));
            text.push_str(not_valid);
            text
        }
        (_, _, condition) => {
            let condition = expressions::written(source, condition.as_deref().unwrap_or_default(), is_pretty);
            format!("CHECK ({condition}){not_valid}")
        }
    }
}
