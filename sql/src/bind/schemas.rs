//! Adds schemas to names in the text of a view, where the name alone would mean another object or none.

use std::collections::BTreeMap;

use sqlparser::ast::{ObjectName, ObjectNamePart};

use crate::bind::Binder;
use crate::bind::names::Written;
use crate::bind::types::note_name;
use crate::functions::strings::quote_identifier;

/// Has a binder note what the names without a schema in its text are.
pub fn note(binder: &mut Binder<'_>) {
    binder.schemas = Some(BTreeMap::new());
}

/// The text of a binder that was told to [`note`] its names, with the schemas of those that are not `known` without.
pub fn text_with(binder: &Binder<'_>, known: impl Fn(&Written) -> bool) -> String {
    let (mut text, mut noted) = (String::new(), binder.schemas.iter().flatten().peekable());
    for (at, character) in binder.text.chars().enumerate() {
        if let Some((_, written)) = noted.next_if(|(from, _)| **from == at)
            && !known(written)
        {
            let (Written::Relation(schema, _) | Written::Type(schema, _)) = written;
            text.push_str(&quote_identifier(schema));
            text.push('.');
        }
        text.push(character);
    }
    text
}

/// Notes a relation that is named without a schema.
pub(super) fn add_relation(binder: &mut Binder<'_>, written: &ObjectName, schema: &str, name: &str) {
    if binder.schemas.is_some()
        && let [ObjectNamePart::Identifier(ident)] = &written.0[..]
    {
        note_name(binder, ident, Written::Relation(schema.to_owned(), name.to_owned()));
    }
}
