//! Answers with their cost: one version of a table that counts the pages each question reads.

use std::cell::RefCell;

use crate::error::Result;
use crate::read::observation::Question;
use crate::read::reader::{Fill, Reader};
use crate::read::table_stack::{Cost, Source};

/// One version of a table, which counts what its answers cost. Lent by
/// [`ReadableTable::with_cost`](crate::ReadableTable::with_cost).
pub struct Costed<'a> {
    source: Source<'a>,
    /// The questions asked, to be noted when the version is given back.
    questions: RefCell<Vec<Question>>,
}

impl Costed<'_> {
    /// The cost of the answers so far.
    pub fn cost(&self) -> Cost {
        self.source.cost()
    }
}

/// Lends one version of what `reader` reads to `ask`, and returns the answer with its cost.
pub(crate) fn answer_with_cost<T>(
    reader: &impl Reader,
    ask: impl FnOnce(&Costed<'_>) -> Result<T>,
) -> Result<(T, Cost)> {
    let mut questions = Vec::new();
    let (answer, cost) = reader.read_from(|source| {
        Ok(source.with_cost(|source| {
            let version = Costed { source, questions: RefCell::default() };
            let answer = ask(&version);
            questions = version.questions.into_inner();
            answer
        }))
    })?;
    // A transaction notes what it reads of its version, which does not change: so it can note it now. The cost of
    // noting does not count.
    for question in questions {
        reader.observe(|| question)?;
    }
    Ok((answer?, cost))
}

impl Reader for Costed<'_> {
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
