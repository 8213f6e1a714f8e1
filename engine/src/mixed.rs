//! A layer in memory or in a file: what tables that have both are stacks of.

use crate::page::KeyBuffer;
use crate::run::{Missing, RunLayer};
use crate::stack::{Layer, LayerWalk, resident};
use crate::tally::Tally;
use crate::tree::{Side, View, Walk};

/// A layer, wherever it lies.
#[cfg_attr(not(test), expect(dead_code, reason = "tables do not have runs below their trees yet"))]
#[derive(Clone, Copy)]
pub(crate) enum Mixed<'a> {
    Memory(View<'a>),
    Run(RunLayer<'a>),
}

/// A place in it.
#[cfg_attr(not(test), expect(dead_code, reason = "tables do not have runs below their trees yet"))]
#[expect(clippy::large_enum_variant, reason = "walks in memory are the ones that matter")]
pub(crate) enum MixedWalk<'a> {
    Memory(Walk<'a>),
    Run(Box<<RunLayer<'a> as Layer<'a>>::Walk>),
}

/// Asks either; what a tree answers is always there.
macro_rules! ask {
    ($self:ident, $method:ident ( $($argument:expr),* )) => {
        match $self {
            Mixed::Memory(view) => Ok(resident(<View<'a> as Layer<'a>>::$method(view, $($argument),*))),
            Mixed::Run(run) => run.$method($($argument),*),
        }
    };
}

/// As `ask`, for a walk.
macro_rules! walk {
    ($self:ident, $method:ident ( $($argument:expr),* )) => {
        match $self {
            Mixed::Memory(view) => {
                let walk = resident(<View<'a> as Layer<'a>>::$method(view, $($argument),*));
                Ok(MixedWalk::Memory(walk))
            }
            Mixed::Run(run) => Ok(MixedWalk::Run(Box::new(run.$method($($argument),*)?))),
        }
    };
}

impl<'a> Layer<'a> for Mixed<'a> {
    type Walk = MixedWalk<'a>;
    type Fault = Missing;

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

    fn get(&self, key: &[u8]) -> Result<Option<Option<&'a [u8]>>, Missing> {
        ask!(self, get(key))
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

    fn value(&self) -> Result<Option<&'a [u8]>, Missing> {
        match self {
            MixedWalk::Memory(walk) => Ok(walk.value()),
            MixedWalk::Run(walk) => walk.value(),
        }
    }
}
