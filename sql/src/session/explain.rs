//! EXPLAIN as a statement: its options, and with ANALYZE the time that it took.
//!
//! Not here: the lines of a plan (`execute/explain`).

use std::sync::Arc;

use sqlparser::ast;

use crate::bind::object_name;
use crate::error::{Result, SqlError};
use crate::execute::context::{Context, NoLocks, Running};
use crate::execute::explain::explain;
use crate::execute::view::View;
use crate::plan::action::Action;
use crate::session::Session;
use crate::session::answer::{Progress, Sink};
use crate::session::columns::{no_statement, query_of};
use crate::session::define::define;
use crate::session::explain_options::ExplainOptions;
use crate::session::named::with_values;
use crate::session::portal::{Portal, PortalState};
use crate::statement::Statement;
use crate::types::SqlType;
use crate::types::datum::Datum;

impl Session {
    pub(super) fn explain(
        &mut self,
        explained: Statement,
        options: ExplainOptions,
        portal: &mut Portal,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        self.begin_statement()?;
        let (statement, parameters, types) = match &explained.tree {
            ast::Statement::Execute { name: Some(name), parameters, .. } => {
                let name = object_name(name)?.1;
                let (prepared, values) = with_values(self, &name, parameters, &portal.parameters)?;
                let statement = prepared.statement.clone().ok_or_else(|| no_statement(&name))?;
                (statement, values, prepared.parameters.clone())
            }
            tree => {
                let query = query_of(tree).map(|query| ast::Statement::Query(Box::new(query.clone())));
                let statement = query.map_or_else(|| explained.clone(), Statement::of_tree);
                (statement, portal.parameters.clone(), portal.prepared.parameters.clone())
            }
        };
        let types: Vec<Option<SqlType>> = types.into_iter().map(Some).collect();
        let named = portal.prepared.snapshot(&self.shared.snapshots)?;
        let snapshot = named.clone().unwrap_or_else(|| self.shared.database.snapshot());
        let view = match &self.open {
            Some(open) if named.is_none() => View::Transaction(&open.transaction),
            _ => View::Snapshot(&snapshot),
        };
        let prepared = Arc::new(self.bind_over(view, statement, &types)?);
        let creates = matches!(explained.tree, ast::Statement::CreateTable(_) | ast::Statement::CreateView(_));
        let changes = creates || !matches!(prepared.action, Action::Query(_));
        let environment = self.statement_environment(view);
        let running = Running::new(self.limits());
        let context = Context {
            view,
            environment: &environment,
            parameters: &parameters,
            arguments: &[],
            state: &running,
            locker: &NoLocks,
        };
        let mut plan = explain(&prepared.action, options.is_run && !changes, &context)?;
        if self.open.is_none() {
            self.seen.note(self.shared.database.db());
        }
        if options.is_run && changes {
            let began = crate::clock::moment();
            let done = if creates {
                define(self, &explained.tree, is_alone, sink)?
            } else {
                let mut inner = self.bind(&prepared, parameters)?;
                Some(self.run(&mut inner, None, is_alone, &mut Unseen(sink))?)
            };
            if let Some(Progress::Done(tag)) = done {
                let rows = tag.rsplit(' ').next().and_then(|rows| rows.parse().ok()).unwrap_or(0);
                plan.note_run(rows, began.elapsed());
            }
        }
        let rows: Vec<Vec<Datum>> = match options.is_json {
            true => vec![vec![Datum::Json(plan.json().into())]],
            false => plan.lines().into_iter().map(|line| vec![Datum::text(line)]).collect(),
        };
        portal.state = PortalState::Ready(rows.into(), "EXPLAIN".to_owned());
        Ok(None)
    }
}

/// Takes the rows of a statement that is explained, which are not shown.
struct Unseen<'s>(&'s mut dyn Sink);

impl Sink for Unseen<'_> {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, notice: &SqlError) {
        self.0.notice(notice);
    }

    fn setting_changed(&mut self, name: &str, value: &str) {
        self.0.setting_changed(name, value);
    }
}
