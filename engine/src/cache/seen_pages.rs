//! The pages that one reader has seen. They stay where they are until it ends.
//!
//! Cost: the first few are found by looking at each, since most questions need no hash map and should not pay for one.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use elsa::FrozenMap;
use foldhash::fast::FixedState;

use super::page_key::PageKey;
use crate::run::loaded::Loaded;

/// The number of pages side by side: enough for a question to two or three runs.
const FEW: usize = 10;

/// Pages by their keys.
pub(super) struct Seen {
    few: [OnceCell<(PageKey, Arc<Loaded>)>; FEW],
    /// All others.
    many: FrozenMap<PageKey, Arc<Loaded>, FixedState>,
}

impl Seen {
    pub(crate) fn new() -> Seen {
        Seen { few: [const { OnceCell::new() }; FEW], many: HashMap::with_hasher(FixedState::default()).into() }
    }

    #[inline]
    pub(crate) fn get(&self, key: &PageKey) -> Option<&Loaded> {
        for slot in &self.few {
            let (other, page) = slot.get()?;
            if other == key {
                return Some(page);
            }
        }
        self.many.get(key)
    }

    /// All pages.
    pub(super) fn into_pages(self) -> impl Iterator<Item = (PageKey, Arc<Loaded>)> {
        let few = self.few.into_iter().filter_map(OnceCell::into_inner);
        few.chain(self.many.into_map())
    }

    /// Adds a page that is not in it yet.
    pub(crate) fn insert(&self, key: PageKey, page: Arc<Loaded>) -> &Loaded {
        match self.few.iter().find(|slot| slot.get().is_none()) {
            Some(slot) => &slot.get_or_init(|| (key, page)).1,
            None => self.many.insert(key, page),
        }
    }
}
