//! The extended protocol: statements that are prepared, given parameters, and run, each by a message of its own.

use quipu_sql::session::{close_cursor, lend_portal, take_portal_back, type_of_oid};
use quipu_sql::types::{binary, text};
use quipu_sql::{Datum, Prepared, Progress, Result, Session, SqlError, SqlState, SqlType, Status};

use super::answers::Formats;
use super::conversation::{Conversation, Open};
use super::messages::{Bind, Message, Numbers, Target};

impl Conversation<'_> {
    /// Takes a message of the extended protocol.
    ///
    /// # Errors
    /// Those that are told to the client. The session knows of them.
    pub(super) fn extended(&mut self, message: &Message<'_>) -> Result<()> {
        match message {
            Message::Parse { name, text, types } => self.parse(name, text, types),
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(target) => self.describe(*target),
            Message::Execute { portal, rows_max } => self.execute(portal, *rows_max),
            Message::Close(target) => {
                match target {
                    Target::Statement(name) => {
                        self.statements.remove(*name);
                        self.session.forget_statement(name);
                    }
                    Target::Portal(name) => {
                        if self.portals.remove(*name).is_none() {
                            close_cursor(&mut self.session, name);
                        }
                    }
                }
                self.out.answers.close_complete();
                Ok(())
            }
            // All others are taken before.
            _ => Ok(()),
        }
    }

    /// An error that the session does not know of yet.
    fn failed<T>(&mut self, error: SqlError) -> Result<T> {
        self.session.fail();
        Err(error)
    }

    fn parse(&mut self, name: &str, text: &str, types: &Numbers<'_, 4>) -> Result<()> {
        if name.is_empty() {
            self.statements.remove(name);
        } else if self.statements.contains_key(name) {
            let text = format!("prepared statement \"{name}\" already exists");
            return self.failed(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, text));
        }
        let types = match types_of(&self.session, types) {
            Ok(types) => types,
            Err(error) => return self.failed(error),
        };
        let prepared = self.session.prepare(text, &types)?;
        if !name.is_empty() {
            self.session.note_statement(name, &prepared);
        }
        self.statements.insert(name.into(), prepared);
        self.out.answers.parse_complete();
        Ok(())
    }

    fn bind(&mut self, bind: &Bind<'_>) -> Result<()> {
        let Some(prepared) = self.statements.get(bind.statement).cloned() else {
            return self.failed(no_statement(bind.statement));
        };
        if bind.portal.is_empty() {
            self.portals.remove(bind.portal);
        } else if self.portals.contains_key(bind.portal) || self.session.cursor(bind.portal).is_some() {
            let text = format!("cursor \"{}\" already exists", bind.portal);
            return self.failed(SqlError::new(SqlState::DUPLICATE_CURSOR, text));
        }
        let parameters = match self.parameters(bind, &prepared) {
            Ok(parameters) => parameters,
            Err(error) => return self.failed(error),
        };
        let cursor = prepared.named_cursor();
        let portal = self.with_portal(cursor, |this| this.session.bind(&prepared, parameters))?;
        let formats = Formats::new(bind.result_formats.iter());
        let columns = portal.prepared.columns.as_ref().map_or(0, Vec::len);
        if formats.count() > 1 && formats.count() != columns {
            let text = format!("bind message has {} result formats but query has {columns} columns", formats.count());
            return self.failed(SqlError::new(SqlState::PROTOCOL_VIOLATION, text));
        }
        self.portals.insert(bind.portal.into(), Open { portal, formats, is_done: false });
        self.out.answers.bind_complete();
        Ok(())
    }

    fn parameters(&self, bind: &Bind<'_>, prepared: &Prepared) -> Result<Vec<Datum>> {
        let violation = |text: String| Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, text));
        let (given, formats, wanted) = (bind.values.len(), bind.parameter_formats.len(), prepared.parameters.len());
        if formats > 1 && formats != given {
            return violation(format!("bind message has {formats} parameter formats but {given} parameters"));
        }
        if given != wanted {
            return violation(format!(
                "bind message supplies {given} parameters, but prepared statement \"{}\" requires {wanted}",
                bind.statement
            ));
        }
        let formats = Formats::new(bind.parameter_formats.iter());
        let (environment, encoding) = (self.session.environment(), self.out.answers.encoding);
        let read = |(number, (bytes, sql_type)): (usize, (Option<&[u8]>, &SqlType))| match bytes {
            None => Ok(Datum::Null),
            Some(bytes) if formats.is_binary(number) => binary::read(bytes, *sql_type, encoding),
            Some(bytes) => text::parse(&encoding.decode(bytes)?, *sql_type, &*environment),
        };
        bind.values.zip(&prepared.parameters).enumerate().map(read).collect()
    }

    fn describe(&mut self, target: Target<'_>) -> Result<()> {
        let text = Formats::default();
        let (prepared, formats) = match target {
            Target::Statement(name) => match self.statements.get(name) {
                Some(prepared) => {
                    self.out.answers.parameter_description(&prepared.parameters);
                    (prepared, &text)
                }
                None => return self.failed(no_statement(name)),
            },
            Target::Portal(name) => match self.portals.get(name) {
                Some(open) => (&open.portal.prepared, &open.formats),
                // A cursor of DECLARE is a portal too.
                None => match self.session.cursor(name) {
                    Some(prepared) => (prepared, &text),
                    None => return self.failed(no_portal(name)),
                },
            },
        };
        match &prepared.columns {
            Some(columns) => self.out.answers.row_description(columns, formats),
            None => self.out.answers.no_data(),
        }
        Ok(())
    }

    fn execute(&mut self, name: &str, rows_max: u32) -> Result<()> {
        // It is put back if it is to stay.
        let Some((name, mut open)) = self.portals.remove_entry(name) else { return self.failed(no_portal(name)) };
        if open.is_done {
            return self.execute_again(name, open);
        }
        if let Some(tag) = self.deallocate(&open.portal.prepared.text) {
            self.out.answers.command_complete(tag);
            return Ok(());
        }
        let rows_max = Some(u64::from(rows_max)).filter(|rows| *rows > 0);
        let cursor = open.portal.prepared.named_cursor();
        match self.with_portal(cursor, |this| this.run(&mut open, rows_max, false))? {
            Progress::Suspended => {
                self.out.answers.portal_suspended();
                self.portals.insert(name, open);
            }
            Progress::Empty => {
                self.out.answers.empty_query();
                self.portals.insert(name, open);
            }
            Progress::CopyIn(copy) => self.begin_copy(copy),
            Progress::Done(tag) => {
                self.out.answers.command_complete(&tag);
                self.note_done(&tag);
                open.is_done = true;
                // The end of a transaction ends its portals.
                if self.session.status() == Status::Idle && is_end(&tag) {
                    self.portals.clear();
                } else {
                    self.portals.insert(name, open);
                }
            }
        }
        Ok(())
    }

    /// Runs a portal that is done: of a query there is nothing more, and anything else is not done twice.
    fn execute_again(&mut self, name: Box<str>, open: Open) -> Result<()> {
        let is_query = open.portal.prepared.columns.is_some();
        let text = format!("portal \"{name}\" cannot be run");
        self.portals.insert(name, open);
        if is_query {
            self.out.answers.command_complete("SELECT 0");
            return Ok(());
        }
        self.failed(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text))
    }

    /// Does what a statement does that names this cursor, if it is DECLARE, FETCH, MOVE or CLOSE: portals of queries
    /// are cursors too.
    pub(super) fn with_portal<T>(&mut self, cursor: Option<String>, run: impl FnOnce(&mut Self) -> T) -> T {
        let is_query = |open: &Open| open.portal.is_of_query();
        let Some(name) = cursor.filter(|name| self.portals.get(&**name).is_some_and(is_query)) else {
            return run(self);
        };
        let Some((_, open)) = self.portals.remove_entry(&*name) else { return run(self) };
        lend_portal(&mut self.session, &name, open.portal);
        let result = run(self);
        if let Some(portal) = take_portal_back(&mut self.session, &name) {
            let is_done = open.is_done || portal.is_done();
            self.portals.insert(name.into(), Open { portal, is_done, ..open });
        }
        result
    }

    /// Forgets a statement that `DEALLOCATE` names, if it is one of the protocol; returns the tag of what is done then.
    /// Statements of PREPARE are the session's.
    pub(super) fn deallocate(&mut self, text: &str) -> Option<&'static str> {
        if self.session.status() == Status::Failed {
            return None;
        }
        let name = deallocated(text)?;
        self.statements.remove(&*name)?;
        self.session.forget_statement(&name);
        Some("DEALLOCATE")
    }

    /// Notes that a statement with this tag was done: forgets what it makes a session forget, beside what the session
    /// knows, and has the space given back that it has freed on a full disk.
    pub(super) fn note_done(&mut self, tag: &str) {
        let space = self.server.keyspace.space();
        if space.is_lacking() && may_free(tag) {
            space.note_freed();
        }
        match tag {
            "DEALLOCATE ALL" => self.statements.clear(),
            "DISCARD ALL" => {
                self.statements.clear();
                self.portals.clear();
            }
            "CLOSE CURSOR ALL" => self.portals.clear(),
            _ => {}
        }
    }
}

/// Whether a statement with this tag may have freed space.
fn may_free(tag: &str) -> bool {
    ["COMMIT", "DELETE", "TRUNCATE", "DROP", "ALTER", "REFRESH", "MERGE", "WITH", "DO", "CALL"]
        .iter()
        .any(|verb| tag.starts_with(verb))
}

/// Whether a statement with this tag ends a transaction.
fn is_end(tag: &str) -> bool {
    tag == "COMMIT" || tag == "ROLLBACK"
}

/// The name that `DEALLOCATE [PREPARE] name` has; none if the text is another statement, or names all.
fn deallocated(text: &str) -> Option<String> {
    let mut words = text.split_ascii_whitespace();
    words.next().filter(|word| word.eq_ignore_ascii_case("deallocate"))?;
    let mut name = words.next()?;
    if name.eq_ignore_ascii_case("prepare") {
        name = words.next()?;
    }
    let name = name.trim_end_matches(';');
    if words.next().is_some_and(|word| word != ";") || name.eq_ignore_ascii_case("all") {
        return None;
    }
    match name.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').map(|name| name.replace("\"\"", "\"")),
        None => Some(name.to_ascii_lowercase()),
    }
}

fn types_of(session: &Session, types: &Numbers<'_, 4>) -> Result<Vec<Option<SqlType>>> {
    let type_of = |oid: u32| match oid {
        // Not told, or the type of what has none yet.
        0 | 705 => Ok(None),
        oid => type_of_oid(session, oid).map(Some),
    };
    types.iter().map(type_of).collect()
}

fn no_statement(name: &str) -> SqlError {
    let text = match name {
        "" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, text)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::deallocated;

    #[test]
    fn names_of_deallocate() {
        for (text, name) in [
            ("DEALLOCATE a", Some("a")),
            ("deallocate prepare A;", Some("a")),
            ("DEALLOCATE \"A\"\"b\" ;", Some("A\"b")),
            ("DEALLOCATE ALL", None),
            ("DEALLOCATE", None),
            ("DEALLOCATE a b", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(deallocated(text).as_deref(), name, "{text}");
        }
    }
}
