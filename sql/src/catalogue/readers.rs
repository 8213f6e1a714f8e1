//! Objects that read tables and views by a query: views, and materialized views.

use std::sync::Arc;

use crate::catalogue::{Catalogue, ObjectNumber, Table, View};

/// An object that reads others by its query.
#[derive(Clone, Debug)]
pub enum Reader {
    /// A view, with its number.
    View(ObjectNumber, Arc<View>),
    /// A materialized view: the table of its rows.
    Materialized(Arc<Table>),
}

impl Reader {
    /// What it is, in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Reader::View(..) => "view",
            Reader::Materialized(table) => table.kind(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Reader::View(_, view) => &view.name,
            Reader::Materialized(table) => &table.name,
        }
    }

    /// The schemas and names of what its query names.
    pub fn read(&self) -> &[(String, String)] {
        match self {
            Reader::View(_, view) => &view.reads,
            Reader::Materialized(table) => table.materialized.as_ref().map_or(&[][..], |known| &known.reads),
        }
    }

    /// Whether its query names something of this schema and name.
    pub fn reads(&self, schema: &str, name: &str) -> bool {
        self.read().iter().any(|(of, read)| of == schema && read == name)
    }

    /// The text of its query, and the schemas in which names are looked for.
    pub fn query(&self) -> (String, &[String]) {
        match self {
            Reader::View(_, view) => (view.query.clone(), &view.search_path),
            Reader::Materialized(table) => match &table.materialized {
                Some(known) => (known.filling(), &known.search_path),
                None => (String::new(), &[]),
            },
        }
    }

    /// Whether it is still there.
    pub fn is_in(&self, catalogue: &Catalogue) -> bool {
        match self {
            Reader::View(number, _) => catalogue.views().contains_key(number),
            Reader::Materialized(table) => catalogue.tables().contains_key(&table.number),
        }
    }
}

impl Catalogue {
    /// All objects whose queries name something of this schema and name.
    pub fn readers(&self, schema: &str, name: &str) -> Vec<Reader> {
        let views = self.views().iter().map(|(number, view)| Reader::View(*number, Arc::clone(view)));
        let tables = self.tables().values().filter(|table| table.materialized.is_some());
        let all = views.chain(tables.map(|table| Reader::Materialized(Arc::clone(table))));
        all.filter(|reader| reader.reads(schema, name)).collect()
    }
}
