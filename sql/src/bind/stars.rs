//! The columns that `*` stands for when a view is created: it has no others later, as in PostgreSQL.

use std::collections::BTreeMap;

use sqlparser::tokenizer::Span;

use crate::bind::Binder;
use crate::bind::scope::shown_columns;
use crate::functions::strings::quote_identifier;
use crate::tokens::position_of;

/// Has a binder note what the stars in its text stand for.
pub fn note(binder: &mut Binder<'_>) {
    binder.stars = Some(BTreeMap::new());
}

/// The text of a binder that was told to [`note`] its stars, with columns in place of them.
pub fn text_without(binder: &Binder<'_>) -> String {
    let (mut text, mut rest) = (String::new(), binder.text.chars().enumerate().peekable());
    let stars = binder.stars.iter().flatten();
    for (&from, (to, columns)) in stars {
        while let Some((_, character)) = rest.next_if(|(at, _)| *at < from) {
            text.push(character);
        }
        while rest.next_if(|(at, _)| *at < *to).is_some() {}
        text.push_str(columns);
    }
    text.extend(rest.map(|(_, character)| character));
    text
}

/// Notes the columns of `*`, or of `t.*`, which begins and ends here. Those of views within are not in the text.
pub(super) fn add(binder: &mut Binder<'_>, table: Option<&str>, (first, last): (Span, Span)) {
    if binder.stars.is_none() || !binder.views.is_empty() {
        return;
    }
    let Some(level) = binder.levels.last() else { return };
    let place = |span: Span| position_of(binder.text, span.start.line, span.start.column);
    let (Some(first), Some(last)) = (place(first), place(last)) else { return };
    let columns = shown_columns(level, table).map(|(relation, column)| match &*relation.name {
        "" => quote_identifier(&column.name),
        table => format!("{}.{}", quote_identifier(table), quote_identifier(&column.name)),
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    if let Some(stars) = binder.stars.as_mut().filter(|_| !columns.is_empty()) {
        stars.insert(first - 1, (last, columns));
    }
}
