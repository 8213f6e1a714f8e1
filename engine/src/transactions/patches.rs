//! Changes of values that a transaction makes without relying on the whole value: they are made again at the commit if
//! another commit has changed the row meanwhile.
//!
//! Invariant: of a key that stands here, the private layers hold what the patches, in their order, make of the value in
//! the version below; unless the transaction has written the key by itself as well, which the list says.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::read::entry::Key;

/// Makes a new value of an old one. The same for the same value, whenever it is asked; see
/// [`TableTransaction::patch`](crate::TableTransaction::patch).
#[derive(Clone)]
pub struct Patch(Arc<PatchFn>);

type PatchFn = dyn Fn(&[u8]) -> Result<Vec<u8>> + Send + Sync;

impl Patch {
    /// A patch that calls `change`.
    pub fn new(change: impl Fn(&[u8]) -> Result<Vec<u8>> + Send + Sync + 'static) -> Patch {
        Patch(Arc::new(change))
    }

    /// The new value of an old one.
    ///
    /// # Errors
    /// Those of the closure.
    pub fn apply(&self, value: &[u8]) -> Result<Vec<u8>> {
        (self.0)(value)
    }
}

impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Patch")
    }
}

/// The patches of a table, by key: each with the depth of the savepoint it belongs to; `None` for a write that does not
/// ask what was there.
#[derive(Default)]
pub(crate) struct Patches(HashMap<Key, Vec<(u32, Option<Patch>)>>);

impl Patches {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the value of the key follows from that below and from patches alone.
    pub(crate) fn follows(&self, key: &[u8]) -> bool {
        self.0.get(key).is_some_and(|writes| writes.iter().all(|(_, patch)| patch.is_some()))
    }

    pub(crate) fn add(&mut self, key: &[u8], depth: u32, patch: Patch) {
        self.0.entry(key.into()).or_default().push((depth, Some(patch)));
    }

    /// Notes that a patched key is written without asking what was there.
    pub(crate) fn overwrite(&mut self, key: &[u8], depth: u32) {
        if let Some(writes) = self.0.get_mut(key) {
            writes.push((depth, None));
        }
    }

    /// Forgets what was written from a depth on.
    pub(crate) fn forget_from(&mut self, depth: u32) {
        self.0.retain(|_, writes| {
            writes.retain(|(written, _)| *written < depth);
            !writes.is_empty()
        });
    }

    /// What was written deeper belongs to this depth now.
    pub(crate) fn merge_down_to(&mut self, depth: u32) {
        self.0.values_mut().flatten().for_each(|(written, _)| *written = (*written).min(depth));
    }

    /// What the layers up to a depth hold of a key whose value below is `value`; `None` if that does not follow from
    /// it.
    ///
    /// # Errors
    /// Those of a patch.
    pub(crate) fn apply(&self, key: &[u8], depth: u32, value: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(writes) = self.0.get(key) else { return Ok(None) };
        let writes = || writes.iter().filter(|(written, _)| *written <= depth);
        if writes().next().is_none() || writes().any(|(_, patch)| patch.is_none()) {
            return Ok(None);
        }
        let mut patched = value.to_vec();
        for (_, patch) in writes() {
            if let Some(patch) = patch {
                patched = patch.apply(&patched)?;
            }
        }
        Ok(Some(patched))
    }
}
