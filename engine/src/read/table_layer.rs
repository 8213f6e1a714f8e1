//! A layer in memory or in a file: a table's stack may have both.

use std::cell::RefCell;
use std::ops::Range;

use smallvec::SmallVec;

use crate::cache::Missing;
use crate::page::KeyBuffer;
use crate::probe::{Lacking, RunLayer, lacking};
use crate::stack::{Layer, LayerWalk, Located, Stack, first_of, infallible};
use crate::tally::Tally;
use crate::tree::{Side, View, Walk};

/// A layer, wherever it lies.
#[derive(Clone, Copy)]
pub enum Mixed<'a> {
    Memory(View<'a>),
    Run(RunLayer<'a>),
}

/// A place in it.
#[expect(clippy::large_enum_variant, reason = "walks in memory are the ones that matter")]
pub enum MixedWalk<'a> {
    Memory(Walk<'a>),
    Run(Box<<RunLayer<'a> as Layer<'a>>::Walk>),
}

/// Asks either layer. A tree's answer is always there.
macro_rules! ask {
    ($self:ident, $method:ident ( $($argument:expr),* )) => {
        match $self {
            Mixed::Memory(view) => Ok(infallible(<View<'a> as Layer<'a>>::$method(view, $($argument),*))),
            Mixed::Run(run) => run.$method($($argument),*),
        }
    };
}

/// Like `ask`, for a walk.
macro_rules! walk {
    ($self:ident, $method:ident ( $($argument:expr),* )) => {
        match $self {
            Mixed::Memory(view) => {
                let walk = infallible(<View<'a> as Layer<'a>>::$method(view, $($argument),*));
                Ok(MixedWalk::Memory(walk))
            }
            Mixed::Run(run) => Ok(MixedWalk::Run(Box::new(run.$method($($argument),*)?))),
        }
    };
}

/// Fewer runs are searched one after the other: most likely the last has the key, and needs no filter then.
const TOGETHER_MIN: usize = 3;

/// The last key looked up in the runs together, and which of the stack's runs lack it. A question starts anew whenever
/// a page has come.
#[derive(Default)]
pub struct Asked(RefCell<Option<(KeyBuffer, Lacking)>>);

impl Asked {
    /// Which of the stack's runs lack `key`.
    fn of(&self, runs: &[Mixed<'_>], key: &[u8]) -> Lacking {
        let mut last = self.0.borrow_mut();
        match &*last {
            Some((known, lacking)) if **known == *key => *lacking,
            _ => {
                let lacking = lacking(runs.iter().filter_map(Mixed::run), key);
                last.insert((KeyBuffer::from_slice(key), lacking)).1
            }
        }
    }
}

impl<'a> Mixed<'a> {
    /// The layer's run, if it is one.
    #[inline]
    fn run(&self) -> Option<RunLayer<'a>> {
        match self {
            Mixed::Memory(_) => None,
            Mixed::Run(run) => Some(*run),
        }
    }
}

impl<'a> Stack<'a, Mixed<'a>> {
    /// The same stack, if all of its layers are in memory. Then questions can be interleaved.
    pub(crate) fn trees(&self) -> Option<Stack<'a, View<'a>>> {
        let trees = self.upper_trees();
        (trees.layers().len() == self.layers().len()).then_some(trees)
    }

    /// The layers above all runs.
    pub(crate) fn upper_trees(&self) -> Stack<'a, View<'a>> {
        let views = self.layers().iter().map_while(|layer| match layer {
            Mixed::Memory(view) => Some(*view),
            Mixed::Run(_) => None,
        });
        Stack::new(views.collect(), *self.measures())
    }

    /// Whether a key has the same newest entry above all runs as in `other`, or none in both. Then it has the same
    /// value in both, if they have the same runs.
    fn has_same_upper_entry(&self, other: &Stack<'a, Mixed<'a>>, key: &[u8]) -> bool {
        let entry = |stack: &Stack<'a, Mixed<'a>>| {
            let views = stack.layers().iter().map_while(|layer| match layer {
                Mixed::Memory(view) => Some(view),
                Mixed::Run(_) => None,
            });
            infallible(first_of(views, |view| <View<'a> as Layer<'a>>::get(view, key)))
        };
        entry(self) == entry(other)
    }

    /// Whether `key` was not written between this version and `other`, as far as that can be told without a page of
    /// a run. `has_same_runs`: the two have the same runs, or none.
    pub(crate) fn is_untouched_in(&self, other: &Stack<'a, Mixed<'a>>, has_same_runs: bool, key: &[u8]) -> bool {
        match (self.layers(), other.layers()) {
            ([Mixed::Memory(one)], [Mixed::Memory(two)]) => one.shares_leaf_of(two, key),
            _ => has_same_runs && self.has_same_upper_entry(other, key),
        }
    }

    /// The layers that are runs, newest first.
    pub(crate) fn runs(&self) -> SmallVec<[RunLayer<'a>; 4]> {
        self.layers().iter().filter_map(Mixed::run).collect()
    }
}

impl<'a> Layer<'a> for Mixed<'a> {
    type Walk = MixedWalk<'a>;
    type Fault = Missing;
    type Asked = Asked;

    fn is_bottom(&self) -> bool {
        match self {
            Mixed::Memory(view) => view.is_bottom(),
            Mixed::Run(run) => run.is_bottom(),
        }
    }

    fn total(&self) -> Tally {
        match self {
            Mixed::Memory(view) => view.total(),
            Mixed::Run(run) => run.total(),
        }
    }

    #[inline]
    fn newest<T>(
        layers: &[Self],
        asked: &Asked,
        key: &[u8],
        ask: impl Fn(&Self) -> Result<Option<T>, Missing>,
    ) -> Result<Option<T>, Missing> {
        // Runs are below all trees.
        let trees = layers.iter().take_while(|layer| matches!(layer, Mixed::Memory(_))).count();
        let (trees, runs) = layers.split_at(trees);
        if runs.len() < TOGETHER_MIN {
            return first_of(layers.iter(), ask);
        }
        if let Some(found) = first_of(trees.iter(), &ask)? {
            return Ok(Some(found));
        }
        let lacking = asked.of(runs, key);
        first_of(runs.iter().enumerate().filter(|(number, _)| !lacking.has(*number)).map(|(_, run)| run), ask)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Option<&'a [u8]>>, Missing> {
        ask!(self, get(key))
    }

    fn is_live(&self, key: &[u8]) -> Result<Option<bool>, Missing> {
        ask!(self, is_live(key))
    }

    fn tally_before(&self, key: &[u8], side: Side) -> Result<Tally, Missing> {
        ask!(self, tally_before(key, side))
    }

    fn rows_before(&self, key: &[u8], side: Side) -> Result<i64, Missing> {
        ask!(self, rows_before(key, side))
    }

    fn rows_between(&self, start: (&[u8], Side), end: (&[u8], Side)) -> Result<i64, Missing> {
        ask!(self, rows_between(start, end))
    }

    fn nth(&self, offset: u64) -> Result<MixedWalk<'a>, Missing> {
        walk!(self, nth(offset))
    }

    fn entries(&self) -> Option<i64> {
        match self {
            Mixed::Memory(view) => Layer::entries(view),
            Mixed::Run(run) => run.entries(),
        }
    }

    fn pivot_near(&self, position: i64, within: Range<i64>) -> Result<(KeyBuffer, Located), Missing> {
        ask!(self, pivot_near(position, within))
    }

    fn locate(&self, key: &[u8]) -> Result<Located, Missing> {
        ask!(self, locate(key))
    }

    fn locate_group(&self, keys: &[&[u8]], mut located: impl FnMut(usize, Result<Located, Missing>)) {
        match self {
            Mixed::Memory(view) => view.locate_group(keys, |number, place| located(number, Ok(infallible(place)))),
            Mixed::Run(run) => run.locate_group(keys, located),
        }
    }

    fn pivot(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<Option<(KeyBuffer, u64)>, Missing> {
        ask!(self, pivot(low, high))
    }

    fn seek(&self, key: Option<(&[u8], Side)>) -> Result<MixedWalk<'a>, Missing> {
        walk!(self, seek(key))
    }

    fn end(&self) -> Result<MixedWalk<'a>, Missing> {
        walk!(self, end())
    }
}

impl<'a> LayerWalk<'a> for MixedWalk<'a> {
    type Fault = Missing;

    fn valid(&self) -> bool {
        match self {
            MixedWalk::Memory(walk) => walk.valid(),
            MixedWalk::Run(walk) => walk.valid(),
        }
    }

    fn next(&mut self) -> Result<(), Missing> {
        match self {
            MixedWalk::Memory(walk) => walk.next(),
            MixedWalk::Run(walk) => walk.next()?,
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Missing> {
        match self {
            MixedWalk::Memory(walk) => walk.prev(),
            MixedWalk::Run(walk) => walk.prev()?,
        }
        Ok(())
    }

    fn key_into(&self, key: &mut KeyBuffer) {
        match self {
            MixedWalk::Memory(walk) => walk.key_into(key),
            MixedWalk::Run(walk) => walk.key_into(key),
        }
    }

    fn is_live(&self) -> bool {
        match self {
            MixedWalk::Memory(walk) => LayerWalk::is_live(walk),
            MixedWalk::Run(walk) => walk.is_live(),
        }
    }

    fn value(&self) -> Result<Option<&'a [u8]>, Missing> {
        match self {
            MixedWalk::Memory(walk) => Ok(walk.value()),
            MixedWalk::Run(walk) => walk.value(),
        }
    }

    fn weight(&self, key: &[u8]) -> Tally {
        match self {
            MixedWalk::Memory(walk) => walk.weight(key),
            MixedWalk::Run(walk) => walk.weight(key),
        }
    }
}
