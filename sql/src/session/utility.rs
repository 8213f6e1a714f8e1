//! Statements that neither read nor write rows: of transactions, prepared statements, notifications and the like. Those
//! of settings, cursors and definitions go to the files of these.

use std::sync::Arc;

use sqlparser::ast;

use crate::alteration::Change;
use crate::bind::{folded, object_name};
use crate::catalogue::roles;
use crate::catalogue::roles::is_about_roles;
use crate::error::{Result, SqlError, SqlState};
use crate::notifications::shortened;
use crate::session::answer::{Progress, Sink, done};
use crate::session::copy::Written;
use crate::session::cursor::{close_cursor, no_cursor};
use crate::session::define::define;
use crate::session::named::deallocate;
use crate::session::parameters::{show_name, tell_changed};
use crate::session::portal::{Portal, PortalState, Prepared};
use crate::session::{Session, do_block, explain_options, materialized, permission};
use crate::statement::Statement;

impl Session {
    /// Runs such a statement. Returns none if its rows are ready in the portal.
    pub(super) fn utility(
        &mut self,
        prepared: &Arc<Prepared>,
        portal: &mut Portal,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        let Some(statement) = &prepared.statement else { return Ok(Some(Progress::Empty)) };
        permission::require(self, statement)?;
        let Statement { tree, text, alteration, is_deferrable, copy, .. } = statement;
        if let Some(alteration) = alteration {
            return match alteration.changes[..] {
                [Change::Do(ref block)] => do_block::run(self, block, sink),
                [Change::Refresh(refresh)] => materialized::refresh(self, &alteration.name, refresh, is_alone, sink),
                [Change::Checkpoint] => {
                    self.shared.database.db().checkpoint()?;
                    done("CHECKPOINT")
                }
                _ => self.alter_definitions(alteration, text, is_alone, sink),
            };
        }
        match tree {
            ast::Statement::StartTransaction { modes, begin, .. } => {
                start_transaction(self, modes, *is_deferrable, sink)?;
                done(if *begin { "BEGIN" } else { "START TRANSACTION" })
            }
            ast::Statement::Commit { chain, .. } => self.end_block(true, *chain, sink),
            ast::Statement::Rollback { chain, savepoint: None } => self.end_block(false, *chain, sink),
            ast::Statement::Rollback { savepoint: Some(name), .. } => {
                let before = Arc::clone(&self.identity.settings);
                self.roll_back_to(&folded(name))?;
                tell_changed(&before, &self.identity.settings, sink);
                done("ROLLBACK")
            }
            ast::Statement::Savepoint { name } => {
                self.set_savepoint(&folded(name))?;
                done("SAVEPOINT")
            }
            ast::Statement::ReleaseSavepoint { name } => {
                self.release_savepoint(&folded(name))?;
                done("RELEASE")
            }
            statement if is_about_roles(statement) => {
                let (users, own) = (self.shared.users(&self.identity), &self.identity.user);
                done(roles::run(statement, &users, own, &mut |notice| sink.notice(notice))?)
            }
            ast::Statement::Set(set) => self.set(set, *is_deferrable, sink),
            ast::Statement::Reset(ast::ResetStatement { reset }) => reset_named(self, reset, sink),
            ast::Statement::ShowVariable { variable } => self.show(&show_name(variable), portal),
            ast::Statement::Discard { object_type } => self.discard(*object_type, sink),
            ast::Statement::Prepare { name, data_types, statement } => {
                let inner = Statement::of_tree((**statement).clone());
                self.prepare_named(&folded(name), data_types, inner, text)?;
                done("PREPARE")
            }
            ast::Statement::Execute { name: Some(name), parameters, .. } => {
                let name = object_name(name)?.1;
                self.execute_named(&name, parameters, portal, is_alone, sink)
            }
            ast::Statement::Deallocate { name, .. } => deallocate(self, name),
            ast::Statement::Declare { stmts } => self.declare(stmts, text, portal, sink),
            ast::Statement::Fetch { name, direction, into, .. } => {
                let fetched = self.fetch(&folded(name), direction, portal, sink)?;
                match &mut portal.state {
                    PortalState::Ready(rows, _) if into.is_some() => {
                        let count = rows.len();
                        portal.state = PortalState::Done;
                        Ok(Some(Progress::Done(format!("MOVE {count}"))))
                    }
                    _ => Ok(fetched),
                }
            }
            ast::Statement::Close { cursor } => close_cursors(self, cursor),
            ast::Statement::Explain { statement, .. } => {
                let explained = Statement::of_tree((**statement).clone());
                self.explain(explained, explain_options::of(tree)?, portal, is_alone, sink)
            }
            ast::Statement::Copy { source, to, target, .. } => {
                let (options, condition) = (&*copy.options, copy.condition.as_deref());
                let written = Written { source, to: *to, target, options, condition };
                self.copy(&written, is_alone, sink)
            }
            ast::Statement::Vacuum(_) => done("VACUUM"),
            ast::Statement::Analyze(_) => done("ANALYZE"),
            ast::Statement::LISTEN { .. } | ast::Statement::UNLISTEN { .. } | ast::Statement::NOTIFY { .. } => {
                if !is_alone && self.open.is_none() {
                    // It takes effect with the statements beside it, or not at all.
                    self.begin(true, &[])?;
                }
                listen_or_notify(self, tree)
            }
            other => define(self, other, is_alone, sink),
        }
    }

    /// COMMIT and ROLLBACK.
    fn end_block(&mut self, commits: bool, chains: bool, sink: &mut dyn Sink) -> Result<Option<Progress>> {
        let is_block = self.open.as_ref().is_some_and(|open| !open.is_implicit);
        if !is_block {
            let what = "there is no transaction in progress";
            sink.notice(&SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
        }
        let has_failed = self.open.as_ref().is_some_and(|open| open.has_failed);
        let tag = if commits && !has_failed { "COMMIT" } else { "ROLLBACK" };
        let before = Arc::clone(&self.identity.settings);
        let result = match tag {
            "COMMIT" => self.commit(),
            _ => {
                self.roll_back();
                Ok(())
            }
        };
        tell_changed(&before, &self.identity.settings, sink);
        result?;
        if chains {
            self.begin(false, &[])?;
        }
        done(tag)
    }
}

/// BEGIN and START TRANSACTION.
fn start_transaction(
    session: &mut Session,
    modes: &[ast::TransactionMode],
    is_deferrable: Option<bool>,
    sink: &mut dyn Sink,
) -> Result<()> {
    match &mut session.open {
        Some(open) if open.is_implicit => {
            open.is_implicit = false;
            session.set_transaction(modes)?;
            session.set_deferrable(is_deferrable)
        }
        Some(_) => {
            let what = "there is already a transaction in progress";
            sink.notice(&SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
            Ok(())
        }
        None => {
            session.begin(false, modes)?;
            session.set_deferrable(is_deferrable)
        }
    }
}

/// RESET. That of a role has nothing to do.
fn reset_named(session: &mut Session, reset: &ast::Reset, sink: &mut dyn Sink) -> Result<Option<Progress>> {
    let name = match reset {
        ast::Reset::ALL => None,
        ast::Reset::ConfigurationParameter(name)
            if ["role", "session_authorization"].contains(&&*name.to_string().to_lowercase()) =>
        {
            return done("RESET");
        }
        ast::Reset::ConfigurationParameter(name) => Some(name.to_string()),
    };
    session.reset(name.as_deref(), sink)?;
    done("RESET")
}

fn close_cursors(session: &mut Session, cursor: &ast::CloseCursor) -> Result<Option<Progress>> {
    match cursor {
        ast::CloseCursor::All => {
            session.cursors.clear();
            session.identity.kept.lists().cursors.clear();
            done("CLOSE CURSOR ALL")
        }
        ast::CloseCursor::Specific { name } => {
            let name = folded(name);
            if !close_cursor(session, &name) {
                return Err(no_cursor(&name));
            }
            done("CLOSE CURSOR")
        }
    }
}

/// LISTEN, UNLISTEN and NOTIFY.
fn listen_or_notify(session: &mut Session, statement: &ast::Statement) -> Result<Option<Progress>> {
    let pending = &mut session.effects.get_mut().pending;
    match statement {
        ast::Statement::LISTEN { channel } => {
            pending.listen(&session.identity.mailbox, &folded(channel))?;
            done("LISTEN")
        }
        ast::Statement::UNLISTEN { channel } => {
            let is_all = channel.quote_style.is_none() && channel.value == "*";
            pending.unlisten((!is_all).then(|| folded(channel)).as_deref());
            done("UNLISTEN")
        }
        ast::Statement::NOTIFY { channel, payload } => {
            pending.notify(&shortened(&folded(channel)), payload.as_deref().unwrap_or_default())?;
            done("NOTIFY")
        }
        _ => Ok(None),
    }
}
