//! Savepoints, each with a copy of the state that a transaction keeps outside of its trees.

use quipu::Savepoint;

/// The savepoints that have not been released, from the first to the last, each with the state at that moment.
pub(crate) struct SavepointStates<T>(Vec<(Savepoint, T)>);

impl<T> Default for SavepointStates<T> {
    fn default() -> SavepointStates<T> {
        SavepointStates(Vec::new())
    }
}

impl<T> SavepointStates<T> {
    /// Whether there is no savepoint.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a savepoint.
    pub(crate) fn mark(&mut self, savepoint: Savepoint, state: T) {
        self.0.push((savepoint, state));
    }

    /// The state at the savepoint, which stays; those after it are forgotten.
    pub(crate) fn back_to(&mut self, savepoint: Savepoint) -> Option<&T> {
        let place = self.0.iter().position(|(mark, _)| *mark == savepoint)?;
        self.0.truncate(place + 1);
        Some(&self.0[place].1)
    }

    /// Forgets the savepoint and those after it.
    pub(crate) fn release(&mut self, savepoint: Savepoint) {
        if let Some(place) = self.0.iter().position(|(mark, _)| *mark == savepoint) {
            self.0.truncate(place);
        }
    }
}
