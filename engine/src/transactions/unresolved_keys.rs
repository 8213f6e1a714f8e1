//! Keys of a transaction whose entries are unresolved: they were written without a look at what is below them.

/// Keys with unresolved entries, in the layer of one depth.
#[derive(Default)]
pub(crate) struct UnresolvedKeys {
    depth: u32,
    /// The keys, concatenated.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl UnresolvedKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn add(&mut self, depth: u32, key: &[u8]) {
        self.depth = depth;
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Forgets the keys if their layer has this depth or a larger one: it was dropped.
    pub(crate) fn forget_from(&mut self, depth: u32) {
        if self.depth >= depth {
            self.bytes.clear();
            self.ends.clear();
        }
    }

    /// Tells of keys that come in order whether they are among these, which were added in order.
    pub(crate) fn in_step(&self) -> impl FnMut(&[u8]) -> bool + '_ {
        let mut keys = self.keys().peekable();
        move |key| keys.next_if(|next| *next == key).is_some()
    }

    /// The keys in order, without duplicates.
    pub(crate) fn sorted(&self) -> Vec<&[u8]> {
        let mut keys: Vec<&[u8]> = self.keys().collect();
        keys.sort_unstable();
        keys
    }

    /// The keys as they were added.
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}
