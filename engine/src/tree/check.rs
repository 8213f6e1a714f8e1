//! The checker: walks a whole tree and names every broken invariant, tallies included.

use super::{HEIGHT_MAX, NO_PAGE, PageId, Tree};
use crate::page::{KeyBuffer, check as check_page};
use crate::tally::Tally;

impl Tree {
    /// Describes every broken invariant of the current version; empty if it is sound. Reads all pages.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.root == NO_PAGE {
            if self.entries != 0 || self.total != Tally::ZERO || self.height != 0 {
                faults.push(format!("an empty tree says it has {} entries", self.entries));
            }
            return faults;
        }
        if self.height > HEIGHT_MAX {
            faults.push(format!("the tree has {} levels", self.height));
            return faults;
        }
        let mut visit = Visit { tree: self, faults: &mut faults, entries: 0, pages: 0 };
        let total = visit.subtree(self.root, self.height, None, None);
        let entries = visit.entries;
        if self.counted && total != self.total {
            faults.push(format!("the tree says {:?} in all, its pages {total:?}", self.total));
        }
        if entries != self.entries {
            faults.push(format!("the tree says {} entries, its leaves have {entries}", self.entries));
        }
        faults
    }

    /// Pages of the current version, and the bytes used in them.
    #[cfg(test)]
    pub(crate) fn fill(&self) -> (usize, f64) {
        let (mut pages, mut used) = (0, 0);
        let mut ids = vec![self.root];
        while let Some(id) = ids.pop() {
            if id == NO_PAGE {
                continue;
            }
            let page = self.page(id);
            pages += 1;
            used += page.used(self.arena.page_bytes());
            if !page.is_leaf() {
                ids.extend((0..page.count()).map(|position| page.child(position)));
            }
        }
        (pages, used as f64 / (pages.max(1) * self.arena.page_bytes()) as f64)
    }
}

struct Visit<'t> {
    tree: &'t Tree,
    faults: &'t mut Vec<String>,
    entries: u64,
    pages: usize,
}

impl Visit<'_> {
    /// Checks a subtree whose keys must lie in `low..high`, and returns its tally.
    fn subtree(&mut self, id: PageId, height: usize, low: Option<&[u8]>, high: Option<&[u8]>) -> Tally {
        self.pages += 1;
        let page = self.tree.page(id);
        let name = format!("page {id} at level {}", height - 1);
        // SAFETY: the page is in use, and its memory is as long as pages of the arena are.
        let bytes = unsafe { std::slice::from_raw_parts(page.start(), self.tree.arena.page_bytes()) };
        if let Err(fault) = check_page(bytes) {
            self.faults.push(format!("{name}: {fault}"));
            return Tally::ZERO;
        }
        if page.level() != height - 1 || page.is_leaf() != (height == 1) {
            self.faults.push(format!("{name} says it is at level {}", page.level()));
            return Tally::ZERO;
        }
        if page.count() == 0 && self.tree.height > 1 {
            self.faults.push(format!("{name} is empty"));
        }
        let keys: Vec<KeyBuffer> = (0..page.count()).map(|position| page.key(position)).collect();
        let first = usize::from(!page.is_leaf() && page.open_low());
        if let (Some(low), Some(key)) = (low, keys.get(first))
            && **key < *low
        {
            self.faults.push(format!("{name} has a key below its separator"));
        }
        if let (Some(high), Some(key)) = (high, keys.last())
            && **key >= *high
        {
            self.faults.push(format!("{name} has a key not below the next separator"));
        }
        if page.is_leaf() {
            self.entries += page.count() as u64;
            for position in 0..page.count() {
                let record = page.leaf_record(position);
                if self.tree.bottom && record.state() != crate::page::record::FRESH {
                    self.faults.push(format!("{name} is of a bottom tree and has an entry that is not a fresh value"));
                }
            }
            return self.tree.view().leaf_tally(&page, 0, page.count());
        }
        let mut total = Tally::ZERO;
        for position in 0..page.count() {
            let child_low = if position == 0 { low } else { Some(&*keys[position]) };
            let child_high = keys.get(position + 1).map(|key| &**key).or(high);
            let tally = self.subtree(page.child(position), height - 1, child_low, child_high);
            if self.tree.counted && tally != page.child_tally(position, &self.tree.measures) {
                let stated = page.child_tally(position, &self.tree.measures);
                self.faults.push(format!("{name} says {stated:?} of child {position}, which has {tally:?}"));
            }
            total += tally;
        }
        total
    }
}
