//! DO: the statements of a block, run one after the other in the transaction.
//!
//! Not here: how a block is read, and which errors a handler takes (`block`).

use crate::block::{Block, Level, Step};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::session::answer::{Progress, Sink, done};
use crate::session::transaction::{go_back, mark, unmark};
use crate::statement;
use crate::statement::Statement;
use crate::types::datum::Datum;
use sqlparser::ast;

/// What the savepoint of a block is called.
const MARK: &str = "?block";

/// Whether the steps after one are done.
#[derive(PartialEq)]
enum Flow {
    Next,
    Return,
}

/// Runs a block. Outside of a transaction it begins one, which ends with the statements beside it.
///
/// # Errors
/// Those of its statements that it does not take itself.
pub(super) fn run(session: &mut Session, block: &Block, sink: &mut dyn Sink) -> Result<Option<Progress>> {
    if session.open.is_none() {
        session.begin(true, &[])?;
    }
    run_block(session, block, sink)?;
    done("DO")
}

fn run_block(session: &mut Session, block: &Block, sink: &mut dyn Sink) -> Result<Flow> {
    if block.handlers.is_empty() {
        return run_steps(session, &block.steps, sink);
    }
    mark(session, MARK)?;
    let error = match run_steps(session, &block.steps, sink) {
        Ok(flow) => return unmark(session, MARK).map(|()| flow),
        Err(error) => error,
    };
    let Some(handler) = block.handlers.iter().find(|handler| handler.takes(error.state())) else {
        // The transaction has failed: what has come before goes with it, or with a block around.
        unmark(session, MARK)?;
        return Err(error);
    };
    go_back(session, MARK)?;
    unmark(session, MARK)?;
    run_steps(session, &handler.steps, sink)
}

fn run_steps(session: &mut Session, steps: &[Step], sink: &mut dyn Sink) -> Result<Flow> {
    for step in steps {
        session.identity.limits().check()?;
        let flow = match step {
            Step::Nothing => Flow::Next,
            Step::Return => Flow::Return,
            Step::Block(block) => run_block(session, block, sink)?,
            Step::Statement(text) | Step::Perform(text) => {
                for statement in statement::parse(text)? {
                    run_statement(session, statement, sink)?;
                }
                Flow::Next
            }
            Step::Execute(written) => {
                let text = value_of(session, written)?;
                let Some(text) = text.as_text() else {
                    let what = "query string argument of EXECUTE is null";
                    return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, what));
                };
                for statement in statement::parse(text)? {
                    run_statement(session, statement, sink)?;
                }
                Flow::Next
            }
            Step::Raise { level, text, values } => {
                raise(session, *level, text, values, sink)?;
                Flow::Next
            }
            Step::If { branches, otherwise } => {
                let mut chosen = otherwise;
                for (condition, steps) in branches {
                    match value_of(session, condition)? {
                        Datum::Bool(true) => {
                            chosen = steps;
                            break;
                        }
                        Datum::Bool(false) | Datum::Null => {}
                        _ => {
                            let what = "the condition of IF is not a boolean";
                            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
                        }
                    }
                }
                run_steps(session, chosen, sink)?
            }
        };
        if flow == Flow::Return {
            return Ok(flow);
        }
    }
    Ok(Flow::Next)
}

fn run_statement(session: &mut Session, statement: Statement, sink: &mut dyn Sink) -> Result<()> {
    let of_transactions = matches!(
        statement.tree,
        ast::Statement::StartTransaction { .. }
            | ast::Statement::Commit { .. }
            | ast::Statement::Rollback { .. }
            | ast::Statement::Savepoint { .. }
            | ast::Statement::ReleaseSavepoint { .. }
            | ast::Statement::Copy { .. }
    );
    if of_transactions {
        let hint = "Send it as a statement of its own.";
        return Err(SqlError::unsupported("COPY and statements of transactions are not supported in DO", hint));
    }
    let prepared = session.prepare_parsed(statement, &[])?;
    let mut portal = session.bind(&prepared, Vec::new())?;
    session.run(&mut portal, None, false, &mut First { row: None, sink })?;
    Ok(())
}

/// The value of an expression.
fn value_of(session: &mut Session, written: &str) -> Result<Datum> {
    let mut value = Datum::Null;
    for statement in statement::parse(&format!("SELECT ({written})"))? {
        let prepared = session.prepare_parsed(statement, &[])?;
        let mut portal = session.bind(&prepared, Vec::new())?;
        let mut first = First { row: None, sink: &mut Silent };
        session.run(&mut portal, None, false, &mut first)?;
        value = first.row.unwrap_or(Datum::Null);
    }
    Ok(value)
}

fn raise(
    session: &mut Session,
    level: Level,
    text: &str,
    values: &[std::sync::Arc<str>],
    sink: &mut dyn Sink,
) -> Result<()> {
    let (mut said, mut values) = (String::new(), values.iter());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '%' || rest.next_if_eq(&'%').is_some() {
            said.push(character);
        } else if let Some(written) = values.next() {
            let value = value_of(session, &format!("({written})::text"))?;
            said.push_str(value.as_text().unwrap_or("<NULL>"));
        }
    }
    match level {
        Level::Unseen => {}
        Level::Notice => sink.notice(&SqlError::new(SqlState::SUCCESSFUL, said)),
        Level::Warning => sink.notice(&SqlError::new(SqlState::WARNING, said)),
        Level::Exception => return Err(SqlError::new(SqlState::RAISE_EXCEPTION, said)),
    }
    Ok(())
}

/// Keeps the first value of the first row.
struct First<'s> {
    row: Option<Datum>,
    sink: &'s mut dyn Sink,
}

impl Sink for First<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        if self.row.is_none() {
            self.row = values.first().cloned();
        }
        Ok(())
    }

    fn notice(&mut self, notice: &SqlError) {
        self.sink.notice(notice);
    }

    fn setting_changed(&mut self, name: &str, value: &str) {
        self.sink.setting_changed(name, value);
    }
}

/// Takes nothing.
struct Silent;

impl Sink for Silent {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, _notice: &SqlError) {}

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}
