//! DECLARE and FETCH.

use sqlparser::ast;

use crate::bind::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Running;
use crate::identity::kept::KeptCursor;
use crate::session::Session;
use crate::session::answer::{Progress, Sink, done};
use crate::session::cursor::{Cursor, cursor_named};
use crate::session::fetch::{Step, step_of};
use crate::session::portal::{Portal, PortalState};
use crate::statement::Statement;
use crate::types::SqlType;
use crate::types::datum::Datum;

impl Session {
    pub(super) fn declare(
        &mut self,
        declared: &[ast::Declare],
        whole: &str,
        outer: &Portal,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        let [declare] = declared else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DECLARE takes one cursor"));
        };
        let (Some(name), Some(query)) = (declare.names.first(), &declare.for_query) else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DECLARE takes a name, CURSOR FOR and a query"));
        };
        let name = folded(name);
        let is_held = declare.hold == Some(true);
        if self.open.as_ref().is_none_or(|open| open.is_implicit) && !is_held {
            let what = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
        }
        if self.cursors.contains_key(&name) {
            let what = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, what));
        }
        let tree = ast::Statement::Query(query.clone());
        let statement = Statement { is_of_cursor: true, ..Statement::of_tree(tree) };
        let types: Vec<Option<SqlType>> = outer.prepared.parameters.iter().copied().map(Some).collect();
        let prepared = self.prepare_parsed(statement, &types)?;
        let mut portal = self.bind(&prepared, outer.parameters.clone())?;
        // It reads from now on, whatever is committed later. One that is held is read whole.
        let mut rows = Vec::new();
        if is_held || declare.scroll == Some(true) {
            let running = Running::new(self.limits());
            let mut collected = Collected { rows: &mut rows, running, sink };
            self.run_cursor(&mut portal, None, &mut collected)?;
        } else {
            self.run_cursor(&mut portal, Some(0), sink)?;
        }
        let kept = KeptCursor { text: whole.into(), declared: self.identity.statement_time, is_held };
        self.identity.kept.lists().cursors.insert(name.clone(), kept);
        let rows = match declare.scroll {
            Some(true) => Some((rows, 0)),
            _ if is_held => {
                portal.state = PortalState::Ready(rows.into(), "FETCH ".to_owned());
                None
            }
            _ => None,
        };
        self.cursors.insert(name, Cursor { portal, is_held, is_past: false, rows, current: None });
        done("DECLARE CURSOR")
    }

    pub(super) fn fetch(
        &mut self,
        name: &str,
        direction: &ast::FetchDirection,
        portal: &mut Portal,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        cursor_named(&self.cursors, name)?;
        let step = step_of(direction)?;
        if let Some(cursor) = self.cursors.get_mut(name)
            && let Some((all, place)) = &mut cursor.rows
        {
            let mut rows: Vec<Vec<Datum>> = step.take(all.len(), place).into_iter().map(|at| all[at].clone()).collect();
            let stays = (1..=all.len()).contains(place);
            cursor.give(&mut rows, stays);
            let tag = format!("FETCH {}", rows.len());
            portal.state = PortalState::Ready(rows.into(), tag);
            return Ok(None);
        }
        let rows_max = match step {
            Step::Backward(_) | Step::To(_) | Step::By(_) => {
                let what = "cursor can only scan forward";
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
                    .with_hint("Declare it with SCROLL option to enable backward scan."));
            }
            Step::Forward(rows_max) => rows_max,
        };
        let Some(mut cursor) = self.cursors.remove(name) else { return done("FETCH 0") };
        let mut rows = Vec::new();
        let is_over = matches!(cursor.portal.state, PortalState::Done);
        let result = if is_over || rows_max == Some(0) {
            Ok(Progress::Suspended)
        } else {
            let running = Running::new(self.limits());
            let mut collected = Collected { rows: &mut rows, running, sink };
            self.run_cursor(&mut cursor.portal, rows_max, &mut collected)
        };
        // Of as many rows as were asked for, the last one is where it stands.
        if rows_max != Some(0) {
            cursor.give(&mut rows, matches!(result, Ok(Progress::Suspended)) && !is_over);
        }
        self.cursors.insert(name.to_owned(), cursor);
        result?;
        let tag = format!("FETCH {}", rows.len());
        portal.state = PortalState::Ready(rows.into(), tag);
        Ok(None)
    }
}

/// Takes the rows of a cursor.
struct Collected<'c> {
    rows: &'c mut Vec<Vec<Datum>>,
    running: Running,
    sink: &'c mut dyn Sink,
}

impl Sink for Collected<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.running.keep(values)?;
        self.rows.push(values.to_vec());
        Ok(())
    }

    fn copy_out(&mut self, format: crate::copy::CopyFormat, columns: usize) -> Result<()> {
        self.sink.copy_out(format, columns)
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        self.sink.copy_data(data)
    }

    fn notice(&mut self, notice: &SqlError) {
        self.sink.notice(notice);
    }

    fn setting_changed(&mut self, name: &str, value: &str) {
        self.sink.setting_changed(name, value);
    }
}
