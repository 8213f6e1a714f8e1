//! The common part of the operations of requests: each is a value that is given a [`Context`] at every step and returns
//! its progress. [`requests`](super::requests) acts on the progress.

use quipu::Result;

use super::context::Context;
use super::hints::Hints;
use super::waiting::Reply;
use crate::api::Answer;
use crate::ids::NodeId;
use crate::tables::Tables;

/// Who gets the outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Client(u64),
    /// A conditional write that this node serializes.
    Conditional(u64),
    /// The node itself: a read that mends.
    Node,
}

/// How far an operation has come with a step.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The outcome, if this step had it.
    pub(super) answer: Option<Answer>,
    /// Whether nothing is left to wait for: it is to be ended.
    pub(super) is_over: bool,
    pub(super) wish: Option<Wish>,
}

/// What an operation wants done besides.
#[derive(Debug)]
pub(super) enum Wish {
    /// A key is to be read from all its `from` replicas, which makes them equal.
    MakeEqual { key: Vec<u8>, from: u8 },
    /// Replicas are to be compared soon, not at the next regular time.
    Compare,
}

/// An operation under way.
pub(super) trait Operation {
    fn number(&self) -> u64;

    fn asker(&self) -> Asker;

    /// What it holds in memory of the client's request.
    fn bytes(&self) -> usize;

    /// A peer has answered, or will not.
    fn on_reply<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        from: NodeId,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<Progress>;

    /// A timer of the operation has come.
    fn on_timer<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress>;

    /// An epoch has begun: those that refused are asked again, by the new placement.
    fn on_epoch<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress>;

    /// Does what is left to do once the operation is over.
    fn end<T: Tables>(self, cx: &mut Context<'_, T>, hints: &mut Hints) -> Result<()>;
}
