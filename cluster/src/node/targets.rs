//! The replicas that an operation asks, how each stands, and whether those that have answered are enough.
//!
//! Writes, reads and the mending of blocking reads count alike; they differ in what an answer is, `A`. While replicas
//! change there are two sets, of the placement before and of the one that comes, and each has to be enough.
//!
//! Invariants:
//! 1. All targets are of one epoch's placement. An operation that has to ask again after another epoch has begun asks
//!    all targets of that one.
//! 2. A node is one target, also if it is of both sets.

use super::context::Context;
use crate::ids::{Epoch, NodeId};
use crate::peers::Health;

/// How a target stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status<A> {
    /// Not asked yet: it is slow, and the others may be enough.
    Spared,
    /// Asked, by the question of this number.
    Waiting(u64),
    Answered(A),
    /// It, or this node, does not know the epoch of the other yet: asked again later.
    Later,
    Failed,
}

#[derive(Clone, Debug)]
pub(super) struct Target<A> {
    pub(super) node: NodeId,
    /// Whether it is of the first set, and of the second.
    sets: [bool; 2],
    pub(super) status: Status<A>,
}

impl<A> Target<A> {
    pub(super) fn is_spared(&self) -> bool {
        matches!(self.status, Status::Spared)
    }

    pub(super) fn is_later(&self) -> bool {
        matches!(self.status, Status::Later)
    }

    /// Whether its answer may still come: it was asked, or is asked again later.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.status, Status::Waiting(_) | Status::Later)
    }

    pub(super) fn answer(&self) -> Option<&A> {
        match &self.status {
            Status::Answered(answer) => Some(answer),
            _ => None,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Targets<A> {
    targets: Vec<Target<A>>,
    epoch: Epoch,
    /// How many of each set are enough.
    ack: usize,
    has_second: bool,
}

impl<A> Targets<A> {
    /// None yet.
    pub(super) fn new(epoch: Epoch, ack: u8) -> Targets<A> {
        Targets { targets: Vec::new(), epoch, ack: usize::from(ack), has_second: false }
    }

    /// The replicas of one set or of two. None was asked yet; those that are down have failed already.
    pub(super) fn of_sets<T>(cx: &Context<'_, T>, ack: u8, first: &[NodeId], second: Option<&[NodeId]>) -> Targets<A> {
        let mut targets = Targets::new(cx.routing.epoch(), ack);
        targets.targets.reserve(first.len() + 1);
        targets.has_second = second.is_some();
        for (set, nodes) in [(0, first), (1, second.unwrap_or_default())] {
            for node in nodes {
                match targets.targets.iter_mut().find(|target| target.node == *node) {
                    Some(target) => target.sets[set] = true,
                    None => targets.add(*node, [set == 0, set == 1], first_status(cx.health(*node))),
                }
            }
        }
        targets
    }

    pub(super) fn add(&mut self, node: NodeId, sets: [bool; 2], status: Status<A>) {
        self.has_second |= sets[1];
        self.targets.push(Target { node, sets, status });
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Target<A>> {
        self.targets.iter()
    }

    pub(super) fn any(&self, is: impl Fn(&Target<A>) -> bool) -> bool {
        self.targets.iter().any(is)
    }

    /// How many are so: the least of the sets' counts.
    pub(super) fn least(&self, is: impl Fn(&Target<A>) -> bool) -> usize {
        let count = |set: usize| self.targets.iter().filter(|target| target.sets[set] && is(target)).count();
        if self.has_second { count(0).min(count(1)) } else { count(0) }
    }

    /// Whether enough of each set are so.
    pub(super) fn has_enough(&self, is: impl Fn(&Target<A>) -> bool) -> bool {
        self.least(is) >= self.ack
    }

    /// Where those stand that are so.
    pub(super) fn places(&self, is: impl Fn(&Target<A>) -> bool) -> Vec<usize> {
        (0..self.targets.len()).filter(|place| is(&self.targets[*place])).collect()
    }

    /// Where those stand that are asked first: all that are up, and slow ones too if the others are too few.
    pub(super) fn places_to_ask<T>(&self, cx: &Context<'_, T>) -> Vec<usize> {
        let up = self.places(|target| target.is_spared() && cx.health(target.node) == Health::Up);
        let is_enough = |set: usize| up.iter().filter(|place| self.targets[**place].sets[set]).count() >= self.ack;
        if is_enough(0) && (!self.has_second || is_enough(1)) { up } else { self.places(Target::is_spared) }
    }

    pub(super) fn at(&self, place: usize) -> &Target<A> {
        &self.targets[place]
    }

    pub(super) fn set(&mut self, place: usize, status: Status<A>) {
        self.targets[place].status = status;
    }

    pub(super) fn of_node(&self, node: NodeId) -> Option<&Target<A>> {
        self.targets.iter().find(|target| target.node == node)
    }

    /// The target that was asked by a question.
    pub(super) fn waiting(&mut self, node: NodeId, request: u64) -> Option<&mut Target<A>> {
        let is_it = |target: &&mut Target<A>| {
            target.node == node && matches!(target.status, Status::Waiting(number) if number == request)
        };
        self.targets.iter_mut().find(is_it)
    }

    /// Waits for no answer any more.
    pub(super) fn forget<T>(&self, cx: &mut Context<'_, T>) {
        for target in &self.targets {
            if let Status::Waiting(request) = target.status {
                cx.forget(request);
            }
        }
    }

    /// Whether another epoch has begun. Then nothing is waited for any more: all targets are to be found anew.
    pub(super) fn let_go_if_outlived<T>(&self, cx: &mut Context<'_, T>) -> bool {
        let is_outlived = self.epoch != cx.routing.epoch();
        if is_outlived {
            self.forget(cx);
        }
        is_outlived
    }
}

/// How a target stands at first.
pub(super) fn first_status<A>(health: Health) -> Status<A> {
    match health {
        Health::Up | Health::Slow => Status::Spared,
        Health::Down => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(sets: &[[bool; 2]]) -> Targets<u8> {
        let mut targets = Targets::new(Epoch(0), 2);
        (0..).zip(sets).for_each(|(node, sets)| targets.add(NodeId(node), *sets, Status::Spared));
        targets
    }

    fn has_answered(target: &Target<u8>) -> bool {
        target.answer().is_some()
    }

    #[test]
    fn while_replicas_change_each_set_has_to_be_enough() {
        let mut targets = targets(&[[true, false], [true, true], [true, true], [false, true]]);
        targets.set(0, Status::Answered(1));
        targets.set(1, Status::Answered(1));
        assert_eq!((targets.least(has_answered), targets.has_enough(has_answered)), (1, false), "of the second set");
        targets.set(3, Status::Answered(1));
        assert!(targets.has_enough(has_answered));
        assert_eq!(targets.places(Target::is_spared), [2]);
    }

    #[test]
    fn an_answer_counts_only_for_the_question_that_is_waited_for() {
        let mut targets = targets(&[[true, false], [true, false]]);
        targets.set(1, Status::Waiting(7));
        assert!(targets.waiting(NodeId(1), 6).is_none() && targets.waiting(NodeId(0), 7).is_none());
        let target = targets.waiting(NodeId(1), 7).expect("it was asked");
        target.status = Status::Later;
        assert!(targets.any(Target::is_open) && targets.waiting(NodeId(1), 7).is_none());
    }
}
