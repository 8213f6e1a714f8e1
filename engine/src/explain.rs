//! Answers with their cost: one version of a table whose reader counts the pages that each question takes.

use std::cell::RefCell;

use crate::error::Result;
use crate::observation::Question;
use crate::range::Fill;
use crate::read::Read;
use crate::source::{Cost, Source};

/// One version of a table, which counts what its answers cost: lent by [`Read::explain`].
pub struct Explained<'a> {
    source: Source<'a>,
    /// What was asked, to be noted when the version is given back.
    questions: RefCell<Vec<Question>>,
}

impl Explained<'_> {
    /// What the answers have cost so far.
    pub fn cost(&self) -> Cost {
        self.source.cost()
    }
}

/// Lends one version of what `reader` reads to `ask`, and gives the answer with its cost.
pub(crate) fn explain<T>(reader: &impl Read, ask: impl FnOnce(&Explained<'_>) -> Result<T>) -> Result<(T, Cost)> {
    let mut questions = Vec::new();
    let (answer, cost) = reader.read_from(|source| {
        Ok(source.with_cost(|source| {
            let version = Explained { source, questions: RefCell::default() };
            let answer = ask(&version);
            questions = version.questions.into_inner();
            answer
        }))
    })?;
    // A transaction notes what it reads of its version, which does not change: so now is as good as before. What noting costs is not the answer's.
    for question in questions {
        reader.observe(|| question)?;
    }
    Ok((answer?, cost))
}

impl Read for Explained<'_> {
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        work(&self.source)
    }

    fn observe(&self, question: impl FnOnce() -> Question) -> Result<()> {
        self.questions.borrow_mut().push(question());
        Ok(())
    }

    fn hold(&self) -> Box<dyn Fill + '_> {
        Box::new(self)
    }
}
